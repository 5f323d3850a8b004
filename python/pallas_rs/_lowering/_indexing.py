"""Views: a chain of JAX transforms becomes a chain of `ref_...` ops.

Refs have their logical shape throughout, so transforms that only describe a layout are dropped.
An indexer with index arrays makes no view; it ends a chain as a `Gather`, which the memory op
that asked for it turns into `gather` or `scatter`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._builder import Builder, Ref, Shape, Val
from ._context import RuleContext
from ._registry import TRANSFORMS, transform_rule

# Layout only: the logical view is the same.
_IDENTITIES = (
    "UnswizzleRef",
    "UntilingTransform",
    "CollapseLeadingBatchDimensionsTransform",
    "ExpandLeadingBatchDimensionsTransform",
    "IdentityTransform",
    "MemorySpaceCastTransform",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Gather:
    """An indexer with index arrays: attributes and operands of `gather` and `scatter`."""

    base: Ref
    dims: list[Any]
    at: int
    starts: list[Val]
    indices: list[Val]
    shape: Shape
    # Dimensions of the result that the op keeps with size 1 and JAX drops.
    op_shape: Shape


View = Ref | Gather


def view(ctx: RuleContext, base: Any, transforms: Sequence[Any]) -> View:
    """The view of `base` through `transforms`, whose dynamic leaves are values of the program."""
    result: View = base
    for transform in transforms:
        name = type(transform).__name__
        rule: Callable[..., View] | None = TRANSFORMS.get(name)
        if rule is None:
            raise ctx.unsupported(f"the machine has no view that means `{name}`")
        if isinstance(result, Gather):
            raise ctx.unsupported("index arrays must come last in a chain of transforms")
        result = rule(ctx, result, transform)
    return result


def plain_view(ctx: RuleContext, base: Any, transforms: Sequence[Any]) -> Ref:
    """As `view`, where index arrays have no meaning."""
    result = view(ctx, base, transforms)
    if isinstance(result, Gather):
        raise ctx.unsupported("it cannot take a view made with index arrays")
    return result


def unflatten(tree: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The transforms of a primitive: `tree` is its parameter, nothing where there are none."""
    return () if tree is None else tuple(tree.unflatten(list(leaves)))


@transform_rule(*_IDENTITIES)
def _identity(ctx: RuleContext, ref: Ref, transform: Any) -> Ref:
    return ref


@transform_rule("TransposeTransform")
def _transpose(ctx: RuleContext, ref: Ref, transform: Any) -> Ref:
    perm = [int(p) for p in transform.permutation]
    if perm == list(range(len(perm))):
        return ref
    out = ctx.builder.ref(ref.space, ref.elem, [ref.shape[p] for p in perm])
    ctx.builder.emit("ref_transpose", [ref], [out], perm=perm)
    return out


@transform_rule("ReshapeTransform")
def _reshape(ctx: RuleContext, ref: Ref, transform: Any) -> Ref:
    return reshape(ctx.builder, ref, transform.shape)


@transform_rule("BitcastTransform")
def _bitcast(ctx: RuleContext, ref: Ref, transform: Any) -> Ref:
    dtype = np.dtype(transform.dtype)
    old, new = _bits(ref.elem), _bits(dtype.name)
    shape = list(ref.shape)
    if old != new:
        # As JAX has it, the second-minor dimension takes up the difference in width.
        if len(shape) < 2:
            raise ctx.unsupported("a bitcast to another width needs a ref of rank 2 or more")
        shape[-2] = shape[-2] * old // new
    out = ctx.builder.ref(ref.space, dtype.name, shape)
    ctx.builder.emit("ref_bitcast", [ref], [out])
    return out


def _bits(dtype: str) -> int:
    digits = "".join(c if c.isdigit() else " " for c in dtype.removeprefix("b")).split()
    return int(digits[0]) if digits else 8


def reshape(builder: Builder, ref: Ref, shape: Sequence[int]) -> Ref:
    """The same elements in row-major order at another shape."""
    shape = tuple(int(d) for d in shape)
    if shape == ref.shape:
        return ref
    out = builder.ref(ref.space, ref.elem, shape)
    builder.emit("ref_reshape", [ref], [out])
    return out


# ---- indexers ----------------------------------------------------------------------------------


@transform_rule("NDIndexer")
def _index(ctx: RuleContext, ref: Ref, indexer: Any) -> View:
    indices = indexer.indices
    if any(isinstance(i, Val) and i.shape for i in map(_as_value(ctx), indices)):
        return _gather(ctx, ref, indexer)
    dims: list[Any] = []
    starts: list[Val] = []
    shape: list[int] = []
    for index, size in zip(indices, ref.shape, strict=True):
        if _is_slice(index):
            length = _static_size(ctx, index)
            shape.append(length)
            start = _start(ctx.builder, index.start, starts)
            dims.append({"slice": {"start": start, "size": length, "stride": int(index.stride)}})
        else:
            dims.append({"index": _element(ctx.builder, index, size, starts)})
    return slice_ref(ctx.builder, ref, dims, starts, shape)


def slice_ref(
    builder: Builder, ref: Ref, dims: list[Any], starts: Sequence[Val], shape: Sequence[int]
) -> Ref:
    """`ref_slice`, or `ref` itself where the slice takes everything."""
    full = all(
        "slice" in dim and dim["slice"] == {"start": {"static": 0}, "size": size, "stride": 1}
        for dim, size in zip(dims, ref.shape, strict=True)
    )
    if full:
        return ref
    out = builder.ref(ref.space, ref.elem, shape)
    builder.emit("ref_slice", [ref, *starts], [out], dims=dims)
    return out


def index_ref(builder: Builder, ref: Ref, indices: Sequence[Val | int]) -> Ref:
    """`ref[indices]` for leading dimensions; the others are taken whole."""
    starts: list[Val] = []
    dims: list[Any] = [
        {"index": _element(builder, i, n, starts)} for i, n in zip(indices, ref.shape, strict=False)
    ]
    rest = ref.shape[len(indices) :]
    dims += [{"slice": {"start": {"static": 0}, "size": n, "stride": 1}} for n in rest]
    return slice_ref(builder, ref, dims, starts, rest)


def _gather(ctx: RuleContext, ref: Ref, indexer: Any) -> Gather:
    """An indexer in which at least one index is an array.

    Every integer index has the indexer's shape or none; a scalar one is broadcast to it.
    """
    builder = ctx.builder
    index_shape = tuple(int(d) for d in indexer.int_indexer_shape)
    dims: list[Any] = []
    starts: list[Val] = []
    indices: list[Val] = []
    slice_shape: list[int] = []
    array_dims: list[int] = []
    for d, index in enumerate(indexer.indices):
        if _is_slice(index):
            length = _static_size(ctx, index)
            slice_shape.append(length)
            start = _start(ctx.builder, index.start, starts)
            dims.append({"slice": {"start": start, "size": length, "stride": int(index.stride)}})
            continue
        array_dims.append(d)
        dims.append("array")
        if not isinstance(index, Val):
            index = ctx.kernel.constant(np.asarray(index, np.int32))
        indices.append(builder.broadcast(index, index_shape))
    # numpy's rule: adjacent integer indices stay in their place, separated ones go first.
    adjacent = array_dims[-1] - array_dims[0] == len(array_dims) - 1
    at = array_dims[0] if adjacent else 0
    shape = (*slice_shape[:at], *index_shape, *slice_shape[at:])
    return Gather(ref, dims, at, starts, indices, shape, shape)


def _as_value(ctx: RuleContext) -> Any:
    def convert(index: Any) -> Any:
        if isinstance(index, Val) or _is_slice(index):
            return index
        array = np.asarray(index)
        return ctx.kernel.constant(array) if array.shape else index

    return convert


def _is_slice(index: Any) -> bool:
    return hasattr(index, "stride") and hasattr(index, "size") and hasattr(index, "start")


def _static_size(ctx: RuleContext, index: Any) -> int:
    if isinstance(index.size, Val):
        raise ctx.unsupported("a slice with a size known only at run time has no static shape")
    return int(index.size)


def _start(builder: Builder, index: Any, starts: list[Val]) -> Any:
    """A start attribute; one that comes at run time is appended to `starts`."""
    known = builder.static_integer(index)
    if known is None:
        starts.append(index)
        return "dynamic"
    return {"static": known}


def _element(builder: Builder, index: Any, size: int, starts: list[Val]) -> Any:
    """As `_start`, for an index that drops its dimension of this size.

    A constant one may count from the end, as in numpy.
    """
    known = builder.static_integer(index)
    return _start(builder, index if known is None or known >= 0 else known + size, starts)
