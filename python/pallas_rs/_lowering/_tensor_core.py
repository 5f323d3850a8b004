"""Matrix units: `wgmma` with its accumulators, and the synchronous `mma`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Ref, Val, Value
from ._context import RuleContext
from ._indexing import plain_view, unflatten
from ._registry import rule
from ._sync import static_int


def _issue(
    ctx: RuleContext,
    acc: Ref,
    a: Value,
    b: Ref,
    leaves: Sequence[Val],
    trees: Sequence[Any],
) -> None:
    """Emits `wgmma` on the views that the three operands' transforms make."""
    operands: list[Value] = []
    start = 0
    for operand, tree in zip((acc, a, b), trees, strict=True):
        end = start + (0 if tree is None else tree.num_leaves)
        if not isinstance(operand, Val):
            operand = plain_view(ctx, operand, unflatten(tree, leaves[start:end]))
        operands.append(operand)
        start = end
    ctx.builder.emit("wgmma", operands, more=ctx.more)


@rule("wgmma_ref")
def _wgmma_ref(
    ctx: RuleContext,
    acc: Ref,
    a: Value,
    b: Ref,
    *leaves: Val,
    acc_transforms_tree: Any,
    a_transforms_tree: Any,
    b_transforms_tree: Any,
) -> Sequence[Value]:
    _issue(
        ctx,
        acc,
        a,
        b,
        leaves,
        (acc_transforms_tree, a_transforms_tree, b_transforms_tree),
    )
    return ()


@rule("wgmma")
def _wgmma(
    ctx: RuleContext,
    acc: Val,
    a: Value,
    b_ref: Ref,
    *leaves: Val,
    acc_transforms_tree: Any,
    a_transforms_tree: Any,
    b_transforms_tree: Any,
) -> Val:
    """The functional form: its result is there at once, so it waits for itself."""
    b = ctx.builder
    ref = b.ref("regs", acc.dtype, acc.shape)
    alloc = {
        "name": "accumulator",
        "space": "regs",
        "shape": list(acc.shape),
        "kind": {"data": {"dtype": acc.dtype, "zeroed": True, "layout": []}},
    }
    with b.region([ref]) as region:
        b.emit("store", [ref, acc])
        _issue(
            ctx,
            ref,
            a,
            b_ref,
            leaves,
            (acc_transforms_tree, a_transforms_tree, b_transforms_tree),
        )
        region.yields = [b.op("accumulator_load", [ref], acc.dtype, acc.shape, wait=0).id]
    result = b.val(acc.dtype, acc.shape)
    b.emit("scope", [], [result], [region], allocs=[alloc], collective=False)
    return result


@rule("wgmma_wait")
def _wgmma_wait(ctx: RuleContext, *operands: Val, n: int | None = None) -> Sequence[Value]:
    ctx.builder.emit("wgmma_wait", n=static_int(ctx, operands[0] if n is None else n))
    return ()


@rule("wgmma_accumulator_deref")
def _accumulator_load(ctx: RuleContext, acc: Value, *, wait_n: int | None) -> Val:
    if isinstance(acc, Val):
        return acc
    return ctx.builder.op("accumulator_load", [acc], ctx.out_dtype, ctx.out_shape, wait=wait_n)


@rule("wgmma_accumulator_store")
def _accumulator_store(ctx: RuleContext, acc: Value, x: Val) -> Val:
    if isinstance(acc, Ref):
        ctx.builder.emit("store", [acc, x])
    return x


@rule("mma")
def _mma(ctx: RuleContext, acc: Val, a: Val, b: Val) -> Val:
    builder = ctx.builder
    if a.dtype == "bool":
        a, b = builder.convert(a, "int8"), builder.convert(b, "int8")
    product = builder.op(
        "dot_general",
        [a, b],
        acc.dtype,
        acc.shape,
        lhs_contract=[1],
        rhs_contract=[0],
        lhs_batch=[],
        rhs_batch=[],
        tf32=a.dtype == "float32",
    )
    return builder.binary("add", acc, product)
