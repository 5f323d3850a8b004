//! Rounding to the precision of a narrower float while keeping the type.

use super::unsupported;
use crate::DType;
use crate::element::{Element, elements_mut};
use crate::isa::for_each_isa;
use crate::strip::{STRIP, is_narrow_float, narrow, widen};

macro_rules! round_bits {
    ($($name:ident $float:ident $bits:ident $mantissa_bits:literal $bias:literal;)*) => { $(
        /// Rounds to nearest, ties to even. What would be subnormal becomes zero, what overflows
        /// infinite; a NaN stays.
        #[inline(always)]
        fn $name(exponent_bits: u32, mantissa_bits: u32, x: $float) -> $float {
            let bits = x.to_bits();
            let sign = bits & (1 << ($bits::BITS - 1));
            let infinity = $float::INFINITY.to_bits();
            let dropped = ($mantissa_bits as u32).saturating_sub(mantissa_bits);
            let mut magnitude = bits ^ sign;
            if dropped > 0 {
                let ties_to_even = (magnitude >> dropped) & 1;
                magnitude += (1 << (dropped - 1)) - 1 + ties_to_even;
                magnitude &= !((1 << dropped) - 1);
            }
            if exponent_bits < $bits::BITS - 1 - $mantissa_bits {
                let bias = (1 << (exponent_bits - 1)) - 1;
                let exponent = magnitude & infinity;
                if exponent > ($bias + bias) << $mantissa_bits {
                    magnitude = infinity;
                } else if exponent <= ($bias - bias) << $mantissa_bits {
                    magnitude = 0;
                }
            }
            if x.is_nan() { x } else { $float::from_bits(sign | magnitude) }
        }
    )* };
}
round_bits! {
    round_f32 f32 u32 23 127;
    round_f64 f64 u64 52 1023;
}

for_each_isa! {
    fn round_tile_f32(exponent_bits: u32, mantissa_bits: u32, x: &mut [f32]) {
        for x in x {
            *x = round_f32(exponent_bits, mantissa_bits, *x);
        }
    }
}

/// Rounds each element to a float of so many bits for exponent and mantissa.
///
/// # Panics
/// If the type is not a float, if there is no exponent bit, or if the lengths differ.
pub fn reduce_precision(
    dtype: DType,
    exponent_bits: u32,
    mantissa_bits: u32,
    x: &[u8],
    out: &mut [u8],
) {
    assert_eq!(x.len(), out.len(), "operand and result differ in length");
    assert!(exponent_bits > 0, "a float has at least one exponent bit");
    if dtype == DType::F64 {
        out.copy_from_slice(x);
        for out in elements_mut::<f64>(out) {
            *out = round_f64(exponent_bits, mantissa_bits, f64::load(*out)).store();
        }
        return;
    }
    if !is_narrow_float(dtype) && dtype != DType::F32 {
        unsupported("reduce_precision", dtype);
    }
    let mut wide = [0f32; STRIP];
    let strip = STRIP * dtype.size();
    for (x, out) in x.chunks(strip).zip(out.chunks_mut(strip)) {
        let wide = &mut wide[..x.len() / dtype.size()];
        widen(dtype, x, wide);
        round_tile_f32(exponent_bits, mantissa_bits, wide);
        narrow(dtype, wide, out);
    }
}

/// [`reduce_precision`] of one scalar register.
///
/// # Panics
/// As [`reduce_precision`].
pub fn reduce_precision_scalar(
    dtype: DType,
    exponent_bits: u32,
    mantissa_bits: u32,
    x: u64,
) -> u64 {
    let mut out = [0; 8];
    let size = dtype.size();
    let x = x.to_le_bytes();
    reduce_precision(dtype, exponent_bits, mantissa_bits, &x[..size], &mut out[..size]);
    u64::from_le_bytes(out)
}
