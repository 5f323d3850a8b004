"""What a scope allocates: from the types of a body's refs to `Alloc`s and refs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from . import _source_info
from ._builder import Ref
from ._context import RuleContext, dtype_of


@dataclasses.dataclass(slots=True)
class Allocated:
    """Parameters of the scope's region, and what the body's refs are made of."""

    params: list[Ref] = dataclasses.field(default_factory=list)
    args: list[Any] = dataclasses.field(default_factory=list)


def names(debug_info: Any, count: int) -> list[str]:
    """The user's names of a body's refs."""
    return _source_info.argument_names(debug_info, [f"scratch[{i}]" for i in range(count)])


# Class name of a ref type -> `rule(ctx, aval, transforms, name) -> (allocs, refs, value)`, for the
# types that are more than one allocation of numbers.
SPECIAL: dict[str, Callable[..., tuple[list[Any], list[Ref], Any]]] = {}


def plan(
    ctx: RuleContext,
    avals: Sequence[Any],
    transforms: Sequence[Sequence[Any]],
    alloc_names: Sequence[str],
    default_space: str = "smem",
) -> tuple[list[Any], Allocated]:
    """The allocations for refs of these types, and fresh refs to them."""
    allocs: list[Any] = []
    values = Allocated()
    for aval, chain, name in zip(avals, transforms, alloc_names, strict=True):
        _check_tmem(ctx, aval, name)
        special = SPECIAL.get(type(aval).__name__)
        if special is not None:
            more, refs, value = special(ctx, aval, chain, name)
        else:
            more, refs, value = _single(ctx, aval, chain, name, default_space)
        allocs += more
        values.params += refs
        values.args.append(value)
    return allocs, values


def _check_tmem(ctx: RuleContext, aval: Any, name: str) -> None:
    """Refuses what tcgen05.alloc cannot do: all TMEM of a kernel is of one or of two blocks."""
    collective = getattr(aval, "collective", None) if _space(aval, "") == "tmem" else None
    if collective is None:
        return
    first, name_of_first = ctx.kernel.tmem or (collective, name)
    ctx.kernel.tmem = (first, name_of_first)
    if collective != first:
        pair, alone = (name, name_of_first) if collective else (name_of_first, name)
        raise ctx.unsupported(
            f"TMEM `{pair}` is collective and `{alone}` is not: a kernel allocates all its tensor "
            "memory for pairs of blocks, or all of it for single blocks"
        )


def check_collective(ctx: RuleContext, allocs: Sequence[Any], collective_axes: Any) -> None:
    """Refuses a scope that a GPU cannot have.

    Memory and barriers of a block belong to all its threads, so each must take part in allocating
    them; blocks of a cluster cannot allocate together.
    """
    axes = collective_axes if isinstance(collective_axes, tuple) else (collective_axes,)
    # A loop for any kernel names the axis of the threads, which is None where there is none.
    axes = tuple(axis for axis in axes if axis is not None)
    thread_axis = getattr(ctx.kernel.mesh, "thread_name", None)
    threads = () if thread_axis is None else (thread_axis,)
    if axes not in ((), threads):
        raise ctx.unsupported(
            f"a scope can be collective over the threads of a block only, not over {axes}"
        )
    shared = [a["name"] for a in allocs if a["space"] in ("smem", "tmem")]
    if axes != threads and shared:
        raise ctx.unsupported(
            f"`{shared[0]}` belongs to all threads of the block: "
            f"say collective_axes={thread_axis!r} where it is allocated"
        )


def _single(
    ctx: RuleContext, aval: Any, transforms: Sequence[Any], name: str, default_space: str
) -> tuple[list[Any], list[Ref], Any]:
    kind, elem = _kind(ctx, aval, transforms)
    shape = jax_internals.transformed_shape(aval, transforms)
    space = "gmem" if elem == "semaphore" else _space(aval, default_space)
    ref = ctx.builder.ref(space, elem, shape)
    alloc = {"name": name, "space": space, "shape": list(shape), "kind": kind}
    return [alloc], [ref], ref


def _space(aval: Any, default: str) -> str:
    space = str(getattr(aval.memory_space, "value", aval.memory_space)).lower()
    # A TPU's spaces are ordinary memory of the block.
    return space if space in ("gmem", "smem", "tmem", "regs") else default


def _kind(ctx: RuleContext, aval: Any, transforms: Sequence[Any]) -> tuple[Any, str]:
    """`AllocKind` and the element of the ref."""
    dtype = aval.inner_aval.dtype if hasattr(aval, "inner_aval") else aval.dtype
    family = type(dtype).__name__
    if family == "BarrierType":
        return {
            "barrier": {
                "arrivals": int(dtype.num_arrivals),
                "orders_tensor_core": bool(dtype.orders_tensor_core),
            }
        }, "barrier"
    if family == "ClusterBarrierType":
        return {
            "cluster_barrier": {
                "axes": [ctx.kernel.cluster_dims(a) for a in dtype.collective_axes],
                "arrivals": int(dtype.num_arrivals),
                "orders_tensor_core": bool(dtype.orders_tensor_core),
                "leader_tracked": bool(getattr(dtype, "leader_tracked", False)),
            }
        }, "barrier"
    if "Semaphore" in family:
        return "semaphore", "semaphore"
    accumulator = type(aval).__name__ == "WGMMAAbstractAccumulatorRef"
    name = dtype_of(aval.inner_aval)
    layout = [step for t in reversed(transforms) for step in _layout(t)]
    return {"data": {"dtype": name, "zeroed": accumulator, "layout": layout}}, name


def _layout(transform: Any) -> list[Any]:
    """The layout that an inverse transform at the head of every access undoes."""
    match type(transform).__name__:
        case "UntilingTransform":
            return [{"tile": [int(t) for t in transform.tiling]}]
        case "UnswizzleRef":
            return [{"swizzle": int(transform.swizzle)}]
    return []


def outlives_grid_point(aval: Any, compiler_params: Any) -> bool:
    """Whether scratch of this type keeps its contents from one grid point to the next.

    On a GPU it belongs to a block, unless a dimension of the grid is declared sequential. A TPU's
    scratch lasts, and generic kernels that accumulate over a grid dimension rely on it.
    """
    if not jax_internals.is_plain_ref(aval):
        return False
    if sequential_dims(compiler_params):
        return True
    return _space(aval, "") not in ("smem", "tmem", "regs") or _is_tpu_space(aval)


def sequential_dims(compiler_params: Any) -> list[int]:
    """The dimensions of the grid that are declared to be run in order."""
    semantics = getattr(compiler_params, "dimension_semantics", None) or ()
    in_order = ("sequential", "arbitrary")
    return [d for d, s in enumerate(semantics) if str(getattr(s, "value", s)) in in_order]


def _is_tpu_space(aval: Any) -> bool:
    return (
        "tpu" in type(aval.memory_space).__module__
        or "mosaic." in type(aval.memory_space).__module__
    )
