"""Asynchronous operations done as one, with one arrival or in one group.

A barrier that expects one arrival of a copy gets one, whether or not the copy takes a tangent
along, and a wait for all but `n` of the products counts a product and its tangents once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

Params = tuple[tuple[str, Any], ...]


def bind(primitive: Any, parts: Sequence[Sequence[Any]], params: dict[str, Any]) -> None:
    """Does what `primitive.bind(*part, **params)` does for each part, as one operation."""
    collection = getattr(_here, "collection", None)
    if collection is not None:
        collection.extend(parts)
        return
    if len(parts) == 1:
        primitive.bind(*parts[0], **params)
        return
    together_p.bind(
        *(operand for part in parts for operand in part),
        operation=primitive,
        sizes=tuple(map(len, parts)),
        params=tuple(sorted(params.items())),
    )


_here = threading.local()


@contextlib.contextmanager
def collected(parts: list[Sequence[Any]]) -> Iterator[None]:
    """Parts that are bound inside are put into the list instead."""
    _here.collection = parts
    try:
        yield
    finally:
        _here.collection = None


def parts_of(operands: Sequence[Any], sizes: Sequence[int]) -> list[Sequence[Any]]:
    """The operands of each part."""
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [operands[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _effects(*avals: Any, operation: Any, sizes: Sequence[int], params: Params) -> Any:
    effects = set()
    start = 0
    for part in parts_of(avals, sizes):
        for effect in jax_internals.effects_of(operation, part, dict(params)):
            effects.add(jax_internals.shift_effect(effect, start))
        start += len(part)
    return [], effects


together_p = jax_internals.define_effectful_primitive("together", _effects)
