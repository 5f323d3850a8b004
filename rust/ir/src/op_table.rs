//! The one list of ops.
//!
//! # Naming
//! A mnemonic equals the Pallas primitive's name where one exists (`copy_gmem_to_smem`,
//! `barrier_wait`, `wgmma`), a `lax` name for arithmetic (`select_n`, `clamp`), and
//! `ref_…` for an op that makes one view from another.
//!
//! # A row
//! ```text
//! /// What it does.
//! mnemonic = Variant { attribute: Type } (operand: kind, ...) effect;
//! ```
//! Operand kinds: `scalar`, `tile`, `value` (scalar or tile), `reference`, `operand` (tile or
//! reference), `any`, and with a star any number, with a question mark one or none (an attribute says which).
//! Results and regions are checked by the verifier. From the table come [`crate::Op`], its serde
//! form, [`crate::OPS`], the text form and `docs/op-reference.md`; the machine and the verifier match
//! on [`crate::Op`] without a wildcard, so that a forgotten op does not compile.

/// Calls `$macro!` with every op, family by family.
#[macro_export]
macro_rules! for_each_op {
    ($macro:ident) => { $macro! {
        "Constants and arithmetic" {
            /// A constant scalar, or a tile whose elements are all equal. `bits` are the element's storage
            /// ([`pallas_rs_core::DType::size`] bytes), zero-extended.
            constant = Constant { bits: u64 } () Pure;
            /// A constant tile; its dense elements are blob `blob`.
            constant_array = ConstantArray { blob: usize } () Pure;
            /// Elementwise function of one operand.
            unary = Unary { kind: UnaryKind } (x: value) Pure;
            /// Elementwise function of two operands of one shape and dtype.
            binary = Binary { kind: BinaryKind } (lhs: value, rhs: value) Pure;
            /// Elementwise comparison; the result is boolean.
            compare = Compare { kind: CompareKind } (lhs: value, rhs: value) Pure;
            /// `x` raised to a constant integer power.
            integer_pow = IntegerPow { exponent: i32 } (x: value) Pure;
            /// `cases[which]` elementwise; `which` is boolean or int32, of the cases' shape or a scalar.
            select_n = SelectN {} (which: value, cases: value*) Pure;
            /// `min(max(x, lo), hi)`; bounds may be scalars.
            clamp = Clamp {} (lo: value, x: value, hi: value) Pure;
            /// Conversion to the result's dtype.
            convert = Convert {} (x: value) Pure;
            /// The same bits as another dtype of the same width.
            bitcast = Bitcast {} (x: value) Pure;
            /// Rounds to a float format with fewer bits.
            reduce_precision = ReducePrecision { exponent_bits: u32, mantissa_bits: u32 } (x: value) Pure;
        }
        "Shapes" {
            /// 0, 1, 2, … along one dimension.
            iota = Iota { dimension: usize } () Pure;
            /// Operand dimension `i` becomes result dimension `dims[i]`; the others repeat.
            broadcast = Broadcast { dims: Vec<usize> } (x: value) Pure;
            /// The same elements in row-major order at another shape (a scalar from one element too).
            reshape = Reshape {} (x: value) Pure;
            /// Result dimension `i` is operand dimension `perm[i]`.
            transpose = Transpose { perm: Vec<usize> } (x: tile) Pure;
            /// Elements `starts[i], starts[i] + strides[i], …` of each dimension.
            slice = Slice { starts: Vec<usize>, strides: Vec<usize> } (x: tile) Pure;
            /// `lo`, `hi` elements of `value` outside and `interior` between (may be negative outside).
            pad = Pad { lo: Vec<i64>, hi: Vec<i64>, interior: Vec<usize> } (x: tile, value: scalar) Pure;
            /// Joins along one dimension.
            concatenate = Concatenate { dimension: usize } (xs: tile*) Pure;
            /// Reverses dimensions.
            rev = Rev { dims: Vec<usize> } (x: tile) Pure;
            /// A window of the result's shape; the start is clamped so that it fits.
            dynamic_slice = DynamicSlice {} (x: tile, starts: scalar*) Pure;
            /// `x` with a window replaced; the start is clamped so that it fits.
            dynamic_update_slice = DynamicUpdateSlice {} (x: tile, update: tile, starts: scalar*) Pure;
            /// Reduction over `axes`.
            reduce = Reduce { kind: ReduceKind, axes: Vec<usize> } (x: tile) Pure;
            /// Running reduction along one axis.
            cumulative = Cumulative { kind: CumulativeKind, axis: usize, reverse: bool } (x: tile) Pure;
            /// General product of two tiles: result dimensions are batch, lhs free, rhs free.
            dot_general = DotGeneral {
                lhs_contract: Vec<usize>, rhs_contract: Vec<usize>, lhs_batch: Vec<usize>, rhs_batch: Vec<usize>, tf32: bool
            } (lhs: tile, rhs: tile) Pure;
        }
        "Position" {
            /// Index of this block's cluster along grid dimension `axis` (int32).
            program_id = ProgramId { axis: usize } () Pure;
            /// Size of grid dimension `axis` (int32).
            num_programs = NumPrograms { axis: usize } () Pure;
            /// Index of this block within its cluster along cluster dimension `axis` (int32).
            cluster_index = ClusterIndex { axis: usize } () Pure;
            /// Index of this thread within its block (int32).
            thread_index = ThreadIndex {} () Pure;
        }
        "Control flow" {
            /// Counts from `lo` to `hi` (exclusive): region `(i, carry…) → carry…`.
            for_loop = ForLoop {} (lo: scalar, hi: scalar, init: value*) Control;
            /// Regions `(carry…) → bool` and `(carry…) → carry…`.
            while_loop = WhileLoop {} (init: value*) Control;
            /// Runs region `index` (an integer or a boolean), clamped to the regions there are; regions
            /// `() → result…`.
            switch = Switch {} (index: scalar) Control;
            /// Allocates, runs region `(ref…) → result…`, frees. `collective`: one allocation for all
            /// threads of the block, the k-th scope of each thread meaning the same memory.
            scope = Scope { allocs: Vec<Alloc>, collective: bool } () Control;
            /// Runs region `(warp) → ()` once per warp of this warpgroup, at the same time, and goes on when
            /// all of them have ended. Each warp is a thread with registers of its own.
            warps = Warps {} () Control;
        }
        "Views" {
            /// Indexes and slices a ref; leaving the base is an error of whoever accesses the view.
            ref_slice = RefSlice { dims: Vec<SliceDim> } (base: reference, starts: scalar*) Pure;
            /// Result dimension `i` is base dimension `perm[i]`.
            ref_transpose = RefTranspose { perm: Vec<usize> } (base: reference) Pure;
            /// The same elements in row-major order at another shape.
            ref_reshape = RefReshape {} (base: reference) Pure;
            /// The same bytes as another dtype.
            ref_bitcast = RefBitcast {} (base: reference) Pure;
            /// The same memory or barriers of another block of the cluster: its index along `axes[i]` is
            /// `indices[i]`, along the others this block's own. Blocks until that block has them.
            ref_peer = RefPeer { axes: Vec<usize> } (base: reference, indices: scalar*) Memory;
            /// The block of an array that a `BlockSpec` selects. Past the array's edge reads are unwritten
            /// memory and writes are dropped; a block that misses the array is an error.
            block_window = BlockWindow { dims: Vec<BlockDim> } (array: reference, indices: scalar*) Memory;
        }
        "Memory" {
            /// Reads a view.
            load = Load {} (source: reference) Memory;
            /// Writes a view.
            store = Store {} (target: reference, x: value) Memory;
            /// Writes a view and returns what was there.
            swap = Swap {} (target: reference, x: value) Memory;
            /// Reads where `mask`; elsewhere the result is `other`, or unwritten memory.
            load_masked = LoadMasked { other: bool } (source: reference, mask: value, other: value?) Memory;
            /// Writes where `mask` and, if there is a result, returns what was there.
            store_masked = StoreMasked {} (target: reference, x: value, mask: value) Memory;
            /// Reads by index arrays. The indexer's dimensions stand at result dimension `at`.
            gather = Gather { dims: Vec<GatherDim>, at: usize, mask: bool, other: bool }
                (source: reference, starts: scalar*, indices: tile*, mask: tile?, other: value?) Memory;
            /// Writes by index arrays and, if there is a result, returns what was there.
            scatter = Scatter { dims: Vec<GatherDim>, at: usize, mask: bool }
                (target: reference, x: value, starts: scalar*, indices: tile*, mask: tile?) Memory;
            /// One indivisible read-modify-write per element; returns the old value if there is a result.
            atomic_rmw = AtomicRmw { kind: RmwKind, mask: bool } (target: reference, x: value, mask: value?) Memory;
            /// Stores `new` where the element equals `expected`; returns the old value.
            atomic_cas = AtomicCas {} (target: reference, expected: value, new: value) Memory;
        }
        "Barriers" {
            /// One arrival (release).
            barrier_arrive = BarrierArrive { predicate: bool } (barrier: reference, predicate: scalar?) Sync;
            /// Blocks until the next phase this thread has not seen completes (acquire).
            barrier_wait = BarrierWait {} (barrier: reference) Sync;
            /// Whether that phase has completed; if so it counts as seen.
            barrier_test = BarrierTest {} (barrier: reference) Sync;
            /// All CUDA threads of this thread arrive on named barrier `id` of the block, which is complete
            /// when `count` CUDA threads have arrived.
            named_barrier_arrive = NamedBarrierArrive {} (id: scalar, count: scalar) Sync;
            /// The same, then blocks until the barrier is complete.
            named_barrier_sync = NamedBarrierSync {} (id: scalar, count: scalar) Sync;
        }
        "Semaphores" {
            /// Adds `count` to a semaphore (release).
            semaphore_signal = SemaphoreSignal {} (semaphore: reference, count: scalar) Sync;
            /// Blocks until a semaphore is at least `value`, both unsigned, and takes `value` away if
            /// `decrement` (acquire).
            semaphore_wait = SemaphoreWait { decrement: bool } (semaphore: reference, value: scalar) Sync;
            /// What a semaphore holds, without ordering anything.
            semaphore_read = SemaphoreRead {} (semaphore: reference) Sync;
        }
        "Copies" {
            /// Starts a TMA load; on completion one arrival on `barrier`. Without a barrier it is a
            /// cp.async that `wait_gmem_to_smem` awaits. With `more` it is a part of the next one of this
            /// thread: they complete together, with one arrival.
            copy_gmem_to_smem = CopyGmemToSmem {
                oob: OobMode, barrier: bool, predicate: bool, collective: Option<Collective>, more: bool
            } (source: reference, target: reference, barrier: reference?, predicate: scalar?) Async;
            /// Starts a TMA store, or with `reduction` an atomic reduction. Elements outside the target
            /// are dropped.
            copy_smem_to_gmem = CopySmemToGmem { reduction: Option<RmwKind>, commit: bool, predicate: bool }
                (source: reference, target: reference, predicate: scalar?) Async;
            /// Starts a store of `x` to SMEM, mostly of another block, or with `reduction` an atomic
            /// reduction. On completion one arrival on `barrier`, which is of the target's block.
            async_store_smem = AsyncStoreSmem { reduction: Option<RmwKind> }
                (target: reference, x: value, barrier: reference) Async;
            /// Asks for a cluster that is not launched yet: 16 bytes of answer go to `result` of every block
            /// of the cluster, of which the first asks; on completion one arrival on `barrier` of each. With
            /// `threads` the first thread of a block asks, the others only arrive.
            try_cluster_cancel = TryClusterCancel { threads: bool }
                (result: reference, barrier: reference) Async;
            /// Decodes such an answer: the claimed cluster's index along each of `axes`, and whether there
            /// is one.
            query_cluster_cancel = QueryClusterCancel { axes: Vec<usize> } (result: reference) Memory;
            /// Closes the current group of this thread's TMA stores.
            commit_group = CommitGroup {} () Sync;
            /// Blocks until at most `n` groups of this thread's TMA stores are in flight (`read_only`:
            /// only their reads of SMEM count).
            wait_smem_to_gmem = WaitSmemToGmem { n: u32, read_only: bool } () Sync;
            /// Blocks until at most `n` of this thread's cp.async copies are in flight.
            wait_gmem_to_smem = WaitGmemToSmem { n: u32 } () Sync;
            /// Makes this thread's SMEM accesses visible to the async proxy.
            commit_smem = CommitSmem {} () Sync;
        }
        "Tensor cores" {
            /// Starts `acc += a @ b`, one group, or with `more` a part of the next one's. `a` in SMEM or
            /// registers, `b` in SMEM.
            wgmma = Wgmma { more: bool } (acc: reference, a: operand, b: reference) Async;
            /// Blocks until at most `n` of this thread's wgmma groups are in flight.
            wgmma_wait = WgmmaWait { n: u32 } () Sync;
            /// Reads an accumulator, first waiting as `wgmma_wait(wait)` when given.
            accumulator_load = AccumulatorLoad { wait: Option<u32> } (acc: reference) Sync;
        }
        "Tensor memory" {
            /// Reads tensor memory. Its value is there at once; what it read may be overwritten after
            /// `wait_load_tmem`.
            async_load_tmem = AsyncLoadTmem {} (source: reference) Async;
            /// Waits for this thread's loads from tensor memory.
            wait_load_tmem = WaitLoadTmem {} () Sync;
            /// Starts a write to tensor memory, which nobody sees before `commit_tmem`.
            async_store_tmem = AsyncStoreTmem {} (target: reference, x: value) Async;
            /// Waits for this thread's writes to tensor memory.
            commit_tmem = CommitTmem {} () Sync;
            /// Starts a copy from SMEM to tensor memory. `format` says how the source is arranged.
            /// `pair`: the first block of a pair issues it for both, each from its own SMEM to its own
            /// tensor memory; in the second it does nothing.
            async_copy_smem_to_tmem = AsyncCopySmemToTmem { format: TmemFormat, pair: bool }
                (source: reference, target: reference) Async;
            /// Starts `acc = a @ b`, or `acc += a @ b` if `accumulate`. `a` in SMEM or tensor memory,
            /// `b` in SMEM. With scales, element (i, k) of `a` counts `a_scale[i, k / s]` times, element
            /// (k, j) of `b` `b_scale[j, k / s]` times. With `metadata`, `a` holds half of each row and
            /// the metadata says which half. `pair`: the first block of a pair issues it for both;
            /// `acc` and `a` are split by rows between them, `b` by columns.
            tcgen05_mma = Tcgen05Mma { pair: bool, scaled: bool, sparse: bool }
                (acc: reference, a: reference, b: reference, accumulate: scalar,
                 a_scale: reference?, b_scale: reference?, metadata: reference?) Async;
            /// One arrival once every product and copy to tensor memory that this thread has issued is
            /// complete; with `pair`, issued by the first block, one on the barrier of each.
            tcgen05_commit_arrive = Tcgen05CommitArrive { pair: bool, predicate: bool }
                (barrier: reference, predicate: scalar?) Async;
        }
        "Inline bodies" {
            /// Runs `inline_mgpu` body `body` in all CUDA threads of this thread.
            inline_mgpu = InlineMgpu { body: usize } (args: any*) Sync;
        }
        "Host" {
            /// Runs `StableHLO` blob `blob` through XLA: what the machine has no op for.
            xla_call = XlaCall { name: String, blob: usize } (args: value*) Host;
            /// Prints; `format` is a Python format string.
            print = Print { format: String } (args: value*) Host;
            /// Fails with `message` (a Python format string for `args`) where `ok` is false.
            check = Check { message: String } (ok: scalar, args: value*) Host;
            /// Calls Python function `id` of this process.
            callback = Callback { id: u64 } (args: value*) Host;
        }
    } };
}
