//! Raising to a constant integer power by repeated squaring.

use super::binary::{binary_in_place, binary_in_place_rhs};
use super::operand::{Operand, STRIP_BYTES};
use super::unsupported;
use crate::element::fill;
use crate::{BinaryKind, DType, convert_scalar};

/// `out = x^n`. A negative power is the reciprocal of the positive one.
///
/// # Panics
/// If the type does not support multiplication, if an integer is raised to a negative power, or if
/// the lengths differ.
pub fn integer_pow(dtype: DType, n: i32, x: &[u8], out: &mut [u8]) {
    assert_eq!(x.len(), out.len(), "operand and result differ in length");
    if !BinaryKind::Mul.supports(dtype) || (n < 0 && !dtype.is_float()) {
        unsupported(format_args!("power {n}"), dtype);
    }
    let one = convert_scalar(DType::Bool, dtype, 1);
    if n == 0 {
        return fill(dtype.size(), one, out);
    }
    let mut square = [0; STRIP_BYTES];
    for (x, out) in x.chunks(STRIP_BYTES).zip(out.chunks_mut(STRIP_BYTES)) {
        let square = &mut square[..x.len()];
        square.copy_from_slice(x);
        let mut rest = n.unsigned_abs();
        let mut started = false;
        loop {
            if rest & 1 == 1 {
                if started {
                    binary_in_place(BinaryKind::Mul, dtype, out, Operand::Slice(square));
                } else {
                    out.copy_from_slice(square);
                    started = true;
                }
            }
            rest >>= 1;
            if rest == 0 {
                break;
            }
            super::unary_in_place(crate::UnaryKind::Square, dtype, square);
        }
        if n < 0 {
            binary_in_place_rhs(BinaryKind::Div, dtype, Operand::Splat(one), out);
        }
    }
}

/// [`integer_pow`] of one scalar register.
///
/// # Panics
/// As [`integer_pow`].
pub fn integer_pow_scalar(dtype: DType, n: i32, x: u64) -> u64 {
    let mut out = [0; 8];
    let size = dtype.size();
    integer_pow(dtype, n, &x.to_le_bytes()[..size], &mut out[..size]);
    u64::from_le_bytes(out)
}
