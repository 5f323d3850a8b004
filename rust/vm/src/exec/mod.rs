//! What each op does.

pub(crate) mod access;
mod chain;
mod copies;
mod elementwise;
mod gather;
mod host;
mod memory;
mod named;
mod peers;
pub(crate) mod run;
mod scope;
mod semaphore;
mod shape;
pub(crate) mod stealing;
mod sync;
mod tensor_core;
mod tmem;
mod values;
mod view;

use crate::code::{Operand, Record};
use crate::machine::{Ctx, Flow, Result};
use crate::observer::Observer;
pub(crate) use gather::Indexer;
use pallas_rs_ir::{GatherDim, Op, Start};

impl<O: Observer> Ctx<'_, O> {
    /// Executes an op that has no instruction of its own.
    fn op(&mut self, record: &Record) -> Result {
        let (ins, outs) = (&record.operands[..], &record.results[..]);
        self.worker.patience -= record.cost;
        if self.worker.patience < 0 {
            self.ask_host()?;
        }
        match &record.op {
            &Op::Unary { kind } => self.unary(kind, ins[0], outs[0]),
            &Op::Binary { kind } => self.binary(kind, ins[0], ins[1], outs[0]),
            &Op::Compare { kind } => self.compare(kind, ins[0], ins[1], outs[0]),
            &Op::IntegerPow { exponent } => self.integer_pow(exponent, ins[0], outs[0]),
            Op::SelectN {} => self.select_n(ins[0], &ins[1..], outs[0]),
            Op::Clamp {} => self.clamp(ins[0], ins[1], ins[2], outs[0]),
            Op::Convert {} => self.convert(ins[0], outs[0]),
            Op::Bitcast {} => self.bitcast(ins[0], outs[0]),
            &Op::ReducePrecision { exponent_bits, mantissa_bits } => {
                self.reduce_precision(exponent_bits, mantissa_bits, ins[0], outs[0])
            }
            &Op::Iota { dimension } => self.iota(dimension, outs[0]),
            Op::Broadcast { dims } => self.broadcast(dims, ins[0], outs[0]),
            Op::Reshape {} => {
                self.reshape(ins[0], outs[0]);
                Ok(Flow::Next)
            }
            Op::Transpose { perm } => self.transpose(perm, ins[0], outs[0]),
            Op::Slice { starts, strides } => self.slice(starts, strides, ins[0], outs[0]),
            Op::Pad { lo, hi: _, interior } => self.pad(lo, interior, ins[0], ins[1], outs[0]),
            &Op::Concatenate { dimension } => self.concatenate(dimension, ins, outs[0]),
            Op::Rev { dims } => self.rev(dims, ins[0], outs[0]),
            Op::DynamicSlice {} => self.dynamic_slice(ins[0], &ins[1..], outs[0]),
            Op::DynamicUpdateSlice {} => {
                self.dynamic_update_slice(ins[0], ins[1], &ins[2..], outs[0])
            }
            Op::Reduce { kind, axes } => self.reduce_tile(*kind, axes, ins[0], outs[0]),
            &Op::Cumulative { kind, axis, reverse } => {
                self.cumulative(kind, axis, reverse, ins[0], outs[0])
            }
            Op::DotGeneral { lhs_contract, rhs_contract, lhs_batch, rhs_batch, tf32 } => {
                let product = shape::Product {
                    contract: [lhs_contract, rhs_contract],
                    batch: [lhs_batch, rhs_batch],
                    tf32: *tf32,
                };
                self.dot_general(&product, [ins[0], ins[1]], outs[0])
            }
            Op::RefSlice { dims } => self.ref_slice(dims, ins[0], &ins[1..], outs[0]),
            Op::RefTranspose { perm } => self.ref_transpose(perm, ins[0], outs[0]),
            Op::RefReshape {} => self.ref_reshape(ins[0], outs[0]),
            Op::RefBitcast {} => self.ref_bitcast(ins[0], outs[0]),
            Op::RefPeer { axes } => self.ref_peer(axes, ins[0], &ins[1..], outs[0]),
            Op::BlockWindow { dims } => self.block_window(dims, ins[0], &ins[1..], outs[0]),
            Op::Load {} => self.load(ins[0], outs[0], record.lends),
            Op::Store {} => self.store(ins[0], ins[1]),
            Op::Swap {} => self.swap(ins[0], ins[1], outs[0]),
            Op::LoadMasked { .. } => self.load_masked(ins[0], ins[1], ins.get(2).copied(), outs[0]),
            Op::StoreMasked {} => self.store_masked(ins[0], ins[1], ins[2], outs.first().copied()),
            Op::Gather { dims, at, mask, other } => {
                let (indexer, rest) = indexer(dims, *at, *mask, &ins[1..]);
                let other = other.then(|| rest[0]);
                self.gather(&indexer, ins[0], other, outs[0])
            }
            Op::Scatter { dims, at, mask } => {
                let (indexer, _) = indexer(dims, *at, *mask, &ins[2..]);
                self.scatter(&indexer, ins[0], ins[1], outs.first().copied())
            }
            &Op::AtomicRmw { kind, .. } => {
                self.atomic_rmw(kind, ins[0], ins[1], ins.get(2).copied(), outs.first().copied())
            }
            Op::AtomicCas {} => self.atomic_cas(ins[0], ins[1], ins[2], outs[0]),
            Op::BarrierArrive { .. } => self.barrier_arrive(ins[0], ins.get(1)),
            Op::BarrierWait {} => self.barrier_wait(ins[0]),
            Op::BarrierTest {} => self.barrier_test(ins[0], outs[0]),
            Op::NamedBarrierArrive {} => self.named_barrier_arrive(ins[0], ins[1]),
            Op::NamedBarrierSync {} => self.named_barrier_sync(ins[0], ins[1]),
            Op::CopyGmemToSmem { oob, barrier, predicate, collective, more } => {
                let mut rest = ins[2..].iter();
                let barrier = if *barrier { rest.next().copied() } else { None };
                let predicate = if *predicate { rest.next() } else { None };
                self.copy_gmem_to_smem(
                    ins[0],
                    ins[1],
                    barrier,
                    predicate,
                    *oob,
                    collective.as_ref(),
                    *more,
                )
            }
            &Op::CopySmemToGmem { reduction, commit, predicate: _ } => {
                self.copy_smem_to_gmem(ins[0], ins[1], ins.get(2), reduction, commit)
            }
            Op::SemaphoreSignal {} => self.semaphore_signal(ins[0], ins[1]),
            &Op::SemaphoreWait { decrement } => self.semaphore_wait(ins[0], ins[1], decrement),
            Op::SemaphoreRead {} => self.semaphore_read(ins[0], outs[0]),
            Op::TryClusterCancel { threads } => self.try_cluster_cancel(*threads, ins[0], ins[1]),
            Op::QueryClusterCancel { axes } => self.query_cluster_cancel(axes, ins[0], outs),
            &Op::AsyncStoreSmem { reduction } => {
                self.async_store_smem(ins[0], ins[1], ins[2], reduction)
            }
            Op::CommitGroup {} => self.commit_group(),
            &Op::WaitSmemToGmem { n, read_only } => self.wait_smem_to_gmem(n, read_only),
            &Op::WaitGmemToSmem { n } => self.wait_gmem_to_smem(n),
            Op::CommitSmem {} => self.commit_smem(),
            &Op::Wgmma { more } => self.wgmma(ins[0], ins[1], ins[2], more),
            &Op::WgmmaWait { n } => self.wgmma_wait(n),
            &Op::AccumulatorLoad { wait } => self.accumulator_load(ins[0], wait, outs[0]),
            Op::AsyncLoadTmem {} => self.async_load_tmem(ins[0], outs[0]),
            Op::WaitLoadTmem {} => self.wait_load_tmem(),
            Op::AsyncStoreTmem {} => self.async_store_tmem(ins[0], ins[1]),
            Op::CommitTmem {} => self.commit_tmem(),
            &Op::AsyncCopySmemToTmem { format, pair } => {
                self.async_copy_smem_to_tmem(ins[0], ins[1], format, pair)
            }
            &Op::Tcgen05Mma { pair, scaled, sparse } => {
                let extras = tmem::MmaExtras {
                    accumulate: ins[3],
                    scales: scaled.then(|| [ins[4], ins[5]]),
                    metadata: ins.last().filter(|_| sparse),
                };
                self.tcgen05_mma([ins[0], ins[1], ins[2]], &extras, pair)
            }
            &Op::Tcgen05CommitArrive { pair, .. } => {
                self.tcgen05_commit_arrive(ins[0], ins.get(1), pair)
            }
            &Op::InlineMgpu { body } => self.inline_mgpu(body, ins, outs),
            Op::XlaCall { name, blob } => self.xla_call(name, *blob, ins, outs),
            Op::Print { format } => self.print(format, ins),
            Op::Check { message } => self.check(message, ins[0], &ins[1..]),
            &Op::Callback { id } => self.callback(id, ins, outs),
            Op::Constant { .. }
            | Op::ConstantArray { .. }
            | Op::ProgramId { .. }
            | Op::NumPrograms { .. }
            | Op::ClusterIndex { .. }
            | Op::ThreadIndex {}
            | Op::ForLoop {}
            | Op::WhileLoop {}
            | Op::Switch {}
            | Op::Scope { .. }
            | Op::Warps {} => unreachable!("flattened"),
        }
    }
}

/// Splits the operands of an indexed access; returns what is behind the mask.
pub(crate) fn indexer<'a>(
    dims: &'a [GatherDim],
    at: usize,
    masked: bool,
    operands: &'a [Operand],
) -> (Indexer<'a>, &'a [Operand]) {
    let dynamic = |dim: &&GatherDim| matches!(dim, GatherDim::Slice { start: Start::Dynamic, .. });
    let arrays = dims.iter().filter(|dim| matches!(dim, GatherDim::Array)).count();
    let (starts, rest) = operands.split_at(dims.iter().filter(dynamic).count());
    let (indices, rest) = rest.split_at(arrays);
    let (mask, rest) = if masked { (Some(rest[0]), &rest[1..]) } else { (None, rest) };
    (Indexer { dims, at, starts, indices, mask }, rest)
}
