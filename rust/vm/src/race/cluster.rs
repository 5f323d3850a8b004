//! What the detector knows while a cluster runs: views of its threads, barriers, queues, memory.

use super::clock::{Component, Tick, VClock, View};
use super::finding::{BarrierRef, Code};
use super::shadow::{Past, Shadow};
use super::union::Unions;
use crate::observer::{Allocated, At, BarrierId, BaseId, Engine};
use crate::sync::mbarrier::WARPS;
use pallas_rs_ir::Space;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Components of one thread: itself, and the queues of what it has issued.
const PER_THREAD: u32 = 9;

/// What a component stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A thread's own steps, counted at its releases.
    Thread(u32),
    /// Groups of TMA stores whose sources have been read.
    StoreRead(u32),
    /// Groups of TMA stores that are complete.
    StoreWrite(u32),
    /// wgmma groups.
    Wgmma(u32),
    /// cp.async groups.
    CpAsync(u32),
    /// Products into tensor memory.
    Tcgen05(u32),
    /// Copies to tensor memory.
    TmemCopy(u32),
    /// Loads of tensor memory.
    TmemLoad(u32),
    /// Stores to tensor memory.
    TmemStore(u32),
    /// Completed phases of a barrier.
    Barrier(BarrierId),
}

/// One thread.
#[derive(Debug, Default)]
pub(super) struct ThreadClock {
    pub(super) view: View,
    /// Its own component: the tick that its accesses carry now.
    pub(super) own: Tick,
    /// Committed groups of TMA stores, wgmma and cp.async.
    pub(super) stores: Tick,
    pub(super) products: Tick,
    pub(super) copies: Tick,
    /// Products and copies given to the tensor core.
    pub(super) tensor: Tick,
    /// Products and copies of other threads that its own products come after: a commit of its own
    /// is one for them too.
    pub(super) tensor_parents: Vec<(Component, Tick)>,
    /// Loads and stores of tensor memory.
    pub(super) tmem: Tick,
}

/// One barrier. Two slots suffice: rules D1 and D2 forbid anyone to need an older phase.
#[derive(Debug)]
pub(super) struct BarrierClock {
    pub(super) component: Component,
    /// Whether it orders the tensor core.
    pub(super) orders_tensor: bool,
    /// Completed phases.
    pub(super) phase: Tick,
    /// What arrivals of the phase with this parity publish.
    pub(super) slots: [View; 2],
    /// Whether a thread has ever waited for it.
    pub(super) awaited: bool,
    /// The arrival that completed the last phase.
    pub(super) completed: Option<At>,
    /// Who observed the phase with this parity, and when.
    pub(super) waits: [SmallVec<[(u32, Tick, At); 4]>; 2],
}

/// Something issued that somebody of the block has to wait for before it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued {
    pub(super) component: Component,
    pub(super) tick: Tick,
    pub(super) engine: Engine,
    pub(super) at: At,
}

/// An operation on memory whose scope has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leftover {
    pub(super) block: u32,
    pub(super) past: Past,
    pub(super) code: Code,
    pub(super) alloc: Option<u32>,
}

/// One cluster.
#[derive(Debug)]
pub(super) struct ClusterClock {
    threads_per_block: u32,
    /// Whether views tell apart what orders tensor memory.
    tensor: bool,
    /// Threads that are warpgroups. The warps of the n-th come behind them, from 4n on.
    warpgroups: u32,
    pub(super) threads: Vec<ThreadClock>,
    barriers: FxHashMap<BarrierId, u32>,
    barrier_list: Vec<(BarrierId, BarrierClock)>,
    /// Memory of its blocks and threads. The number is that of the block, or of the thread for
    /// accumulators.
    pub(super) memory: FxHashMap<(BaseId, u32), Shadow>,
    /// What is allocated where, as an entry of the program's allocations. The number is as in `memory`.
    pub(super) allocs: FxHashMap<(Allocated, u32), u32>,
    /// What the issuer of each TMA load in flight knew.
    pub(super) in_flight: FxHashMap<u64, View>,
    /// What the arrival that follows publishes, when an engine makes it.
    pub(super) landing: Option<View>,
    /// Latest operation per component.
    pub(super) issued: Vec<Issued>,
    pub(super) live_blocks: u32,
    /// What was still at work on SMEM or TMEM when its scope ended.
    pub(super) leftovers: Vec<Leftover>,
    pub(super) unions: Unions,
    /// Allocations of barriers that do not order the tensor core, by block.
    pub(super) plain: FxHashSet<(u32, u32)>,
    /// Last phases of barriers that are gone and that nobody observed, by block.
    pub(super) unseen: Vec<(u32, BarrierRef, At)>,
}

impl ClusterClock {
    pub(super) fn new(
        blocks: u32,
        threads_per_block: u32,
        warps: bool,
        tensor: bool,
    ) -> ClusterClock {
        let mut threads = Vec::new();
        let warpgroups = blocks * threads_per_block;
        for t in 0..if warps { warpgroups * (1 + WARPS as u32) } else { warpgroups } {
            let mut thread = ThreadClock { own: 1, ..ThreadClock::default() };
            thread.view.known.learn(Component(t * PER_THREAD), 1);
            if tensor {
                thread.view.tensor.learn(Component(t * PER_THREAD), 1);
            }
            threads.push(thread);
        }
        ClusterClock {
            threads_per_block,
            tensor,
            warpgroups,
            threads,
            barriers: FxHashMap::default(),
            barrier_list: Vec::new(),
            memory: FxHashMap::default(),
            allocs: FxHashMap::default(),
            in_flight: FxHashMap::default(),
            landing: None,
            issued: Vec::new(),
            live_blocks: blocks,
            leftovers: Vec::new(),
            unions: Unions::default(),
            plain: FxHashSet::default(),
            unseen: Vec::new(),
        }
    }

    /// Number of a thread within the cluster.
    pub(super) fn thread(&self, at: At) -> u32 {
        let warpgroup = at.thread.block * self.threads_per_block + at.thread.thread;
        match at.thread.warp {
            Some(warp) => self.warps_of(warpgroup).start + u32::from(warp),
            None => warpgroup,
        }
    }

    /// Numbers of the warps of a warpgroup; those of none where warps do not run by themselves.
    pub(super) fn warps_of(&self, warpgroup: u32) -> std::ops::Range<u32> {
        let first = self.warpgroups + warpgroup * WARPS as u32;
        if first < self.threads.len() as u32 { first..first + WARPS as u32 } else { first..first }
    }

    /// The warps of a warpgroup start: they know what it knows.
    pub(super) fn fork(&mut self, warpgroup: u32) {
        let view = self.threads[warpgroup as usize].view.clone();
        for warp in self.warps_of(warpgroup) {
            self.threads[warp as usize].view.join(&view);
        }
        self.bump(warpgroup);
    }

    /// They have ended: it knows what they know.
    pub(super) fn join(&mut self, warpgroup: u32) {
        for warp in self.warps_of(warpgroup) {
            let view = self.threads[warp as usize].view.clone();
            self.threads[warpgroup as usize].view.join(&view);
            self.bump(warp);
        }
    }

    /// Threads of a block.
    pub(super) fn threads_of(&self, block: u32) -> std::ops::Range<u32> {
        block * self.threads_per_block..(block + 1) * self.threads_per_block
    }

    pub(super) fn component(&self, meaning: Meaning) -> Component {
        match meaning {
            Meaning::Thread(t) => Component(t * PER_THREAD),
            Meaning::StoreRead(t) => Component(t * PER_THREAD + 1),
            Meaning::StoreWrite(t) => Component(t * PER_THREAD + 2),
            Meaning::Wgmma(t) => Component(t * PER_THREAD + 3),
            Meaning::CpAsync(t) => Component(t * PER_THREAD + 4),
            Meaning::Tcgen05(t) => Component(t * PER_THREAD + 5),
            Meaning::TmemCopy(t) => Component(t * PER_THREAD + 6),
            Meaning::TmemLoad(t) => Component(t * PER_THREAD + 7),
            Meaning::TmemStore(t) => Component(t * PER_THREAD + 8),
            Meaning::Barrier(id) => self.barrier_list[self.barriers[&id] as usize].1.component,
        }
    }

    pub(super) fn meaning(&self, component: Component) -> Meaning {
        let per_thread = self.threads.len() as u32 * PER_THREAD;
        if component.0 >= per_thread {
            return Meaning::Barrier(self.barrier_list[(component.0 - per_thread) as usize].0);
        }
        let thread = component.0 / PER_THREAD;
        match component.0 % PER_THREAD {
            0 => Meaning::Thread(thread),
            1 => Meaning::StoreRead(thread),
            2 => Meaning::StoreWrite(thread),
            3 => Meaning::Wgmma(thread),
            4 => Meaning::CpAsync(thread),
            5 => Meaning::Tcgen05(thread),
            6 => Meaning::TmemCopy(thread),
            7 => Meaning::TmemLoad(thread),
            _ => Meaning::TmemStore(thread),
        }
    }

    pub(super) fn barrier(&mut self, id: BarrierId) -> &mut BarrierClock {
        let first = self.threads.len() as u32 * PER_THREAD;
        let list = &mut self.barrier_list;
        let orders_tensor = !self.plain.contains(&(id.block, id.base));
        let at = *self.barriers.entry(id).or_insert_with(|| {
            let component = Component(first + list.len() as u32);
            let clock = BarrierClock {
                component,
                orders_tensor,
                phase: 0,
                awaited: false,
                completed: None,
                slots: Default::default(),
                waits: Default::default(),
            };
            list.push((id, clock));
            list.len() as u32 - 1
        });
        &mut self.barrier_list[at as usize].1
    }

    /// Whose allocation it is: a block's, or a thread's.
    pub(super) fn owner(&self, at: At, what: Allocated) -> u32 {
        match what {
            Allocated::Data(BaseId { space: Space::Regs, .. }) => self.thread(at),
            Allocated::Data(_) | Allocated::Barriers(_) => at.thread.block,
        }
    }

    fn blocks(&self) -> u32 {
        self.warpgroups / self.threads_per_block
    }

    /// A barrier, by its place in the program.
    pub(super) fn barrier_ref(&self, id: BarrierId) -> BarrierRef {
        // The blocks of a cluster make the same allocations; this one may not have come to it.
        let what = Allocated::Barriers(id.base);
        let mut blocks = std::iter::once(id.block).chain(0..self.blocks());
        let alloc = blocks.find_map(|block| self.allocs.get(&(what, block)).copied());
        BarrierRef { alloc, index: id.index, named: id.base == BarrierId::NAMED }
    }

    /// Forgets the barriers of a scope that has ended. Their components stay: what was ordered by
    /// them stays ordered.
    pub(super) fn free_barriers(&mut self, block: u32, base: u32) {
        self.barriers.retain(|id, _| id.block != block || id.base != base);
        self.plain.remove(&(block, base));
    }

    /// Publishes a view on the phase of a barrier that is being arrived on.
    pub(super) fn publish(&mut self, id: BarrierId, phase: Tick, view: &View) {
        let barrier = self.barrier(id);
        let slot = &mut barrier.slots[(phase % 2) as usize];
        slot.join(view);
        if !barrier.orders_tensor {
            slot.tensor.clear();
        }
    }

    /// A release: later accesses of the thread are not part of what it just published.
    pub(super) fn bump(&mut self, thread: u32) {
        let component = self.component(Meaning::Thread(thread));
        let clock = &mut self.threads[thread as usize];
        clock.own += 1;
        let own = clock.own;
        clock.view.known.learn(component, own);
        if self.tensor {
            clock.view.tensor.learn(component, own);
        }
    }

    /// A thread knows that all but the last `pending` groups that `of` gave to an engine are complete.
    pub(super) fn wait_groups(
        &mut self,
        thread: u32,
        of: u32,
        engine: Engine,
        pending: Tick,
        read_only: bool,
    ) {
        let ThreadClock { stores, products, copies, tmem, .. } = &self.threads[of as usize];
        let (stores, products, copies, tmem) = (*stores, *products, *copies, *tmem);
        let learnt: &[(Meaning, Tick)] = match engine {
            Engine::TmaStore if read_only => &[(Meaning::StoreRead(of), stores)],
            Engine::TmaStore => {
                &[(Meaning::StoreRead(of), stores), (Meaning::StoreWrite(of), stores)]
            }
            Engine::Wgmma => &[(Meaning::Wgmma(of), products)],
            Engine::CpAsync => &[(Meaning::CpAsync(of), copies)],
            Engine::TmemLoad => &[(Meaning::TmemLoad(of), tmem)],
            Engine::TmemStore => &[(Meaning::TmemStore(of), tmem)],
            Engine::TmaLoad
            | Engine::PeerStore
            | Engine::Tcgen05
            | Engine::TmemCopy
            | Engine::Commit => &[],
        };
        for &(meaning, groups) in learnt {
            let component = self.component(meaning);
            let view = &mut self.threads[thread as usize].view;
            view.known.learn(component, groups.saturating_sub(pending));
            if self.tensor {
                view.tensor.learn(component, groups.saturating_sub(pending));
            }
        }
    }

    /// Remembers that somebody has to wait for an operation.
    pub(super) fn note(&mut self, issued: Issued) {
        match self.issued.iter_mut().find(|i| i.component == issued.component) {
            Some(old) => *old = issued,
            None => self.issued.push(issued),
        }
    }

    /// What some thread of a block knows.
    pub(super) fn known_in(&self, block: u32) -> VClock {
        let mut all = VClock::default();
        for t in self.threads_of(block) {
            all.join(&self.threads[t as usize].view.known);
        }
        all
    }

    /// Barriers of a scope whose last phase is complete and was observed by nobody, with the arrival
    /// that completed it.
    pub(super) fn unseen_phases(&self, block: u32, base: u32) -> Vec<(BarrierRef, At)> {
        let of_scope = |id: &BarrierId| id.block == block && id.base == base;
        let mut unseen: Vec<(BarrierRef, At)> = self
            .barrier_list
            .iter()
            .filter(|(id, _)| of_scope(id) && self.barriers.contains_key(id))
            .filter_map(|(id, state)| {
                let last = state.phase.checked_sub(1)?;
                let seen = !state.waits[(last % 2) as usize].is_empty();
                state.completed.filter(|_| !seen).map(|at| (self.barrier_ref(*id), at))
            })
            .collect();
        unseen.sort_by_key(|(barrier, _)| *barrier);
        unseen
    }

    /// What of a block's issued operations no thread of it knows to be complete.
    pub(super) fn unfinished(&self, block: u32) -> Vec<Issued> {
        let known = self.known_in(block);
        let own = |i: &&Issued| i.at.thread.block == block && known.get(i.component) < i.tick;
        self.issued.iter().filter(own).copied().collect()
    }
}
