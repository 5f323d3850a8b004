//! The one list of lane ops: what a CUDA thread of an `inline_mgpu` body can do.
//!
//! A row is as in [`crate::op_table`], with one list of operands less: how many values an op takes and
//! of which types is said by [`super::verify`]. From the table come [`super::LaneOp`], its serde form,
//! [`super::LANE_OPS`] and `docs/op-reference.md`; verifier and machine match without a wildcard.

/// Calls `$macro!` with every lane op, family by family.
#[macro_export]
macro_rules! for_each_lane_op {
    ($macro:ident) => {
        $macro! {
            "Constants and position" {
                /// The same number in every element; `bits` as in [`crate::Op::Constant`].
                constant = Constant { bits: u64 } Pure;
                /// A vector of constants.
                constant_vector = ConstantVector { bits: Vec<u64> } Pure;
                /// Index of the thread in its block along x, y or z.
                thread_index = ThreadIndex { axis: usize } Pure;
                /// Threads of the block along x, y or z.
                block_size = BlockSize { axis: usize } Pure;
                /// Index of the thread in its warp.
                lane_index = LaneIndex {} Pure;
                /// Index of the block in the grid, as CUDA counts.
                block_index = BlockIndex { axis: usize } Position;
                /// Blocks of the grid, as CUDA counts.
                grid_size = GridSize { axis: usize } Position;
            }
            "Arithmetic" {
                /// Elementwise function of one operand.
                unary = Unary { kind: UnaryKind } Pure;
                /// Elementwise function of two operands.
                binary = Binary { kind: BinaryKind } Pure;
                /// The larger (or smaller) of two floats; the other one where one is a NaN.
                extremum = Extremum { max: bool } Pure;
                /// The upper half of the product of two integers.
                multiply_high = MultiplyHigh {} Pure;
                /// `a * b + c`, rounded once.
                fused_multiply_add = FusedMultiplyAdd {} Pure;
                /// Elementwise comparison.
                compare = Compare { kind: CompareKind } Pure;
                /// The second operand where the first is true, else the third; one condition chooses whole
                /// vectors.
                select = Select {} Pure;
                /// Conversion to the result's dtype.
                convert = Convert {} Pure;
                /// The nearest power of two at or above, of the exponent-only type e8m0.
                round_up_to_scale = RoundUpToScale {} Pure;
                /// The same bits as elements of another width.
                bitcast = Bitcast {} Pure;
                /// `prmt.b32`: picks four bytes of two words.
                byte_permute = BytePermute {} Pure;
                /// `lop3.b32`: any function of three bits.
                lop3 = Lop3 { table: u8 } Pure;
            }
            "Vectors" {
                /// Elements of the operands' concatenation, in this order.
                elements = Elements { pick: Vec<u32> } Pure;
                /// The element at an index known at run time.
                element_at = ElementAt {} Pure;
                /// The vector with the element at an index replaced.
                with_element = WithElement {} Pure;
            }
            "Warps" {
                /// `shfl.sync`: the value of another thread of the warp: value, offset, clamp.
                exchange = Exchange { kind: ExchangeKind } Warp;
                /// `vote.sync`: one answer for the warp.
                vote = Vote { kind: VoteKind } Warp;
                /// `redux.sync`: one number for the warp.
                warp_reduce = WarpReduce { kind: ReduceKind } Warp;
                /// `elect.sync`: true in one active thread of the warp.
                elect = Elect {} Warp;
                /// `ldmatrix`: 8×8 matrices of 16-bit elements, a row address per thread.
                load_matrix = LoadMatrix { transposed: bool } Warp;
                /// `stmatrix`: its inverse.
                store_matrix = StoreMatrix { transposed: bool } Warp;
            }
            "Memory" {
                /// A pointer to the first byte of view `view`.
                view_pointer = ViewPointer { view: usize } Pure;
                /// A pointer moved by indices, each of which must lie within its size. Strides are in
                /// elements of `bits` bits.
                address = Address { sizes: Vec<i64>, strides: Vec<i64>, bits: u32 } Address;
                /// Reads at a pointer. `align` is the alignment in bytes that the access demands.
                load = Load { align: u32 } Memory;
                /// Writes at a pointer.
                store = Store { align: u32 } Memory;
                /// One indivisible read-modify-write at a pointer; returns the old value.
                atomic = Atomic { kind: RmwKind } Memory;
            }
            "Synchronisation" {
                /// `bar.sync` or `bar.arrive` on the named barrier in the operand; `count` threads complete it
                /// (all of the block if none is given).
                barrier = Barrier { arrive: bool, count: Option<u32> } Sync;
                /// A fence or wait without operands.
                fence = Fence { kind: FenceKind } Sync;
                /// A TMA store, as one group: the window of this shape, over the last dimensions of
                /// view `source`, that starts at the first pointer goes to the window of view
                /// `target` that starts at the second and has these strides in elements.
                copy = Copy { source: usize, target: usize, shape: Shape, strides: Vec<i64> } Sync;
                /// Waits until at most `n` groups of the warpgroup's TMA stores are in flight.
                wait_copies = WaitCopies { n: u32, read_only: bool } Sync;
            }
            "Control flow" {
                /// Regions for the threads where the operand is true, and for the others.
                if = If {} Control;
                /// Counts from `lo` up to `hi` by `step`: region `(i, carry…) → carry…`.
                for = For {} Control;
                /// Regions `(carry…) → condition, result…` and `(result…) → carry…`.
                while = While {} Control;
            }
        }
    };
}
