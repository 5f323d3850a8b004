"""Builds the JSON form of a lane body. The names are those of `rust/ir/src/lane`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from pallas_rs._lowering._builder import scalar_bits

INDEX = "int64"
WORD = "uint32"


@dataclasses.dataclass(frozen=True, slots=True)
class Lane:
    """A value: `len` elements per CUDA thread. `known` is its number where it is a constant."""

    id: int
    dtype: str
    len: int = 1
    known: int | float | None = None


def bits_of(dtype: str) -> int:
    """Bits of an element in a GPU's register."""
    if dtype == "bool":
        return 1
    for prefix in ("uint", "int"):
        if dtype.startswith(prefix):
            return int(dtype.removeprefix(prefix))
    if dtype.startswith("float4"):
        return 4
    custom = getattr(ml_dtypes, dtype, None)
    return int(np.dtype(custom if custom is not None else dtype).itemsize) * 8


def is_float(dtype: str) -> bool:
    return "float" in dtype


class BodyBuilder:
    """Accumulates one body."""

    def __init__(self) -> None:
        self.types: list[dict[str, Any]] = []
        self.params: list[int] = []
        self._insts: list[list[dict[str, Any]]] = [[]]
        self.span = 0

    def value(self, dtype: str, length: int = 1, known: int | float | None = None) -> Lane:
        """A fresh value; whoever calls this must define it."""
        lane = Lane(len(self.types), dtype, length, known)
        self.types.append({"dtype": dtype, "len": length})
        return lane

    def emit(
        self,
        op: str,
        operands: Sequence[Lane] = (),
        results: Sequence[Lane] = (),
        regions: Sequence[dict[str, Any]] = (),
        **attributes: Any,
    ) -> None:
        """Appends an instruction whose results were made by `value`."""
        inst = {
            "op": {op: attributes},
            "in": [v.id for v in operands],
            "out": [v.id for v in results],
            "span": self.span,
        }
        if regions:
            inst["regions"] = list(regions)
        self._insts[-1].append(inst)

    def op(
        self, op: str, operands: Sequence[Lane], dtype: str, length: int = 1, **attributes: Any
    ) -> Lane:
        """Appends an instruction with one result."""
        result = self.value(dtype, length)
        self.emit(op, operands, [result], **attributes)
        return result

    @contextlib.contextmanager
    def region(self) -> Iterator[list[dict[str, Any]]]:
        """Opens a region; instructions go to the list until the block ends."""
        insts: list[dict[str, Any]] = []
        self._insts.append(insts)
        try:
            yield insts
        finally:
            self._insts.pop()

    @property
    def code(self) -> list[dict[str, Any]]:
        """The instructions of the body itself."""
        return self._insts[0]

    # ---- shorthands ----------------------------------------------------------------------------

    def constant(self, value: Any, dtype: str, length: int = 1) -> Lane:
        result = self.value(dtype, length, value)
        self.emit("constant", [], [result], bits=scalar_bits(value, dtype))
        return result

    def index(self, value: int) -> Lane:
        return self.constant(value, INDEX)

    def unary(self, kind: str, x: Lane) -> Lane:
        return self.op("unary", [x], x.dtype, x.len, kind=kind)

    def binary(self, kind: str, a: Lane, b: Lane) -> Lane:
        return self.op("binary", [a, b], a.dtype, a.len, kind=kind)

    def compare(self, kind: str, a: Lane, b: Lane) -> Lane:
        return self.op("compare", [a, b], "bool", a.len, kind=kind)

    def select(self, which: Lane, a: Lane, b: Lane) -> Lane:
        return self.op("select", [which, a, b], a.dtype, a.len)

    def convert(self, x: Lane, dtype: str) -> Lane:
        return x if x.dtype == dtype else self.op("convert", [x], dtype, x.len)

    def bitcast(self, x: Lane, dtype: str, length: int | None = None) -> Lane:
        """The same bits; as many elements as make them up."""
        if length is None:
            length = x.len * bits_of(x.dtype) // bits_of(dtype)
        if (x.dtype, x.len) == (dtype, length):
            return x
        return self.op("bitcast", [x], dtype, length)

    def unsigned(self, x: Lane) -> Lane:
        return self.bitcast(x, "u" + x.dtype) if x.dtype.startswith("int") else x

    def signed(self, x: Lane) -> Lane:
        """As MLIR's signless integers are kept."""
        return self.bitcast(x, x.dtype[1:]) if x.dtype.startswith("uint") else x

    def elements(self, xs: Sequence[Lane], pick: Sequence[int]) -> Lane:
        """Elements of the operands' concatenation."""
        if len(xs) == 1 and list(pick) == list(range(xs[0].len)):
            return xs[0]
        return self.op("elements", xs, xs[0].dtype, len(pick), pick=list(pick))

    def broadcast(self, x: Lane, length: int) -> Lane:
        return self.elements([x], [0] * length) if x.len == 1 else x
