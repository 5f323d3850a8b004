//! Position in the grid, control flow and the host.

use super::arith::blob_len;
use super::check::{Check, Problem, Rule, dim_in_range, ensure, owned};
use crate::attrs::{Alloc, AllocKind, LayoutTransform};
use crate::types::{Space, Type};
use pallas_rs_core::DType;

pub(super) fn position(c: &Check<'_>, axis: usize, rank: usize) -> Rule {
    dim_in_range("axis", axis, rank)?;
    c.returns(Type::Scalar(DType::I32))
}

pub(super) fn for_loop(c: &Check<'_>) -> Rule {
    c.integers(0)?;
    c.is(1, c.ty(0))?;
    let carry = owned(&c.types(2));
    let params = [&[c.ty(0).clone()], &carry[..]].concat();
    c.regions(1)?;
    c.region(0, &params, &carry)?;
    c.results(&carry)
}

pub(super) fn while_loop(c: &Check<'_>) -> Rule {
    let carry = owned(&c.types(0));
    c.regions(2)?;
    c.region(0, &carry, &[Type::Scalar(DType::Bool)])?;
    c.region(1, &carry, &carry)?;
    c.results(&carry)
}

pub(super) fn switch(c: &Check<'_>) -> Rule {
    let (dtype, _) = c.value(0)?;
    let fits = dtype.is_int() || dtype == DType::Bool;
    ensure(fits, "index", "an integer or a boolean", dtype)?;
    let count = c.inst.regions.len();
    ensure(count > 0, "regions", "at least 1", count)?;
    c.results_are_values()?;
    let results = owned(&c.result_types());
    (0..count).try_for_each(|i| c.region(i, &[], &results))
}

pub(super) fn scope(c: &Check<'_>, allocs: &[Alloc]) -> Rule {
    for alloc in allocs {
        allocation(c, alloc)
            .map_err(|p| Problem { what: format!("{}: {}", alloc.name, p.what), ..p })?;
    }
    let params: Vec<Type> = allocs.iter().map(|alloc| Type::Ref(alloc.ref_type())).collect();
    c.regions(1)?;
    // A ref that left its scope would name memory that is free.
    c.results_are_values()?;
    c.region(0, &params, &owned(&c.result_types()))
}

pub(super) fn warps(c: &Check<'_>) -> Rule {
    c.regions(1)?;
    c.results(&[])?;
    c.region(0, &[Type::Scalar(DType::I32)], &[])
}

fn allocation(c: &Check<'_>, alloc: &Alloc) -> Rule {
    let lives_in = |space| ensure(alloc.space == space, "space", space, alloc.space);
    match &alloc.kind {
        AllocKind::Data { layout, .. } => layout.iter().try_for_each(|transform| match transform {
            LayoutTransform::Tile(tile) => {
                let fits = !tile.is_empty() && !tile.contains(&0);
                ensure(fits, "tiling", "sizes of at least 1", format_args!("{tile:?}"))
            }
            LayoutTransform::Within(_) => {
                let shares = matches!(alloc.space, Space::Smem | Space::Tmem);
                ensure(shares, "space of a union", "smem or tmem", alloc.space)
            }
            LayoutTransform::Swizzle(bytes) => ensure(*bytes > 0, "swizzle", "at least 1", bytes),
        }),
        AllocKind::Barrier { arrivals, .. } => {
            lives_in(Space::Smem)?;
            ensure(*arrivals > 0, "arrivals", "at least 1", arrivals)
        }
        AllocKind::ClusterBarrier { axes, arrivals, leader_tracked, .. } => {
            lives_in(Space::Smem)?;
            ensure(*arrivals > 0, "arrivals", "at least 1", arrivals)?;
            cluster_axes(c, &axes.concat())?;
            let single = axes.len() == 1 && axes[0].len() == 1;
            let got = format_args!("{axes:?}");
            ensure(single || !leader_tracked, "axes of a leader-tracked barrier", "one", got)
        }
        AllocKind::Semaphore => lives_in(Space::Gmem),
    }
}

/// Dimensions of the cluster that take part in something collective.
pub(super) fn cluster_axes(c: &Check<'_>, axes: &[usize]) -> Rule {
    super::check::distinct_dims("cluster axes", axes, c.program.cluster.len())
}

pub(super) fn xla_call(c: &Check<'_>, blob: usize) -> Rule {
    blob_len(c, blob)?;
    c.results_are_values()
}

pub(super) fn host_check(c: &Check<'_>) -> Rule {
    c.is(0, &Type::Scalar(DType::Bool))?;
    c.results(&[])
}
