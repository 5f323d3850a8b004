"""Reductions and running reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _fallback
from ._builder import Val
from ._context import RuleContext
from ._registry import rule

# primitive -> `ReduceKind`
_REDUCE = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
    "argmax": "arg_max",
    "argmin": "arg_min",
    # plgpu.sum and its like are the same reductions with a hint for the accumulator.
    "mosaic_gpu_reduce_sum": "sum",
    "mosaic_gpu_reduce_prod": "prod",
    "mosaic_gpu_reduce_max": "max",
    "mosaic_gpu_reduce_min": "min",
}

# primitive -> `CumulativeKind`
_CUMULATIVE = {
    "cumsum": "sum",
    "cumprod": "prod",
    "cummax": "max",
    "cummin": "min",
    "cumlogsumexp": "log_sum_exp",
}


@rule(*_REDUCE)
def _reduce(ctx: RuleContext, x: Val, *, axes: Sequence[int], **_: Any) -> Any:
    if x.dtype.startswith("complex"):
        return _fallback.lower(ctx, x)
    axes = [int(a) for a in axes]
    if not axes:
        return x
    return ctx.builder.op(
        "reduce", [x], ctx.out_dtype, ctx.out_shape, kind=_REDUCE[ctx.primitive], axes=axes
    )


@rule(*_CUMULATIVE)
def _cumulative(ctx: RuleContext, x: Val, *, axis: int, reverse: bool) -> Any:
    if x.dtype.startswith("complex"):
        return _fallback.lower(ctx, x)
    return ctx.builder.op(
        "cumulative",
        [x],
        x.dtype,
        x.shape,
        kind=_CUMULATIVE[ctx.primitive],
        axis=int(axis),
        reverse=bool(reverse),
    )
