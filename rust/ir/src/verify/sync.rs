//! Barriers, asynchronous copies and tensor cores.

use super::check::{Check, Problem, Rule, dim_in_range, element_count, ensure};
use super::control::cluster_axes;
use super::memory::rmw_defined;
use crate::attrs::{Collective, Partition, RmwKind};
use crate::types::{Elem, RefType, Space, Type};
use pallas_rs_core::{DType, matmul_supports};

/// A ref to one barrier; kernels leave the index away where there is only one.
pub(super) fn one_barrier(what: &str, ty: &Type) -> Rule {
    let fits = ty.as_ref().is_some_and(|r| {
        r.elem == Elem::Barrier && r.space == Space::Smem && element_count(&r.shape) == 1
    });
    ensure(fits, what, "a ref to one barrier in smem", ty)
}

pub(super) fn barrier_arrive(c: &Check<'_>) -> Rule {
    one_barrier("barrier", c.ty(0))?;
    c.mask(1, &[])?;
    c.results(&[])
}

pub(super) fn barrier_wait(c: &Check<'_>) -> Rule {
    one_barrier("barrier", c.ty(0))?;
    c.results(&[])
}

pub(super) fn barrier_test(c: &Check<'_>) -> Rule {
    one_barrier("barrier", c.ty(0))?;
    c.returns(Type::Scalar(DType::Bool))
}

/// A ref to one semaphore.
fn one_semaphore(c: &Check<'_>) -> Rule {
    let ty = c.ty(0);
    let fits = ty.as_ref().is_some_and(|r| {
        r.elem == Elem::Semaphore && r.space == Space::Gmem && element_count(&r.shape) == 1
    });
    ensure(fits, "semaphore", "a ref to one semaphore in gmem", ty)
}

pub(super) fn semaphore(c: &Check<'_>) -> Rule {
    one_semaphore(c)?;
    c.is(1, &Type::Scalar(DType::I32))?;
    c.results(&[])
}

pub(super) fn semaphore_read(c: &Check<'_>) -> Rule {
    one_semaphore(c)?;
    c.returns(Type::Scalar(DType::I32))
}

pub(super) fn named_barrier(c: &Check<'_>) -> Rule {
    c.integers(0)?;
    c.integers(1)?;
    c.results(&[])
}

/// A ref to numbers in `space`.
pub(super) fn data_in<'a>(c: &Check<'a>, i: usize, space: Space) -> Rule<(&'a RefType, DType)> {
    let (r, dtype) = c.data(i)?;
    ensure(r.space == space, c.name(i), format_args!("a ref to {space}"), r)?;
    Ok((r, dtype))
}

pub(super) fn copy_gmem_to_smem(c: &Check<'_>, collective: Option<&Collective>) -> Rule {
    let (source, dtype) = data_in(c, 0, Space::Gmem)?;
    let (target, _) = data_in(c, 1, Space::Smem)?;
    let mut shape = source.shape.clone();
    if let Some(Collective { axes, partition }) = collective {
        ensure(c.optional(2).is_some(), "barrier", "one for a collective copy", "none")?;
        ensure(!axes.is_empty(), "cluster axes", "at least one", 0)?;
        cluster_axes(c, axes)?;
        if let Partition::Partitioned(dim) = partition {
            let blocks: usize = axes.iter().map(|&axis| c.program.cluster[axis]).product();
            let parts = shape.get_mut(*dim).filter(|size| **size % blocks == 0);
            *parts.ok_or_else(|| {
                Problem::new("source", format_args!("{blocks} parts of dimension {dim}"), source)
            })? /= blocks;
        }
    }
    let expected = RefType::data(Space::Smem, dtype, shape);
    ensure(*target == expected, "target", &expected, target)?;
    if let Some(barrier) = c.optional(2) {
        one_barrier("barrier", barrier)?;
    }
    c.mask(3, &[])?;
    c.results(&[])
}

pub(super) fn copy_smem_to_gmem(c: &Check<'_>, reduction: Option<RmwKind>) -> Rule {
    let (source, dtype) = data_in(c, 0, Space::Smem)?;
    let (target, _) = data_in(c, 1, Space::Gmem)?;
    let expected = RefType::data(Space::Gmem, dtype, source.shape.clone());
    ensure(*target == expected, "target", &expected, target)?;
    if let Some(kind) = reduction {
        ensure(kind != RmwKind::Xchg, "reduction", "a reduction", format_args!("{kind:?}"))?;
        rmw_defined(kind, dtype)?;
    }
    c.mask(2, &[])?;
    c.results(&[])
}

pub(super) fn async_store_smem(c: &Check<'_>, reduction: Option<RmwKind>) -> Rule {
    let (target, dtype) = data_in(c, 0, Space::Smem)?;
    c.is(1, &Type::value(dtype, target.shape.clone()))?;
    one_barrier("barrier", c.ty(2))?;
    if let Some(kind) = reduction {
        let combines = !matches!(kind, RmwKind::Xchg | RmwKind::Inc | RmwKind::Dec);
        ensure(combines, "reduction", "a reduction", format_args!("{kind:?}"))?;
        rmw_defined(kind, dtype)?;
    }
    c.results(&[])
}

/// Sixteen bytes of SMEM.
fn answer(c: &Check<'_>) -> Rule {
    let (result, dtype) = data_in(c, 0, Space::Smem)?;
    let bytes = element_count(&result.shape) * dtype.size();
    ensure(bytes == 16, "result", "16 bytes", bytes)
}

pub(super) fn try_cluster_cancel(c: &Check<'_>) -> Rule {
    answer(c)?;
    one_barrier("barrier", c.ty(1))?;
    c.results(&[])
}

pub(super) fn query_cluster_cancel(c: &Check<'_>, axes: &[usize]) -> Rule {
    answer(c)?;
    let rank = c.program.grid.len();
    axes.iter().try_for_each(|&axis| dim_in_range("axes", axis, rank))?;
    let mut results = vec![Type::Scalar(DType::I32); axes.len()];
    results.push(Type::Scalar(DType::Bool));
    c.results(&results)
}

pub(super) fn wgmma(c: &Check<'_>) -> Rule {
    let (acc, acc_dtype) = data_in(c, 0, Space::Regs)?;
    let (b, b_dtype) = data_in(c, 2, Space::Smem)?;
    let (a, a_dtype) = match c.ty(1) {
        Type::Tile(dtype, shape) => (&shape[..], *dtype),
        Type::Scalar(_) | Type::Ref(_) => {
            let (a, dtype) = data_in(c, 1, Space::Smem)?;
            (&a.shape[..], dtype)
        }
    };
    let fits = match (&acc.shape[..], a, &b.shape[..]) {
        ([m, n], [am, ak], [bk, bn]) => m == am && n == bn && ak == bk,
        _ => false,
    };
    let got = format_args!("{:?} += {a:?} @ {:?}", acc.shape, b.shape);
    ensure(fits, "shapes", "[m, n] += [m, k] @ [k, n]", got)?;
    let got = format_args!("{a_dtype} by {b_dtype} to {acc_dtype}");
    let supported = matmul_supports(a_dtype, b_dtype, acc_dtype);
    ensure(supported, "dtypes", "a product that exists", got)?;
    c.results(&[])
}

pub(super) fn accumulator_load(c: &Check<'_>) -> Rule {
    let (acc, dtype) = data_in(c, 0, Space::Regs)?;
    c.returns(Type::value(dtype, acc.shape.clone()))
}
