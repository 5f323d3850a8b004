//! The only place that multiplies matrices.
//!
//! **Operands** are widened exactly: to `float32` for floats up to that type and integers of up to
//! 16 bits, to `float64` for a `float64` accumulator, to whatever is exact for an integer one. With
//! [`MatmulOpts::tf32`], `float32` operands first lose their low 13 bits, as tensor cores ignore
//! them.
//!
//! **Accumulation.** Products of floats are summed in `float32` (or `float64`), in an order and with
//! a fusing of product and sum that depend on the shape and on the machine's vector length: results
//! of one machine repeat, those of two may differ in the last bits. A narrower accumulator is
//! rounded once, at the end of a call. Integers wrap; their order does not show.

mod blocks;
mod gemm;
mod int;
mod operand;

pub use self::blocks::{expand_sparse, order_selectors, scale_blocks};
use self::operand::Dense;
use crate::{DType, convert};

/// A matrix within a tile: element (r, c) lies at `offset + r * row_stride + c * col_stride`, counted
/// in elements.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a> {
    /// Type of the elements.
    pub dtype: DType,
    /// What the matrix is part of.
    pub data: &'a [u8],
    /// Where element (0, 0) lies.
    pub offset: usize,
    /// From one row to the next.
    pub row_stride: isize,
    /// From one column to the next.
    pub col_stride: isize,
}

/// How to multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatmulOpts {
    /// Whether `float32` operands are cut to the 10 mantissa bits of `tf32`.
    pub tf32: bool,
}

/// Room that [`matmul`] reuses: once it has seen the largest shapes, it allocates no more.
#[derive(Debug, Default)]
pub struct MatmulScratch {
    a: operand::Room,
    b: operand::Room,
    f32: Vec<f32>,
    f64: Vec<f64>,
    i32: Vec<i32>,
    i64: Vec<i64>,
}

/// Whether [`matmul`] multiplies these types.
pub fn matmul_supports(a: DType, b: DType, acc: DType) -> bool {
    let real = |d: DType| d.fits_scalar();
    let exact_in_f32 = |d: DType| real(d) && (d.is_float() && d != DType::F64 || d.size() <= 2);
    let integer = |d: DType| real(d) && !d.is_float();
    match acc {
        DType::F64 => real(a) && real(b),
        _ if acc.is_float() => exact_in_f32(a) && exact_in_f32(b),
        _ if acc.is_int() => integer(a) && integer(b),
        _ => false,
    }
}

/// `acc = a b`, or `acc += a b` when accumulating: `a` is m×k, `b` is k×n, `acc` is m×n and
/// row-major with `acc_row_stride` elements from row to row (`n` when dense).
///
/// # Panics
/// If the types are not those of [`matmul_supports`], or if a matrix leaves its slice.
pub fn matmul(
    m: usize,
    n: usize,
    k: usize,
    a: &MatRef<'_>,
    b: &MatRef<'_>,
    acc: &mut [u8],
    acc_row_stride: usize,
    acc_dtype: DType,
    accumulate: bool,
    opts: MatmulOpts,
    scratch: &mut MatmulScratch,
) {
    assert!(
        matmul_supports(a.dtype, b.dtype, acc_dtype),
        "{} times {} into {acc_dtype} is not defined",
        a.dtype,
        b.dtype
    );
    if m == 0 || n == 0 {
        return;
    }
    let span = (m - 1) * acc_row_stride + n;
    assert!(acc_row_stride >= n && span * acc_dtype.size() <= acc.len(), "the result is too small");
    let acc = Accumulator {
        bytes: &mut acc[..span * acc_dtype.size()],
        dtype: acc_dtype,
        rows: m,
        columns: n,
        row_stride: acc_row_stride,
    };
    let MatmulScratch { a: room_a, b: room_b, f32, f64, i32, i64 } = scratch;
    match acc_dtype {
        DType::F64 => {
            let a = operand::as_f64(a, m, k, room_a);
            let b = operand::as_f64(b, k, n, room_b);
            acc.update(accumulate, f64, |acc, stride| gemm::gemm_f64(m, n, k, a, b, acc, stride));
        }
        _ if acc_dtype.is_float() => {
            let a = operand::as_f32(a, m, k, opts.tf32, room_a);
            let b = operand::as_f32(b, k, n, opts.tf32, room_b);
            acc.update(accumulate, f32, |acc, stride| gemm::gemm_f32(m, n, k, a, b, acc, stride));
        }
        DType::I64 | DType::U64 => {
            let a = operand::as_i64(a, m, k, room_a);
            let b = operand::as_i64(b, k, n, room_b);
            acc.update(accumulate, i64, |acc, stride| {
                int::multiply_i64(m, n, k, a, b, acc, stride);
            });
        }
        _ => acc.update(accumulate, i32, |acc, stride| {
            let deep_f32 = int::exact_depth(a.dtype, b.dtype, f32::MANTISSA_DIGITS);
            let deep_f64 = int::exact_depth(a.dtype, b.dtype, f64::MANTISSA_DIGITS);
            if deep_f32 >= k.min(LEAST_DEPTH) {
                let a = operand::as_f32(a, m, k, false, room_a);
                let b = operand::as_f32(b, k, n, false, room_b);
                f32.resize(m * n, 0.0);
                for (a, b, depth) in slices(a, b, k, deep_f32) {
                    f32.fill(0.0);
                    gemm::gemm_f32(m, n, depth, a, b, f32, n);
                    add_exact(f32, n, acc, stride, |sum| sum as i32);
                }
            } else if deep_f64 >= k.min(LEAST_DEPTH) {
                let a = operand::as_f64(a, m, k, room_a);
                let b = operand::as_f64(b, k, n, room_b);
                f64.resize(m * n, 0.0);
                for (a, b, depth) in slices(a, b, k, deep_f64) {
                    f64.fill(0.0);
                    gemm::gemm_f64(m, n, depth, a, b, f64, n);
                    add_exact(f64, n, acc, stride, |sum| sum as i64 as i32);
                }
            } else {
                let a = operand::as_i32(a, m, k, room_a);
                let b = operand::as_i32(b, k, n, room_b);
                int::multiply_i32(m, n, k, a, b, acc, stride);
            }
        }),
    }
}

/// The shallowest slice of an integer product that is worth the detour through floats.
const LEAST_DEPTH: usize = 64;

/// A product as a sum of products at most `depth` deep.
fn slices<'a, T: Copy>(
    a: Dense<'a, T>,
    b: Dense<'a, T>,
    k: usize,
    depth: usize,
) -> impl Iterator<Item = (Dense<'a, T>, Dense<'a, T>, usize)> {
    let depth = depth.clamp(1, k.max(1));
    (0..k).step_by(depth).map(move |start| {
        let skip = |x: Dense<'a, T>, stride: isize| Dense {
            offset: (x.offset as isize + start as isize * stride) as usize,
            ..x
        };
        (skip(a, a.col_stride), skip(b, b.row_stride), depth.min(k - start))
    })
}

/// Adds sums that are integers to the accumulator.
fn add_exact<T: Copy>(
    sums: &[T],
    columns: usize,
    acc: &mut [i32],
    acc_row_stride: usize,
    to_int: impl Fn(T) -> i32,
) {
    for (sums, acc) in sums.chunks_exact(columns).zip(acc.chunks_mut(acc_row_stride)) {
        for (acc, sum) in acc.iter_mut().zip(sums) {
            *acc = acc.wrapping_add(to_int(*sum));
        }
    }
}

/// Where the sums go.
struct Accumulator<'a> {
    bytes: &'a mut [u8],
    dtype: DType,
    rows: usize,
    columns: usize,
    row_stride: usize,
}

/// A number that products are summed in.
trait Sum: bytemuck::Pod {
    const DTYPE: DType;
}

macro_rules! sum {
    ($($number:ident $dtype:ident;)*) => { $(
        impl Sum for $number {
            const DTYPE: DType = DType::$dtype;
        }
    )* };
}
sum! { f32 F32; f64 F64; i32 I32; i64 I64; }

impl Accumulator<'_> {
    /// Calls `add` with the accumulator as numbers `T` and their row stride: itself where it holds
    /// such numbers, else a copy in `room` that is rounded or wrapped back.
    fn update<T: Sum>(
        self,
        accumulate: bool,
        room: &mut Vec<T>,
        add: impl FnOnce(&mut [T], usize),
    ) {
        let same =
            self.dtype.size() == size_of::<T>() && self.dtype.is_float() == T::DTYPE.is_float();
        if same && let Ok(acc) = bytemuck::try_cast_slice_mut::<u8, T>(self.bytes) {
            if !accumulate {
                for row in acc.chunks_mut(self.row_stride) {
                    row[..self.columns].fill(T::zeroed());
                }
            }
            return add(acc, self.row_stride);
        }
        let size = self.dtype.size();
        room.clear();
        room.resize(self.rows * self.columns, T::zeroed());
        let rows = room.chunks_mut(self.columns).zip(self.bytes.chunks_mut(self.row_stride * size));
        if accumulate {
            for (room, row) in rows {
                let room = bytemuck::cast_slice_mut(room);
                convert(self.dtype, T::DTYPE, &row[..self.columns * size], room);
            }
        }
        add(room, self.columns);
        let rows = room.chunks(self.columns).zip(self.bytes.chunks_mut(self.row_stride * size));
        for (room, row) in rows {
            let room = bytemuck::cast_slice(room);
            convert(T::DTYPE, self.dtype, room, &mut row[..self.columns * size]);
        }
    }
}
