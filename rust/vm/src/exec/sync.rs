//! Barriers, fences, and waits for what a thread has in flight.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{Base, RefVal};
use crate::observer::{At, BarrierId, Engine, Observer};
use crate::sync::mbarrier::{Waiter, arrival_targets, coordinates, peers};
use crate::sync::{BarrierKey, Barriers};
use crate::trap::{Access, BarrierName, BarrierRule, Trap, TrapKind, Waiting};
use pallas_rs_ir::options::AsyncCompletion;
use pallas_rs_ir::{Alloc, AllocKind};

/// With random completion, one in so many opportunities completes something.
const RARITY: u64 = 3;

impl<O: Observer> Ctx<'_, O> {
    /// One arrival, or with a cluster barrier one in every block it reaches.
    pub(crate) fn barrier_arrive(
        &mut self,
        barrier: Operand,
        predicate: Option<&Operand>,
    ) -> Result {
        self.drift()?;
        if !self.predicate(predicate) {
            return Ok(Flow::Next);
        }
        let key = self.barrier_key(barrier)?;
        let at = self.at();
        let call = self.call;
        match &call.code.allocs[self.barrier_alloc(key) as usize].kind {
            AllocKind::ClusterBarrier { axes, leader_tracked, .. } => {
                let cluster = &call.code.program.cluster;
                let targets = arrival_targets(key.block as usize, axes, cluster, *leader_tracked);
                // All or none: a blocked arrival is made again from the start.
                for &block in &targets {
                    if !self.peer_has_barrier(BarrierKey { block, ..key })? {
                        return Ok(Flow::Block);
                    }
                }
                for &block in &targets {
                    self.arrive(BarrierKey { block, ..key }, at)?;
                }
            }
            AllocKind::Barrier { .. } | AllocKind::Data { .. } | AllocKind::Semaphore => {
                self.arrive(key, at)?;
            }
        }
        Ok(Flow::Next)
    }

    /// Blocks until the next phase that this thread has not observed is complete.
    pub(crate) fn barrier_wait(&mut self, barrier: Operand) -> Result {
        self.drift()?;
        let key = self.own_barrier(barrier)?;
        Ok(if self.observe_phase(key)? { Flow::Next } else { Flow::Block })
    }

    /// Whether that phase is complete; if so it counts as observed.
    pub(crate) fn barrier_test(&mut self, barrier: Operand, result: Operand) -> Result {
        self.drift()?;
        let key = self.own_barrier(barrier)?;
        let complete = self.observe_phase(key)?;
        self.set_scalar(result, u64::from(complete));
        Ok(Flow::Next)
    }

    /// Makes this thread's SMEM accesses visible to the async proxy.
    pub(crate) fn commit_smem(&mut self) -> Result {
        self.drift()?;
        if O::WATCHES {
            let at = self.at();
            self.worker.observer.on_fence(at);
        }
        Ok(Flow::Next)
    }

    /// Closes the open group of TMA stores.
    pub(crate) fn commit_group(&mut self) -> Result {
        self.drift()?;
        self.thread.queues.stores.commit();
        if O::WATCHES {
            let at = self.at();
            self.worker.observer.on_commit_group(at);
        }
        Ok(Flow::Next)
    }

    /// Waits until at most `n` groups of TMA stores are in flight, or only until their sources have
    /// been read.
    pub(crate) fn wait_smem_to_gmem(&mut self, n: u32, read_only: bool) -> Result {
        self.drift()?;
        if read_only {
            let mut stores = std::mem::take(&mut self.thread.queues.stores);
            stores.due_mut(n).for_each(|store| self.capture_store(store));
            self.thread.queues.stores = stores;
        } else {
            while let Some(store) = self.thread.queues.stores.pop_due(n) {
                self.perform_store(store);
            }
        }
        Ok(self.waited(Engine::TmaStore, n, read_only))
    }

    /// Waits until at most `n` cp.async copies are in flight.
    pub(crate) fn wait_gmem_to_smem(&mut self, n: u32) -> Result {
        self.drift()?;
        while let Some(load) = self.thread.queues.copies.pop_due(n) {
            self.perform_load(load);
        }
        Ok(self.waited(Engine::CpAsync, n, false))
    }

    /// Tells the observer of a wait for groups, which never blocks: what it waits for can always be
    /// performed.
    pub(super) fn waited(&mut self, engine: Engine, n: u32, read_only: bool) -> Flow {
        if O::WATCHES {
            let at = self.at();
            self.worker.observer.on_group_wait(at, engine, n, read_only);
        }
        Flow::Next
    }

    /// The barrier in an operand of who waits on it.
    pub(super) fn own_barrier(&self, operand: Operand) -> Result<BarrierKey> {
        let key = self.barrier_key(operand)?;
        if key.block == self.thread.block {
            return Ok(key);
        }
        let here = BarrierKey { block: self.thread.block, ..key };
        Err(self.broken(here, BarrierRule::RemoteWait { block: key.block as usize }))
    }

    /// The barrier in an operand.
    pub(super) fn barrier_key(&self, operand: Operand) -> Result<BarrierKey> {
        let view = self.view(operand);
        let Base::Barrier { block, index } = view.base else {
            unreachable!("the verifier saw a barrier")
        };
        if view.escape.is_some() || view.bounds().is_none() {
            return Err(self.out_of_bounds(view, Access::Barrier));
        }
        let key = BarrierKey { block, alloc: index, index: view.offset as u32 };
        if block != self.thread.block {
            // Its scope was there when the view was made, and may have ended since.
            self.peer_has_barrier(key)?;
        }
        Ok(key)
    }

    fn barrier_alloc(&self, key: BarrierKey) -> u32 {
        let entry = &self.cluster.blocks[key.block as usize].barriers[key.alloc as usize];
        entry.as_ref().expect("a barrier does not outlive its scope").alloc
    }

    fn alloc_at(&self, key: BarrierKey) -> &Alloc {
        &self.call.code.allocs[self.barrier_alloc(key) as usize]
    }

    #[inline]
    pub(super) fn barriers(&mut self, key: BarrierKey) -> &mut Barriers {
        let entry = &mut self.cluster.blocks[key.block as usize].barriers[key.alloc as usize];
        &mut entry.as_mut().expect("a barrier does not outlive its scope").barriers
    }

    /// Whether another block has entered the scope of a barrier, the same one in its order.
    pub(super) fn peer_has_barrier(&self, key: BarrierKey) -> Result<bool> {
        match self.cluster.blocks[key.block as usize].barriers.get(key.alloc as usize) {
            None => Ok(false),
            Some(Some(_)) => Ok(true),
            Some(None) => {
                let here = BarrierKey { block: self.thread.block, ..key };
                Err(self.broken(here, BarrierRule::PeerEnded { block: key.block as usize }))
            }
        }
    }

    /// One arrival on one barrier.
    pub(super) fn arrive(&mut self, key: BarrierKey, at: At) -> Result<()> {
        let index = key.index as usize;
        let mut outcome = self.barriers(key).arrive(index);
        if let Err(BarrierRule::TooManyArrivals { .. }) = outcome
            && self.cluster.engines.completion == AsyncCompletion::Random
            && self.land_one(key)?
        {
            // In this schedule the copies came first; what follows from it is for the rules to say.
            outcome = self.barriers(key).arrive(index);
        }
        match outcome {
            Ok(completed) => self.arrived(key, at, completed),
            Err(rule) => Err(self.broken(key, rule)),
        }
    }

    fn arrived(&mut self, key: BarrierKey, at: At, completed: bool) -> Result<()> {
        self.worker.arrivals += 1;
        if O::WATCHES {
            let phase = self.barriers(key).get(key.index as usize).phase() - u64::from(completed);
            self.worker.observer.on_arrive(at, key.id(), phase, completed)?;
        }
        Ok(())
    }

    /// Observes the next phase if it is complete, or can be completed by copies in flight.
    #[inline]
    fn observe_phase(&mut self, key: BarrierKey) -> Result<bool> {
        let (index, waiter) = (key.index as usize, self.waiter());
        loop {
            match self.barriers(key).observe(index, waiter) {
                Ok(true) => {
                    if O::WATCHES {
                        let (at, phase) = (self.at(), self.barriers(key).seen(index, waiter) - 1);
                        self.worker.observer.on_wait(at, key.id(), phase)?;
                        self.observe_twins(key, at, phase);
                    }
                    return Ok(true);
                }
                Ok(false) => {}
                Err(rule) => return Err(self.broken(key, rule)),
            }
            if self.barriers(key).get(index).in_flight() == 0 || !self.land_for_wait(key)? {
                return self.check_leader(key).map(|()| false);
            }
        }
    }

    /// Barriers of other blocks that complete a phase with the same arrivals as this one: those of a
    /// cluster barrier with one axis, which may be composite.
    fn observe_twins(&mut self, key: BarrierKey, at: At, phase: u64) {
        let kind = &self.alloc_at(key).kind;
        let AllocKind::ClusterBarrier { axes, leader_tracked: false, .. } = kind else { return };
        if let [axis] = &axes[..] {
            let cluster = &self.call.code.program.cluster;
            for block in peers(key.block as usize, axis, cluster) {
                let twin = BarrierKey { block, ..key }.id();
                self.worker.observer.on_twin(at, twin, phase);
            }
        }
    }

    fn waiter(&self) -> Waiter {
        Waiter { thread: self.thread.index, warp: self.thread.warp }
    }

    fn land_for_wait(&mut self, key: BarrierKey) -> Result<bool> {
        match self.cluster.engines.completion {
            AsyncCompletion::Late | AsyncCompletion::Eager => self.land_one(key),
            // Whoever else can go on, should have the chance to.
            AsyncCompletion::Random => Ok(self.cluster.engines.draw(2) && self.land_one(key)?),
        }
    }

    fn check_leader(&self, key: BarrierKey) -> Result<()> {
        let AllocKind::ClusterBarrier { axes, leader_tracked: true, .. } = &self.alloc_at(key).kind
        else {
            return Ok(());
        };
        let cluster = &self.call.code.program.cluster;
        let leader = arrival_targets(key.block as usize, axes, cluster, true);
        if leader.contains(&key.block) {
            Ok(())
        } else {
            Err(self.broken(key, BarrierRule::NotLeader))
        }
    }

    /// Completes the oldest copy that arrives on a barrier and can complete, or else what a tensor
    /// core commit on it waits for. Whether there was one.
    pub(super) fn land_one(&mut self, key: BarrierKey) -> Result<bool> {
        let found = (0..self.cluster.engines.loads.len()).find(|&i| {
            let load = &self.cluster.engines.loads[i];
            load.arrives && load.barrier == Some(key) && self.can_land(i)
        });
        match found {
            Some(i) => self.land(i).map(|()| true),
            None => self.commit_for(key),
        }
    }

    /// Whether every block that takes part in a copy has issued it.
    pub(super) fn can_land(&self, load: usize) -> bool {
        let load = &self.cluster.engines.loads[load];
        let Some(key) = load.barrier.filter(|_| load.arrives) else { return false };
        load.peers.iter().all(|&block| {
            let entry = self.cluster.blocks[block as usize].barriers.get(key.alloc as usize);
            entry.is_some_and(|entry| {
                entry
                    .as_ref()
                    .is_none_or(|b| b.barriers.get(key.index as usize).collectives() > load.ordinal)
            })
        })
    }

    /// Completes a copy: its bytes, the bytes of the blocks that its barrier tracks for, its arrival.
    pub(super) fn land(&mut self, load: usize) -> Result<()> {
        let mut load = self.cluster.engines.loads.remove(load).expect("it is in flight");
        self.answer(&mut load);
        let key = load.barrier.expect("a TMA load has a barrier");
        if !load.peers.is_empty() && !load.claims {
            let mut i = 0;
            while let Some(other) = self.cluster.engines.loads.get(i) {
                let same = |k: BarrierKey| (k.alloc, k.index) == (key.alloc, key.index);
                let together = other.ordinal == load.ordinal
                    && other.barrier.is_some_and(|k| same(k) && load.peers.contains(&k.block));
                if together && !other.arrives {
                    let other = self.cluster.engines.loads.remove(i).expect("it is in flight");
                    self.perform_load(other);
                    continue;
                }
                if together {
                    // Each block sends its share of a multicast to all: once one has everything,
                    // so have the others, though their barriers may not say so yet.
                    let mut other = self.cluster.engines.loads.remove(i).expect("it is in flight");
                    self.move_load(&mut other);
                    self.cluster.engines.loads.insert(i, other);
                }
                i += 1;
            }
        }
        let at = load.at;
        self.perform_load(load);
        self.land_arrival(key, at)
    }

    /// The arrival of an engine, announced before.
    pub(crate) fn land_arrival(&mut self, key: BarrierKey, at: At) -> Result<()> {
        match self.barriers(key).land(key.index as usize) {
            Ok(completed) => self.arrived(key, at, completed),
            Err(rule) => Err(self.broken_at(key, rule, at)),
        }
    }

    /// With random completion, lets the engines complete something now and then.
    #[inline]
    pub(crate) fn drift(&mut self) -> Result<()> {
        if self.cluster.engines.completion == AsyncCompletion::Random {
            self.complete_at_random()?;
        }
        Ok(())
    }

    #[cold]
    fn complete_at_random(&mut self) -> Result<()> {
        while !self.cluster.engines.loads.is_empty() && self.cluster.engines.draw(RARITY) {
            let n = self.cluster.engines.loads.len();
            let i = self.cluster.engines.below(n);
            if self.can_land(i) {
                self.land(i)?;
            }
        }
        while !self.cluster.engines.tensor.is_empty() && self.cluster.engines.draw(RARITY) {
            let n = self.cluster.engines.tensor.len();
            let issuer = {
                let i = self.cluster.engines.below(n);
                self.cluster.engines.tensor[i].at.thread
            };
            let mut queue = self.cluster.engines.tensor.iter();
            let next = queue.find(|op| op.at.thread == issuer).expect("it is in flight");
            self.perform_tensor_until(issuer, next.ticket)?;
        }
        let queues = &self.thread.queues;
        let pending = [
            queues.stores.is_empty(),
            queues.copies.is_empty(),
            queues.products.is_empty(),
            queues.tmem_stores.is_empty(),
        ];
        if !pending[0] && self.cluster.engines.draw(RARITY) {
            let store = self.thread.queues.stores.pop_any().expect("there is one");
            self.perform_store(store);
        }
        if !pending[1] && self.cluster.engines.draw(RARITY) {
            let load = self.thread.queues.copies.pop_any().expect("there is one");
            self.perform_load(load);
        }
        if !pending[2] && self.cluster.engines.draw(RARITY) {
            let product = self.thread.queues.products.pop_any().expect("there is one");
            self.perform_product(product);
        }
        if !pending[3] && self.cluster.engines.draw(RARITY) {
            let store = self.thread.queues.tmem_stores.pop_any().expect("there is one");
            self.perform_tmem_store(store);
        }
        Ok(())
    }

    /// Completes everything in flight in the cluster that can be. Whether there was anything: called
    /// when no thread can go on.
    pub(crate) fn complete_all(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(i) = (0..self.cluster.engines.loads.len()).find(|&i| self.can_land(i)) {
            self.land(i)?;
            any = true;
        }
        Ok(self.finish_all_tensor()? || any)
    }

    /// A thread leaves a scope: what it has in flight on the scope's memory is completed. `ends`: it
    /// is the last one, and the memory is about to be freed.
    pub(crate) fn leave_scope(&mut self, refs: &[RefVal], ends: bool) -> Result<()> {
        for base in refs.iter().map(|view| view.base) {
            while let Some(p) = self.thread.queues.products.pop_where(|p| p.touches(base)) {
                self.perform_product(p);
            }
            while let Some(s) = self
                .thread
                .queues
                .stores
                .pop_where(|s| s.captured.is_none() && s.transfer.from.base == base)
            {
                self.perform_store(s);
            }
            while let Some(c) = self.thread.queues.copies.pop_where(|c| c.writes(base)) {
                self.perform_load(c);
            }
            while let Some(s) = self.thread.queues.tmem_stores.pop_where(|s| s.view.base == base) {
                self.perform_tmem_store(s);
            }
            if ends {
                self.finish_loads(base)?;
                self.finish_tensor(base)?;
            }
        }
        for view in refs.iter().filter(|_| ends) {
            let Base::Barrier { block, index } = view.base else { continue };
            let key = BarrierKey { block, alloc: index, index: 0 };
            if let Some((at, rule)) = self.barriers(key).check_end() {
                return Err(self.broken(BarrierKey { index: at as u32, ..key }, rule));
            }
        }
        Ok(())
    }

    /// Completes the loads that write to an allocation or arrive on its barriers, and forgets those
    /// whose other blocks never issued them.
    fn finish_loads(&mut self, base: Base) -> Result<()> {
        let mut i = 0;
        while let Some(load) = self.cluster.engines.loads.get(i) {
            let arrives_here = load
                .barrier
                .is_some_and(|k| base == Base::Barrier { block: k.block, index: k.alloc });
            if !load.writes(base) && !arrives_here {
                i += 1;
            } else if self.can_land(i) {
                self.land(i)?;
                i = 0;
            } else {
                self.cluster.engines.loads.remove(i);
            }
        }
        Ok(())
    }

    /// A thread has ended: everything it has in flight is completed, in order.
    pub(crate) fn finish_queues(&mut self) {
        while let Some(product) = self.thread.queues.products.pop_any() {
            self.perform_product(product);
        }
        while let Some(load) = self.thread.queues.copies.pop_any() {
            self.perform_load(load);
        }
        while let Some(store) = self.thread.queues.stores.pop_any() {
            self.perform_store(store);
        }
        while let Some(store) = self.thread.queues.tmem_stores.pop_any() {
            self.perform_tmem_store(store);
        }
    }

    /// What a thread that blocked at a barrier op waits for.
    pub(crate) fn waiting_on(&self, barrier: Operand, arrives: bool) -> Result<Waiting> {
        let key = self.barrier_key(barrier)?;
        let name = self.barrier_name(key);
        if arrives {
            return Ok(Waiting::Peer { barrier: name });
        }
        let entry = &self.cluster.blocks[key.block as usize].barriers[key.alloc as usize];
        let barriers = &entry.as_ref().expect("a barrier does not outlive its scope").barriers;
        let state = barriers.get(key.index as usize);
        let loads = 0..self.cluster.engines.loads.len();
        let incomplete = loads.filter(|&i| {
            let load = &self.cluster.engines.loads[i];
            load.barrier == Some(key) && load.arrives && !self.can_land(i)
        });
        Ok(Waiting::Barrier {
            barrier: name,
            phase: barriers.seen(key.index as usize, self.waiter()),
            arrived: state.arrived(),
            needed: state.needed(),
            incomplete: incomplete.count() as u32,
        })
    }

    fn barrier_name(&self, key: BarrierKey) -> BarrierName {
        let alloc = self.alloc_at(key);
        let mut index = vec![0; alloc.shape.len()];
        let mut rest = key.index as usize;
        for (x, &n) in index.iter_mut().zip(&alloc.shape).rev() {
            *x = rest % n;
            rest /= n;
        }
        BarrierName { name: alloc.name.clone(), index }
    }

    /// The error of a broken rule.
    #[cold]
    pub(super) fn broken(&self, key: BarrierKey, rule: BarrierRule) -> Box<Trap> {
        TrapKind::Barrier { barrier: self.barrier_name(key), rule }.into()
    }

    /// The same, for a rule that an engine broke: it is the issue of its operation that is wrong.
    #[cold]
    fn broken_at(&self, key: BarrierKey, rule: BarrierRule, at: At) -> Box<Trap> {
        let mut trap = self.broken(key, rule);
        trap.locate(at.span, || {
            let mut who = self.who();
            let cluster = &self.call.code.program.cluster;
            who.block = coordinates(at.thread.block as usize, cluster).to_vec();
            who.thread = who.thread.map(|_| at.thread.thread as usize);
            who
        });
        trap
    }
}

impl BarrierKey {
    /// The same, for an observer.
    pub(crate) fn id(self) -> BarrierId {
        BarrierId { block: self.block, base: self.alloc, index: self.index }
    }
}
