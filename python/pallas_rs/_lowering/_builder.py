"""Builds the JSON form of a program: values, instructions, regions, source lines, blobs.

The field names are those of `rust/ir/src/program.rs`, the op names and attributes those of
`rust/ir/src/op_table.rs`. Nothing here knows JAX.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from ._speculation import guard_divisions

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Val:
    """A number: a scalar when it has rank 0 and is not complex, else a tile."""

    id: int
    dtype: str
    shape: Shape

    @property
    def is_scalar(self) -> bool:
        return is_scalar_type(self.dtype, self.shape)

    @property
    def type(self) -> dict[str, Any]:
        if self.is_scalar:
            return {"scalar": self.dtype}
        return {"tile": [self.dtype, list(self.shape)]}


@dataclasses.dataclass(frozen=True, slots=True)
class Ref:
    """A view of memory at its logical shape.

    `elem` is a dtype name, `"barrier"` or `"semaphore"`; `space` is the Rust `Space` in snake case.
    """

    id: int
    space: str
    elem: str
    shape: Shape

    @property
    def dtype(self) -> str:
        return self.elem

    @property
    def type(self) -> dict[str, Any]:
        elem = self.elem if self.elem in ("barrier", "semaphore") else {"data": self.elem}
        return {"ref": {"space": self.space, "elem": elem, "shape": list(self.shape)}}


Value = Val | Ref
V = TypeVar("V", Val, Ref)


@dataclasses.dataclass(slots=True)
class Region:
    """Nested code. `yields` is set before the region is closed."""

    params: list[int]
    insts: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    yields: list[int] = dataclasses.field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"params": self.params, "insts": self.insts, "yields": self.yields}


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A line of the user's code; `via` names JAX's helper that made the op, if any."""

    file: str
    line: int
    function: str
    via: str | None = None


UNKNOWN_SPAN = Span("<unknown>", 0, "")


def is_scalar_type(dtype: str, shape: Shape) -> bool:
    return not shape and not dtype.startswith("complex")


def scalar_bits(value: Any, dtype: str) -> int:
    """The 64-bit scalar register that holds `value`: its little-endian bytes, zero-extended."""
    return int.from_bytes(element_bytes(np.asarray(value).astype(np_dtype(dtype))), "little")


def element_bytes(array: np.ndarray) -> bytes:
    """An array as the machine has it: one byte per element of a sub-byte type, sign-extended."""
    if array.dtype.name in ("int2", "int4"):
        array = array.astype(np.int8)
    return np.ascontiguousarray(array).tobytes()


def np_dtype(name: str) -> np.dtype:
    """The numpy dtype of one of JAX's dtype names."""
    custom = getattr(ml_dtypes, name, None)
    return np.dtype(custom if custom is not None else name)


def _values_read(insts: Iterable[dict[str, Any]]) -> Iterator[int]:
    for inst in insts:
        yield from inst["in"]
        for region in inst.get("regions", ()):
            yield from region["yields"]
            yield from _values_read(region["insts"])


class Builder:
    """Accumulates one program.

    Instructions go to the innermost open region. Numbers without operands (constants, indices in
    the grid) go to the head of the body, each once: a region may use values of the code around it,
    and a tile whose elements are all equal takes no memory.
    """

    def __init__(self) -> None:
        self._types: list[dict[str, Any]] = []
        self._spans: dict[Span, int] = {}
        self._span_list: list[Span] = []
        self._span = self._intern(UNKNOWN_SPAN)
        self._regions: list[Region] = [Region([])]
        self._head: dict[tuple[Any, ...], Val] = {}
        self._head_insts: list[dict[str, Any]] = []
        self._constant_bits: dict[int, int] = {}
        self._integers: dict[int, int] = {}
        self._blob_ids: dict[bytes, int] = {}
        self._lane_bodies: dict[str, int] = {}

    # ---- values ------------------------------------------------------------------------------

    def val(self, dtype: str, shape: Sequence[int] = ()) -> Val:
        """A fresh number; whoever calls this must define it."""
        value = Val(len(self._types), dtype, tuple(shape))
        self._types.append(value.type)
        return value

    def ref(self, space: str, elem: str, shape: Sequence[int]) -> Ref:
        """A fresh ref; whoever calls this must define it."""
        ref = Ref(len(self._types), space, elem, tuple(shape))
        self._types.append(ref.type)
        return ref

    def like(self, value: V) -> V:
        """A fresh value of the same type."""
        if isinstance(value, Ref):
            return self.ref(value.space, value.elem, value.shape)
        return self.val(value.dtype, value.shape)

    def body_param(self, value: Value) -> None:
        """Makes `value` the next parameter of the body."""
        self._regions[0].params.append(value.id)

    # ---- instructions ------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        operands: Sequence[Value] = (),
        results: Sequence[Value] = (),
        regions: Sequence[Region] = (),
        **attributes: Any,
    ) -> None:
        """Appends an instruction whose results were made by `val` or `ref`."""
        inst = {
            "op": {op: attributes},
            "in": [v.id for v in operands],
            "out": [v.id for v in results],
            "span": self._span,
        }
        if regions:
            inst["regions"] = [r.to_json() for r in regions]
        self._regions[-1].insts.append(inst)

    def op(
        self,
        op: str,
        operands: Sequence[Value],
        dtype: str,
        shape: Sequence[int] = (),
        **attributes: Any,
    ) -> Val:
        """Appends an instruction with one number as its result."""
        result = self.val(dtype, shape)
        self.emit(op, operands, [result], **attributes)
        return result

    @contextlib.contextmanager
    def region(self, params: Sequence[Value] = ()) -> Iterator[Region]:
        """Opens a region; instructions go there until the block ends."""
        region = Region([p.id for p in params])
        self._regions.append(region)
        try:
            yield region
        finally:
            self._regions.pop()

    @contextlib.contextmanager
    def at(self, span: Span) -> Iterator[None]:
        """Instructions inside the block come from `span`."""
        outer, self._span = self._span, self._intern(span)
        try:
            yield
        finally:
            self._span = outer

    @property
    def span(self) -> Span:
        """Where instructions come from at the moment."""
        return self._span_list[self._span]

    def _intern(self, span: Span) -> int:
        number = self._spans.setdefault(span, len(self._spans))
        if number == len(self._span_list):
            self._span_list.append(span)
        return number

    # ---- constants ---------------------------------------------------------------------------

    def constant(self, value: Any, dtype: str, shape: Sequence[int] = ()) -> Val:
        """`value` everywhere; a scalar for an empty shape."""
        shape = tuple(shape)
        if dtype.startswith("complex"):
            return self.constant_array(np.full(shape, value, np_dtype(dtype)))
        bits = scalar_bits(value, dtype)
        found = self.head("constant", dtype, shape, bits=bits)
        if "int" in dtype and not shape:
            self._integers[found.id] = int(value)
        return found

    def static_integer(self, value: Any) -> int | None:
        """The integer that a value is known to be, if any."""
        return self._integers.get(value.id) if isinstance(value, Val) else int(value)

    def head(self, op: str, dtype: str, shape: Shape = (), /, **attributes: int) -> Val:
        """A number that depends on no operand: computed once, at the head of the body."""
        name = (op, dtype, shape, *attributes.items())
        found = self._head.get(name)
        if found is None:
            found = self._head[name] = self.val(dtype, shape)
            if op == "constant":
                self._constant_bits[found.id] = attributes["bits"]
            self._head_insts.append(
                {"op": {op: attributes}, "in": [], "out": [found.id], "span": 0}
            )
        return found

    def constant_array(self, array: np.ndarray) -> Val:
        """A constant tile, one byte per element of a sub-byte type."""
        name = array.dtype.name
        if array.size and is_scalar_type(name, array.shape):
            return self.constant(array[()], name)
        data = element_bytes(array)
        width = np_dtype(name).itemsize
        first = data[:width]
        uniform = array.size and first * array.size == data
        if uniform and width <= 8 and not name.startswith("complex"):
            return self.head("constant", name, array.shape, bits=int.from_bytes(first, "little"))
        return self.op("constant_array", [], name, array.shape, blob=self.blob(data))

    def i32(self, value: int) -> Val:
        return self.constant(value, "int32")

    def blob(self, data: bytes) -> int:
        """The number of a byte string that travels beside the JSON."""
        return self._blob_ids.setdefault(data, len(self._blob_ids))

    def lane_body(self, body: dict[str, Any]) -> int:
        """The number of an inline body; equal ones are there once."""
        return self._lane_bodies.setdefault(json.dumps(body), len(self._lane_bodies))

    def span_number(self, span: Span) -> int:
        """The number of a source line."""
        return self._intern(span)

    def constant_bits(self, value: int) -> int | None:
        """The bits of all elements of a value, given by number, where it is a constant."""
        return self._constant_bits.get(value)

    def type_of(self, value: int) -> tuple[str, Shape]:
        """Element type and shape of a number, given by number."""
        kind = self._types[value]
        dtype, shape = kind["tile"] if "tile" in kind else (kind["scalar"], ())
        return dtype, tuple(shape)

    # ---- arithmetic shorthands ---------------------------------------------------------------

    def unary(self, kind: str, x: Val, dtype: str | None = None) -> Val:
        return self.op("unary", [x], dtype or x.dtype, x.shape, kind=kind)

    def binary(self, kind: str, lhs: Val, rhs: Val) -> Val:
        return self.op("binary", [lhs, rhs], lhs.dtype, lhs.shape, kind=kind)

    def compare(self, kind: str, lhs: Val, rhs: Val) -> Val:
        return self.op("compare", [lhs, rhs], "bool", lhs.shape, kind=kind)

    def convert(self, x: Val, dtype: str) -> Val:
        return x if x.dtype == dtype else self.op("convert", [x], dtype, x.shape)

    def reshape(self, x: Val, shape: Sequence[int]) -> Val:
        shape = tuple(shape)
        return x if x.shape == shape else self.op("reshape", [x], x.dtype, shape)

    def broadcast(self, x: Val, shape: Sequence[int], dims: Sequence[int] | None = None) -> Val:
        """`x` repeated to `shape`; without `dims` numpy's rule aligns trailing dimensions."""
        shape = tuple(shape)
        if dims is None:
            dims = range(len(shape) - len(x.shape), len(shape))
        dims = tuple(dims)
        if x.shape == shape and dims == tuple(range(len(shape))):
            return x
        bits = self._constant_bits.get(x.id)
        if bits is not None:
            return self.head("constant", x.dtype, shape, bits=bits)
        if math.prod(x.shape) == 1 and x.shape:
            x = self.reshape(x, ())
            dims = ()
        return self.op("broadcast", [x], x.dtype, shape, dims=list(dims))

    # ---- result ------------------------------------------------------------------------------

    def finish(self, **header: Any) -> tuple[str, list[bytes]]:
        """The program's JSON and its byte strings; `header` holds the fields beside the body."""
        assert len(self._regions) == 1, "a region is still open"
        body = self._regions[0]
        guard_divisions(self, body.insts, [])
        read = set(_values_read(body.insts))
        head = [inst for inst in self._head_insts if inst["out"][0] in read]
        program = {
            **header,
            "body": {
                "params": body.params,
                "insts": head + body.insts,
                "yields": [],
            },
            "values": self._types,
            "spans": [dataclasses.asdict(span) for span in self._spans],
            "lane_bodies": [json.loads(body) for body in self._lane_bodies],
        }
        return json.dumps(program), list(self._blob_ids)
