"""Primitives that steer the compiler or the hardware and change no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Value
from ._context import RuleContext
from ._registry import rule


@rule(
    "async_prefetch",
    "delay",
    "griddepcontrol_launch_dependents",
    "griddepcontrol_wait",
    "set_max_registers",
)
def _nothing(ctx: RuleContext, *operands: Value, **params: Any) -> Sequence[Value]:
    return ()
