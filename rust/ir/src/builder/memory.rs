//! Allocations, views, memory, barriers, copies and tensor cores.

use super::Builder;
use crate::attrs::{Alloc, AllocKind, BlockDim, Collective, OobMode, RmwKind, SliceDim, Start};
use crate::op::Op;
use crate::program::Value;
use crate::types::{RefType, Space, Type};
use pallas_rs_core::DType;

/// One dimension of a view.
#[derive(Clone, Copy, Debug)]
pub enum Dim {
    /// All of it.
    All,
    /// One constant index; the dimension disappears.
    At(i64),
    /// One index; the dimension disappears.
    Index(Value),
    /// `size` elements from a constant start.
    Range(i64, usize),
    /// `size` elements from a start.
    Window(Value, usize),
}

fn data(name: &str, space: Space, dtype: DType, shape: &[usize], zeroed: bool) -> Alloc {
    let kind = AllocKind::Data { dtype, zeroed, layout: Vec::new() };
    Alloc { name: name.to_owned(), space, shape: shape.to_vec(), kind }
}

/// Shared memory.
pub fn smem(name: &str, dtype: DType, shape: &[usize]) -> Alloc {
    data(name, Space::Smem, dtype, shape, false)
}

/// A wgmma accumulator.
pub fn accumulator(name: &str, dtype: DType, shape: [usize; 2]) -> Alloc {
    data(name, Space::Regs, dtype, &shape, true)
}

/// Barriers that complete a phase after `arrivals` arrivals; shape `[]` is a single one.
pub fn barrier(name: &str, shape: &[usize], arrivals: u32) -> Alloc {
    let kind = AllocKind::Barrier { arrivals, orders_tensor_core: false };
    Alloc { name: name.to_owned(), space: Space::Smem, shape: shape.to_vec(), kind }
}

/// One barrier per block of the cluster along one collective axis.
pub fn cluster_barrier(name: &str, axis: usize, arrivals: u32) -> Alloc {
    let kind = AllocKind::ClusterBarrier {
        axes: vec![vec![axis]],
        arrivals,
        orders_tensor_core: false,
        leader_tracked: false,
    };
    Alloc { name: name.to_owned(), space: Space::Smem, shape: Vec::new(), kind }
}

/// Semaphores.
pub fn semaphore(name: &str, shape: &[usize]) -> Alloc {
    let kind = AllocKind::Semaphore;
    Alloc { name: name.to_owned(), space: Space::Gmem, shape: shape.to_vec(), kind }
}

impl Builder {
    /// Allocates for the whole block, runs `body`, frees.
    pub fn scope(
        &mut self,
        allocs: Vec<Alloc>,
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.scope_with(allocs, true, body)
    }

    /// Allocates for this thread alone, runs `body`, frees.
    pub fn thread_scope(
        &mut self,
        allocs: Vec<Alloc>,
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.scope_with(allocs, false, body)
    }

    fn scope_with(
        &mut self,
        allocs: Vec<Alloc>,
        collective: bool,
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let params = allocs.iter().map(|alloc| Type::Ref(alloc.ref_type())).collect();
        let region = self.region(params, body);
        let results = self.types(&region.yields);
        self.push_with_regions(Op::Scope { allocs, collective }, &[], results, vec![region])
    }

    /// A view of a ref; dimensions not mentioned are kept whole.
    pub fn view(&mut self, base: Value, dims: &[Dim]) -> Value {
        let ty = self.ref_type(base);
        let mut starts = Vec::new();
        let dims: Vec<SliceDim> = (ty.shape.iter().enumerate())
            .map(|(i, &whole)| {
                let mut from = |value| {
                    starts.push(value);
                    Start::Dynamic
                };
                let slice = |start, size| SliceDim::Slice { start, size, stride: 1 };
                match dims.get(i).copied().unwrap_or(Dim::All) {
                    Dim::All => slice(Start::Static(0), whole),
                    Dim::At(index) => SliceDim::Index(Start::Static(index)),
                    Dim::Index(index) => SliceDim::Index(from(index)),
                    Dim::Range(start, size) => slice(Start::Static(start), size),
                    Dim::Window(start, size) => slice(from(start), size),
                }
            })
            .collect();
        let shape: Vec<usize> = dims.iter().filter_map(|dim| dim.size()).collect();
        let operands = [&[base], &starts[..]].concat();
        self.push_one(Op::RefSlice { dims }, &operands, Type::Ref(ty.with_shape(shape)))
    }

    /// A transposed view.
    pub fn ref_transpose(&mut self, base: Value, perm: &[usize]) -> Value {
        let ty = self.ref_type(base);
        let shape: Vec<usize> = perm.iter().map(|&i| ty.shape[i]).collect();
        let op = Op::RefTranspose { perm: perm.to_vec() };
        self.push_one(op, &[base], Type::Ref(ty.with_shape(shape)))
    }

    /// A reshaped view.
    pub fn ref_reshape(&mut self, base: Value, shape: &[usize]) -> Value {
        let ty = self.ref_type(base).with_shape(shape);
        self.push_one(Op::RefReshape {}, &[base], Type::Ref(ty))
    }

    /// The same bytes as another dtype, at this shape.
    pub fn ref_bitcast(&mut self, base: Value, dtype: DType, shape: &[usize]) -> Value {
        let ty = RefType::data(self.ref_type(base).space, dtype, shape);
        self.push_one(Op::RefBitcast {}, &[base], Type::Ref(ty))
    }

    /// The block that a `BlockSpec` selects.
    pub fn block_window(&mut self, array: Value, dims: &[BlockDim], indices: &[Value]) -> Value {
        let shape: Vec<usize> = dims.iter().filter_map(|dim| dim.size()).collect();
        let ty = self.ref_type(array).with_shape(shape);
        let operands = [&[array], indices].concat();
        self.push_one(Op::BlockWindow { dims: dims.to_vec() }, &operands, Type::Ref(ty))
    }

    fn contents(&self, source: Value) -> Type {
        Type::value(self.dtype(source), self.shape(source))
    }

    /// Reads a view.
    pub fn load(&mut self, source: Value) -> Value {
        let ty = self.contents(source);
        self.push_one(Op::Load {}, &[source], ty)
    }

    /// Writes a view.
    pub fn store(&mut self, target: Value, x: Value) {
        self.push_none(Op::Store {}, &[target, x]);
    }

    /// Writes a view and returns what was there.
    pub fn swap(&mut self, target: Value, x: Value) -> Value {
        let ty = self.contents(target);
        self.push_one(Op::Swap {}, &[target, x], ty)
    }

    /// Reads where `mask` holds, `other` elsewhere.
    pub fn load_masked(&mut self, source: Value, mask: Value, other: Option<Value>) -> Value {
        let ty = self.contents(source);
        let mut operands = vec![source, mask];
        operands.extend(other);
        self.push_one(Op::LoadMasked { other: other.is_some() }, &operands, ty)
    }

    /// Writes where `mask` holds.
    pub fn store_masked(&mut self, target: Value, x: Value, mask: Value) {
        self.push_none(Op::StoreMasked {}, &[target, x, mask]);
    }

    /// An atomic read-modify-write; returns the old value.
    pub fn atomic_rmw(&mut self, kind: RmwKind, target: Value, x: Value) -> Value {
        let ty = self.contents(target);
        self.push_one(Op::AtomicRmw { kind, mask: false }, &[target, x], ty)
    }

    /// An atomic compare-and-swap; returns the old value.
    pub fn atomic_cas(&mut self, target: Value, expected: Value, new: Value) -> Value {
        let ty = self.contents(target);
        self.push_one(Op::AtomicCas {}, &[target, expected, new], ty)
    }

    /// One arrival.
    pub fn barrier_arrive(&mut self, barrier: Value) {
        self.push_none(Op::BarrierArrive { predicate: false }, &[barrier]);
    }

    /// Blocks until the next phase completes.
    pub fn barrier_wait(&mut self, barrier: Value) {
        self.push_none(Op::BarrierWait {}, &[barrier]);
    }

    /// Whether the next phase has completed.
    pub fn barrier_test(&mut self, barrier: Value) -> Value {
        self.push_one(Op::BarrierTest {}, &[barrier], Type::Scalar(DType::Bool))
    }

    /// Adds to a semaphore.
    pub fn semaphore_signal(&mut self, semaphore: Value, count: i32) {
        let count = self.int(count);
        self.push_none(Op::SemaphoreSignal {}, &[semaphore, count]);
    }

    /// Waits until a semaphore is at least `value`, and takes it away if `decrement`.
    pub fn semaphore_wait(&mut self, semaphore: Value, value: i32, decrement: bool) {
        let value = self.int(value);
        self.push_none(Op::SemaphoreWait { decrement }, &[semaphore, value]);
    }

    /// What a semaphore holds.
    pub fn semaphore_read(&mut self, semaphore: Value) -> Value {
        self.push_one(Op::SemaphoreRead {}, &[semaphore], Type::Scalar(DType::I32))
    }

    /// The same memory or barriers of the block at index `index` along a cluster dimension.
    pub fn ref_peer(&mut self, base: Value, axis: usize, index: Value) -> Value {
        let ty = Type::Ref(self.ref_type(base));
        self.push_one(Op::RefPeer { axes: vec![axis] }, &[base, index], ty)
    }

    /// Starts a store to SMEM that arrives on `barrier`.
    pub fn async_store(&mut self, target: Value, x: Value, barrier: Value) {
        self.push_none(Op::AsyncStoreSmem { reduction: None }, &[target, x, barrier]);
    }

    /// All CUDA threads of this thread arrive on a named barrier that takes `count`.
    pub fn named_barrier_arrive(&mut self, id: i32, count: i32) {
        let operands = [self.int(id), self.int(count)];
        self.push_none(Op::NamedBarrierArrive {}, &operands);
    }

    /// The same, and waits until the barrier is complete.
    pub fn named_barrier_sync(&mut self, id: i32, count: i32) {
        let operands = [self.int(id), self.int(count)];
        self.push_none(Op::NamedBarrierSync {}, &operands);
    }

    /// Starts a TMA load that arrives on `barrier`.
    pub fn tma_load(&mut self, source: Value, target: Value, barrier: Value) {
        self.tma_load_collective(source, target, barrier, None);
    }

    /// Starts a TMA load that the blocks of a cluster share.
    pub fn tma_load_collective(
        &mut self,
        source: Value,
        target: Value,
        barrier: Value,
        collective: Option<Collective>,
    ) {
        self.copy_to_smem(source, target, Some(barrier), collective, false);
    }

    /// Starts a TMA load, or without a barrier a cp.async, as a part of the next one.
    pub fn load_part(&mut self, source: Value, target: Value, barrier: Option<Value>) {
        self.copy_to_smem(source, target, barrier, None, true);
    }

    fn copy_to_smem(
        &mut self,
        source: Value,
        target: Value,
        barrier: Option<Value>,
        collective: Option<Collective>,
        more: bool,
    ) {
        let oob = if barrier.is_some() { OobMode::Zeros } else { OobMode::Undefined };
        let has_barrier = barrier.is_some();
        let op =
            Op::CopyGmemToSmem { oob, barrier: has_barrier, predicate: false, collective, more };
        let operands: Vec<Value> = [source, target].into_iter().chain(barrier).collect();
        self.push_none(op, &operands);
    }

    /// Starts a cp.async.
    pub fn cp_async(&mut self, source: Value, target: Value) {
        self.copy_to_smem(source, target, None, None, false);
    }

    /// Starts a TMA store as a group of its own.
    pub fn tma_store(&mut self, source: Value, target: Value) {
        let op = Op::CopySmemToGmem { reduction: None, commit: true, predicate: false };
        self.push_none(op, &[source, target]);
    }

    /// Blocks until at most `n` groups of TMA stores are in flight.
    pub fn wait_stores(&mut self, n: u32) {
        self.push_none(Op::WaitSmemToGmem { n, read_only: false }, &[]);
    }

    /// Blocks until at most `n` cp.async copies are in flight.
    pub fn wait_loads(&mut self, n: u32) {
        self.push_none(Op::WaitGmemToSmem { n }, &[]);
    }

    /// Makes SMEM accesses visible to the async proxy.
    pub fn commit_smem(&mut self) {
        self.push_none(Op::CommitSmem {}, &[]);
    }

    /// Starts `acc += a @ b`.
    pub fn wgmma(&mut self, acc: Value, a: Value, b: Value) {
        self.push_none(Op::Wgmma { more: false }, &[acc, a, b]);
    }

    /// Starts `acc += a @ b` as a part of the next product's group.
    pub fn wgmma_part(&mut self, acc: Value, a: Value, b: Value) {
        self.push_none(Op::Wgmma { more: true }, &[acc, a, b]);
    }

    /// Blocks until at most `n` wgmma groups are in flight.
    pub fn wgmma_wait(&mut self, n: u32) {
        self.push_none(Op::WgmmaWait { n }, &[]);
    }

    /// Reads an accumulator after waiting for `wait` groups.
    pub fn accumulator_load(&mut self, acc: Value, wait: Option<u32>) -> Value {
        let ty = self.contents(acc);
        self.push_one(Op::AccumulatorLoad { wait }, &[acc], ty)
    }
}
