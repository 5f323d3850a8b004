"""Semaphores, by which the clusters of a grid wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Ref, Val, Value
from ._context import RuleContext
from ._indexing import index_ref, plain_view
from ._registry import rule

_OTHER_DEVICE = "it reaches for another device, and several devices are not modelled"


def one_semaphore(ctx: RuleContext, ref: Ref, transforms: Sequence[Any]) -> Ref:
    """The single semaphore that a view names; dimensions of size 1 need no index."""
    view = plain_view(ctx, ref, transforms)
    if any(n != 1 for n in view.shape):
        raise ctx.unsupported(
            f"it needs one semaphore and was given an array of {list(view.shape)}: index it"
        )
    return index_ref(ctx.builder, view, [0] * len(view.shape))


def _signal(ctx: RuleContext, ref: Ref, transforms: Sequence[Any], count: Val, device: Any) -> None:
    if device is not None:
        raise ctx.unsupported(_OTHER_DEVICE)
    ctx.builder.emit("semaphore_signal", [one_semaphore(ctx, ref, transforms), _int32(ctx, count)])


def _int32(ctx: RuleContext, count: Any) -> Val:
    return ctx.builder.convert(ctx.kernel.value(count), "int32")


@rule("get_global")
def _get_global(ctx: RuleContext, *, what: Any) -> Ref:
    if "Semaphore" not in type(what.dtype).__name__:
        raise ctx.unsupported("only semaphores can be global to a kernel")
    return ctx.kernel.global_semaphores("semaphore", tuple(int(n) for n in what.shape))


@rule("semaphore_signal")
def _semaphore_signal(ctx: RuleContext, *args: Any, args_tree: Any, **_: Any) -> Sequence[Value]:
    ref, transforms, count, device, _core = args_tree.unflatten(args)
    _signal(ctx, ref, transforms, count, device)
    return ()


@rule("semaphore_signal_parallel")
def _signal_parallel(ctx: RuleContext, *args: Any, args_tree: Any) -> Sequence[Value]:
    for ref, transforms, count, device in zip(*args_tree.unflatten(args), strict=True):
        _signal(ctx, ref, transforms, count, device)
    return ()


@rule("semaphore_wait")
def _semaphore_wait(ctx: RuleContext, *args: Any, args_tree: Any, **_: Any) -> Sequence[Value]:
    ref, transforms, value, decrement = args_tree.unflatten(args)
    if isinstance(decrement, Val):
        bits = ctx.builder.constant_bits(decrement.id)
        if bits is None:
            raise ctx.unsupported("whether it decrements must be known when the kernel is traced")
        decrement = bits != 0
    semaphore = one_semaphore(ctx, ref, transforms)
    ctx.builder.emit("semaphore_wait", [semaphore, _int32(ctx, value)], decrement=bool(decrement))
    return ()


@rule("semaphore_read")
def _semaphore_read(ctx: RuleContext, *args: Any, args_tree: Any) -> Val:
    ref, transforms = args_tree.unflatten(args)
    return ctx.builder.op("semaphore_read", [one_semaphore(ctx, ref, transforms)], "int32")
