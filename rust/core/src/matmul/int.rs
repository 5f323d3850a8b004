//! Products of integer matrices, wrapping.
//!
//! Integers of up to 16 bits are multiplied as floats, which is many times faster and exact as long
//! as no sum can reach the first integer that the float lacks: [`exact_depth`] says how deep a slice
//! of the product may be. Wider integers take the plain loop.

use super::operand::Dense;
use crate::DType;

/// How many products of two integer types may be summed in a float of so many mantissa bits (the
/// implicit one included) before a sum may be inexact.
pub(super) fn exact_depth(a: DType, b: DType, mantissa_bits: u32) -> usize {
    let largest = |dtype: DType| -> u64 {
        let bits = dtype.packed_bits() as u32;
        match dtype {
            DType::Bool => 1,
            DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32 => 1 << (bits - 1),
            DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 => (1 << bits) - 1,
            _ => u64::MAX,
        }
    };
    let product = largest(a).saturating_mul(largest(b));
    ((1u64 << mantissa_bits) / product) as usize
}

macro_rules! multiply {
    ($($name:ident $number:ident;)*) => { $(
        /// `acc += a b`.
        pub(super) fn $name(
            m: usize,
            n: usize,
            k: usize,
            a: Dense<'_, $number>,
            b: Dense<'_, $number>,
            acc: &mut [$number],
            acc_row_stride: usize,
        ) {
            let at = |x: &Dense<'_, $number>, row: usize, column: usize| {
                let start = x.offset as isize;
                (start + row as isize * x.row_stride + column as isize * x.col_stride) as usize
            };
            for row in 0..m {
                let acc = &mut acc[row * acc_row_stride..][..n];
                for depth in 0..k {
                    let x = a.data[at(&a, row, depth)];
                    if b.col_stride == 1 {
                        let b = &b.data[at(&b, depth, 0)..][..n];
                        for (acc, y) in acc.iter_mut().zip(b) {
                            *acc = acc.wrapping_add(x.wrapping_mul(*y));
                        }
                    } else {
                        for (column, acc) in acc.iter_mut().enumerate() {
                            let y = b.data[at(&b, depth, column)];
                            *acc = acc.wrapping_add(x.wrapping_mul(y));
                        }
                    }
                }
            }
        }
    )* };
}
multiply! {
    multiply_i32 i32;
    multiply_i64 i64;
}
