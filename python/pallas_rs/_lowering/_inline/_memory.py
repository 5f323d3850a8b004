"""Operations of `memref`, and the pointers of `llvm`."""

from __future__ import annotations

import math
from typing import Any

from ._body import INDEX, Lane, bits_of
from ._emit import NotModelled
from ._translate import MemRef, Translator, rule

_RMW = {
    "addi": "add",
    "addf": "add",
    "add": "add",
    "fadd": "add",
    "maxs": "max",
    "max": "max",
    "mins": "min",
    "min": "min",
    "andi": "and",
    "_and": "and",
    "ori": "or",
    "_or": "or",
    "_xor": "xor",
    "assign": "xchg",
    "xchg": "xchg",
}


def _element(t: Translator, ref: MemRef, indices: tuple[Lane, ...]) -> Lane:
    return t.address(ref.base, ref.shape, ref.strides, ref.memory_bits, indices)


@rule("memref.load", "vector.load")
def _load(t: Translator, op: Any, ref: MemRef, *indices: Lane) -> Lane:
    dtype, length = t.result(op)
    # A vector is as aligned as its elements are: the compiler splits it where it must.
    align = max(ref.memory_bits // 8, 1)
    return t.b.op("load", [_element(t, ref, indices)], dtype, length, align=align)


@rule("memref.store", "vector.store")
def _store(t: Translator, op: Any, x: Lane, ref: MemRef, *indices: Lane) -> None:
    align = max(ref.memory_bits // 8, 1)
    t.b.emit("store", [_element(t, ref, indices), x], align=align)


@rule("memref.atomic_rmw")
def _atomic(t: Translator, op: Any, x: Lane, ref: MemRef, *indices: Lane) -> Lane:
    kind = str(op.attributes["kind"])
    known = {0: "addf", 1: "addi", 2: "assign", 4: "maxs", 7: "mins", 10: "ori", 11: "andi"}
    number = int(kind.split(":")[0]) if kind.split(":")[0].strip().isdigit() else None
    name = _RMW.get(known.get(number, "") if number is not None else kind)
    if name is None:
        raise NotModelled(f"memref.atomic_rmw is of kind {kind}")
    return t.b.op("atomic", [_element(t, ref, indices), x], x.dtype, kind=name)


@rule("llvm.atomicrmw")
def _llvm_atomic(t: Translator, op: Any, pointer: Lane, x: Lane) -> Lane:
    names = (
        "xchg",
        "add",
        "sub",
        "_and",
        "nand",
        "_or",
        "_xor",
        "max",
        "min",
        "umax",
        "umin",
        "fadd",
    )
    number = t.integer(op, "bin_op")
    name = _RMW.get(names[number]) if number < len(names) else None
    if name is None:
        raise NotModelled(f"llvm.atomicrmw is of kind {number}")
    return t.b.op("atomic", [pointer, x], x.dtype, kind=name)


# ---- windows -----------------------------------------------------------------------------------


@rule("memref.expand_shape", "memref.collapse_shape", "memref.cast", "memref.reinterpret_cast")
def _reshape(t: Translator, op: Any, ref: MemRef, *_: Lane) -> MemRef:
    if op.name == "memref.reinterpret_cast":
        raise NotModelled("it uses the operation memref.reinterpret_cast")
    target = t.ir.MemRefType(op.results[0].type)
    strides, _offset = target.get_strides_and_offset()
    return MemRef(ref.view, ref.base, tuple(target.shape), tuple(strides), ref.dtype)


@rule("memref.memory_space_cast")
def _same(t: Translator, op: Any, ref: MemRef) -> MemRef:
    return ref


@rule("memref.subview")
def _subview(t: Translator, op: Any, ref: MemRef, *dynamic: Lane) -> MemRef:
    rest = iter(dynamic)
    offsets, sizes, steps = (
        t.integers(op, f"static_{name}") for name in ("offsets", "sizes", "strides")
    )
    if any(t.dynamic(n) for n in (*sizes, *steps)):
        raise NotModelled("memref.subview has a size or stride known only at run time")
    starts = [next(rest) if t.dynamic(o) else t.b.index(o) for o in offsets]
    # A window may start wherever its last element still is inside.
    room = [n - (size - 1) * step for n, size, step in zip(ref.shape, sizes, steps, strict=True)]
    base = ref.base
    if any(s.known != 0 for s in starts):
        base = t.address(base, room, ref.strides, ref.memory_bits, starts)
    strides = [s * step for s, step in zip(ref.strides, steps, strict=True)]
    kept = _kept_dims(sizes, tuple(t.ir.MemRefType(op.results[0].type).shape))
    return MemRef(
        ref.view, base, tuple(sizes[d] for d in kept), tuple(strides[d] for d in kept), ref.dtype
    )


def _kept_dims(sizes: list[int], shape: tuple[int, ...]) -> list[int]:
    """The dimensions that a rank-reducing window keeps: it may drop those of size 1."""
    drop = len(sizes) - len(shape)
    kept: list[int] = []
    for d, size in enumerate(sizes):
        if drop and size == 1 and (len(kept) == len(shape) or shape[len(kept)] != 1):
            drop -= 1
        else:
            kept.append(d)
    while drop:
        kept.remove(next(d for d in kept if sizes[d] == 1))
        drop -= 1
    return kept


# ---- pointers ----------------------------------------------------------------------------------


@rule("builtin.unrealized_conversion_cast")
def _descriptor(t: Translator, op: Any, x: Any) -> Any:
    """A memref as the struct it becomes: two pointers, an offset, sizes, strides."""
    text = str(op.results[0].type)
    if isinstance(x, MemRef) and "llvm.struct" in text:
        sizes = tuple(t.b.index(n) for n in x.shape)
        strides = tuple(t.b.index(n) for n in x.strides)
        return (x.base, x.base, t.b.index(0), sizes, strides)
    if isinstance(x, Lane) and t.result(op) == (x.dtype, x.len):
        return x
    raise NotModelled(f"it casts to {text}")


@rule("memref.extract_aligned_pointer_as_index")
def _pointer_as_index(t: Translator, op: Any, ref: MemRef) -> Lane:
    return ref.base


@rule("llvm.extractvalue")
def _extract_value(t: Translator, op: Any, x: Any) -> Any:
    for i in t.integers(op, "position"):
        x = x[i]
    return x


@rule("llvm.ptrtoint", "llvm.inttoptr", "llvm.addrspacecast")
def _pointer(t: Translator, op: Any, x: Lane) -> Lane:
    if bits_of(x.dtype) != 64 or t.result(op)[0] != INDEX:
        raise NotModelled(f"{op.name} makes an integer of fewer than 64 bits of a pointer")
    return x


@rule("llvm.getelementptr")
def _element_pointer(t: Translator, op: Any, base: Lane, *dynamic: Lane) -> Lane:
    dtype, length = t.type_of(t.ir.TypeAttr(op.attributes["elem_type"]).value)
    constants = [int(i) for i in t.ir.DenseI32ArrayAttr(op.attributes["rawConstantIndices"])]
    if len(constants) != 1:
        raise NotModelled("llvm.getelementptr points into a nested type")
    step = max(8 if dtype == "bool" else bits_of(dtype), 8) * length // 8
    index = t.index_of(dynamic[0]) if constants[0] == -(2**31) else t.b.index(constants[0])
    return t.b.binary("add", base, t.b.binary("mul", index, t.b.index(step)))


def _alignment(op: Any, t: Translator, dtype: str, length: int) -> int:
    if "alignment" in op.attributes:
        return t.integer(op, "alignment")
    size = max(bits_of(dtype) * length // 8, 1)
    return min(1 << math.ceil(math.log2(size)), 16)


@rule("llvm.load")
def _llvm_load(t: Translator, op: Any, pointer: Lane) -> Lane:
    dtype, length = t.result(op)
    return t.b.op("load", [pointer], dtype, length, align=_alignment(op, t, dtype, length))


@rule("llvm.store")
def _llvm_store(t: Translator, op: Any, x: Lane, pointer: Lane) -> None:
    t.b.emit("store", [pointer, x], align=_alignment(op, t, x.dtype, x.len))
