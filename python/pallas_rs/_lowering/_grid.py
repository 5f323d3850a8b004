"""Where am I: `program_id` and its like."""

from __future__ import annotations

from typing import Any

from ._context import RuleContext
from ._registry import rule


@rule("program_id")
def _program_id(ctx: RuleContext, *, axis: int) -> Any:
    return ctx.kernel.program_id(axis)


@rule("num_programs")
def _num_programs(ctx: RuleContext, *, axis: int) -> Any:
    return ctx.kernel.num_programs(axis)
