//! The observer: turns what happens into clocks, and checks every access against the shadow.

mod check;

use super::clock::{Tick, VClock, View};
use super::cluster::{ClusterClock, Issued, Meaning};
use super::finding::{BarrierRef, Code, FlatWindow, Memory, Missing, Race, Side};
use super::judge::Access;
use super::order::GridOrder;
use super::shadow::Shadow;
use crate::observer::{
    AccessKind, Allocated, At, BarrierId, BaseId, Engine, Observer, Operation, Proxy, SemaphoreId,
    Window,
};
use crate::trap::Trap;
use check::{barrier_rule, end_wait};
use pallas_rs_ir::{Alloc, AllocKind, Program, Space, SpanId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What makes two findings the same one for a reader: the rule and the two lines.
type Key = (Code, Option<SpanId>, SpanId);

/// Finds races. One per run; it never stops the run, so that everything is found.
#[derive(Debug)]
pub(crate) struct RaceDetector {
    blocks: u32,
    threads: u32,
    warps: bool,
    order: GridOrder,
    /// What the program allocates, in the order of its text.
    allocs: Vec<Alloc>,
    /// A write that races with a write has been reported: do they put the same value there?
    undecided: Option<usize>,
    clusters: FxHashMap<u64, ClusterClock>,
    gmem: FxHashMap<u32, Shadow>,
    /// What signals of a semaphore publish, by the cluster they came from.
    semaphores: FxHashMap<SemaphoreId, BTreeMap<u64, View>>,
    /// The latest signal of a semaphore.
    signalled: FxHashMap<SemaphoreId, At>,
    races: Vec<Race>,
    known: FxHashMap<Key, usize>,
}

impl RaceDetector {
    /// For clusters of `blocks` blocks of `threads` threads, whose warps run by themselves somewhere if
    /// `warps`.
    pub(crate) fn new(blocks: u32, threads: u32, warps: bool) -> RaceDetector {
        RaceDetector {
            order: GridOrder::default(),
            allocs: Vec::new(),
            undecided: None,
            blocks,
            threads,
            warps,
            clusters: FxHashMap::default(),
            gmem: FxHashMap::default(),
            semaphores: FxHashMap::default(),
            signalled: FxHashMap::default(),
            races: Vec::new(),
            known: FxHashMap::default(),
        }
    }

    /// As the program says: which grid points one block runs in order, and what lives how long.
    #[must_use]
    pub(crate) fn of(
        program: &Program,
        allocs: &[Alloc],
        bounds: &[u64],
        warps: bool,
    ) -> RaceDetector {
        let blocks = program.cluster.iter().product::<usize>() as u32;
        RaceDetector {
            order: GridOrder::new(bounds, &program.sequential),
            allocs: allocs.to_vec(),
            ..RaceDetector::new(blocks, program.num_threads as u32, warps)
        }
    }

    /// What was found, in the order in which it was.
    pub(crate) fn into_races(self) -> Vec<Race> {
        self.races
    }

    fn cluster(&mut self, number: u64) -> &mut ClusterClock {
        let (blocks, threads, warps) = (self.blocks, self.threads, self.warps);
        let tensor = self.allocs.is_empty() || self.allocs.iter().any(|a| a.space == Space::Tmem);
        let new = || ClusterClock::new(blocks, threads, warps, tensor);
        self.clusters.entry(number).or_insert_with(new)
    }
}

impl Observer for RaceDetector {
    fn on_block_start(&mut self, cluster: u64, _block: u32) {
        self.cluster(cluster);
    }

    fn on_block_end(&mut self, cluster: u64, block: u32) {
        let unfinished = self.cluster(cluster).unfinished(block);
        for issued in unfinished {
            let clock = self.cluster(cluster);
            let missing = end_wait(clock, clock.meaning(issued.component));
            let kind = AccessKind::Read;
            self.report(Race {
                code: Code::C14,
                earlier: None,
                later: Side {
                    at: issued.at,
                    kind,
                    proxy: Proxy::Async,
                    engine: Some(issued.engine),
                },
                memory: None,
                window: None,
                barrier: None,
                missing,
                ticks: (0, issued.tick),
                same_value: false,
                count: 1,
            });
        }
        let clock = self.cluster(cluster);
        clock.live_blocks -= 1;
        if clock.live_blocks == 0 {
            self.clusters.remove(&cluster);
        }
    }

    fn on_alloc(&mut self, at: At, what: Allocated, alloc: u32) {
        self.cluster(at.thread.cluster);
        let clock = self.clusters.get_mut(&at.thread.cluster).expect("it has just been made");
        let spec = self.allocs.get(alloc as usize);
        let owner = clock.owner(at, what);
        clock.allocs.insert((what, owner), alloc);
        if let Some(spec) = spec {
            match (what, &spec.kind) {
                (Allocated::Data(base), _) => clock.unions.enter(base, owner, spec),
                (
                    Allocated::Barriers(base),
                    AllocKind::Barrier { orders_tensor_core: false, .. }
                    | AllocKind::ClusterBarrier { orders_tensor_core: false, .. },
                ) => drop(clock.plain.insert((owner, base))),
                (Allocated::Barriers(_), _) => {}
            }
        }
        if let Allocated::Data(BaseId { space: Space::Smem | Space::Tmem, .. }) = what {
            self.check_begin(at);
        }
        let clock = self.cluster(at.thread.cluster);
        if let Allocated::Barriers(_) = what {
            // The new barriers are the old ones, in the phase in which they were left.
            let (here, elsewhere) = std::mem::take(&mut clock.unseen)
                .into_iter()
                .partition(|&(block, ..): &(u32, BarrierRef, At)| block == owner);
            clock.unseen = elsewhere;
            for (_, barrier, last) in here {
                self.report(barrier_rule(Code::D8, last, None, barrier, (0, 0)));
            }
        }
    }

    fn on_free(&mut self, at: At, what: Allocated) {
        let clock = self.cluster(at.thread.cluster);
        let owner = clock.owner(at, what);
        match what {
            Allocated::Data(base) => {
                clock.unions.leave(base, owner);
                if let Some(shadow) = clock.memory.remove(&(base, owner)) {
                    self.check_end(at, base, owner, &shadow);
                }
            }
            Allocated::Barriers(base) => {
                let unseen = clock.unseen_phases(owner, base);
                clock.free_barriers(owner, base);
                clock.unseen.extend(unseen.iter().map(|&(barrier, last)| (owner, barrier, last)));
                for (barrier, last) in unseen {
                    self.report(barrier_rule(Code::D9, last, None, barrier, (0, 0)));
                }
            }
        }
    }

    fn on_access(
        &mut self,
        at: At,
        window: Window<'_>,
        kind: AccessKind,
        proxy: Proxy,
    ) -> Result<(), Box<Trap>> {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        let component = clock.component(Meaning::Thread(thread));
        let tick = clock.threads[thread as usize].own;
        self.check(
            &window,
            Access { component, tick, issued: tick, side: Side { at, kind, proxy, engine: None } },
        );
        Ok(())
    }

    fn wants_value(&self) -> bool {
        self.undecided.is_some()
    }

    fn on_value(&mut self, unchanged: bool) {
        if let Some(race) = self.undecided.take().and_then(|at| self.races.get_mut(at)) {
            race.same_value = unchanged && (race.count == 1 || race.same_value);
        }
    }

    fn on_arrive(
        &mut self,
        at: At,
        barrier: BarrierId,
        phase: u64,
        completes: bool,
    ) -> Result<(), Box<Trap>> {
        let clock = self.cluster(at.thread.cluster);
        if let Some(view) = clock.landing.take() {
            clock.publish(barrier, phase, &view);
        } else {
            self.check_arrival(at, barrier, phase);
            let clock = self.cluster(at.thread.cluster);
            let thread = clock.thread(at);
            let view = clock.threads[thread as usize].view.clone();
            clock.publish(barrier, phase, &view);
            clock.bump(thread);
        }
        if completes {
            self.complete_phase(at, barrier, phase);
        }
        Ok(())
    }

    fn on_wait(&mut self, at: At, barrier: BarrierId, phase: u64) -> Result<(), Box<Trap>> {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        let state = clock.barrier(barrier);
        let slot = std::mem::take(&mut state.slots[(phase % 2) as usize]);
        clock.threads[thread as usize].view.join(&slot);
        let own = clock.threads[thread as usize].own;
        let state = clock.barrier(barrier);
        state.slots[(phase % 2) as usize] = slot;
        state.awaited = true;
        // Whoever waits at a named barrier has arrived there, and cannot miss its completion.
        if barrier.base != BarrierId::NAMED {
            state.waits[(phase % 2) as usize].push((thread, own, at));
        }
        clock.bump(thread);
        Ok(())
    }

    fn on_signal(&mut self, at: At, semaphore: SemaphoreId) {
        let number = at.thread.cluster;
        let clock = self.cluster(number);
        let thread = clock.thread(at);
        let view =
            View { tensor: VClock::default(), ..clock.threads[thread as usize].view.clone() };
        clock.bump(thread);
        self.signalled.insert(semaphore, at);
        self.semaphores.entry(semaphore).or_default().entry(number).or_default().join(&view);
    }

    fn on_acquire(&mut self, at: At, semaphore: SemaphoreId) {
        let number = at.thread.cluster;
        let mut learnt = View::default();
        for (&cluster, view) in self.semaphores.entry(semaphore).or_default().iter() {
            learnt.join(&view.seen_from(cluster, number));
        }
        let clock = self.cluster(number);
        let thread = clock.thread(at);
        clock.threads[thread as usize].view.join(&learnt);
        clock.bump(thread);
    }

    fn on_unsettled(&mut self, semaphore: SemaphoreId, value: u32) {
        let Some(&at) = self.signalled.get(&semaphore) else { return };
        let memory = match semaphore.owner {
            None => Some(Memory::Arg(semaphore.base)),
            Some((cluster, block)) => {
                let base = BaseId { space: Space::Gmem, number: semaphore.base };
                let allocs = self.clusters.get(&cluster).map(|clock| &clock.allocs);
                let alloc = allocs.and_then(|a| a.get(&(Allocated::Data(base), block)));
                alloc.copied().map(Memory::Alloc)
            }
        };
        let window =
            FlatWindow { offset: semaphore.index as i64, sizes: Vec::new(), strides: Vec::new() };
        self.report(Race {
            code: Code::L2,
            earlier: None,
            later: Side { at, kind: AccessKind::Write, proxy: Proxy::Generic, engine: None },
            memory,
            window: Some(window),
            barrier: None,
            missing: Missing::SemaphoreWait,
            ticks: (0, Tick::from(value)),
            same_value: false,
            count: 1,
        });
    }

    fn on_twin(&mut self, at: At, barrier: BarrierId, phase: u64) {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        let component = clock.barrier(barrier).component;
        clock.threads[thread as usize].view.known.learn(component, phase + 1);
    }

    fn on_warps_start(&mut self, at: At) {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        clock.fork(thread);
    }

    fn on_warps_end(&mut self, at: At) {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        clock.join(thread);
    }

    fn on_fence(&mut self, at: At) {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        clock.threads[thread as usize].view.fence();
        clock.bump(thread);
    }

    fn on_issue(&mut self, at: At, operation: Operation<'_>) -> Result<(), Box<Trap>> {
        let number = at.thread.cluster;
        let clock = self.cluster(number);
        let thread = clock.thread(at);
        let (read, write, tick) = match operation.engine {
            Engine::TmaLoad | Engine::PeerStore => {
                let Some(id) = operation.barrier else { return Ok(()) };
                let state = clock.barrier(id);
                let (component, phase) = (state.component, state.phase);
                if let Some(least) = operation.tracked {
                    (component, component, phase.max(least) + 1)
                } else {
                    self.check_arrival(at, id, phase);
                    let clock = self.cluster(number);
                    let view = clock.threads[thread as usize].view.clone();
                    clock.in_flight.insert(operation.ticket, view);
                    (component, component, phase + 1)
                }
            }
            Engine::TmaStore => {
                let tick = clock.threads[thread as usize].stores + 1;
                let read = clock.component(Meaning::StoreRead(thread));
                (read, clock.component(Meaning::StoreWrite(thread)), tick)
            }
            Engine::Wgmma => {
                clock.threads[thread as usize].products += 1;
                let component = clock.component(Meaning::Wgmma(thread));
                (component, component, clock.threads[thread as usize].products)
            }
            Engine::Tcgen05 | Engine::TmemCopy => {
                let state = &mut clock.threads[thread as usize];
                state.tensor += 1;
                let meaning = if operation.engine == Engine::Tcgen05 {
                    Meaning::Tcgen05(thread)
                } else {
                    Meaning::TmemCopy(thread)
                };
                let component = clock.component(meaning);
                (component, component, clock.threads[thread as usize].tensor)
            }
            Engine::TmemLoad | Engine::TmemStore => {
                clock.threads[thread as usize].tmem += 1;
                let tick = clock.threads[thread as usize].tmem;
                let load = clock.component(Meaning::TmemLoad(thread));
                (load, clock.component(Meaning::TmemStore(thread)), tick)
            }
            Engine::Commit => {
                let Some(id) = operation.barrier else { return Ok(()) };
                let phase = clock.barrier(id).phase;
                self.check_arrival(at, id, phase);
                let clock = self.cluster(number);
                let mut view = clock.threads[thread as usize].view.clone();
                let done = clock.threads[thread as usize].tensor;
                for meaning in [Meaning::Tcgen05(thread), Meaning::TmemCopy(thread)] {
                    view.known.learn(clock.component(meaning), done);
                    view.tensor.learn(clock.component(meaning), done);
                }
                for &(component, tick) in &clock.threads[thread as usize].tensor_parents {
                    view.known.learn(component, tick);
                    view.tensor.learn(component, tick);
                }
                clock.in_flight.insert(operation.ticket, view);
                clock.bump(thread);
                return Ok(());
            }
            Engine::CpAsync => {
                clock.threads[thread as usize].copies += 1;
                let component = clock.component(Meaning::CpAsync(thread));
                (component, component, clock.threads[thread as usize].copies)
            }
        };
        let proxy = match operation.engine {
            Engine::CpAsync | Engine::PeerStore => Proxy::Generic,
            Engine::TmaLoad
            | Engine::TmaStore
            | Engine::Wgmma
            | Engine::Tcgen05
            | Engine::TmemCopy
            | Engine::Commit
            | Engine::TmemLoad
            | Engine::TmemStore => Proxy::Async,
        };
        let clock = self.cluster(number);
        // What a load of tensor memory has read is there at once, and nobody need wait for it; what
        // arrives on another block's barrier is for that block to wait for.
        let ours = operation.barrier.is_none_or(|barrier| barrier.block == at.thread.block);
        if ours && operation.engine != Engine::TmemLoad {
            let component = if operation.engine == Engine::TmemStore { write } else { read };
            clock.note(Issued { component, tick, engine: operation.engine, at });
        }
        let side = |kind| Side { at, kind, proxy, engine: Some(operation.engine) };
        let issued = self.cluster(number).threads[thread as usize].own;
        for window in operation.reads {
            let side = side(AccessKind::Read);
            self.check(window, Access { component: read, tick, issued, side });
        }
        let kind = match operation.engine {
            Engine::TmaStore | Engine::PeerStore if operation.accumulates => AccessKind::Atomic,
            Engine::TmaStore
            | Engine::TmaLoad
            | Engine::PeerStore
            | Engine::Wgmma
            | Engine::CpAsync
            | Engine::Tcgen05
            | Engine::TmemCopy
            | Engine::Commit
            | Engine::TmemLoad
            | Engine::TmemStore => AccessKind::Write,
        };
        for window in operation.writes {
            self.check(window, Access { component: write, tick, issued, side: side(kind) });
        }
        let access = Access { component: write, tick, issued, side: side(kind) };
        self.multicast(at, &operation, access);
        // What the issuer does from here on is not ordered before the completion.
        self.cluster(number).bump(thread);
        Ok(())
    }

    fn on_more(&mut self, at: At, engine: Engine) {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at) as usize;
        match engine {
            Engine::Wgmma => clock.threads[thread].products -= 1,
            Engine::CpAsync => clock.threads[thread].copies -= 1,
            Engine::TmaLoad
            | Engine::TmaStore
            | Engine::PeerStore
            | Engine::Tcgen05
            | Engine::TmemCopy
            | Engine::Commit
            | Engine::TmemLoad
            | Engine::TmemStore => {}
        }
    }

    fn on_complete(&mut self, cluster: u64, engine: Engine, ticket: u64) {
        if matches!(engine, Engine::TmaLoad | Engine::PeerStore | Engine::Commit) {
            let clock = self.cluster(cluster);
            clock.landing = clock.in_flight.remove(&ticket);
        }
    }

    fn on_commit_group(&mut self, at: At) {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        clock.threads[thread as usize].stores += 1;
    }

    fn on_group_wait(&mut self, at: At, engine: Engine, pending: u32, read_only: bool) {
        let clock = self.cluster(at.thread.cluster);
        let thread = clock.thread(at);
        let pending = Tick::from(pending);
        // What its warps left in flight when they ended is the warpgroup's to wait for.
        let warps = if at.thread.warp.is_none() { clock.warps_of(thread) } else { 0..0 };
        for of in std::iter::once(thread).chain(warps) {
            clock.wait_groups(thread, of, engine, pending, read_only);
        }
    }
}

impl RaceDetector {
    /// What a multicast load writes in the other blocks: it may come before they ask for it, and is
    /// complete when their own barrier says so. The barriers of all go through the same phases.
    fn multicast(&mut self, at: At, operation: &Operation<'_>, access: Access) {
        let Some(barrier) = operation.barrier else { return };
        let others = operation.multicast.iter().filter(|&&block| block != at.thread.block);
        for &block in others {
            let clock = self.cluster(at.thread.cluster);
            let component = clock.barrier(BarrierId { block, ..barrier }).component;
            for window in operation.writes {
                self.check(&Window { block, ..*window }, Access { component, ..access });
            }
        }
    }

    /// The phase is complete: waits on it learn what its arrivals published, and D2 is checked.
    fn complete_phase(&mut self, at: At, barrier: BarrierId, phase: Tick) {
        let number = at.thread.cluster;
        let clock = self.cluster(number);
        let state = clock.barrier(barrier);
        let component = state.component;
        state.phase = phase + 1;
        state.completed = Some(at);
        let (this, other) = ((phase % 2) as usize, ((phase + 1) % 2) as usize);
        state.slots[this].known.learn(component, phase + 1);
        let waits = std::mem::take(&mut state.waits[other]);
        let published = state.slots[this].known.clone();
        state.slots[other].clear();
        for &(thread, tick, waiter) in &waits {
            let own = self.cluster(number).component(Meaning::Thread(thread));
            let known = published.get(own);
            if known < tick {
                let barrier = self.cluster(number).barrier_ref(barrier);
                self.report(barrier_rule(Code::D2, at, Some(waiter), barrier, (known, tick)));
            }
        }
    }
}
