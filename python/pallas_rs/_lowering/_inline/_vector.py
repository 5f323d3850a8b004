"""Operations of `vector`; the machine's vectors have one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._body import Lane
from ._emit import NotModelled
from ._translate import Translator, rule


def _numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _position(t: Translator, op: Any) -> tuple[Any, ...]:
    position = t.integers(op, "static_position")
    return tuple(None if t.dynamic(i) else i for i in position)


@rule("vector.broadcast", "vector.splat")
def _broadcast(t: Translator, op: Any, x: Lane) -> Lane:
    _, length = t.result(op)
    source, target = t.shape_of(op.operands[0]), t.shape_of(op.results[0])
    if x.len == 1:
        return t.b.broadcast(x, length)
    return t.b.elements([x], np.broadcast_to(_numbers(source), target).reshape(-1).tolist())


@rule("vector.extract")
def _extract(t: Translator, op: Any, x: Lane, *dynamic: Lane) -> Lane:
    position = _position(t, op)
    numbers = _numbers(t.shape_of(op.operands[0]))
    if not dynamic:
        return t.b.elements([x], np.atleast_1d(numbers[position]).reshape(-1).tolist())
    if numbers.ndim != 1:
        raise NotModelled(
            "vector.extract has an index known only at run time into a vector of rank 2"
        )
    return t.b.op("element_at", [x, t.index_of(dynamic[0])], x.dtype)


@rule("vector.insert")
def _insert(t: Translator, op: Any, x: Lane, into: Lane, *dynamic: Lane) -> Lane:
    numbers = _numbers(t.shape_of(op.operands[1]))
    if dynamic:
        if numbers.ndim != 1:
            raise NotModelled(
                "vector.insert has an index known only at run time into a vector of rank 2"
            )
        return t.b.op("with_element", [into, x, t.index_of(dynamic[0])], into.dtype, into.len)
    pick = numbers.copy()
    position = _position(t, op)
    pick[position] = into.len + np.arange(x.len).reshape(pick[position].shape)
    return t.b.elements([into, x], pick.reshape(-1).tolist())


@rule("vector.extractelement", "llvm.extractelement")
def _extract_element(t: Translator, op: Any, x: Lane, index: Lane | None = None) -> Lane:
    if index is None:
        return t.b.elements([x], [0])
    if index.known is not None:
        return t.b.elements([x], [int(index.known)])
    return t.b.op("element_at", [x, t.index_of(index)], x.dtype)


@rule("vector.insertelement")
def _insert_element(t: Translator, op: Any, x: Lane, into: Lane, index: Lane) -> Lane:
    return _with_element(t, into, x, index)


@rule("llvm.insertelement")
def _llvm_insert_element(t: Translator, op: Any, into: Lane, x: Lane, index: Lane) -> Lane:
    return _with_element(t, into, x, index)


def _with_element(t: Translator, into: Lane, x: Lane, index: Lane) -> Lane:
    if index.known is not None:
        pick = list(range(into.len))
        pick[int(index.known)] = into.len
        return t.b.elements([into, x], pick)
    return t.b.op("with_element", [into, x, t.index_of(index)], into.dtype, into.len)


@rule("vector.shuffle", "llvm.shufflevector")
def _shuffle(t: Translator, op: Any, a: Lane, b: Lane) -> Lane:
    if op.name == "llvm.shufflevector":
        mask = [int(i) for i in t.ir.DenseI32ArrayAttr(op.attributes["mask"])]
    else:
        mask = t.integers(op, "mask")
    # An undefined element is any one.
    return t.b.elements([a, b], [max(i, 0) for i in mask])


@rule("vector.from_elements")
def _from_elements(t: Translator, op: Any, *xs: Lane) -> Lane:
    return t.b.elements(xs, range(len(xs)))


@rule("vector.to_elements")
def _to_elements(t: Translator, op: Any, x: Lane) -> tuple[Lane, ...]:
    return tuple(t.b.elements([x], [i]) for i in range(x.len))


@rule("vector.shape_cast")
def _shape_cast(t: Translator, op: Any, x: Lane) -> Lane:
    return x


@rule("vector.extract_strided_slice")
def _slice(t: Translator, op: Any, x: Lane) -> Lane:
    offsets, sizes, strides = (
        [int(t.ir.IntegerAttr(i).value) for i in t.ir.ArrayAttr(op.attributes[name])]
        for name in ("offsets", "sizes", "strides")
    )
    window = tuple(slice(o, o + n * s, s) for o, n, s in zip(offsets, sizes, strides, strict=True))
    numbers = _numbers(t.shape_of(op.operands[0]))
    return t.b.elements([x], numbers[window].reshape(-1).tolist())


@rule("vector.insert_strided_slice")
def _insert_slice(t: Translator, op: Any, x: Lane, into: Lane) -> Lane:
    offsets = [int(t.ir.IntegerAttr(i).value) for i in t.ir.ArrayAttr(op.attributes["offsets"])]
    pick = _numbers(t.shape_of(op.operands[1]))
    sizes = t.shape_of(op.operands[0])
    lead = len(offsets) - len(sizes)
    window: Any = (
        *offsets[:lead],
        *(slice(o, o + n) for o, n in zip(offsets[lead:], sizes, strict=True)),
    )
    pick[window] = into.len + np.arange(x.len).reshape(sizes)
    return t.b.elements([into, x], pick.reshape(-1).tolist())


@rule("vector.reduction")
def _reduction(t: Translator, op: Any, x: Lane, acc: Lane | None = None) -> Lane:
    kind = str(op.attributes["kind"])
    kinds = {"add": "add", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
    kinds |= {"maxsi": "max", "minsi": "min", "maximumf": "max", "minimumf": "min"}
    name = next((v for k, v in kinds.items() if f"<{k}>" in kind), None)
    if name is None:
        raise NotModelled(f"vector.reduction is of kind {kind}")
    parts = [t.b.elements([x], [i]) for i in range(x.len)] + ([] if acc is None else [acc])
    total = parts[0]
    for part in parts[1:]:
        total = t.b.binary(name, total, part)
    return total
