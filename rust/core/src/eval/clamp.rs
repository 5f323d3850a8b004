//! Limiting to a range: `min(max(lo, x), hi)`, so that the upper bound wins over the lower.

use super::binary::{binary, binary_in_place_rhs, binary_scalar};
use super::operand::{Operand, STRIP_BYTES};
use crate::{BinaryKind, DType};

/// `out = min(max(lo, x), hi)`.
///
/// # Panics
/// If the type is complex, or the lengths differ.
pub fn clamp(dtype: DType, lo: Operand<'_>, x: Operand<'_>, hi: Operand<'_>, out: &mut [u8]) {
    // Strip by strip, so that the second step finds the first one's result in the cache.
    let mut start = 0;
    for out in out.chunks_mut(STRIP_BYTES) {
        let strip = |operand| match operand {
            Operand::Slice(x) => Operand::Slice(&x[start..][..out.len()]),
            splat @ Operand::Splat(_) => splat,
        };
        let (lo, x, hi) = (strip(lo), strip(x), strip(hi));
        start += out.len();
        binary(BinaryKind::Max, dtype, lo, x, out);
        binary_in_place_rhs(BinaryKind::Min, dtype, hi, out);
    }
}

/// [`clamp`] of scalar registers.
///
/// # Panics
/// If the type is complex.
#[inline]
pub fn clamp_scalar(dtype: DType, lo: u64, x: u64, hi: u64) -> u64 {
    let raised = binary_scalar(BinaryKind::Max, dtype, lo, x);
    binary_scalar(BinaryKind::Min, dtype, raised, hi)
}
