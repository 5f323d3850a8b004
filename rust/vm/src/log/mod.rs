//! What a run is asked to tell as it goes: one line for each event of the kinds that were chosen.
//!
//! The observer keeps events as numbers; [`crate::report`] makes the lines, when the run has ended, also
//! when it failed. The lines are in the order of the run.

use crate::observer::{
    AccessKind, Allocated, At, BarrierId, Engine, Observer, Operation, Proxy, SemaphoreId, Window,
};
use crate::race::{BarrierRef, FlatWindow, Memory};
use crate::trap::Trap;
use pallas_rs_ir::Space;
use pallas_rs_ir::options::Logged;
use rustc_hash::FxHashMap;

/// Events that are kept: more than anybody reads, and no more than fits.
pub(crate) const MAX_EVENTS: usize = 100_000;

/// Keeps the events of a run.
#[derive(Debug)]
pub(crate) struct Log {
    barriers: bool,
    semaphores: bool,
    memory: bool,
    /// The entry of the program's allocations, by cluster and by the block (of registers: the thread of
    /// the block, too) that made it.
    allocs: FxHashMap<(u64, Owner, Allocated), u32>,
    pub(crate) events: Vec<(At, Event)>,
    /// Events that were left out.
    pub(crate) left_out: u64,
}

type Owner = (u32, Option<u32>);

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    Begin(Memory),
    End(Memory),
    Arrive { barrier: BarrierRef, phase: u64, completes: bool },
    Wait { barrier: BarrierRef, phase: u64 },
    Signal(SemaphoreId),
    Acquire(SemaphoreId),
    Access { kind: AccessKind, memory: Memory, window: FlatWindow },
    Issue { engine: Engine, reads: Vec<(Memory, FlatWindow)>, writes: Vec<(Memory, FlatWindow)> },
}

impl Log {
    pub(crate) fn new(logged: &[Logged]) -> Log {
        Log {
            barriers: logged.contains(&Logged::Barrier),
            semaphores: logged.contains(&Logged::Semaphore),
            memory: logged.contains(&Logged::SharedMemory),
            allocs: FxHashMap::default(),
            events: Vec::new(),
            left_out: 0,
        }
    }

    fn note(&mut self, wanted: bool, at: At, event: impl FnOnce(&Log) -> Event) {
        if !wanted {
            return;
        }
        if self.events.len() < MAX_EVENTS {
            let event = event(self);
            self.events.push((at, event));
        } else {
            self.left_out += 1;
        }
    }

    fn alloc(&self, at: At, block: u32, what: Allocated) -> Option<u32> {
        self.allocs.get(&(at.thread.cluster, owner(at, block, what), what)).copied()
    }

    fn barrier(&self, at: At, id: BarrierId) -> BarrierRef {
        BarrierRef {
            alloc: self.alloc(at, id.block, Allocated::Barriers(id.base)),
            index: id.index,
            named: id.base == BarrierId::NAMED,
        }
    }

    fn window(&self, at: At, window: &Window<'_>) -> (Memory, FlatWindow) {
        let alloc = self.alloc(at, window.block, Allocated::Data(window.base));
        let memory = alloc.map_or(Memory::Arg(window.base.number), Memory::Alloc);
        let flat = FlatWindow {
            offset: window.offset,
            sizes: window.sizes.to_vec(),
            strides: window.strides.to_vec(),
        };
        (memory, flat)
    }

    fn windows(&self, at: At, windows: &[Window<'_>]) -> Vec<(Memory, FlatWindow)> {
        windows.iter().map(|window| self.window(at, window)).collect()
    }

    /// Whether a scope's allocation is of a kind that is told.
    fn wants(&self, what: Allocated) -> bool {
        match what {
            Allocated::Data(base) => self.memory && base.space != Space::Regs,
            Allocated::Barriers(_) => self.barriers,
        }
    }
}

fn owner(at: At, block: u32, what: Allocated) -> Owner {
    match what {
        Allocated::Data(base) if base.space == Space::Regs => (block, Some(at.thread.thread)),
        Allocated::Data(_) | Allocated::Barriers(_) => (block, None),
    }
}

impl Observer for Log {
    fn on_alloc(&mut self, at: At, what: Allocated, alloc: u32) {
        let owner = owner(at, at.thread.block, what);
        self.allocs.insert((at.thread.cluster, owner, what), alloc);
        self.note(self.wants(what), at, |_| Event::Begin(Memory::Alloc(alloc)));
    }

    fn on_free(&mut self, at: At, what: Allocated) {
        let owner = owner(at, at.thread.block, what);
        if let Some(alloc) = self.allocs.remove(&(at.thread.cluster, owner, what)) {
            self.note(self.wants(what), at, |_| Event::End(Memory::Alloc(alloc)));
        }
    }

    fn on_signal(&mut self, at: At, semaphore: SemaphoreId) {
        self.note(self.semaphores, at, |_| Event::Signal(semaphore));
    }

    fn on_acquire(&mut self, at: At, semaphore: SemaphoreId) {
        self.note(self.semaphores, at, |_| Event::Acquire(semaphore));
    }

    fn on_access(
        &mut self,
        at: At,
        window: Window<'_>,
        kind: AccessKind,
        _: Proxy,
    ) -> Result<(), Box<Trap>> {
        let wanted = self.memory && window.base.space != Space::Regs;
        self.note(wanted, at, |log| {
            let (memory, window) = log.window(at, &window);
            Event::Access { kind, memory, window }
        });
        Ok(())
    }

    fn on_arrive(
        &mut self,
        at: At,
        barrier: BarrierId,
        phase: u64,
        completes: bool,
    ) -> Result<(), Box<Trap>> {
        self.note(self.barriers, at, |log| {
            let barrier = log.barrier(at, barrier);
            Event::Arrive { barrier, phase, completes }
        });
        Ok(())
    }

    fn on_wait(&mut self, at: At, barrier: BarrierId, phase: u64) -> Result<(), Box<Trap>> {
        self.note(self.barriers, at, |log| Event::Wait {
            barrier: log.barrier(at, barrier),
            phase,
        });
        Ok(())
    }

    fn on_issue(&mut self, at: At, operation: Operation<'_>) -> Result<(), Box<Trap>> {
        self.note(self.memory, at, |log| Event::Issue {
            engine: operation.engine,
            reads: log.windows(at, operation.reads),
            writes: log.windows(at, operation.writes),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
