//! Products of integer matrices, wrapping. The sums of a small block of the result stay in vector
//! registers while the depth is walked.

use super::operand::Dense;
use crate::isa::for_each_isa;

/// Rows and columns of a block.
const ROWS: usize = 4;
const COLUMNS: usize = 32;

macro_rules! multiply {
    ($($name:ident $number:ident;)*) => { $(
        for_each_isa! {
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
                // Rows of the right operand must be adjacent for the blocks; others are gathered.
                let mut gathered = [0; COLUMNS];
                for column in (0..n).step_by(COLUMNS) {
                    let width = COLUMNS.min(n - column);
                    for row in (0..m).step_by(ROWS) {
                        let height = ROWS.min(m - row);
                        let mut sums = [[0 as $number; COLUMNS]; ROWS];
                        for depth in 0..k {
                            if b.col_stride == 1 && width == COLUMNS {
                                let start = at(&b, depth, column);
                                gathered.copy_from_slice(&b.data[start..][..COLUMNS]);
                            } else {
                                for (i, x) in gathered[..width].iter_mut().enumerate() {
                                    *x = b.data[at(&b, depth, column + i)];
                                }
                            }
                            for (i, sums) in sums.iter_mut().enumerate() {
                                // Rows beyond the last repeat it and are not stored.
                                let x = a.data[at(&a, row + i.min(height - 1), depth)];
                                for (sum, y) in sums.iter_mut().zip(&gathered) {
                                    *sum = sum.wrapping_add(x.wrapping_mul(*y));
                                }
                            }
                        }
                        for (i, sums) in sums[..height].iter().enumerate() {
                            let acc = &mut acc[(row + i) * acc_row_stride + column..][..width];
                            for (acc, sum) in acc.iter_mut().zip(sums) {
                                *acc = acc.wrapping_add(*sum);
                            }
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
