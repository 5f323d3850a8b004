//! Running reductions along an axis, one element after another.

use crate::element::{Element, elements, elements_mut, wrap_sub_bytes};
use crate::eval::unsupported;
use crate::math::Real;
use crate::strip::{is_narrow_float, narrow, widen};
use crate::{CumulativeKind, DType};

/// `out[i] = x[0] op … op x[i]` along `axis`, or from the end when reversed. Floats narrower than
/// `float32` run as `float32`, rounded where they are written.
///
/// # Panics
/// If the kind does not support the type, or if a tile does not have its size.
pub fn cumulative(
    kind: CumulativeKind,
    dtype: DType,
    shape: &[usize],
    axis: usize,
    reverse: bool,
    x: &[u8],
    out: &mut [u8],
) {
    if !kind.supports(dtype) {
        unsupported(kind, dtype);
    }
    let len = shape.iter().product::<usize>();
    assert_eq!(x.len(), len * dtype.size(), "the operand has another size");
    assert_eq!(out.len(), x.len(), "the result has another size");
    if x.is_empty() {
        return;
    }
    let walk = Walk { inner: shape[axis + 1..].iter().product(), len: shape[axis], reverse };
    match dtype {
        DType::I2 | DType::I4 | DType::I8 => run_i8(kind, walk, x, out),
        DType::I16 => run_i16(kind, walk, x, out),
        DType::I32 => run_i32(kind, walk, x, out),
        DType::I64 => run_i64(kind, walk, x, out),
        DType::U2 | DType::U4 | DType::U8 => run_u8(kind, walk, x, out),
        DType::U16 => run_u16(kind, walk, x, out),
        DType::U32 => run_u32(kind, walk, x, out),
        DType::U64 => run_u64(kind, walk, x, out),
        DType::F32 => run_f32(kind, walk, x, out),
        DType::F64 => run_f64(kind, walk, x, out),
        _ if is_narrow_float(dtype) => {
            let mut wide = vec![0f32; len];
            let mut sums = vec![0f32; len];
            widen(dtype, x, &mut wide);
            run_f32(kind, walk, bytemuck::cast_slice(&wide), bytemuck::cast_slice_mut(&mut sums));
            narrow(dtype, &sums, out);
        }
        _ => unsupported(kind, dtype),
    }
    wrap_sub_bytes(dtype, out);
}

/// How the axis lies in the tile: `len` steps of `inner` adjacent elements.
#[derive(Clone, Copy)]
struct Walk {
    inner: usize,
    len: usize,
    reverse: bool,
}

#[inline(always)]
fn scan<T: Element>(walk: Walk, x: &[u8], out: &mut [u8], f: impl Fn(T, T) -> T) {
    let Walk { inner, len, reverse } = walk;
    let block = inner * len;
    let blocks = elements::<T>(x).chunks_exact(block);
    for (x, out) in blocks.zip(elements_mut::<T>(out).chunks_exact_mut(block)) {
        let step = |i: usize| if reverse { len - 1 - i } else { i };
        out[step(0) * inner..][..inner].copy_from_slice(&x[step(0) * inner..][..inner]);
        for i in 1..len {
            let (before, now) = (step(i - 1) * inner, step(i) * inner);
            for j in 0..inner {
                out[now + j] = f(T::load(out[before + j]), T::load(x[now + j])).store();
            }
        }
    }
}

macro_rules! instantiate {
    ($run:ident $type:ident $dtype:ident: $($kind:ident = $function:expr;)*) => {
        fn $run(kind: CumulativeKind, walk: Walk, x: &[u8], out: &mut [u8]) {
            match kind {
                $(CumulativeKind::$kind => scan::<$type>(walk, x, out, $function),)*
                #[allow(unreachable_patterns, reason = "the table of floats is complete")]
                _ => unsupported(kind, DType::$dtype),
            }
        }
    };
}

macro_rules! float_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Sum = |a, b| a + b;
        Prod = |a, b| a * b;
        Max = |a, b| Real::max(a, b);
        Min = |a, b| Real::min(a, b);
        LogSumExp = |a, b| Real::log_add_exp(a, b);
    } };
}

macro_rules! int_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Sum = |a, b| a.wrapping_add(b);
        Prod = |a, b| a.wrapping_mul(b);
        Max = |a, b| Ord::max(a, b);
        Min = |a, b| Ord::min(a, b);
    } };
}
int_table!(instantiate!(run_i8 i8 I8:));
int_table!(instantiate!(run_i16 i16 I16:));
int_table!(instantiate!(run_i32 i32 I32:));
int_table!(instantiate!(run_i64 i64 I64:));
int_table!(instantiate!(run_u8 u8 U8:));
int_table!(instantiate!(run_u16 u16 U16:));
int_table!(instantiate!(run_u32 u32 U32:));
int_table!(instantiate!(run_u64 u64 U64:));
float_table!(instantiate!(run_f32 f32 F32:));
float_table!(instantiate!(run_f64 f64 F64:));
