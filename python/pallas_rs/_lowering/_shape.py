"""Ops that move elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Val
from ._context import RuleContext
from ._registry import rule


@rule("broadcast_in_dim")
def _broadcast_in_dim(ctx: RuleContext, x: Val, *dynamic_shape: Val, **params: Any) -> Any:
    return ctx.builder.broadcast(x, ctx.out_shape, params["broadcast_dimensions"])


@rule("broadcast_to")
def _broadcast_to(ctx: RuleContext, x: Val, **_: Any) -> Any:
    return ctx.builder.broadcast(x, ctx.out_shape)


@rule("reshape", "squeeze")
def _reshape(ctx: RuleContext, x: Val, *dynamic_shape: Val, **params: Any) -> Any:
    if ctx.primitive == "reshape" and params.get("dimensions") is not None:
        x = transpose(ctx, x, params["dimensions"])
    return ctx.builder.reshape(x, ctx.out_shape)


def transpose(ctx: RuleContext, x: Val, permutation: Sequence[int]) -> Val:
    perm = [int(p) for p in permutation]
    if perm == list(range(len(perm))):
        return x
    return ctx.builder.op("transpose", [x], x.dtype, [x.shape[p] for p in perm], perm=perm)


@rule("transpose")
def _transpose(ctx: RuleContext, x: Val, *, permutation: Sequence[int]) -> Any:
    return transpose(ctx, x, permutation)


@rule("slice")
def _slice(
    ctx: RuleContext, x: Val, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Any:
    del limit_indices  # the result's shape says it
    strides = strides or (1,) * len(x.shape)
    return static_slice(ctx, x, start_indices, ctx.out_shape, strides)


def static_slice(
    ctx: RuleContext,
    x: Val,
    starts: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Val:
    """`x` from `starts`, at `shape`."""
    strides = [int(s) for s in strides] if strides is not None else [1] * len(x.shape)
    if tuple(shape) == x.shape:
        return x
    return ctx.builder.op(
        "slice", [x], x.dtype, shape, starts=[int(s) for s in starts], strides=strides
    )


@rule("split")
def _split(ctx: RuleContext, x: Val, *, sizes: Sequence[int], axis: int) -> Any:
    parts = []
    offset = 0
    for size in sizes:
        starts = [0] * len(x.shape)
        starts[axis] = offset
        shape = (*x.shape[:axis], int(size), *x.shape[axis + 1 :])
        parts.append(static_slice(ctx, x, starts, shape))
        offset += int(size)
    return parts


@rule("unstack")
def _unstack(ctx: RuleContext, x: Val, *, axis: int, **_: Any) -> Any:
    parts = []
    for i, aval in enumerate(ctx.avals_out):
        starts = [0] * len(x.shape)
        starts[axis] = i
        part = static_slice(ctx, x, starts, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        parts.append(ctx.builder.reshape(part, aval.shape))
    return parts


@rule("pad")
def _pad(ctx: RuleContext, x: Val, value: Val, *, padding_config: Any) -> Any:
    if not padding_config:
        return x
    lo, hi, interior = ([int(n) for n in column] for column in zip(*padding_config, strict=True))
    return ctx.builder.op(
        "pad", [x, value], x.dtype, ctx.out_shape, lo=lo, hi=hi, interior=interior
    )


@rule("concatenate")
def _concatenate(ctx: RuleContext, *xs: Val, dimension: int, **_: Any) -> Any:
    if len(xs) == 1:
        return xs[0]
    return ctx.builder.op("concatenate", xs, xs[0].dtype, ctx.out_shape, dimension=int(dimension))


@rule("stack")
def _stack(ctx: RuleContext, *xs: Val, axis: int, **_: Any) -> Any:
    b = ctx.builder
    parts = [b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in xs]
    if len(parts) == 1:
        return parts[0]
    return b.op("concatenate", parts, ctx.out_dtype, ctx.out_shape, dimension=int(axis))


@rule("tile")
def _tile(ctx: RuleContext, x: Val, *, reps: Sequence[int]) -> Any:
    b = ctx.builder
    shape = [n for rep, size in zip(reps, x.shape, strict=True) for n in (int(rep), size)]
    dims = [2 * i + 1 for i in range(len(x.shape))]
    return b.reshape(b.broadcast(x, shape, dims), ctx.out_shape)


@rule("empty")
def _empty(ctx: RuleContext, **_: Any) -> Any:
    return ctx.builder.constant(0, ctx.out_dtype, ctx.out_shape)


@rule("rev")
def _rev(ctx: RuleContext, x: Val, *, dimensions: Sequence[int]) -> Any:
    dims = [int(d) for d in dimensions]
    return ctx.builder.op("rev", [x], x.dtype, x.shape, dims=dims) if dims else x


@rule("iota")
def _iota(ctx: RuleContext, *dynamic_shape: Val, dimension: int, **_: Any) -> Any:
    return ctx.builder.op("iota", [], ctx.out_dtype, ctx.out_shape, dimension=int(dimension))


@rule("dynamic_slice")
def _dynamic_slice(ctx: RuleContext, x: Val, *starts: Val, **_: Any) -> Any:
    if ctx.out_shape == x.shape:
        return x  # the start is clamped to zero
    return ctx.builder.op("dynamic_slice", [x, *starts], x.dtype, ctx.out_shape)


@rule("dynamic_update_slice")
def _dynamic_update_slice(ctx: RuleContext, x: Val, update: Val, *starts: Val) -> Any:
    if update.shape == x.shape:
        return update
    return ctx.builder.op("dynamic_update_slice", [x, update, *starts], x.dtype, x.shape)
