"""Reads and writes of refs, atomics, and allocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from . import _allocation
from ._builder import Val, Value
from ._context import RuleContext
from ._elementwise import spread
from ._indexing import Gather, View, index_ref, unflatten, view
from ._registry import rule


def _check_reachable(ctx: RuleContext, target: View) -> None:
    ref = target.base if isinstance(target, Gather) else target
    if ref.space == "tmem":
        raise ctx.unsupported(
            "threads reach tensor memory with async_load_tmem and async_store_tmem only"
        )


# ---- reads -------------------------------------------------------------------------------------


def load(ctx: RuleContext, source: View, mask: Val | None = None, other: Val | None = None) -> Val:
    """Reads a view; where `mask` is false the result is `other`, or unwritten memory."""
    _check_reachable(ctx, source)
    b = ctx.builder
    shape = source.shape
    mask = None if mask is None else spread(ctx, mask, shape)
    if mask is None or other is None:
        other = None
    else:
        elem = source.base.elem if isinstance(source, Gather) else source.elem
        other = spread(ctx, b.convert(other, elem), shape)
    extra = [v for v in (mask, other) if v is not None]
    if isinstance(source, Gather):
        return b.op(
            "gather",
            [source.base, *source.starts, *source.indices, *extra],
            source.base.elem,
            shape,
            dims=source.dims,
            at=source.at,
            mask=mask is not None,
            other=other is not None,
        )
    if mask is None:
        return b.op("load", [source], source.elem, shape)
    return b.op("load_masked", [source, *extra], source.elem, shape, other=other is not None)


def store(
    ctx: RuleContext, target: View, x: Val, mask: Val | None = None, *, wants_old: bool = False
) -> Val | None:
    """Writes a view (where `mask`, if given); returns what was there if it is wanted."""
    _check_reachable(ctx, target)
    b = ctx.builder
    shape = target.shape
    x = spread(ctx, x, shape)
    mask = None if mask is None else spread(ctx, mask, shape)
    masks = [] if mask is None else [mask]
    old = [b.val(x.dtype, shape)] if wants_old else []
    if isinstance(target, Gather):
        b.emit(
            "scatter",
            [target.base, x, *target.starts, *target.indices, *masks],
            old,
            dims=target.dims,
            at=target.at,
            mask=bool(masks),
        )
    elif masks:
        b.emit("store_masked", [target, x, *masks], old)
    elif wants_old:
        b.emit("swap", [target, x], old)
    else:
        b.emit("store", [target, x])
    return old[0] if old else None


@rule("get", "load")
def _get(ctx: RuleContext, ref: Any, *leaves: Any, tree: Any, **_: Any) -> Any:
    return load(ctx, view(ctx, ref, unflatten(tree, leaves)))


@rule("masked_load")
def _masked_load(ctx: RuleContext, *args: Any, args_tree: Any, **_: Any) -> Any:
    ref, transforms, mask, other = args_tree.unflatten(args)
    return load(ctx, view(ctx, ref, transforms), mask, other)


# ---- writes ------------------------------------------------------------------------------------


@rule("swap")
def _swap(ctx: RuleContext, ref: Any, x: Val, *leaves: Any, tree: Any, **_: Any) -> Any:
    return _finish_swap(ctx, view(ctx, ref, unflatten(tree, leaves)), x, None)


@rule("masked_swap")
def _masked_swap(ctx: RuleContext, *args: Any, args_tree: Any, **_: Any) -> Any:
    ref, transforms, x, mask = args_tree.unflatten(args)
    return _finish_swap(ctx, view(ctx, ref, transforms), x, mask)


def _finish_swap(ctx: RuleContext, target: View, x: Val, mask: Val | None) -> Any:
    return store(ctx, target, x, mask, wants_old=ctx.used[0])


@rule("store")
def _store(ctx: RuleContext, ref: Any, x: Val, *leaves: Any, tree: Any, **_: Any) -> Any:
    store(ctx, view(ctx, ref, unflatten(tree, leaves)), x)
    return []


@rule("addupdate")
def _addupdate(ctx: RuleContext, ref: Any, x: Val, *leaves: Any, tree: Any, **_: Any) -> Any:
    target = view(ctx, ref, unflatten(tree, leaves))
    x = spread(ctx, x, target.shape)
    store(ctx, target, ctx.builder.binary("add", load(ctx, target), x))
    return []


# ---- atomics -----------------------------------------------------------------------------------


def atomic_rmw(ctx: RuleContext, kind: str, target: View, x: Val, mask: Val | None) -> Val | None:
    """One indivisible read-modify-write per element; returns the old values if they are read."""
    b = ctx.builder
    x = spread(ctx, x, target.shape)
    mask = None if mask is None else spread(ctx, mask, target.shape)
    if isinstance(target, Gather):
        return _atomic_rmw_each(ctx, kind, target, x, mask)
    operands: list[Value] = [target, x, *([] if mask is None else [mask])]
    old = [b.val(x.dtype, x.shape)] if any(ctx.used) else []
    b.emit("atomic_rmw", operands, old, kind=kind, mask=mask is not None)
    return old[0] if old else None


def _atomic_rmw_each(ctx: RuleContext, kind: str, target: Gather, x: Val, mask: Val | None) -> Val:
    """An atomic at index arrays, one element after another: two may name the same address."""
    b = ctx.builder
    if any(dim != "array" for dim in target.dims):
        raise ctx.unsupported("an atomic with index arrays must index every dimension")
    count = 1
    for size in target.shape:
        count *= size
    flat = [b.reshape(v, (count,)) for v in (x, *target.indices, *([] if mask is None else [mask]))]
    index, olds = b.val("int32"), b.val(x.dtype, (count,))
    with b.region([index, olds]) as region:
        one, *rest = [b.reshape(b.op("dynamic_slice", [v, index], v.dtype, (1,)), ()) for v in flat]
        where = index_ref(b, target.base, rest[: len(target.indices)])
        masks = rest[len(target.indices) :]
        old = b.op("atomic_rmw", [where, one, *masks], x.dtype, kind=kind, mask=bool(masks))
        updated = b.op(
            "dynamic_update_slice", [olds, b.reshape(old, (1,)), index], x.dtype, (count,)
        )
        region.yields = [updated.id]
    result = b.val(x.dtype, (count,))
    b.emit(
        "for_loop",
        [b.i32(0), b.i32(count), b.constant(0, x.dtype, (count,))],
        [result],
        [region],
    )
    return b.reshape(result, target.shape)


@rule("atomic_rmw")
def _atomic_rmw(ctx: RuleContext, *args: Any, args_tree: Any, atomic_type: Any) -> Any:
    ref, transforms, x, mask = args_tree.unflatten(args)
    return atomic_rmw(ctx, str(atomic_type.value), view(ctx, ref, transforms), x, mask)


@rule("mgpu_atomic_store")
def _atomic_store(ctx: RuleContext, *args: Any, args_tree: Any, atomic_type: Any, **_: Any) -> Any:
    ref, transforms, x = args_tree.unflatten(args)
    atomic_rmw(ctx, str(atomic_type.value), view(ctx, ref, transforms), x, None)
    return []


@rule("atomic_cas")
def _atomic_cas(ctx: RuleContext, ref: Any, expected: Val, new: Val, **_: Any) -> Any:
    return ctx.builder.op("atomic_cas", [ref, expected, new], new.dtype, new.shape)


@rule("debug_barrier")
def _debug_barrier(ctx: RuleContext) -> Any:
    return []  # orders the lanes of one program, which never run out of order here


# ---- allocations -------------------------------------------------------------------------------


@rule("run_scoped")
def _run_scoped(
    ctx: RuleContext,
    *consts: Any,
    jaxpr: Any,
    collective_axes: Any,
    ref_transforms: Sequence[Any] = (),
    **_: Any,
) -> Any:
    open_, _unused = jax_internals.open_jaxpr(jaxpr)
    avals = [v.aval for v in open_.invars]
    transforms = ref_transforms or [()] * len(avals)
    names = _allocation.names(open_.debug_info, len(avals))
    allocs, values = _allocation.plan(ctx, avals, transforms, names)
    _allocation.check_collective(ctx, allocs, collective_axes)
    return _scope(ctx, allocs, values, bool(collective_axes), open_, consts)


def _scope(
    ctx: RuleContext,
    allocs: Sequence[Any],
    values: Any,
    collective: bool,
    jaxpr: Any,
    consts: Sequence[Any],
) -> Any:
    b = ctx.builder
    with b.region(values.params) as region:
        outs = ctx.kernel.lower_jaxpr(jaxpr, values.args, consts)
        region.yields = [v.id for v in outs]
    results = [b.like(v) for v in outs]
    b.emit("scope", [], results, [region], allocs=list(allocs), collective=collective)
    return results
