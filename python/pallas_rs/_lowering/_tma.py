"""Asynchronous copies between GMEM and SMEM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Ref, Val, Value
from ._context import RuleContext
from ._indexing import plain_view, unflatten
from ._registry import rule
from ._sync import one_barrier, split_predicate


@rule("copy_gmem_to_smem")
def _copy_gmem_to_smem(
    ctx: RuleContext,
    source: Ref,
    target: Ref,
    *operands: Any,
    src_transforms_treedef: Any,
    dst_transforms_treedef: Any,
    barrier_transforms_treedef: Any,
    collective_axes: Any,
    leader_tracked: Any,
    oob_mode: Any,
    has_barrier: bool = True,
    has_user_predicate: bool = False,
) -> Sequence[Value]:
    barriers = operands[:1] if has_barrier else ()
    leaves, predicate = split_predicate(operands[len(barriers) :], has_user_predicate)
    source_end = src_transforms_treedef.num_leaves
    target_end = source_end + dst_transforms_treedef.num_leaves
    source = plain_view(ctx, source, unflatten(src_transforms_treedef, leaves[:source_end]))
    target = plain_view(
        ctx, target, unflatten(dst_transforms_treedef, leaves[source_end:target_end])
    )
    barrier = [
        one_barrier(ctx, b, barrier_transforms_treedef, leaves[target_end:]) for b in barriers
    ]
    ctx.builder.emit(
        "copy_gmem_to_smem",
        [source, target, *barrier, *predicate],
        oob="zeros" if oob_mode is None else oob_mode.name.lower(),
        barrier=bool(barrier),
        predicate=bool(predicate),
        collective=_collective(ctx, collective_axes, leader_tracked),
        more=ctx.more,
    )
    return ()


def _collective(ctx: RuleContext, axes: Any, leader_tracked: Any) -> dict[str, Any] | None:
    if not axes:
        return None
    dims = [d for axis in axes for d in ctx.kernel.cluster_dims(axis)]
    partition: Any = "multicast"
    if leader_tracked is not None:
        axis = getattr(leader_tracked, "axis", None)
        partition = "replicated" if axis is None else {"partitioned": int(axis)}
    return {"axes": dims, "partition": partition}


@rule("copy_smem_to_gmem")
def _copy_smem_to_gmem(
    ctx: RuleContext,
    source: Ref,
    target: Ref,
    *operands: Val,
    src_transforms_treedef: Any,
    dst_transforms_treedef: Any,
    has_user_predicate: bool,
    commit_group: bool,
    reduction_op: str | None,
) -> Sequence[Value]:
    leaves, predicate = split_predicate(operands, has_user_predicate)
    source_end = src_transforms_treedef.num_leaves
    source = plain_view(ctx, source, unflatten(src_transforms_treedef, leaves[:source_end]))
    target = plain_view(ctx, target, unflatten(dst_transforms_treedef, leaves[source_end:]))
    ctx.builder.emit(
        "copy_smem_to_gmem",
        [source, target, *predicate],
        reduction=reduction_op,
        commit=bool(commit_group) and not ctx.more,
        predicate=bool(predicate),
    )
    return ()
