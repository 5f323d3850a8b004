"""Asynchronous operations that arrive and complete as one: a value and its tangents."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ._builder import Value
from ._context import RuleContext
from ._registry import RULES, key, rule
from ._unsupported import UNSUPPORTED

# Primitives whose op can be a part of the next one.
_PARTS = frozenset({"copy_gmem_to_smem", "copy_smem_to_gmem", "wgmma_ref"})


@rule("together")
def _together(
    ctx: RuleContext,
    *operands: Any,
    operation: Any,
    sizes: Sequence[int],
    params: Sequence[tuple[str, Any]],
) -> Sequence[Value]:
    name = key(operation)
    if name not in _PARTS:
        raise ctx.unsupported(
            UNSUPPORTED.get(name, f"`{name}` cannot carry a tangent along with its value")
        )
    end = 0
    for index, size in enumerate(sizes):
        start, end = end, end + size
        part = dataclasses.replace(
            ctx,
            primitive=name,
            avals_in=ctx.avals_in[start:end],
            more=index + 1 < len(sizes),
        )
        RULES[name](part, *operands[start:end], **dict(params))
    return ()
