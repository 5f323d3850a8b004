//! Views and generic memory accesses.

use super::check::{Check, Rule, element_count, ensure, per_dim};
use super::control::cluster_axes;
use super::shape::permuted;
use crate::attrs::{BlockDim, GatherDim, RmwKind, SliceDim};
use crate::types::{RefType, Space, Type};
use pallas_rs_core::{BinaryKind, DType};

pub(super) fn ref_slice(c: &Check<'_>, dims: &[SliceDim]) -> Rule {
    let base = c.reference(0)?;
    per_dim("dims", dims.len(), base.shape.len())?;
    for dim in dims {
        if let SliceDim::Slice { stride, .. } = dim {
            ensure(*stride > 0, "stride", "at least 1", stride)?;
        }
    }
    c.integers(1)?;
    let shape: Vec<usize> = dims.iter().filter_map(|dim| dim.size()).collect();
    c.returns(Type::Ref(base.with_shape(shape)))
}

pub(super) fn ref_transpose(c: &Check<'_>, perm: &[usize]) -> Rule {
    let base = c.reference(0)?;
    c.returns(Type::Ref(base.with_shape(permuted("perm", &base.shape, perm)?)))
}

fn result_ref<'a>(c: &Check<'a>) -> Rule<&'a RefType> {
    let ty = c.result()?;
    ty.as_ref().ok_or_else(|| super::Problem::new("result", "a ref", ty))
}

pub(super) fn ref_reshape(c: &Check<'_>) -> Rule {
    let base = c.reference(0)?;
    let result = result_ref(c)?;
    let (from, to) = (element_count(&base.shape), element_count(&result.shape));
    ensure(from == to, "result", format_args!("{from} elements"), to)?;
    c.returns(Type::Ref(base.with_shape(result.shape.clone())))
}

/// A change of width changes one dimension: JAX's second-minor one, or the minor one.
pub(super) fn ref_bitcast(c: &Check<'_>) -> Rule {
    let (base, from) = c.data(0)?;
    let result = result_ref(c)?;
    let same_space = result.space == base.space;
    ensure(same_space, "result", format_args!("a ref to {}", base.space), result)?;
    let Some(to) = result.dtype() else {
        return ensure(false, "result", "a ref to numbers", result);
    };
    let bits =
        |shape: &[usize], dtype: DType| element_count(shape).checked_mul(dtype.packed_bits());
    let same_bits = bits(&base.shape, from) == bits(&result.shape, to);
    let changed = base.shape.iter().zip(&result.shape).filter(|(a, b)| a != b).count();
    let fits = same_bits && base.shape.len() == result.shape.len() && changed <= 1;
    ensure(fits, "result", format_args!("the bits of {base} with one dimension changed"), result)
}

/// Every block of a cluster makes the same allocations, so SMEM and its barriers have peers.
pub(super) fn ref_peer(c: &Check<'_>, axes: &[usize]) -> Rule {
    let base = c.reference(0)?;
    ensure(base.space == Space::Smem, "base", "a ref to smem", base)?;
    cluster_axes(c, axes)?;
    per_dim("indices", c.types(1).len(), axes.len())?;
    c.integers(1)?;
    c.returns(Type::Ref(base.clone()))
}

pub(super) fn block_window(c: &Check<'_>, dims: &[BlockDim]) -> Rule {
    let (array, _) = c.data(0)?;
    let in_gmem = array.space == Space::Gmem;
    ensure(in_gmem, "array", "a ref to gmem", array)?;
    per_dim("dims", dims.len(), array.shape.len())?;
    per_dim("indices", c.types(1).len(), array.shape.len())?;
    c.integers(1)?;
    let shape: Vec<usize> = dims.iter().filter_map(|dim| dim.size()).collect();
    c.returns(Type::Ref(array.with_shape(shape)))
}

/// A ref that a thread may read and write with plain instructions, and the value it holds.
fn generic(c: &Check<'_>, i: usize) -> Rule<Type> {
    let (target, dtype) = c.data(i)?;
    let reachable = matches!(target.space, Space::Gmem | Space::Smem);
    ensure(reachable, c.name(i), "a ref to gmem or smem", target)?;
    Ok(Type::value(dtype, target.shape.clone()))
}

pub(super) fn load(c: &Check<'_>) -> Rule {
    let contents = generic(c, 0)?;
    c.returns(contents)
}

/// Unlike the other accesses it may also set an accumulator.
pub(super) fn store(c: &Check<'_>) -> Rule {
    let (target, dtype) = c.data(0)?;
    let reachable = target.space != Space::Tmem;
    ensure(reachable, "target", "a ref to gmem, smem or regs", target)?;
    c.is(1, &Type::value(dtype, target.shape.clone()))?;
    c.results(&[])
}

pub(super) fn swap(c: &Check<'_>) -> Rule {
    let contents = generic(c, 0)?;
    c.is(1, &contents)?;
    c.returns(contents)
}

pub(super) fn load_masked(c: &Check<'_>) -> Rule {
    let contents = generic(c, 0)?;
    c.mask(1, contents.shape())?;
    other(c, 2, &contents)?;
    c.returns(contents)
}

fn other(c: &Check<'_>, i: usize, contents: &Type) -> Rule {
    match c.optional(i) {
        Some(ty) => ensure(ty == contents, "other", contents, ty),
        None => Ok(()),
    }
}

pub(super) fn store_masked(c: &Check<'_>) -> Rule {
    let contents = generic(c, 0)?;
    c.is(1, &contents)?;
    c.mask(2, contents.shape())?;
    c.may_return(contents)
}

/// The type of what an indexer selects from entry 0. `indices` is the entry of the index arrays,
/// the dynamic starts come before it.
fn selected(c: &Check<'_>, dims: &[GatherDim], at: usize, indices: usize) -> Rule<Type> {
    let contents = generic(c, 0)?;
    let source = contents.shape();
    per_dim("dims", dims.len(), source.len())?;
    c.integers(indices - 1)?;
    let arrays = c.types(indices);
    let Some(first) = arrays.first() else {
        return ensure(false, "indices", "at least one array", 0).map(|()| contents);
    };
    for array in &arrays {
        let fits = array.dtype().is_some_and(DType::is_int) && array.shape() == first.shape();
        ensure(fits, "indices", "integer tiles of one shape", array)?;
    }
    let mut shape = Vec::new();
    for dim in dims {
        if let GatherDim::Slice { size, stride, .. } = dim {
            ensure(*stride > 0, "stride", "at least 1", stride)?;
            shape.push(*size);
        }
    }
    ensure(at <= shape.len(), "at", format_args!("at most {}", shape.len()), at)?;
    shape.splice(at..at, first.shape().iter().copied());
    let dtype = contents.dtype().expect("a value has a dtype");
    Ok(Type::value(dtype, shape))
}

pub(super) fn gather(c: &Check<'_>, dims: &[GatherDim], at: usize) -> Rule {
    let result = selected(c, dims, at, 2)?;
    c.mask(3, result.shape())?;
    other(c, 4, &result)?;
    c.returns(result)
}

pub(super) fn scatter(c: &Check<'_>, dims: &[GatherDim], at: usize) -> Rule {
    let written = selected(c, dims, at, 3)?;
    c.is(1, &written)?;
    c.mask(4, written.shape())?;
    c.may_return(written)
}

/// A read-modify-write is defined on a dtype.
pub(crate) fn rmw_defined(kind: RmwKind, dtype: DType) -> Rule {
    let number = dtype.is_int() || dtype.is_float();
    let holds = match kind {
        RmwKind::Add => number && BinaryKind::Add.supports(dtype),
        RmwKind::Min => number && BinaryKind::Min.supports(dtype),
        RmwKind::Max => number && BinaryKind::Max.supports(dtype),
        RmwKind::And | RmwKind::Or | RmwKind::Xor => dtype.is_int() || dtype == DType::Bool,
        RmwKind::Xchg => dtype.fits_scalar(),
        RmwKind::Inc | RmwKind::Dec => dtype.is_int(),
    };
    ensure(holds, &format!("{kind:?}"), "a dtype it is defined on", dtype)
}

pub(super) fn atomic_rmw(c: &Check<'_>, kind: RmwKind) -> Rule {
    let contents = generic(c, 0)?;
    rmw_defined(kind, contents.dtype().expect("a value has a dtype"))?;
    c.is(1, &contents)?;
    c.mask(2, contents.shape())?;
    c.may_return(contents)
}

pub(super) fn atomic_cas(c: &Check<'_>) -> Rule {
    let contents = generic(c, 0)?;
    let dtype = contents.dtype().expect("a value has a dtype");
    ensure(dtype.fits_scalar(), "target", "a dtype of at most 64 bits", dtype)?;
    c.is(1, &contents)?;
    c.is(2, &contents)?;
    c.returns(contents)
}
