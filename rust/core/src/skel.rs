//! Skeleton of the public functions.
#![allow(unused_variables, clippy::todo, clippy::allow_attributes_without_reason, missing_docs)]
use crate::{DType, kinds::*};

#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> { Slice(&'a [u8]), Splat(u64) }

impl UnaryKind {
    pub fn supports(self, dtype: DType) -> bool { todo!() }
    pub fn result(self, dtype: DType) -> DType { todo!() }
}
impl BinaryKind { pub fn supports(self, dtype: DType) -> bool { todo!() } }
impl CompareKind { pub fn supports(self, dtype: DType) -> bool { todo!() } }
impl ReduceKind { pub fn supports(self, dtype: DType) -> bool { todo!() } pub fn is_arg(self) -> bool { todo!() } }
impl CumulativeKind { pub fn supports(self, dtype: DType) -> bool { todo!() } }
pub fn convert_supports(from: DType, to: DType) -> bool { todo!() }

pub fn unary(kind: UnaryKind, dtype: DType, x: &[u8], out: &mut [u8]) { todo!() }
pub fn unary_in_place(kind: UnaryKind, dtype: DType, x: &mut [u8]) { todo!() }
pub fn unary_scalar(kind: UnaryKind, dtype: DType, x: u64) -> u64 { todo!() }
pub fn binary(kind: BinaryKind, dtype: DType, a: Operand<'_>, b: Operand<'_>, out: &mut [u8]) { todo!() }
/// `a = a op b`
pub fn binary_in_place(kind: BinaryKind, dtype: DType, a: &mut [u8], b: Operand<'_>) { todo!() }
/// `b = a op b`
pub fn binary_in_place_rhs(kind: BinaryKind, dtype: DType, a: Operand<'_>, b: &mut [u8]) { todo!() }
pub fn binary_scalar(kind: BinaryKind, dtype: DType, a: u64, b: u64) -> u64 { todo!() }
/// Element strides (0 = broadcast); `out` is dense row-major of `shape`.
pub fn binary_bcast(kind: BinaryKind, dtype: DType, a: &[u8], a_strides: &[isize], b: &[u8], b_strides: &[isize], shape: &[usize], out: &mut [u8]) { todo!() }
pub fn compare(kind: CompareKind, dtype: DType, a: Operand<'_>, b: Operand<'_>, out: &mut [u8]) { todo!() }
pub fn compare_scalar(kind: CompareKind, dtype: DType, a: u64, b: u64) -> bool { todo!() }
pub fn compare_bcast(kind: CompareKind, dtype: DType, a: &[u8], a_strides: &[isize], b: &[u8], b_strides: &[isize], shape: &[usize], out: &mut [u8]) { todo!() }
pub fn select(pred: Operand<'_>, size: usize, on_false: Operand<'_>, on_true: Operand<'_>, out: &mut [u8]) { todo!() }
/// `which` is `bool` or `int32`
pub fn select_n(which_dtype: DType, which: Operand<'_>, size: usize, cases: &[Operand<'_>], out: &mut [u8]) { todo!() }
pub fn clamp(dtype: DType, lo: Operand<'_>, x: Operand<'_>, hi: Operand<'_>, out: &mut [u8]) { todo!() }
pub fn clamp_scalar(dtype: DType, lo: u64, x: u64, hi: u64) -> u64 { todo!() }
pub fn convert(from: DType, to: DType, x: &[u8], out: &mut [u8]) { todo!() }
pub fn convert_scalar(from: DType, to: DType, x: u64) -> u64 { todo!() }
pub fn integer_pow(dtype: DType, n: i32, x: &[u8], out: &mut [u8]) { todo!() }
pub fn integer_pow_scalar(dtype: DType, n: i32, x: u64) -> u64 { todo!() }
pub fn reduce_precision(dtype: DType, exponent_bits: u32, mantissa_bits: u32, x: &[u8], out: &mut [u8]) { todo!() }
pub fn reduce_precision_scalar(dtype: DType, exponent_bits: u32, mantissa_bits: u32, x: u64) -> u64 { todo!() }

pub fn copy_strided(elem_size: usize, shape: &[usize], src: &[u8], src_offset: isize, src_strides: &[isize], dst: &mut [u8], dst_offset: isize, dst_strides: &[isize]) { todo!() }
pub fn iota(dtype: DType, shape: &[usize], dim: usize, out: &mut [u8]) { todo!() }
/// Sizes up to 8.
pub fn fill(elem_size: usize, bits: u64, out: &mut [u8]) { todo!() }
/// Dense row-major element strides.
pub fn dense_strides(shape: &[usize]) -> Vec<isize> { todo!() }
/// The scalar register holding element `index` of a dense slice, and its inverse.
pub fn load_scalar(elem_size: usize, x: &[u8], index: usize) -> u64 { todo!() }
pub fn store_scalar(elem_size: usize, bits: u64, out: &mut [u8], index: usize) { todo!() }

/// Not for ArgMax/ArgMin, which take `arg_reduce`.
pub fn reduce(kind: ReduceKind, dtype: DType, shape: &[usize], axes: &[usize], x: &[u8], out: &mut [u8]) { todo!() }
pub fn arg_reduce(kind: ReduceKind, dtype: DType, index_dtype: DType, shape: &[usize], axis: usize, x: &[u8], out: &mut [u8]) { todo!() }
pub fn cumulative(kind: CumulativeKind, dtype: DType, shape: &[usize], axis: usize, reverse: bool, x: &[u8], out: &mut [u8]) { todo!() }

/// Element offset and strides into `data`.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a> { pub dtype: DType, pub data: &'a [u8], pub offset: usize, pub row_stride: isize, pub col_stride: isize }
#[derive(Clone, Copy, Debug, Default)]
pub struct MatmulOpts { pub tf32: bool }
#[derive(Debug, Default)]
pub struct MatmulScratch {}
/// `acc` is row-major with `acc_row_stride` elements from row to row (`n` when dense).
pub fn matmul(m: usize, n: usize, k: usize, a: &MatRef<'_>, b: &MatRef<'_>, acc: &mut [u8], acc_row_stride: usize, acc_dtype: DType, accumulate: bool, opts: MatmulOpts, scratch: &mut MatmulScratch) { todo!() }
pub fn matmul_supports(a: DType, b: DType, acc: DType) -> bool { todo!() }

/// XLA's packed bytes (low bits first) to one byte an element.
pub fn unpack(dtype: DType, packed: &[u8], out: &mut [u8]) { todo!() }
pub fn pack(dtype: DType, x: &[u8], packed: &mut [u8]) { todo!() }

#[derive(Clone, Debug)]
pub struct SplitMix64 { state: u64 }
impl SplitMix64 {
    pub fn new(seed: u64) -> Self { SplitMix64 { state: seed } }
    pub fn next_u64(&mut self) -> u64 { todo!() }
    /// Uniform in `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 { todo!() }
}
