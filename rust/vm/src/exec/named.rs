//! Named barriers.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::observer::{BarrierId, Observer};
use crate::trap::{BarrierName, BarrierRule, Trap, TrapKind, Waiting};

impl<O: Observer> Ctx<'_, O> {
    /// All CUDA threads of this thread arrive, without waiting.
    pub(super) fn named_barrier_arrive(&mut self, id: Operand, count: Operand) -> Result {
        self.drift()?;
        let (id, count) = (self.integer(id), self.integer(count));
        self.arrive_named(id, count, self.thread.cuda_threads(), false)?;
        Ok(Flow::Next)
    }

    /// The same, and blocks until the barrier is complete.
    pub(super) fn named_barrier_sync(&mut self, id: Operand, count: Operand) -> Result {
        self.drift()?;
        let (id, count) = (self.integer(id), self.integer(count));
        self.sync_named(id, count, self.thread.cuda_threads())
    }

    /// Arrives with `threads` CUDA threads unless that has been done, and waits.
    pub(crate) fn sync_named(&mut self, id: i64, count: i64, threads: u32) -> Result {
        let since = match self.thread.named {
            Some(since) => since,
            None => {
                let since = self.named(id)?;
                self.arrive_named(id, count, threads, true)?;
                self.thread.named = Some(since);
                since
            }
        };
        if self.named(id)? == since {
            return Ok(Flow::Block);
        }
        self.thread.named = None;
        Ok(Flow::Next)
    }

    /// How often a barrier has been complete.
    fn named(&self, id: i64) -> Result<u64> {
        let block = &self.cluster.blocks[self.thread.block as usize];
        let barrier = block.named.get(id).map_err(|rule| broken(id, rule))?;
        Ok(barrier.completions())
    }

    /// Arrives with `threads` CUDA threads.
    pub(crate) fn arrive_named(
        &mut self,
        id: i64,
        count: i64,
        threads: u32,
        waits: bool,
    ) -> Result<()> {
        let (at, phase) = (self.at(), self.named(id)?);
        let block = self.thread.block;
        let named = &mut self.cluster.blocks[block as usize].named;
        let waiter = waits.then_some(at);
        let completed =
            named.arrive(id, count, threads, waiter).map_err(|rule| broken(id, rule))?;
        self.worker.arrivals += 1;
        if O::WATCHES {
            let barrier = BarrierId { block, base: BarrierId::NAMED, index: id as u32 };
            let observer = &mut self.worker.observer;
            observer.on_arrive(at, barrier, phase, completed.is_some())?;
            for waiter in completed.into_iter().flatten() {
                observer.on_wait(waiter, barrier, phase)?;
            }
        }
        Ok(())
    }

    /// What a thread that blocked at a named barrier waits for.
    pub(crate) fn waiting_on_named(&self, id: Operand) -> Result<Waiting> {
        self.waiting_at_named(self.integer(id))
    }

    /// The same, by number.
    pub(crate) fn waiting_at_named(&self, id: i64) -> Result<Waiting> {
        let block = &self.cluster.blocks[self.thread.block as usize];
        let barrier = block.named.get(id).map_err(|rule| broken(id, rule))?;
        let (arrived, needed) = barrier.progress();
        Ok(Waiting::Named { id, arrived, needed })
    }
}

#[cold]
fn broken(id: i64, rule: BarrierRule) -> Box<Trap> {
    let barrier = BarrierName { name: format!("named barrier {id}"), index: Vec::new() };
    TrapKind::Barrier { barrier, rule }.into()
}
