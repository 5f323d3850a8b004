"""Where a thread is, what it does with its warp, and how it synchronises: `gpu`, `nvvm`, copies."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from ._body import INDEX, WORD, Lane, bits_of
from ._emit import NotModelled
from ._translate import MemRef, Translator, rule

_POSITION = {
    "gpu.thread_id": "thread_index",
    "gpu.block_dim": "block_size",
    "gpu.block_id": "block_index",
    "gpu.grid_dim": "grid_size",
}
_SREG = {
    "nvvm.read.ptx.sreg.tid": "thread_index",
    "nvvm.read.ptx.sreg.ntid": "block_size",
    "nvvm.read.ptx.sreg.ctaid": "block_index",
    "nvvm.read.ptx.sreg.nctaid": "grid_size",
}


@rule(*_POSITION)
def _position(t: Translator, op: Any) -> Lane:
    axis = "xyz".index(re.findall(r"\b([xyz])\b", str(op.attributes["dimension"]))[-1])
    return t.b.op(_POSITION[op.name], [], INDEX, axis=axis)


@rule(*(f"{name}.{axis}" for name in _SREG for axis in "xyz"))
def _special_register(t: Translator, op: Any) -> Lane:
    name, _, axis = op.name.rpartition(".")
    index = t.b.op(_SREG[name], [], INDEX, axis="xyz".index(axis))
    return t.b.convert(index, t.result(op)[0])


@rule("nvvm.read.ptx.sreg.laneid", "gpu.lane_id")
def _lane_index(t: Translator, op: Any) -> Lane:
    return t.b.convert(t.b.op("lane_index", [], INDEX), t.result(op)[0])


# ---- warps -------------------------------------------------------------------------------------


@rule("nvvm.shfl.sync")
def _exchange(t: Translator, op: Any, members: Lane, x: Lane, offset: Lane, clamp: Lane) -> Any:
    t.whole_warp(members, op.name)
    kind = re.search(r"bfly|idx|up|down", str(op.attributes["kind"]))
    if "return_value_and_is_valid" in op.attributes or kind is None:
        raise NotModelled("nvvm.shfl.sync also asks whether the value is valid")
    names = {"bfly": "butterfly", "idx": "index", "up": "up", "down": "down"}
    return t.b.op(
        "exchange",
        [x, t.b.unsigned(offset), t.b.unsigned(clamp)],
        x.dtype,
        x.len,
        kind=names[kind[0]],
    )


@rule("nvvm.vote.sync", "nvvm.vote.ballot.sync")
def _vote(t: Translator, op: Any, members: Lane, x: Lane) -> Lane:
    t.whole_warp(members, op.name)
    text = str(op.attributes["kind"]) if "kind" in op.attributes else "ballot"
    found = re.search(r"any|all|ballot|uni", text)
    assert found is not None, text
    kind = {"uni": "uniform"}.get(found[0], found[0])
    if kind == "ballot":
        return t.b.signed(t.b.op("vote", [x], WORD, kind=kind))
    return t.b.op("vote", [x], "bool", kind=kind)


@rule("nvvm.redux.sync")
def _reduce(t: Translator, op: Any, x: Lane, members: Lane) -> Lane:
    t.whole_warp(members, op.name)
    text = str(op.attributes["kind"])
    found = re.search(r"\b(f|u)?(add|and|or|xor|max|min)\b", text)
    if found is None or any(
        k in op.attributes and "true" in str(op.attributes[k]) for k in ("abs",)
    ):
        raise NotModelled(f"nvvm.redux.sync is of kind {text}")
    kind = {"add": "sum"}.get(found[2], found[2])
    if found[1] == "u":
        x = t.b.unsigned(x)
    return t.b.signed(t.b.op("warp_reduce", [x], x.dtype, kind=kind))


@rule("nvvm.elect.sync")
def _elect(t: Translator, op: Any, *members: Lane) -> Lane:
    for mask in members:
        t.whole_warp(mask, op.name)
    return t.b.op("elect", [], "bool")


def _shape_is_8x8(op: Any) -> bool:
    text = str(op.attributes["shape"]) if "shape" in op.attributes else "m8n8"
    return "m8n8" in text or re.search(r"m\s*=\s*8,\s*n\s*=\s*8", text) is not None


@rule("nvvm.ldmatrix")
def _load_matrix(t: Translator, op: Any, pointer: Lane) -> Any:
    if not _shape_is_8x8(op):
        raise NotModelled(f"nvvm.ldmatrix loads the shape {op.attributes['shape']}")
    count = t.integer(op, "num")
    words = [t.b.value(WORD) for _ in range(count)]
    t.b.emit("load_matrix", [pointer], words, transposed="col" in str(op.attributes["layout"]))
    signed = tuple(t.b.signed(w) for w in words)
    return signed if count > 1 else signed[0]


@rule("nvvm.stmatrix")
def _store_matrix(t: Translator, op: Any, pointer: Lane, *words: Lane) -> None:
    if not _shape_is_8x8(op):
        raise NotModelled(f"nvvm.stmatrix stores the shape {op.attributes['shape']}")
    transposed = "col" in str(op.attributes["layout"])
    t.b.emit("store_matrix", [pointer, *map(t.b.unsigned, words)], transposed=transposed)


# ---- synchronisation ---------------------------------------------------------------------------


def barrier(t: Translator, id_: Lane, count: int | None, *, arrive: bool = False) -> None:
    t.b.emit("barrier", [t.b.bitcast(id_, WORD)], arrive=arrive, count=count)


@rule("gpu.barrier", "nvvm.barrier0")
def _block_barrier(t: Translator, op: Any) -> None:
    barrier(t, t.b.constant(0, WORD), None)


@rule("nvvm.barrier")
def _barrier(t: Translator, op: Any, *operands: Lane) -> None:
    segments = list(t.ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    rest = iter(operands)
    id_ = next(rest) if segments[0] else t.b.constant(0, WORD)
    count = next(rest) if segments[1] else None
    if (count is not None and count.known is None) or len(operands) > 2:
        raise NotModelled("nvvm.barrier has a count known only at run time, or a reduction")
    barrier(t, id_, None if count is None else int(count.known or 0))


@rule("nvvm.barrier.arrive")
def _barrier_arrive(t: Translator, op: Any, *operands: Lane) -> None:
    *ids, count = operands
    if count.known is None:
        raise NotModelled("nvvm.barrier.arrive has a count known only at run time")
    barrier(t, ids[0] if ids else t.b.constant(0, WORD), int(count.known), arrive=True)


@rule("nvvm.bar.warp.sync")
def _warp_barrier(t: Translator, op: Any, members: Lane) -> None:
    t.whole_warp(members, op.name)
    t.b.emit("fence", kind="warp")


@rule("nvvm.fence.proxy")
def _proxy_fence(t: Translator, op: Any) -> None:
    kind = str(op.attributes["kind"])
    if "async" not in kind:
        raise NotModelled(f"nvvm.fence.proxy is of kind {kind}")
    t.b.emit("fence", kind="async_proxy")


@rule("nvvm.fence.mbarrier.init", "nvvm.fence.sc.cluster", "llvm.fence", "nvvm.memory.barrier")
def _generic_fence(t: Translator, op: Any) -> None:
    t.b.emit("fence", kind="generic")


@rule("nvvm.tcgen05.wait")
def _tmem_wait(t: Translator, op: Any) -> None:
    store = "store" in str(op.attributes["kind"])
    t.b.emit("fence", kind="tmem_stores" if store else "tmem_loads")


@rule("nvvm.tcgen05.fence")
def _tensor_core_fence(t: Translator, op: Any) -> None:
    before = "before" in str(op.attributes["kind"])
    t.b.emit("fence", kind="tensor_core_before" if before else "tensor_core_after")


# ---- copies ------------------------------------------------------------------------------------


@rule("machine.copy")
def _copy(t: Translator, op: Any, source: MemRef, target: MemRef) -> None:
    """A TMA store: a logical copy, since the tiles that it copies are those of the ref."""
    parameter = t.parameters[source.view]
    tilings = [
        [int(n) for n in t.ir.DenseI64ArrayAttr(a)]
        for a in t.ir.ArrayAttr(op.attributes["tilings"])
    ]
    swizzle = t.integer(op, "swizzle")
    if tilings != parameter.tilings or max(swizzle, 16) != max(parameter.swizzle, 16):
        raise NotModelled(
            "LaunchContext.async_copy has another tiling or swizzle than the ref that it copies"
        )
    tiled = dataclasses.replace(parameter, shape=target.shape, strides=None).physical
    rank = len(source.shape)
    if source.shape != tiled or source.strides != parameter.physical_strides[-rank:]:
        raise NotModelled("LaunchContext.async_copy copies a window of another shape")
    if bits_of(target.dtype) != bits_of(source.dtype):
        raise NotModelled("LaunchContext.async_copy copies to elements of another width")
    t.b.emit(
        "copy",
        [source.base, target.base],
        source=source.view,
        target=target.view,
        shape=list(target.shape),
        strides=list(target.strides),
    )


@rule("machine.wait_copies")
def _wait_copies(t: Translator, op: Any) -> None:
    read_only = bool(t.ir.BoolAttr(op.attributes["read_only"]).value)
    t.b.emit("wait_copies", n=t.integer(op, "groups"), read_only=read_only)
