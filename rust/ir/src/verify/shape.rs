//! Ops that move, join, reduce and multiply tiles.

use super::check::{
    Check, Problem, Rule, dim_in_range, distinct_dims, element_count, ensure, per_dim,
};
use crate::types::Type;
use pallas_rs_core::{CumulativeKind, DType, ReduceKind, matmul_supports};

/// The operand's dtype at the shape that the result has: for ops whose sizes only the result knows.
fn result_shape<'a>(c: &Check<'a>, dtype: DType) -> Rule<&'a [usize]> {
    let (got, shape) = c.result_value()?;
    ensure(got == dtype, "result", dtype, got)?;
    c.returns(Type::value(dtype, shape))?;
    Ok(shape)
}

pub(super) fn iota(c: &Check<'_>, dimension: usize) -> Rule {
    let (dtype, shape) = c.result_value()?;
    ensure(dtype.is_int() || dtype.is_float(), "result", "integers or floats", dtype)?;
    dim_in_range("dimension", dimension, shape.len())
}

pub(super) fn broadcast(c: &Check<'_>, dims: &[usize]) -> Rule {
    let (dtype, from) = c.value(0)?;
    let to = result_shape(c, dtype)?;
    per_dim("dims", dims.len(), from.len())?;
    distinct_dims("dims", dims, to.len())?;
    ensure(dims.is_sorted(), "dims", "ascending dimensions", format_args!("{dims:?}"))?;
    let fits = dims.iter().zip(from).all(|(&dim, &size)| size == 1 || size == to[dim]);
    ensure(fits, "result", format_args!("a broadcast of {}", c.ty(0)), c.result()?)
}

pub(super) fn reshape(c: &Check<'_>) -> Rule {
    let (dtype, from) = c.value(0)?;
    let to = result_shape(c, dtype)?;
    let (from, to) = (element_count(from), element_count(to));
    ensure(from == to, "result", format_args!("{from} elements"), to)
}

pub(super) fn permuted(what: &str, shape: &[usize], perm: &[usize]) -> Rule<Vec<usize>> {
    per_dim(what, perm.len(), shape.len())?;
    distinct_dims(what, perm, shape.len())?;
    Ok(perm.iter().map(|&dim| shape[dim]).collect())
}

pub(super) fn transpose(c: &Check<'_>, perm: &[usize]) -> Rule {
    let (dtype, shape) = c.value(0)?;
    c.returns(Type::value(dtype, permuted("perm", shape, perm)?))
}

pub(super) fn slice(c: &Check<'_>, starts: &[usize], strides: &[usize]) -> Rule {
    let (dtype, shape) = c.value(0)?;
    let sizes = result_shape(c, dtype)?;
    per_dim("result", sizes.len(), shape.len())?;
    per_dim("starts", starts.len(), shape.len())?;
    per_dim("strides", strides.len(), shape.len())?;
    for (dim, (&start, &stride)) in starts.iter().zip(strides).enumerate() {
        ensure(stride > 0, "strides", "at least 1", stride)?;
        let last = sizes[dim].saturating_sub(1).checked_mul(stride);
        let end = last.and_then(|n| n.checked_add(start)?.checked_add(sizes[dim].min(1)));
        let fits = end.is_some_and(|end| end <= shape[dim]);
        let got = format_args!("{} from {start} by {stride}", sizes[dim]);
        ensure(fits, "slice", format_args!("within {} of dimension {dim}", shape[dim]), got)?;
    }
    Ok(())
}

pub(super) fn pad(c: &Check<'_>, lo: &[i64], hi: &[i64], interior: &[usize]) -> Rule {
    let (dtype, shape) = c.value(0)?;
    c.is(1, &Type::value(dtype, []))?;
    for len in [lo.len(), hi.len(), interior.len()] {
        per_dim("padding", len, shape.len())?;
    }
    let padded = |dim: usize| -> Option<usize> {
        let gaps = interior[dim].checked_mul(shape[dim].saturating_sub(1))?;
        let inside = i64::try_from(shape[dim].checked_add(gaps)?).ok()?;
        let size = inside.checked_add(lo[dim])?.checked_add(hi[dim])?;
        usize::try_from(size.max(0)).ok()
    };
    let sizes: Option<Vec<usize>> = (0..shape.len()).map(padded).collect();
    let sizes = sizes.ok_or_else(|| Problem::new("padding", "a size that fits", "an overflow"))?;
    c.returns(Type::value(dtype, sizes))
}

pub(super) fn concatenate(c: &Check<'_>, dimension: usize) -> Rule {
    let parts = c.types(0);
    let Some(Type::Tile(dtype, first)) = parts.first() else {
        return Err(Problem::new("xs", "at least one tile", parts.len()));
    };
    dim_in_range("dimension", dimension, first.len())?;
    let mut joined = first.clone();
    joined[dimension] = 0;
    for part in &parts {
        let mut expected = first.clone();
        let size = part.shape().get(dimension).copied().unwrap_or(0);
        expected[dimension] = size;
        let expected = Type::Tile(*dtype, expected);
        ensure(**part == expected, "xs", expected, part)?;
        joined[dimension] = joined[dimension].saturating_add(size);
    }
    c.returns(Type::Tile(*dtype, joined))
}

pub(super) fn rev(c: &Check<'_>, dims: &[usize]) -> Rule {
    distinct_dims("dims", dims, c.ty(0).shape().len())?;
    c.returns(c.ty(0).clone())
}

fn window_fits(what: &str, window: &[usize], array: &[usize]) -> Rule {
    per_dim(what, window.len(), array.len())?;
    let fits = window.iter().zip(array).all(|(w, a)| w <= a);
    ensure(fits, what, format_args!("a window within {array:?}"), format_args!("{window:?}"))
}

pub(super) fn dynamic_slice(c: &Check<'_>) -> Rule {
    let (dtype, shape) = c.value(0)?;
    per_dim("starts", c.types(1).len(), shape.len())?;
    c.integers(1)?;
    window_fits("result", result_shape(c, dtype)?, shape)
}

pub(super) fn dynamic_update_slice(c: &Check<'_>) -> Rule {
    let (dtype, shape) = c.value(0)?;
    let (update_dtype, update) = c.value(1)?;
    ensure(update_dtype == dtype, "update", dtype, update_dtype)?;
    window_fits("update", update, shape)?;
    per_dim("starts", c.types(2).len(), shape.len())?;
    c.integers(2)?;
    c.returns(c.ty(0).clone())
}

pub(super) fn reduce(c: &Check<'_>, kind: ReduceKind, axes: &[usize]) -> Rule {
    let (dtype, shape) = c.value(0)?;
    distinct_dims("axes", axes, shape.len())?;
    ensure(kind.supports(dtype), &format!("{kind:?}"), "a dtype it is defined on", dtype)?;
    let kept: Vec<usize> = (shape.iter().enumerate())
        .filter_map(|(dim, size)| (!axes.contains(&dim)).then_some(*size))
        .collect();
    if kind.is_arg() {
        ensure(axes.len() == 1, "axes", "one axis", axes.len())?;
        let (index, _) = c.result_value()?;
        ensure(index.is_int(), "result", "integers", index)?;
        c.returns(Type::value(index, kept))
    } else {
        c.returns(Type::value(dtype, kept))
    }
}

pub(super) fn cumulative(c: &Check<'_>, kind: CumulativeKind, axis: usize) -> Rule {
    let (dtype, shape) = c.value(0)?;
    dim_in_range("axis", axis, shape.len())?;
    ensure(kind.supports(dtype), &format!("{kind:?}"), "a dtype it is defined on", dtype)?;
    c.returns(c.ty(0).clone())
}

/// Each pair is (lhs, rhs).
pub(super) fn dot_general(
    c: &Check<'_>,
    contract: [&Vec<usize>; 2],
    batch: [&Vec<usize>; 2],
) -> Rule {
    let (lhs_dtype, lhs) = c.value(0)?;
    let (rhs_dtype, rhs) = c.value(1)?;
    let shapes = [lhs, rhs];
    let mut result: Vec<usize> = Vec::new();
    for (what, [left, right]) in [("batch", batch), ("contract", contract)] {
        let equal = left.len() == right.len();
        ensure(equal, what, format_args!("{} dimensions", left.len()), right.len())?;
    }
    for side in 0..2 {
        let named = [&contract[side][..], &batch[side][..]].concat();
        distinct_dims("batch and contract", &named, shapes[side].len())?;
    }
    for [left, right] in [batch, contract] {
        for (&l, &r) in left.iter().zip(right) {
            ensure(lhs[l] == rhs[r], "sizes", format_args!("{} in rhs", lhs[l]), rhs[r])?;
        }
    }
    result.extend(batch[0].iter().map(|&dim| lhs[dim]));
    for side in 0..2 {
        let free = (0..shapes[side].len())
            .filter(|dim| !contract[side].contains(dim) && !batch[side].contains(dim));
        result.extend(free.map(|dim| shapes[side][dim]));
    }
    let (out, _) = c.result_value()?;
    let got = format_args!("{lhs_dtype} by {rhs_dtype} to {out}");
    let supported = matmul_supports(lhs_dtype, rhs_dtype, out);
    ensure(supported, "dtypes", "a product that exists", got)?;
    c.returns(Type::value(out, result))
}
