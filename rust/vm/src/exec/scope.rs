//! Allocations: their memory appears when a thread enters a scope and goes when the last one leaves.

use crate::code::ScopeCode;
use crate::machine::{ActiveScope, BarrierAlloc, Ctx, DataAlloc, Result, SharedScope};
use crate::memory::{self, Base, Contents, RefVal};
use crate::observer::{Allocated, Observer};
use crate::sync::Barriers;
use crate::sync::mbarrier::cluster_arrivals;
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
    pub(super) fn enter_scope(&mut self, scope: &ScopeCode) -> Result<()> {
        let shared = scope.collective && self.call.code.program.num_threads > 1;
        let block = self.thread.block as usize;
        let mut ordinal = None;
        if shared {
            ordinal = Some(self.thread.scopes_entered);
            self.thread.scopes_entered += 1;
        }
        let mut refs = self.thread.spare.pop().unwrap_or_default();
        let scopes = &self.cluster.blocks[block].scopes;
        match ordinal.and_then(|k| scopes.iter().find(|s| s.ordinal == k)) {
            Some(known) => refs.clone_from(&known.refs),
            None => {
                for alloc in scope.first_alloc..scope.first_alloc + scope.count {
                    refs.push(self.allocate(alloc));
                }
                if let Some(ordinal) = ordinal {
                    let users = self.call.code.program.num_threads as u32;
                    let entry = SharedScope { ordinal, users, refs: refs.clone() };
                    self.cluster.blocks[block].scopes.push(entry);
                }
            }
        }
        for (view, &register) in refs.iter().zip(&scope.refs) {
            self.thread.frame.refs[register as usize].clone_from(view);
        }
        self.thread.scopes.push(ActiveScope { ordinal, refs });
        Ok(())
    }

    pub(super) fn exit_scope(&mut self) -> Result<()> {
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
        Ok(())
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
            None => Barriers::new(count, needed, code.program.num_threads, code.warps),
        };
        let entry = BarrierAlloc { alloc, barriers };
        Base::Barrier { block, index: insert(&mut owner.barriers, entry, peers) }
    }

    fn free(&mut self, base: Base) {
        if O::WATCHES {
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
