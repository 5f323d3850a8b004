//! The observer: turns what happens into clocks, and checks every access against the shadow.

use super::clock::{Component, Tick, View};
use super::cluster::{ClusterClock, Issued, Leftover, Meaning};
use super::finding::{BarrierRef, Code, FlatWindow, Memory, Missing, Race, Side};
use super::shadow::{Past, Shadow};
use super::window::ByteWindow;
use crate::observer::{
    AccessKind, Allocated, At, BarrierId, BaseId, Engine, Observer, Operation, Proxy, SemaphoreId,
    Window,
};
use crate::trap::Trap;
use pallas_rs_ir::{Program, Space, SpanId};
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
    /// A write that races with a write has been reported: do they put the same value there?
    undecided: Option<usize>,
    clusters: FxHashMap<u64, ClusterClock>,
    gmem: FxHashMap<u32, Shadow>,
    /// What signals of a semaphore publish, by the cluster they came from.
    semaphores: FxHashMap<SemaphoreId, BTreeMap<u64, View>>,
    races: Vec<Race>,
    known: FxHashMap<Key, usize>,
}

/// An access about to be checked.
#[derive(Clone, Copy)]
struct Access {
    component: Component,
    tick: Tick,
    side: Side,
}

impl RaceDetector {
    /// For clusters of `blocks` blocks of `threads` threads, whose warps run by themselves somewhere if
    /// `warps`.
    pub(crate) fn new(blocks: u32, threads: u32, warps: bool) -> RaceDetector {
        RaceDetector {
            order: GridOrder::default(),
            undecided: None,
            blocks,
            threads,
            warps,
            clusters: FxHashMap::default(),
            gmem: FxHashMap::default(),
            semaphores: FxHashMap::default(),
            races: Vec::new(),
            known: FxHashMap::default(),
        }
    }

    /// As the program says: which grid points one block runs in order, and what lives how long.
    #[must_use]
    pub(crate) fn of(program: &Program, bounds: &[u64], warps: bool) -> RaceDetector {
        let blocks = program.cluster.iter().product::<usize>() as u32;
        RaceDetector {
            order: GridOrder::new(bounds, &program.sequential),
            ..RaceDetector::new(blocks, program.num_threads as u32, warps)
        }
    }

    /// What was found, in the order in which it was.
    pub(crate) fn into_races(self) -> Vec<Race> {
        self.races
    }

    fn cluster(&mut self, number: u64) -> &mut ClusterClock {
        let (blocks, threads, warps) = (self.blocks, self.threads, self.warps);
        self.clusters.entry(number).or_insert_with(|| ClusterClock::new(blocks, threads, warps))
    }

    /// Reports a race, or counts it; its number.
    fn report(&mut self, race: Race) -> usize {
        let key = (race.code, race.earlier.map(|s| s.at.span), race.later.at.span);
        let at = *self.known.entry(key).or_insert(self.races.len());
        match self.races.get_mut(at) {
            Some(known) => known.count += 1,
            None => self.races.push(race),
        }
        at
    }

    fn check(&mut self, window: &Window<'_>, access: Access) {
        let Some(bytes) = ByteWindow::new(window) else { return };
        let at = access.side.at;
        let number = at.thread.cluster;
        self.cluster(number);
        let owner = match window.base.space {
            Space::Gmem => None,
            Space::Smem | Space::Tmem => Some(window.block),
            Space::Regs => Some(self.clusters[&number].thread(at)),
        };
        let mut shadow = match owner {
            None => self.gmem.remove(&window.base.number).unwrap_or_default(),
            Some(o) => self.cluster(number).memory.remove(&(window.base, o)).unwrap_or_default(),
        };
        let past = Past {
            cluster: number,
            component: access.component,
            tick: access.tick,
            kind: access.side.kind,
            proxy: access.side.proxy,
            at,
        };
        let mut bad: Vec<(Past, Fault)> = Vec::new();
        let mut parents: Vec<(Component, Tick)> = Vec::new();
        let (clusters, order) = (&self.clusters, &self.order);
        shadow.access(
            bytes,
            past,
            |c| clusters.contains_key(&c),
            |earlier| {
                if is_pipelined(&clusters[&number], earlier, &access) {
                    parents.push((earlier.component, earlier.tick));
                }
                if !order.is_in_order(earlier.cluster, number)
                    && let Some(fault) = judge(&clusters[&number], earlier, &access, window)
                {
                    bad.push((*earlier, fault));
                }
            },
        );
        match owner {
            None => drop(self.gmem.insert(window.base.number, shadow)),
            Some(o) => drop(self.cluster(number).memory.insert((window.base, o), shadow)),
        }
        if !parents.is_empty() {
            let clock = self.cluster(number);
            let thread = clock.thread(at);
            let all = &mut clock.threads[thread as usize].tensor_parents;
            for (component, tick) in parents {
                match all.iter_mut().find(|(c, _)| *c == component) {
                    Some((_, known)) => *known = tick.max(*known),
                    None => all.push((component, tick)),
                }
            }
        }
        for (earlier, fault) in bad {
            let engine = self.engine_of(&earlier);
            let earlier_side =
                Side { at: earlier.at, kind: earlier.kind, proxy: earlier.proxy, engine };
            let alloc = owner.and_then(|o| {
                self.clusters[&number].allocs.get(&(Allocated::Data(window.base), o)).copied()
            });
            let writes = [earlier.kind, access.side.kind] == [AccessKind::Write; 2];
            let number = self.report(Race {
                code: fault.code,
                earlier: Some(earlier_side),
                later: access.side,
                memory: Some(match alloc {
                    Some(alloc) => Memory::Alloc(alloc),
                    None => Memory::Arg(window.base.number),
                }),
                window: Some(FlatWindow {
                    offset: window.offset,
                    sizes: window.sizes.to_vec(),
                    strides: window.strides.to_vec(),
                }),
                barrier: None,
                missing: fault.missing,
                ticks: (fault.known, earlier.tick),
                same_value: false,
                count: 1,
            });
            if writes && access.side.engine.is_none() {
                self.undecided = Some(number);
            }
        }
    }

    /// The memory of a scope is about to be freed. Whoever of another block is at work on it comes too
    /// late; what an engine does is late once the memory is given to somebody else.
    fn check_end(&mut self, at: At, base: BaseId, owner: u32, shadow: &Shadow) {
        if base.space == Space::Regs {
            return;
        }
        let clock = self.cluster(at.thread.cluster);
        let alloc = clock.allocs.get(&(Allocated::Data(base), owner)).copied();
        let block = at.thread.block;
        let known = clock.known_in(block);
        let mut late: Vec<Past> = Vec::new();
        for past in shadow.accesses().filter(|p| known.get(p.component) < p.tick) {
            match clock.meaning(past.component) {
                Meaning::Thread(_) if past.at.thread.block != block => late.push(*past),
                Meaning::Thread(_) => {}
                _ => clock.leftovers.push(Leftover { block, past: *past, alloc }),
            }
        }
        for past in late {
            self.report_late(Code::F1, &past, alloc, Missing::Synchronisation);
        }
    }

    /// SMEM or TMEM of a block is given to a scope: nobody may be at work on it any more.
    fn check_begin(&mut self, at: At) {
        let clock = self.cluster(at.thread.cluster);
        if clock.leftovers.is_empty() {
            return;
        }
        let known = clock.known_in(at.thread.block);
        let (here, elsewhere): (Vec<Leftover>, Vec<Leftover>) =
            std::mem::take(&mut clock.leftovers)
                .into_iter()
                .partition(|l| l.block == at.thread.block);
        clock.leftovers = elsewhere;
        for Leftover { past, alloc, .. } in here {
            if known.get(past.component) < past.tick {
                let clock = self.cluster(at.thread.cluster);
                let missing = end_wait(clock, clock.meaning(past.component));
                self.report_late(Code::C15, &past, alloc, missing);
            }
        }
    }

    fn report_late(&mut self, code: Code, past: &Past, alloc: Option<u32>, missing: Missing) {
        let side =
            Side { at: past.at, kind: past.kind, proxy: past.proxy, engine: self.engine_of(past) };
        self.report(Race {
            code,
            earlier: None,
            later: side,
            memory: alloc.map(Memory::Alloc),
            window: None,
            barrier: None,
            missing,
            ticks: (0, past.tick),
            same_value: false,
            count: 1,
        });
    }

    fn engine_of(&self, past: &Past) -> Option<Engine> {
        match clusters_meaning(&self.clusters, past) {
            Some(Meaning::StoreRead(_) | Meaning::StoreWrite(_)) => Some(Engine::TmaStore),
            Some(Meaning::Wgmma(_)) => Some(Engine::Wgmma),
            Some(Meaning::CpAsync(_)) => Some(Engine::CpAsync),
            Some(Meaning::Tcgen05(_)) => Some(Engine::Tcgen05),
            Some(Meaning::TmemCopy(_)) => Some(Engine::TmemCopy),
            Some(Meaning::TmemLoad(_)) => Some(Engine::TmemLoad),
            Some(Meaning::TmemStore(_)) => Some(Engine::TmemStore),
            Some(Meaning::Barrier(_)) => Some(Engine::TmaLoad),
            Some(Meaning::Thread(_)) | None => None,
        }
    }

    /// D1: an arrival in phase `phase` has to come after some successful wait for the one before.
    fn check_arrival(&mut self, at: At, barrier: BarrierId, phase: Tick) {
        let cluster = self.cluster(at.thread.cluster);
        let component = cluster.barrier(barrier).component;
        let thread = cluster.thread(at);
        let known = cluster.threads[thread as usize].view.known.get(component);
        if known < phase {
            let barrier = cluster.barrier_ref(barrier);
            self.report(barrier_rule(Code::D1, at, None, barrier, (known, phase)));
        }
    }
}

/// Which points of a grid one block runs one after another.
#[derive(Debug, Default)]
struct GridOrder {
    /// Bounds, and whether the dimension is run in order.
    dims: Vec<(u64, bool)>,
}

impl GridOrder {
    fn new(bounds: &[u64], sequential: &[usize]) -> GridOrder {
        let in_order = |d| sequential.contains(&d);
        GridOrder { dims: bounds.iter().enumerate().map(|(d, &n)| (n, in_order(d))).collect() }
    }

    /// Whether two points differ only along dimensions that are run in order.
    fn is_in_order(&self, mut a: u64, mut b: u64) -> bool {
        a != b
            && self.dims.iter().any(|&(_, in_order)| in_order)
            && self.dims.iter().rev().all(|&(bound, in_order)| {
                let same = a % bound.max(1) == b % bound.max(1);
                (a, b) = (a / bound.max(1), b / bound.max(1));
                same || in_order
            })
    }
}

/// Why two accesses race.
struct Fault {
    code: Code,
    missing: Missing,
    known: Tick,
}

fn clusters_meaning(clusters: &FxHashMap<u64, ClusterClock>, past: &Past) -> Option<Meaning> {
    clusters.get(&past.cluster).map(|c| c.meaning(past.component))
}

/// What makes sure that an engine is done when its memory ends.
fn end_wait(clock: &ClusterClock, meaning: Meaning) -> Missing {
    let wait = |engine, read_only| Missing::GroupWait { engine, pending: 0, read_only };
    match meaning {
        Meaning::Barrier(id) => Missing::BarrierWait(clock.barrier_ref(id)),
        Meaning::StoreRead(_) | Meaning::StoreWrite(_) => wait(Engine::TmaStore, true),
        Meaning::Wgmma(_) => wait(Engine::Wgmma, false),
        Meaning::CpAsync(_) => wait(Engine::CpAsync, false),
        Meaning::Tcgen05(_) => wait(Engine::Tcgen05, false),
        Meaning::TmemCopy(_) => wait(Engine::TmemCopy, false),
        Meaning::TmemLoad(_) => wait(Engine::TmemLoad, false),
        Meaning::TmemStore(_) => wait(Engine::TmemStore, false),
        Meaning::Thread(_) => Missing::Synchronisation,
    }
}

fn barrier_rule(
    code: Code,
    at: At,
    other: Option<At>,
    barrier: BarrierRef,
    ticks: (Tick, Tick),
) -> Race {
    let side = |at| Side { at, kind: AccessKind::Read, proxy: Proxy::Generic, engine: None };
    Race {
        code,
        earlier: other.map(side),
        later: side(at),
        memory: None,
        window: None,
        barrier: Some(barrier),
        missing: Missing::BarrierWait(barrier),
        ticks,
        same_value: false,
        count: 1,
    }
}

/// Whether the tensor core carries out an access after the earlier one without a wait. PTX ISA,
/// tcgen05 pipelined instructions: products into one accumulator, and a product after the copies
/// that bring its operands; of another thread, if its issue comes before.
fn is_pipelined(cluster: &ClusterClock, earlier: &Past, access: &Access) -> bool {
    let later = access.side;
    if later.engine != Some(Engine::Tcgen05) || earlier.cluster != later.at.thread.cluster {
        return false;
    }
    let (wrote, writes) = (earlier.kind != AccessKind::Read, later.kind != AccessKind::Read);
    let issuer = match cluster.meaning(earlier.component) {
        Meaning::TmemCopy(t) => t,
        Meaning::Tcgen05(t) if wrote && writes => t,
        _ => return false,
    };
    let issued = cluster.threads[issuer as usize].tensor_issues[earlier.tick as usize - 1];
    let view = &cluster.threads[cluster.thread(later.at) as usize].view;
    view.known.get(cluster.component(Meaning::Thread(issuer))) >= issued
}

/// Whether an access races with an earlier one that it overlaps.
fn judge(
    cluster: &ClusterClock,
    earlier: &Past,
    access: &Access,
    window: &Window<'_>,
) -> Option<Fault> {
    let later = access.side;
    match (earlier.kind, later.kind) {
        (AccessKind::Read, AccessKind::Read) => return None,
        (AccessKind::Atomic, AccessKind::Atomic) if earlier.proxy == later.proxy => return None,
        _ => {}
    }
    let one_atomic = (earlier.kind == AccessKind::Atomic) != (later.kind == AccessKind::Atomic);
    let plain = |code| if one_atomic { Code::A7 } else { code };
    if earlier.cluster != later.at.thread.cluster {
        let view = &cluster.threads[cluster.thread(later.at) as usize].view;
        let known = view.others.get(&earlier.cluster);
        if known.is_some_and(|clock| clock.get(earlier.component) >= earlier.tick) {
            return None;
        }
        let fault = Fault { code: plain(Code::A5), missing: Missing::OtherCluster, known: 0 };
        return Some(fault);
    }
    let thread = cluster.thread(later.at);
    let clock = &cluster.threads[thread as usize];
    let known = clock.view.known.get(earlier.component);
    let meaning = cluster.meaning(earlier.component);
    if known >= earlier.tick {
        return fence_missing(cluster, earlier, access, window).map(|(code, missing)| Fault {
            code,
            missing,
            known,
        });
    }
    // The blocks of a cluster write what they multicast together.
    let elsewhere = earlier.at.thread.block != later.at.thread.block;
    let together = (earlier.component, earlier.tick) == (access.component, access.tick);
    if elsewhere && together && later.engine == Some(Engine::TmaLoad) {
        return None;
    }
    // Products of one thread are carried out in the order in which they were issued.
    if meaning == Meaning::Wgmma(thread) && later.engine == Some(Engine::Wgmma) {
        return None;
    }
    if is_pipelined(cluster, earlier, access) {
        return None;
    }
    let writes = earlier.kind != AccessKind::Read;
    let wait = |engine, issued: Tick, read_only| {
        if earlier.tick > issued {
            Missing::Commit
        } else {
            Missing::GroupWait { engine, pending: (issued - earlier.tick) as u32, read_only }
        }
    };
    let own = |t: u32| t == thread;
    let copy = match (writes, later.kind) {
        (false, _) => Code::C16,
        (true, AccessKind::Read) => Code::C1,
        (true, AccessKind::Write | AccessKind::Atomic) => Code::C2,
    };
    let (code, missing) = match meaning {
        Meaning::Barrier(id) => (copy, Missing::BarrierWait(cluster.barrier_ref(id))),
        Meaning::StoreRead(t) if own(t) => (Code::C3, wait(Engine::TmaStore, clock.stores, true)),
        Meaning::StoreWrite(t) if own(t) => (Code::C4, wait(Engine::TmaStore, clock.stores, false)),
        Meaning::Wgmma(t) if own(t) => {
            let code = if window.base.space == Space::Regs { Code::C8 } else { Code::C7 };
            (code, wait(Engine::Wgmma, clock.products, false))
        }
        Meaning::CpAsync(t) if own(t) => (copy, wait(Engine::CpAsync, clock.copies, false)),
        Meaning::Tcgen05(_) | Meaning::TmemCopy(_) => {
            let engine = if matches!(meaning, Meaning::Tcgen05(_)) {
                Engine::Tcgen05
            } else {
                Engine::TmemCopy
            };
            let in_tmem = window.base.space == Space::Tmem;
            let missing = Missing::GroupWait { engine, pending: 0, read_only: false };
            (if in_tmem { Code::C10 } else { Code::C7 }, missing)
        }
        Meaning::TmemLoad(t) if own(t) => {
            let (engine, pending, read_only) = (Engine::TmemLoad, 0, false);
            (Code::C11, Missing::GroupWait { engine, pending, read_only })
        }
        Meaning::TmemStore(t) if own(t) => {
            let (engine, pending, read_only) = (Engine::TmemStore, 0, false);
            (Code::C11, Missing::GroupWait { engine, pending, read_only })
        }
        Meaning::TmemLoad(_) | Meaning::TmemStore(_) => (Code::C11, Missing::Synchronisation),
        Meaning::StoreRead(_) => (Code::C3, Missing::Synchronisation),
        Meaning::StoreWrite(_) => (Code::C4, Missing::Synchronisation),
        Meaning::Wgmma(_) => (Code::C7, Missing::Synchronisation),
        Meaning::CpAsync(_) => (copy, Missing::Synchronisation),
        Meaning::Thread(_) => {
            let code = match window.base.space {
                Space::Gmem => Code::A4,
                Space::Regs => Code::C8,
                Space::Smem | Space::Tmem if earlier.at.thread.block == later.at.thread.block => {
                    Code::A1
                }
                Space::Smem | Space::Tmem => Code::A2,
            };
            (plain(code), Missing::Synchronisation)
        }
    };
    let code = if missing == Missing::Commit { Code::C5 } else { code };
    Some(Fault { code, missing, known })
}

/// Ordered, but across proxies without a fence.
fn fence_missing(
    cluster: &ClusterClock,
    earlier: &Past,
    access: &Access,
    window: &Window<'_>,
) -> Option<(Code, Missing)> {
    if earlier.proxy != Proxy::Generic || access.side.proxy != Proxy::Async {
        return None;
    }
    let (wrote, writes) = (earlier.kind != AccessKind::Read, access.side.kind != AccessKind::Read);
    match window.base.space {
        Space::Gmem if wrote && !writes => Some((Code::B4, Missing::GmemFence)),
        Space::Smem => {
            let thread = cluster.thread(access.side.at);
            let fenced = cluster.threads[thread as usize].view.fenced.get(earlier.component);
            let code = match (wrote, writes) {
                (true, true) => Code::B3,
                (true, false) => Code::B1,
                (false, _) => Code::B2,
            };
            (fenced < earlier.tick).then_some((code, Missing::Fence))
        }
        Space::Gmem | Space::Tmem | Space::Regs => None,
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
        let clock = self.cluster(at.thread.cluster);
        let owner = clock.owner(at, what);
        clock.allocs.insert((what, owner), alloc);
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
            Access { component, tick, side: Side { at, kind, proxy, engine: None } },
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
        let view = clock.threads[thread as usize].view.clone();
        clock.bump(thread);
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
                self.check_arrival(at, id, phase);
                let clock = self.cluster(number);
                let view = clock.threads[thread as usize].view.clone();
                clock.in_flight.insert(operation.ticket, view);
                (component, component, phase + 1)
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
                state.tensor_issues.push(state.own);
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
                }
                for &(component, tick) in &clock.threads[thread as usize].tensor_parents {
                    view.known.learn(component, tick);
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
        for window in operation.reads {
            self.check(window, Access { component: read, tick, side: side(AccessKind::Read) });
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
            self.check(window, Access { component: write, tick, side: side(kind) });
        }
        self.multicast(at, &operation, tick, side(kind));
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
    fn multicast(&mut self, at: At, operation: &Operation<'_>, tick: Tick, side: Side) {
        let Some(barrier) = operation.barrier else { return };
        let others = operation.multicast.iter().filter(|&&block| block != at.thread.block);
        for &block in others {
            let clock = self.cluster(at.thread.cluster);
            let component = clock.barrier(BarrierId { block, ..barrier }).component;
            for window in operation.writes {
                self.check(&Window { block, ..*window }, Access { component, tick, side });
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
