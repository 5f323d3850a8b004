"""Where am I: `program_id` and its like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pallas_rs._errors import InvalidGridError

from ._context import RuleContext
from ._registry import rule


@rule("program_id")
def _program_id(ctx: RuleContext, *, axis: int) -> Any:
    return ctx.kernel.program_id(axis)


@rule("num_programs")
def _num_programs(ctx: RuleContext, *, axis: int) -> Any:
    return ctx.kernel.num_programs(axis)


# ---- what a grid must be -----------------------------------------------------------------------


def check_size(what: str, size: int, least: int) -> None:
    """Refuses a size of a grid, a cluster or a block that no launch can have.

    Raises:
        InvalidGridError: The size is less than ``least``, or does not fit an int32.
    """
    if not least <= size < 2**31:
        raise InvalidGridError(
            f"{what} is {size}: it must be at least {least}, and at most {2**31 - 1}"
        )


def check_names(names: Sequence[Any]) -> None:
    """Refuses an axis name that two axes have.

    Raises:
        InvalidGridError: Which axis a name means would not be known.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidGridError(
            f"two axes of the grid, the cluster or the threads have the name {twice[0]!r}: give"
            " each axis a name of its own"
        )
