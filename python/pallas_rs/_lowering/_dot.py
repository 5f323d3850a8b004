"""Matrix products of values."""

from __future__ import annotations

from typing import Any

from . import _fallback
from ._builder import Val
from ._context import RuleContext
from ._registry import rule


@rule("dot_general")
def _dot_general(
    ctx: RuleContext, lhs: Val, rhs: Val, *, dimension_numbers: Any, precision: Any = None, **_: Any
) -> Any:
    if any(x.dtype.startswith("complex") for x in (lhs, rhs)):
        return _fallback.lower(ctx, lhs, rhs)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    return ctx.builder.op(
        "dot_general",
        [lhs, rhs],
        ctx.out_dtype,
        ctx.out_shape,
        lhs_contract=[int(d) for d in lhs_contract],
        rhs_contract=[int(d) for d in rhs_contract],
        lhs_batch=[int(d) for d in lhs_batch],
        rhs_batch=[int(d) for d in rhs_batch],
        tf32=_asks_for_tf32(precision),
    )


def _asks_for_tf32(precision: Any) -> bool:
    """Only an explicit algorithm rounds operands; a default precision computes in full."""
    return getattr(precision, "name", "") == "TF32_TF32_F32"
