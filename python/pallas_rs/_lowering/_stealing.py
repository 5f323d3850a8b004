"""Cluster launch control: a cluster claims one that has not been launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Ref, Val, Value
from ._context import RuleContext
from ._indexing import plain_view, unflatten
from ._registry import rule
from ._sync import one_barrier


@rule("try_cluster_cancel")
def _try_cluster_cancel(
    ctx: RuleContext,
    result: Ref,
    barrier: Ref,
    *leaves: Val,
    result_transforms_tree: Any,
    barrier_transforms_tree: Any,
    collective_axes: Sequence[Any] | None = None,
) -> Sequence[Value]:
    split = 0 if result_transforms_tree is None else result_transforms_tree.num_leaves
    target = plain_view(ctx, result, unflatten(result_transforms_tree, leaves[:split]))
    arrived = one_barrier(ctx, barrier, barrier_transforms_tree, leaves[split:])
    thread = getattr(ctx.kernel.mesh, "thread_name", None)
    # Before 0.11 the first thread asks for all. The blocks of a cluster always ask together: an
    # answer reaches all of them.
    threads = thread is not None and (collective_axes is None or thread in collective_axes)
    ctx.builder.emit("try_cluster_cancel", [target, arrived], threads=threads)
    return ()


@rule("query_cluster_cancel")
def _query_cluster_cancel(
    ctx: RuleContext, result: Ref, *leaves: Val, grid_names: Sequence[Any], transforms_tree: Any
) -> Sequence[Value]:
    b = ctx.builder
    view = plain_view(ctx, result, unflatten(transforms_tree, leaves))
    axes = [ctx.kernel.grid_names.index(name) for name in grid_names]
    outs = [*(b.val("int32") for _ in axes), b.val("bool")]
    b.emit("query_cluster_cancel", [view], outs, axes=axes)
    return outs
