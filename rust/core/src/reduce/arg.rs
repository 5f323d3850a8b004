//! Where the largest or smallest element is.

use crate::element::{Element, elements, store_scalar};
use crate::eval::unsupported;
use crate::strip::{is_narrow_float, widen};
use crate::{DType, ReduceKind, convert_scalar};

/// The index along `axis` of the first largest (smallest) element, or of the first NaN, as
/// `index_dtype`; `out` holds the other dimensions.
///
/// # Panics
/// If the kind gives no index or does not support the type, if the axis is empty, or if a tile does
/// not have its size.
pub fn arg_reduce(
    kind: ReduceKind,
    dtype: DType,
    index_dtype: DType,
    shape: &[usize],
    axis: usize,
    x: &[u8],
    out: &mut [u8],
) {
    if !kind.is_arg() || !kind.supports(dtype) {
        unsupported(kind, dtype);
    }
    assert!(index_dtype.is_int(), "{index_dtype} is no type of an index");
    let inner = shape[axis + 1..].iter().product::<usize>();
    let outer = shape[..axis].iter().product::<usize>();
    let len = shape[axis];
    assert_eq!(x.len(), outer * len * inner * dtype.size(), "the operand has another size");
    assert_eq!(out.len(), outer * inner * index_dtype.size(), "the result has another size");
    if out.is_empty() {
        return;
    }
    assert!(len > 0, "no element of an empty axis is the largest or smallest");
    let shape = [outer, len, inner];
    let put = |result: usize, index: usize| {
        let bits = convert_scalar(DType::I64, index_dtype, index as u64);
        store_scalar(index_dtype.size(), bits, out, result);
    };
    match dtype {
        DType::I2 | DType::I4 | DType::I8 => find::<i8>(kind, shape, x, put),
        DType::I16 => find::<i16>(kind, shape, x, put),
        DType::I32 => find::<i32>(kind, shape, x, put),
        DType::I64 => find::<i64>(kind, shape, x, put),
        DType::Bool | DType::U2 | DType::U4 | DType::U8 => find::<u8>(kind, shape, x, put),
        DType::U16 => find::<u16>(kind, shape, x, put),
        DType::U32 => find::<u32>(kind, shape, x, put),
        DType::U64 => find::<u64>(kind, shape, x, put),
        DType::F32 => find::<f32>(kind, shape, x, put),
        DType::F64 => find::<f64>(kind, shape, x, put),
        _ if is_narrow_float(dtype) => {
            let mut wide = vec![0f32; outer * len * inner];
            widen(dtype, x, &mut wide);
            find::<f32>(kind, shape, bytemuck::cast_slice(&wide), put);
        }
        _ => unsupported(kind, dtype),
    }
}

fn find<T: Element + PartialOrd>(
    kind: ReduceKind,
    [outer, len, inner]: [usize; 3],
    x: &[u8],
    mut put: impl FnMut(usize, usize),
) {
    let x = elements::<T>(x);
    let better = |a: T, b: T| if kind == ReduceKind::ArgMax { a > b } else { a < b };
    let is_nan = |a: T| a.partial_cmp(&a).is_none();
    for o in 0..outer {
        for i in 0..inner {
            let at = |index: usize| T::load(x[(o * len + index) * inner + i]);
            let mut best = (0, at(0));
            for index in 1..len {
                if is_nan(best.1) {
                    break;
                }
                let candidate = at(index);
                if better(candidate, best.1) || is_nan(candidate) {
                    best = (index, candidate);
                }
            }
            put(o * inner + i, best.0);
        }
    }
}
