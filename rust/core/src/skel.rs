//! Skeleton of the public functions.
#![allow(unused_variables, clippy::todo, clippy::allow_attributes_without_reason, missing_docs)]
use crate::{DType, kinds::*};
impl ReduceKind { pub fn supports(self, dtype: DType) -> bool { todo!() } pub fn is_arg(self) -> bool { todo!() } }
impl CumulativeKind { pub fn supports(self, dtype: DType) -> bool { todo!() } }
pub fn reduce(kind: ReduceKind, dtype: DType, shape: &[usize], axes: &[usize], x: &[u8], out: &mut [u8]) { todo!() }
pub fn arg_reduce(kind: ReduceKind, dtype: DType, index_dtype: DType, shape: &[usize], axis: usize, x: &[u8], out: &mut [u8]) { todo!() }
pub fn cumulative(kind: CumulativeKind, dtype: DType, shape: &[usize], axis: usize, reverse: bool, x: &[u8], out: &mut [u8]) { todo!() }
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a> { pub dtype: DType, pub data: &'a [u8], pub offset: usize, pub row_stride: isize, pub col_stride: isize }
#[derive(Clone, Copy, Debug, Default)]
pub struct MatmulOpts { pub tf32: bool }
#[derive(Debug, Default)]
pub struct MatmulScratch {}
pub fn matmul(m: usize, n: usize, k: usize, a: &MatRef<'_>, b: &MatRef<'_>, acc: &mut [u8], acc_row_stride: usize, acc_dtype: DType, accumulate: bool, opts: MatmulOpts, scratch: &mut MatmulScratch) { todo!() }
pub fn matmul_supports(a: DType, b: DType, acc: DType) -> bool { todo!() }
