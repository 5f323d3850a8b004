//! The `gemm` crate behind a safe interface.
#![allow(unsafe_code, reason = "the gemm crate takes raw pointers")]

use gemm::Parallelism;

use super::operand::Dense;

macro_rules! multiply {
    ($($name:ident $number:ident;)*) => { $(
        /// `acc += a b` in place, on this thread alone.
        pub(super) fn $name(
            m: usize,
            n: usize,
            k: usize,
            a: Dense<'_, $number>,
            b: Dense<'_, $number>,
            acc: &mut [$number],
            acc_row_stride: usize,
        ) {
            if m == 0 || n == 0 || k == 0 {
                return;
            }
            assert!(acc_row_stride >= n && (m - 1) * acc_row_stride + n <= acc.len());
            let (a_start, b_start) = (a.data[a.offset..].as_ptr(), b.data[b.offset..].as_ptr());
            // SAFETY: `Dense` guarantees that every element of the operands lies within its slice,
            // the assertion above that every element of the result does; `acc` is borrowed
            // exclusively, so it overlaps neither operand.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    acc.as_mut_ptr(),
                    1,
                    acc_row_stride as isize,
                    true,
                    a_start,
                    a.col_stride,
                    a.row_stride,
                    b_start,
                    b.col_stride,
                    b.row_stride,
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    Parallelism::None,
                );
            }
        }
    )* };
}
multiply! {
    gemm_f32 f32;
    gemm_f64 f64;
}
