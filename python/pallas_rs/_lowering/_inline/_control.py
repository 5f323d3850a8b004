"""Structured control flow."""

from __future__ import annotations

from typing import Any

from ._body import Lane
from ._emit import NotModelled
from ._translate import Translator, rule


def _region(t: Translator, block: Any, params: list[Lane]) -> dict[str, Any]:
    for argument, lane in zip(block.arguments, params, strict=True):
        t.bind(argument, lane)
    with t.b.region() as insts:
        yields = t.block(block)
    if not all(isinstance(v, Lane) for v in yields):
        raise NotModelled("control flow returns a ref or a struct")
    return {"params": [p.id for p in params], "insts": insts, "yields": [v.id for v in yields]}


def _fresh(t: Translator, values: Any) -> list[Lane]:
    return [t.b.value(*t.type_of(v.type)) for v in values]


@rule("scf.if")
def _if(t: Translator, op: Any, condition: Lane) -> Any:
    results = _fresh(t, op.results)
    regions = [
        _region(t, region.blocks[0], []) if len(region.blocks) else _EMPTY for region in op.regions
    ]
    t.b.emit("if", [condition], results, regions)
    return _all(op, results)


_EMPTY: dict[str, Any] = {"params": [], "insts": [], "yields": []}


def _all(op: Any, results: list[Lane]) -> Any:
    """As a rule returns them: one by itself, several together."""
    return results[0] if len(op.results) == 1 else tuple(results)


@rule("scf.for")
def _for(t: Translator, op: Any, lo: Lane, hi: Lane, step: Lane, *init: Lane) -> Any:
    if not all(isinstance(v, Lane) for v in init):
        raise NotModelled("a loop carries a ref or a struct")
    results = _fresh(t, op.results)
    block = op.regions[0].blocks[0]
    region = _region(t, block, _fresh(t, block.arguments))
    t.b.emit("for", [lo, hi, step, *init], results, [region])
    return _all(op, results)


@rule("scf.while")
def _while(t: Translator, op: Any, *init: Lane) -> Any:
    if not all(isinstance(v, Lane) for v in init):
        raise NotModelled("a loop carries a ref or a struct")
    results = _fresh(t, op.results)
    blocks = [region.blocks[0] for region in op.regions]
    regions = [_region(t, block, _fresh(t, block.arguments)) for block in blocks]
    t.b.emit("while", init, results, regions)
    return _all(op, results)
