"""Barriers and fences, and the waits that order a thread with its own asynchronous work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from ._builder import Ref, Val, Value
from ._context import RuleContext
from ._indexing import index_ref, plain_view, unflatten
from ._registry import rule


def static_int(ctx: RuleContext, value: int | Val, operand: int = 0) -> int:
    """A count that newer JAX passes as a parameter and older JAX as a literal operand."""
    if isinstance(value, int):
        return value
    atom = ctx.eqn.invars[operand]
    if not jax_internals.is_literal(atom):
        raise ctx.unsupported("its count must be known when the kernel is traced")
    return int(atom.val)


def split_predicate(
    leaves: Sequence[Value], has_user_predicate: bool
) -> tuple[list[Value], list[Value]]:
    """The leaves of the transforms, and the predicate behind them if there is one."""
    count = len(leaves) - bool(has_user_predicate)
    return list(leaves[:count]), list(leaves[count:])


def one_barrier(ctx: RuleContext, barrier: Ref, tree: Any, leaves: Sequence[Value]) -> Ref:
    """The single barrier that a view of an array of barriers names.

    A slice names the barrier at its start. Dimensions that no indexer mentions must have one
    barrier each.
    """
    transforms = unflatten(tree, leaves)
    for transform in transforms:
        for index in getattr(transform, "indices", ()):
            if getattr(index, "stride", 1) != 1:
                raise ctx.unsupported("a slice of barriers cannot have a stride")
    ref = plain_view(ctx, barrier, transforms)
    if not transforms and any(n != 1 for n in ref.shape):
        raise ctx.unsupported(
            f"it needs one barrier and was given an array of {list(ref.shape)}: index it"
        )
    return index_ref(ctx.builder, ref, [0] * len(ref.shape))


@rule("barrier_arrive")
def _barrier_arrive(
    ctx: RuleContext,
    barrier: Ref,
    *leaves: Val,
    transforms_treedef: Any,
    has_user_predicate: bool = False,
) -> Sequence[Value]:
    view, predicate = split_predicate(leaves, has_user_predicate)
    ref = one_barrier(ctx, barrier, transforms_treedef, view)
    ctx.builder.emit("barrier_arrive", [ref, *predicate], predicate=bool(predicate))
    return ()


@rule("barrier_wait")
def _barrier_wait(
    ctx: RuleContext, barrier: Ref, *leaves: Val, transforms_treedef: Any
) -> Sequence[Value]:
    ctx.builder.emit("barrier_wait", [one_barrier(ctx, barrier, transforms_treedef, leaves)])
    return ()


@rule("barrier_arrive_and_wait")
def _barrier_arrive_and_wait(
    ctx: RuleContext, barrier: Ref, *leaves: Val, transforms_treedef: Any
) -> Sequence[Value]:
    ref = one_barrier(ctx, barrier, transforms_treedef, leaves)
    ctx.builder.emit("barrier_arrive", [ref], predicate=False)
    ctx.builder.emit("barrier_wait", [ref])
    return ()


@rule("barrier_test")
def _barrier_test(ctx: RuleContext, barrier: Ref, *leaves: Val, transforms_treedef: Any) -> Val:
    ref = one_barrier(ctx, barrier, transforms_treedef, leaves)
    return ctx.builder.op("barrier_test", [ref], "bool")


@rule("commit_smem")
def _commit_smem(ctx: RuleContext) -> Sequence[Value]:
    ctx.builder.emit("commit_smem")
    return ()


@rule("commit_group")
def _commit_group(ctx: RuleContext) -> Sequence[Value]:
    ctx.builder.emit("commit_group")
    return ()


@rule("wait_smem_to_gmem")
def _wait_smem_to_gmem(
    ctx: RuleContext, *operands: Val, wait_read_only: bool, n: int | None = None
) -> Sequence[Value]:
    count = static_int(ctx, operands[0] if n is None else n)
    ctx.builder.emit("wait_smem_to_gmem", n=count, read_only=bool(wait_read_only))
    return ()


@rule("wait_gmem_to_smem")
def _wait_gmem_to_smem(ctx: RuleContext, *operands: Val, n: int | None = None) -> Sequence[Value]:
    ctx.builder.emit("wait_gmem_to_smem", n=static_int(ctx, operands[0] if n is None else n))
    return ()
