//! Allocations: their memory appears when a thread enters a scope and goes when the last one leaves.

use crate::code::ScopeCode;
use crate::machine::{ActiveScope, BarrierAlloc, Ctx, DataAlloc, Flow, Result, SharedScope};
use crate::memory::{self, Base, Contents, RefVal};
use crate::observer::{Allocated, BarrierId, Observer};
use crate::sync::Barriers;
use crate::sync::mbarrier::cluster_arrivals;
use crate::trap::{TrapKind, Waiting};
use pallas_rs_core::DType;
use pallas_rs_ir::{Alloc, AllocKind, Space};

/// Puts an entry into the first empty place, or behind all others. Where blocks have peers, the k-th
/// allocation of each must have the same number, whatever has been freed in the meantime.
fn insert<T>(entries: &mut Vec<Option<T>>, entry: T, peers: bool) -> u32 {
    let empty = if peers { None } else { entries.iter().position(Option::is_none) };
    let at = empty.unwrap_or(entries.len());
    if at == entries.len() {
        entries.push(None);
    }
    entries[at] = Some(entry);
    at as u32
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn enter_scope(&mut self, scope: &ScopeCode) -> Result {
        let shared = scope.collective && self.call.code.program.num_threads > 1;
        let block = self.thread.block as usize;
        let mut ordinal = None;
        if shared {
            let number = self.thread.scopes_entered;
            if scope.first {
                self.cluster.blocks[block].come_to[self.thread.index as usize] = number + 1;
            } else if !self.meet_at_scope(number)? {
                return Ok(Flow::Block);
            }
            ordinal = Some(number);
            self.thread.scopes_entered += 1;
        }
        let mut refs = self.thread.spare.pop().unwrap_or_default();
        let scopes = &self.cluster.blocks[block].scopes;
        match ordinal.and_then(|k| scopes.iter().find(|s| s.ordinal == k)) {
            Some(known) if known.first_alloc == scope.first_alloc => refs.clone_from(&known.refs),
            Some(known) => {
                let [other, own] = [known.first_alloc, scope.first_alloc]
                    .map(|alloc| self.call.code.allocs[alloc as usize].name.clone());
                return Err(TrapKind::OtherScope { other, own }.into());
            }
            None => {
                for alloc in scope.first_alloc..scope.first_alloc + scope.count {
                    refs.push(self.allocate(alloc));
                }
                if let Some(ordinal) = ordinal {
                    let users = self.call.code.program.num_threads as u32;
                    let first_alloc = scope.first_alloc;
                    let entry = SharedScope { ordinal, first_alloc, users, refs: refs.clone() };
                    self.cluster.blocks[block].scopes.push(entry);
                }
            }
        }
        for (view, &register) in refs.iter().zip(&scope.refs) {
            self.thread.frame.refs[register as usize].clone_from(view);
        }
        let allocs = scope.first_alloc as usize..(scope.first_alloc + scope.count) as usize;
        let tmem = self.call.code.allocs[allocs].iter().any(|alloc| alloc.space == Space::Tmem);
        let paired = (tmem && self.call.code.pairs).then(|| self.thread_through_with());
        self.thread.scopes.push(ActiveScope { ordinal, refs, paired });
        Ok(Flow::Next)
    }

    /// Entering a collective scope is a barrier of the block's threads, but for those that have ended:
    /// Mosaic GPU lets a scope have the memory of the one before. Whether all are there.
    fn meet_at_scope(&mut self, number: u32) -> Result<bool> {
        let at = self.at();
        let phase = u64::from(number - u32::from(self.call.code.scopes[0].first));
        let barrier =
            BarrierId { block: self.thread.block, base: BarrierId::NAMED, index: BarrierId::SCOPE };
        let come_to = &mut self.cluster.blocks[self.thread.block as usize].come_to;
        let own = &mut come_to[self.thread.index as usize];
        let arrives = *own == number;
        *own = number + 1;
        let all = come_to.iter().all(|&others| others > number);
        if O::WATCHES && arrives {
            self.worker.observer.on_arrive(at, barrier, phase, all)?;
        }
        if O::WATCHES && all {
            self.worker.observer.on_wait(at, barrier, phase)?;
        }
        Ok(all)
    }

    /// What a thread waits for that has come to a collective scope.
    pub(crate) fn waiting_at_scope(&self) -> Waiting {
        let come_to = &self.cluster.blocks[self.thread.block as usize].come_to;
        let number = self.thread.scopes_entered;
        let arrived = come_to.iter().filter(|&&others| others > number).count();
        Waiting::Scope { arrived, needed: come_to.len() }
    }

    fn thread_through_with(&self) -> u32 {
        let block = &self.cluster.blocks[self.thread.block as usize];
        block.through_with[self.thread.index as usize]
    }

    /// TMEM of two blocks is given back when the whole cluster is through with it: Mosaic GPU has a
    /// barrier of the cluster there, so that peers may still arrive on barriers of this block.
    /// Whether all are there, but for those that have ended.
    fn meet_at_end(&mut self, number: u32) -> Result<bool> {
        let at = self.at();
        let barrier = BarrierId { block: 0, base: BarrierId::NAMED, index: BarrierId::END };
        let blocks = &mut self.cluster.blocks;
        let own = &mut blocks[self.thread.block as usize].through_with[self.thread.index as usize];
        let arrives = *own == number;
        *own = number + 1;
        let all = blocks.iter().flat_map(|b| &b.through_with).all(|&others| others > number);
        if O::WATCHES && arrives {
            self.worker.observer.on_arrive(at, barrier, u64::from(number), all)?;
        }
        if O::WATCHES && all {
            self.worker.observer.on_wait(at, barrier, u64::from(number))?;
        }
        Ok(all)
    }

    /// What a thread waits for at the end of such a scope.
    pub(crate) fn waiting_at_end(&self) -> Waiting {
        let number = self.thread_through_with();
        let all = self.cluster.blocks.iter().flat_map(|b| &b.through_with);
        let arrived = all.clone().filter(|&&others| others >= number).count();
        Waiting::End { arrived, needed: all.count() }
    }

    pub(super) fn exit_scope(&mut self) -> Result {
        let paired = self.thread.scopes.last().and_then(|scope| scope.paired);
        if let Some(number) = paired
            && !self.meet_at_end(number)?
        {
            return Ok(Flow::Block);
        }
        let scope = self.thread.scopes.pop().expect("scopes nest");
        let block = self.thread.block as usize;
        let mut ends = true;
        if let Some(ordinal) = scope.ordinal {
            let scopes = &mut self.cluster.blocks[block].scopes;
            let at = scopes.iter().position(|s| s.ordinal == ordinal).expect("it was entered");
            scopes[at].users -= 1;
            ends = scopes[at].users == 0;
            if ends {
                scopes.remove(at);
            }
        }
        self.leave_scope(&scope.refs, ends)?;
        if ends {
            scope.refs.iter().for_each(|view| self.free(view.base));
        }
        let mut refs = scope.refs;
        refs.clear();
        self.thread.spare.push(refs);
        Ok(Flow::Next)
    }

    fn allocate(&mut self, alloc: u32) -> RefVal {
        let call = self.call;
        let spec: &Alloc = &call.code.allocs[alloc as usize];
        let count: usize = spec.shape.iter().product();
        let program = &call.code.program;
        let block = self.thread.block;
        let base = match &spec.kind {
            AllocKind::Data { dtype, zeroed, .. } => {
                let contents = if *zeroed { Contents::Zero } else { call.unwritten };
                let base = self.allocate_data(alloc, spec.space, *dtype, count, contents);
                let tile = self.storage(base).filter(|_| self.tracks() && !*zeroed);
                if let (Some(tile), Some(defined)) = (tile, &mut self.worker.defined) {
                    defined.begin(tile, count * dtype.size(), alloc);
                }
                base
            }
            AllocKind::Semaphore => {
                self.allocate_data(alloc, spec.space, DType::I32, count, Contents::Zero)
            }
            AllocKind::Barrier { arrivals, .. } => {
                self.allocate_barriers(block, alloc, count, *arrivals)
            }
            AllocKind::ClusterBarrier { axes, arrivals, .. } => {
                let arrivals = cluster_arrivals(*arrivals, axes, &program.cluster);
                self.allocate_barriers(block, alloc, count, arrivals)
            }
        };
        if O::WATCHES {
            let (at, what) = (self.at(), self.allocated(base));
            self.worker.observer.on_alloc(at, what, alloc);
        }
        RefVal::whole(base, &spec.shape)
    }

    /// An allocation, for an observer.
    fn allocated(&self, base: Base) -> Allocated {
        match base {
            Base::Barrier { index, .. } => Allocated::Barriers(index),
            Base::Global(_) | Base::Block { .. } | Base::Thread(_) => {
                Allocated::Data(self.base_id(base).0)
            }
        }
    }

    fn allocate_data(
        &mut self,
        alloc: u32,
        space: Space,
        dtype: DType,
        count: usize,
        contents: Contents,
    ) -> Base {
        let bytes = count * dtype.size();
        let tile = self.worker.pool.alloc(bytes);
        memory::fill(dtype, contents, self.worker.pool.bytes_mut(tile, bytes));
        let entry = DataAlloc { alloc, tile };
        match space {
            Space::Regs => Base::Thread(insert(&mut self.thread.accumulators, entry, false)),
            Space::Gmem | Space::Smem | Space::Tmem => {
                let (block, peers) = (self.thread.block, self.cluster.blocks.len() > 1);
                let buffers = &mut self.cluster.blocks[block as usize].buffers;
                Base::Block { block, index: insert(buffers, entry, peers) }
            }
        }
    }

    fn allocate_barriers(&mut self, block: u32, alloc: u32, count: usize, needed: u32) -> Base {
        let (peers, code) = (self.cluster.blocks.len() > 1, self.call.code);
        let owner = &mut self.cluster.blocks[block as usize];
        let barriers = match owner.spare.pop() {
            Some(mut spare) => {
                spare.reset(count, needed);
                spare
            }
            None => Barriers::new(count, needed, code.program.num_threads, code.warps, peers),
        };
        let entry = BarrierAlloc { alloc, barriers };
        Base::Barrier { block, index: insert(&mut owner.barriers, entry, peers) }
    }

    fn free(&mut self, base: Base) {
        if O::WATCHES {
            self.check_settled(base);
            let (at, what) = (self.at(), self.allocated(base));
            self.worker.observer.on_free(at, what);
        }
        let data = match base {
            Base::Global(_) => None,
            Base::Block { block, index } => {
                self.cluster.blocks[block as usize].buffers[index as usize].take()
            }
            Base::Thread(index) => self.thread.accumulators[index as usize].take(),
            Base::Barrier { block, index } => {
                let owner = &mut self.cluster.blocks[block as usize];
                owner.spare.extend(owner.barriers[index as usize].take().map(|b| b.barriers));
                None
            }
        };
        if let Some(data) = data {
            if let Some(defined) = &mut self.worker.defined {
                defined.end(data.tile);
            }
            self.worker.pool.release(data.tile);
        }
    }
}
