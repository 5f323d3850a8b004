"""Memory of the other blocks of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Ref, Val, Value
from ._context import RuleContext
from ._indexing import plain_view, unflatten
from ._registry import rule, transform_rule
from ._sync import one_barrier


def peer(ctx: RuleContext, ref: Ref, axes: Sequence[Any], indices: Sequence[Any]) -> Ref:
    """The same memory in the block at these indices along these axes of the cluster."""
    dims = []
    for axis in axes:
        if axis not in ctx.kernel.cluster_names:
            raise ctx.unsupported(f"`{axis}` is not an axis of the kernel's cluster")
        dims.append(ctx.kernel.cluster_names.index(axis))
    values = [ctx.kernel.value(i) for i in indices]
    out = ctx.builder.ref(ref.space, ref.elem, ref.shape)
    ctx.builder.emit("ref_peer", [ref, *values], [out], axes=dims)
    return out


@transform_rule("ClusterRefTransform")
def _cluster_ref(ctx: RuleContext, ref: Ref, transform: Any) -> Ref:
    if ref.space != "smem":
        raise ctx.unsupported("only shared memory belongs to one block of a cluster")
    return peer(ctx, ref, transform.dims, transform.idxs)


@rule("async_store_smem")
def _async_store_smem(
    ctx: RuleContext,
    x: Val,
    ref: Ref,
    barrier: Ref,
    cluster_idx: Val,
    *leaves: Val,
    ref_transforms_treedef: Any,
    barrier_transforms_treedef: Any,
    cluster_dim: Any,
    atomic: str | None = None,
    **_: Any,
) -> Sequence[Value]:
    names = ctx.kernel.cluster_names
    if isinstance(cluster_dim, int) and cluster_dim not in names and cluster_dim < len(names):
        cluster_dim = names[cluster_dim]
    split = ref_transforms_treedef.num_leaves
    target = plain_view(ctx, ref, unflatten(ref_transforms_treedef, leaves[:split]))
    arrived = one_barrier(ctx, barrier, barrier_transforms_treedef, leaves[split:])
    there = [peer(ctx, r, [cluster_dim], [cluster_idx]) for r in (target, arrived)]
    ctx.builder.emit("async_store_smem", [there[0], x, there[1]], reduction=atomic)
    return ()
