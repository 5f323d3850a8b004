"""Walks the MLIR of a body: an environment of values and one rule per operation.

A rule is `rule(t, op, *operands)`: `t` is the `Translator`, operands are `Lane`, `MemRef` or (for
structs) tuples. It returns the result, a tuple of results, or nothing.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pallas_rs._lowering import _source_info
from pallas_rs._lowering._builder import Span

from ._body import INDEX, BodyBuilder, Lane, bits_of
from ._emit import NotModelled

Rule = Callable[..., Any]
F = TypeVar("F", bound=Rule)

OPS: dict[str, Rule] = {}

_FLOATS = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
}
_INTEGERS = {"i1": "bool"} | {f"i{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)}
_FRAME = re.compile(r'"([^"]*)"\("([^"]+)":(\d+)')
ALL_THREADS = 0xFFFFFFFF


def rule(*names: str) -> Callable[[F], F]:
    """Registers the decorated function for these operations."""

    def register(function: F) -> F:
        for name in names:
            if name in OPS:
                raise ValueError(f"{name} has two rules")
            OPS[name] = function
        return function

    return register


@dataclasses.dataclass(frozen=True, slots=True)
class MemRef:
    """A window of a view. Strides are in elements, `base` points to its first element."""

    view: int
    base: Lane
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    @property
    def memory_bits(self) -> int:
        return 8 if self.dtype == "bool" else bits_of(self.dtype)


class Translator:
    """The translation of one body."""

    def __init__(self, mlir: Any, span_number: Callable[[Span], int], caller: Span) -> None:
        self.ir = mlir.ir
        self.b = BodyBuilder()
        self._env: dict[Any, Any] = {}
        self._span_number = span_number
        self._caller = caller
        self._types: dict[str, tuple[str, int]] = {}
        self._lines: dict[Any, int] = {}
        self._pointers: dict[int, Lane] = {}
        self.parameters: list[Any] = []

    # ---- types ---------------------------------------------------------------------------------

    def type_of(self, ty: Any) -> tuple[str, int]:
        """The machine's dtype of an MLIR type, and how many elements it has."""
        text = str(ty)
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = self._convert_type(ty, text)
        return found

    def _convert_type(self, ty: Any, text: str) -> tuple[str, int]:
        if text.startswith("vector<"):
            vector = self.ir.VectorType(ty)
            if vector.scalable:
                raise NotModelled(f"it uses the type {text}")
            return self.type_of(vector.element_type)[0], math.prod(vector.shape)
        if text == "index" or text.startswith("!llvm.ptr"):
            return INDEX, 1
        dtype = _FLOATS.get(text) or _INTEGERS.get(text)
        if dtype is None:
            raise NotModelled(f"it uses the type {text}")
        return dtype, 1

    def shape_of(self, value: Any) -> tuple[int, ...]:
        """The shape of a vector; none for a scalar."""
        if str(value.type).startswith("vector<"):
            return tuple(self.ir.VectorType(value.type).shape)
        return ()

    # ---- attributes ----------------------------------------------------------------------------

    def integer(self, op: Any, name: str) -> int:
        return int(self.ir.IntegerAttr(op.attributes[name]).value)

    def integers(self, op: Any, name: str) -> list[int]:
        return [int(n) for n in self.ir.DenseI64ArrayAttr(op.attributes[name])]

    def dynamic(self, size: int) -> bool:
        return size == self.ir.ShapedType.get_dynamic_size() or size == -(2**63)

    # ---- the walk ------------------------------------------------------------------------------

    def view_pointer(self, view: int) -> Lane:
        """A pointer to the first byte of a view."""
        found = self._pointers.get(view)
        if found is None:
            found = self._pointers[view] = self.b.op("view_pointer", [], INDEX, view=view)
        return found

    def bind(self, value: Any, lane: Any) -> None:
        self._env[value] = lane

    def read(self, value: Any) -> Any:
        return self._env[value]

    def block(self, block: Any) -> list[Any]:
        """Translates a block; returns the operands of its terminator."""
        for op in block.operations:
            op = op.operation
            if op.name in ("scf.yield", "func.return", "scf.condition"):
                return [self.read(v) for v in op.operands]
            self.operation(op)
        return []

    def operation(self, op: Any) -> None:
        found = OPS.get(op.name)
        self.b.span = self._line(op.location)
        if found is None:
            raise NotModelled(f"it uses the operation {op.name}")
        results = found(self, op, *(self.read(v) for v in op.operands))
        if len(op.results) == 1:
            results = (results,)
        for value, result in zip(op.results, results or (), strict=True):
            self.bind(value, result)

    def _line(self, location: Any) -> int:
        number = self._lines.get(location)
        if number is None:
            span = self._caller
            for function, file, line in _FRAME.findall(str(location)):
                if _source_info.is_kernel_file(file):
                    span = Span(file, int(line), function)
                    break
            number = self._lines[location] = self._span_number(span)
        return number

    # ---- what rules share ----------------------------------------------------------------------

    def result(self, op: Any) -> tuple[str, int]:
        """Type of an operation's only result."""
        return self.type_of(op.results[0].type)

    def whole_warp(self, members: Lane, name: str) -> None:
        """Refuses a warp operation that is not one of all threads of the warp."""
        if members.known is None or int(members.known) & ALL_THREADS != ALL_THREADS:
            raise NotModelled(f"{name} has a member mask that is not known to be the whole warp")

    def index_of(self, x: Lane) -> Lane:
        """An integer as an index."""
        return self.b.convert(x, INDEX)

    def address(
        self,
        base: Lane,
        sizes: Sequence[int],
        strides: Sequence[int],
        bits: int,
        indices: Sequence[Lane],
    ) -> Lane:
        """The pointer moved by indices that must lie within their sizes."""
        if not indices:
            return base
        return self.b.op(
            "address",
            [base, *indices],
            INDEX,
            sizes=list(sizes),
            strides=list(strides),
            bits=bits,
        )
