"""Integer divisions whose result may be thrown away.

`where(n == 0, 0, x // n)` is right on a GPU, where a division by zero has no defined value and no
consequence. The machine stops at one. So a division whose result a `select_n` can discard before
anything depends on it is made one that cannot fail: by zero it has the value that XLA gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._builder import Builder

Inst = dict[str, Any]

# Ops that hand a value on without consequence.
_PASS_ON = frozenset(
    {
        "binary",
        "bitcast",
        "broadcast",
        "clamp",
        "compare",
        "concatenate",
        "convert",
        "integer_pow",
        "iota",
        "pad",
        "reduce",
        "reshape",
        "rev",
        "slice",
        "transpose",
        "unary",
    }
)


def guard_divisions(builder: Builder, insts: list[Inst], yields: Sequence[int]) -> None:
    """Guards the divisions of a region, and of the regions within."""
    guarded: list[Inst] = []
    for at, inst in enumerate(insts):
        for region in inst.get("regions", ()):
            guard_divisions(builder, region["insts"], region["yields"])
        if _divides(builder, inst) and _is_discarded(inst["out"][0], insts[at + 1 :], yields):
            guarded += _guard(builder, inst)
        else:
            guarded.append(inst)
    insts[:] = guarded


def _divides(builder: Builder, inst: Inst) -> bool:
    """Whether it is an integer division by what may be zero."""
    attributes = inst["op"].get("binary")
    if attributes is None or attributes["kind"] not in ("div", "rem"):
        return False
    divisor = inst["in"][1]
    dtype, _ = builder.type_of(divisor)
    return "int" in dtype and not builder.constant_bits(divisor)


def _is_discarded(value: int, insts: Iterable[Inst], yields: Sequence[int]) -> bool:
    """Whether a selection stands between a value and everything that depends on it."""
    tainted = {value}
    for inst in insts:
        if any(_mentions(region, tainted) for region in inst.get("regions", ())):
            return False
        hits = [operand in tainted for operand in inst["in"]]
        if not any(hits):
            continue
        (op,) = inst["op"]
        if op == "select_n":
            if hits[0] or all(hits[1:]):
                tainted.update(inst["out"])
        elif op in _PASS_ON:
            tainted.update(inst["out"])
        else:
            return False
    return tainted.isdisjoint(yields)


def _mentions(region: dict[str, Any], values: set[int]) -> bool:
    if not values.isdisjoint(region["yields"]):
        return True
    return any(
        not values.isdisjoint(inst["in"])
        or any(_mentions(inner, values) for inner in inst.get("regions", ()))
        for inst in region["insts"]
    )


def _guard(builder: Builder, inst: Inst) -> list[Inst]:
    """The division by one where it would be by zero, with its result replaced there."""
    dividend, divisor = inst["in"]
    (result,) = inst["out"]
    kind = inst["op"]["binary"]["kind"]
    dtype, shape = builder.type_of(divisor)

    def number(value: int) -> int:
        return builder.constant(value, dtype, shape).id

    def guard(op: str, operands: list[int], out: int, **attributes: Any) -> Inst:
        return {"op": {op: attributes}, "in": operands, "out": [out], "span": inst["span"]}

    is_zero, safe, quotient = (builder.val(d, shape).id for d in ("bool", dtype, dtype))
    all_ones = -1 if dtype.startswith("int") else 2 ** int(dtype.removeprefix("uint")) - 1
    by_zero = dividend if kind == "rem" else number(all_ones)
    return [
        guard("compare", [divisor, number(0)], is_zero, kind="eq"),
        guard("select_n", [is_zero, divisor, number(1)], safe),
        guard("binary", [dividend, safe], quotient, kind=kind),
        guard("select_n", [is_zero, quotient, by_zero], result),
    ]
