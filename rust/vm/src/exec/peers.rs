//! Memory and barriers of the other blocks of a cluster.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{Base, RefVal};
use crate::observer::{Engine, Observer};
use crate::sync::mbarrier::coordinates;
use crate::trap::{Access, TrapKind, Waiting};
use crate::units::{Load, Transfer};
use pallas_rs_ir::RmwKind;
use pallas_rs_ir::options::AsyncCompletion;

/// What a block has of an allocation of another block.
enum Peer {
    /// It has not come to that scope.
    Absent,
    Present,
    /// It has left that scope.
    Gone,
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn ref_peer(
        &mut self,
        axes: &[usize],
        base: Operand,
        indices: &[Operand],
        result: Operand,
    ) -> Result {
        let block = self.peer(axes, indices)?;
        let view = self.view(base);
        let moved = match view.base {
            Base::Block { index, .. } => Base::Block { block, index },
            Base::Barrier { index, .. } => Base::Barrier { block, index },
            Base::Global(_) | Base::Thread(_) => unreachable!("the verifier saw SMEM"),
        };
        let view = RefVal { base: moved, ..view.clone() };
        match self.has(moved) {
            Peer::Absent => Ok(Flow::Block),
            Peer::Present => {
                self.set_ref(result, view);
                Ok(Flow::Next)
            }
            Peer::Gone => Err(self.gone(base, block)),
        }
    }

    /// Starts a store to SMEM that arrives on a barrier of the same block.
    pub(super) fn async_store_smem(
        &mut self,
        target: Operand,
        x: Operand,
        barrier: Operand,
        reduction: Option<RmwKind>,
    ) -> Result {
        self.drift()?;
        let key = self.barrier_key(barrier)?;
        self.check_inside(self.view(target), Access::CopyInSmem)?;
        let dtype = target.dtype();
        let to = self.view(target).clone();
        let (id, mut buffer) = self.new_tile(to.len() as usize * dtype.size());
        self.write_out(x, buffer.bytes_mut(to.len() as usize * dtype.size()));
        self.worker.pool.put(id, buffer);
        // The value is what is stored: it is dense, whatever memory its view is said to be of.
        let shape: Vec<usize> = to.dims.iter().map(|d| d.size as usize).collect();
        let from = RefVal::whole(to.base, &shape);
        let spare = self.cluster.engines.spare.pop();
        let transfer = Transfer::new(spare, &from, &to);
        let at = self.at();
        let load = Load {
            transfer,
            rest: None,
            data: Some((id, reduction)),
            claims: false,
            dtype,
            engine: Engine::PeerStore,
            barrier: Some(key),
            arrives: true,
            leader: None,
            peers: Box::default(),
            ordinal: 0,
            at,
            ticket: self.cluster.engines.ticket(),
            parts: Vec::new(),
        };
        self.expect(key)?;
        if O::WATCHES {
            self.issue_load(&load)?;
        }
        self.cluster.engines.loads.push_back(load);
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            self.complete_all()?;
        }
        Ok(Flow::Next)
    }

    /// The block at these coordinates of the cluster, the others being this block's own.
    fn peer(&self, axes: &[usize], indices: &[Operand]) -> Result<u32> {
        let cluster = &self.call.code.program.cluster;
        let mut at = coordinates(self.thread.block as usize, cluster);
        for (&axis, &index) in axes.iter().zip(indices) {
            let (index, size) = (self.integer(index), cluster[axis]);
            let Some(inside) = usize::try_from(index).ok().filter(|&i| i < size) else {
                return Err(TrapKind::NoSuchBlock { axis, index, size }.into());
            };
            at[axis] = inside;
        }
        Ok(at.iter().zip(cluster).fold(0, |block, (&i, &n)| block * n + i) as u32)
    }

    fn has(&self, base: Base) -> Peer {
        fn of<T>(entries: &[Option<T>], index: u32) -> Peer {
            match entries.get(index as usize) {
                None => Peer::Absent,
                Some(Some(_)) => Peer::Present,
                Some(None) => Peer::Gone,
            }
        }
        match base {
            Base::Block { block, index } => of(&self.cluster.blocks[block as usize].buffers, index),
            Base::Barrier { block, index } => {
                of(&self.cluster.blocks[block as usize].barriers, index)
            }
            Base::Global(_) | Base::Thread(_) => Peer::Present,
        }
    }

    /// An access to memory of another block needs that block to be there still.
    #[inline]
    pub(super) fn check_peer(&self, view: &RefVal) -> Result<()> {
        match view.base {
            Base::Block { block, .. } if block != self.thread.block => match self.has(view.base) {
                Peer::Present => Ok(()),
                Peer::Absent | Peer::Gone => {
                    let name = self.allocation_name(view.base);
                    Err(TrapKind::PeerEnded { name, block: block as usize }.into())
                }
            },
            _ => Ok(()),
        }
    }

    #[cold]
    fn gone(&self, base: Operand, block: u32) -> Box<crate::trap::Trap> {
        let name = self.allocation_name(self.view(base).base);
        TrapKind::PeerEnded { name, block: block as usize }.into()
    }

    /// The name of an allocation; that of another block is called as this block's own.
    fn allocation_name(&self, base: Base) -> String {
        let own = self.thread.block;
        let here = match base {
            Base::Block { index, .. } => Base::Block { block: own, index },
            Base::Barrier { index, .. } => Base::Barrier { block: own, index },
            other @ (Base::Global(_) | Base::Thread(_)) => other,
        };
        self.alloc_of(here).map_or_else(String::new, |alloc| alloc.name.clone())
    }

    /// What a thread waits for that asks for memory of another block.
    pub(crate) fn waiting_for_peer(&self, base: Operand) -> Waiting {
        Waiting::PeerMemory { name: self.allocation_name(self.view(base).base) }
    }
}
