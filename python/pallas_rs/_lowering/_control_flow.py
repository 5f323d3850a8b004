"""Loops, branches and calls. Calls are inlined; a ref that enters one is simply used inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from ._builder import Region, Val
from ._context import RuleContext, dtype_of, shape_of
from ._registry import rule

# ---- calls -------------------------------------------------------------------------------------

# primitive -> parameter that holds the jaxpr
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
}


@rule(*_CALLS)
def _call(ctx: RuleContext, *args: Any, **params: Any) -> Any:
    return ctx.kernel.lower_call(params[_CALLS[ctx.primitive]], args)


# ---- loops -------------------------------------------------------------------------------------


@rule("scan")
def _scan(
    ctx: RuleContext, *args: Any, jaxpr: Any, length: int, reverse: bool, **params: Any
) -> Any:
    b = ctx.builder
    consts, carry, xs = jax_internals.scan_groups(params, args)
    num_carry = len(carry)
    if not xs and len(ctx.avals_out) == num_carry:
        body, _ = jax_internals.open_jaxpr(jaxpr)
        counter = _counter(body, len(consts))
        if counter is not None:
            hi = _plus(ctx, carry[counter], length)
            return _counted_loop(ctx, jaxpr, consts, carry, counter, hi)

    # The loop carries its stacked results and writes one row of each per step.
    ys = [b.constant(0, dtype_of(aval), shape_of(aval)) for aval in ctx.avals_out[num_carry:]]
    if not length:
        return [*carry, *ys]
    index = b.val("int32")
    inner_carry = [b.like(v) for v in carry]
    inner_ys = [b.like(v) for v in ys]
    with b.region([index, *inner_carry, *inner_ys]) as region:
        row = b.binary("sub", b.i32(length - 1), index) if reverse else index
        rows = [_take_row(ctx, x, row) for x in xs]
        outs = ctx.kernel.lower_jaxpr(jaxpr, [*consts, *inner_carry, *rows])
        new_ys = [
            _put_row(ctx, stack, y, row)
            for stack, y in zip(inner_ys, outs[num_carry:], strict=True)
        ]
        region.yields = [v.id for v in [*outs[:num_carry], *new_ys]]
    results = [b.like(v) for v in [*carry, *ys]]
    b.emit("for_loop", [b.i32(0), b.i32(length), *carry, *ys], results, [region])
    return results


def _plus(ctx: RuleContext, x: Val, n: int) -> Val:
    known = ctx.builder.static_integer(x)
    if known is not None:
        return ctx.builder.constant(known + n, x.dtype)
    return ctx.builder.binary("add", x, ctx.builder.constant(n, x.dtype))


def _take_row(ctx: RuleContext, stack: Val, row: Val) -> Val:
    b = ctx.builder
    shape = stack.shape[1:]
    starts = [row, *[b.i32(0)] * len(shape)]
    return b.reshape(b.op("dynamic_slice", [stack, *starts], stack.dtype, (1, *shape)), shape)


def _put_row(ctx: RuleContext, stack: Val, value: Val, row: Val) -> Val:
    b = ctx.builder
    starts = [row, *[b.i32(0)] * len(value.shape)]
    update = b.reshape(value, (1, *value.shape))
    return b.op("dynamic_update_slice", [stack, update, *starts], stack.dtype, stack.shape)


@rule("while")
def _while(
    ctx: RuleContext,
    *args: Any,
    cond_jaxpr: Any,
    body_jaxpr: Any,
    cond_nconsts: int,
    body_nconsts: int,
) -> Any:
    b = ctx.builder
    cond_consts = args[:cond_nconsts]
    body_consts = args[cond_nconsts : cond_nconsts + body_nconsts]
    init = list(args[cond_nconsts + body_nconsts :])

    bounds = _counter_and_bound(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)
    if bounds is not None:
        counter, bound = bounds
        return _counted_loop(ctx, body_jaxpr, body_consts, init, counter, init[bound], bound)

    before = [b.like(v) for v in init]
    condition = ctx.lower_region(cond_jaxpr, before, [*cond_consts, *before])
    current = [b.like(v) for v in init]
    body = ctx.lower_region(body_jaxpr, current, [*body_consts, *current])
    results = [b.like(v) for v in init]
    b.emit("while_loop", init, results, [condition, body])
    return results


def _counter_and_bound(
    cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int
) -> tuple[int, int] | None:
    """Positions in the carry of the counter and its bound, where this is a `fori_loop`.

    A `fori_loop` whose bounds are not static is a `while` that compares the counter with a bound
    it carries unchanged.
    """
    if cond_nconsts:
        return None
    cond, _ = jax_internals.open_jaxpr(cond_jaxpr)
    body, _ = jax_internals.open_jaxpr(body_jaxpr)
    if len(cond.eqns) != 1 or cond.eqns[0].primitive.name != "lt":
        return None
    if cond.outvars[0] is not cond.eqns[0].outvars[0]:
        return None
    lhs, rhs = cond.eqns[0].invars
    if lhs not in cond.invars or jax_internals.is_literal(rhs) or rhs not in cond.invars:
        return None
    counter, bound = cond.invars.index(lhs), cond.invars.index(rhs)
    if body.outvars[bound] is not body.invars[body_nconsts + bound]:
        return None
    return (counter, bound) if _counter(body, body_nconsts, counter) == counter else None


def _counter(body: Any, num_consts: int, at: int = 0) -> int | None:
    """`at`, if that position of the carry is a scalar to which each step adds one."""
    carried = body.invars[num_consts:]
    if at >= len(carried) or dtype_of(carried[at].aval) != "int32" or carried[at].aval.shape:
        return None
    for eqn in body.eqns:
        if eqn.outvars and eqn.outvars[0] is body.outvars[at]:
            adds_one = (
                eqn.primitive.name == "add"
                and eqn.invars[0] is carried[at]
                and jax_internals.is_literal(eqn.invars[1])
                and eqn.invars[1].val == 1
            )
            return at if adds_one else None
    return None


def _counted_loop(
    ctx: RuleContext,
    body_jaxpr: Any,
    body_consts: Sequence[Any],
    init: list[Val],
    counter: int,
    hi: Val,
    bound: int | None = None,
) -> list[Any]:
    """A loop whose counter is the loop's own index; `bound` is where the carry holds `hi`."""
    b = ctx.builder
    lo = init[counter]
    others = [i for i in range(len(init)) if i not in (counter, bound)]
    index = b.like(lo)
    inner = {i: b.like(init[i]) for i in others}
    inner[counter] = index
    if bound is not None:
        inner[bound] = hi
    positions = range(len(init))
    with b.region([index, *(inner[i] for i in others)]) as region:
        outs = ctx.kernel.lower_jaxpr(
            body_jaxpr,
            [*body_consts, *(inner[i] for i in positions)],
            wanted=[i in others for i in positions],
        )
        region.yields = [outs[i].id for i in others]
    finals = [b.like(init[i]) for i in others]
    b.emit("for_loop", [lo, hi, *(init[i] for i in others)], finals, [region])
    results: dict[int | None, Any] = dict(zip(others, finals, strict=True))
    results[bound] = hi
    # The counter ends at its bound, or where it began when no step was made.
    results[counter] = b.binary("max", lo, hi) if ctx.used[counter] else None
    return [results[i] for i in positions]


# ---- branches ----------------------------------------------------------------------------------


@rule("cond")
def _cond(ctx: RuleContext, index: Val, *args: Any, branches: Sequence[Any], **_: Any) -> Any:
    b = ctx.builder
    if jax_internals.is_literal(ctx.eqn.invars[0]):
        taken = min(max(int(ctx.eqn.invars[0].val), 0), len(branches) - 1)
        return ctx.kernel.lower_jaxpr(branches[taken], args)
    if index.dtype == "bool":
        index = b.convert(index, "int32")
    regions: list[Region] = [ctx.lower_region(branch, [], args) for branch in branches]
    results = ctx.fresh_results()
    b.emit("switch", [index], results, regions)
    return results
