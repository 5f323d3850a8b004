"""Unions of refs, and state that lives for the length of a body."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from . import _allocation
from ._builder import Ref, Val
from ._context import RuleContext
from ._registry import rule, transform_rule


@dataclasses.dataclass(frozen=True)
class RefUnion:
    """A `plgpu.RefUnion`: the values of each member are kept apart.

    Sharing them could only be seen by a kernel that reads through another member than the one it
    wrote through, which the contract of unions forbids. Findings and limits know what is shared.
    """

    # (index of the alias group, offset within the union) -> member
    members: dict[tuple[int, int], Ref]


def _allocate_union(
    ctx: RuleContext, aval: Any, transforms: Sequence[Any], name: str
) -> tuple[list[Any], list[Ref], RefUnion]:
    allocs: list[Any] = []
    refs: list[Ref] = []
    members: dict[tuple[int, int], Ref] = {}
    union = ctx.kernel.next_union()
    for extract, member, chain in jax_internals.ref_union_members(aval):
        group, offset = int(extract.alias_group_idx), int(extract.offset)
        alloc, values = _allocation.plan(
            ctx,
            [member],
            [chain],
            [f"{name}[{group}][{sum(g == group for g, _ in members)}]"],
        )
        for part in alloc:
            part["kind"]["data"]["layout"].append({"within": {"union": union, "offset": offset}})
        allocs += alloc
        refs += values.params
        members[group, offset] = values.args[0]
    return allocs, refs, RefUnion(members)


_allocation.SPECIAL["AbstractRefUnion"] = _allocate_union


@transform_rule("ExtractAliasedRef")
def _extract(ctx: RuleContext, union: RefUnion, transform: Any) -> Ref:
    return union.members[int(transform.alias_group_idx), int(transform.offset)]


@rule("run_state")
def _run_state(
    ctx: RuleContext,
    *init: Any,
    jaxpr: Any,
    is_initialized: Sequence[bool] = (),
    **_: Any,
) -> Sequence[Any]:
    """Refs that live for the length of the body, with their first and their last contents.

    Operands that are refs already are simply used inside. Accumulators become memory, so that
    their products stay in flight until the body waits or ends. Other refs become values.
    """
    b = ctx.builder
    open_, _unused = jax_internals.open_jaxpr(jaxpr)
    if not all(is_initialized):
        raise ctx.unsupported("the body's refs must have initial contents")
    avals = [v.aval for v in open_.invars]
    accumulators = [type(a).__name__ == "WGMMAAbstractAccumulatorRef" for a in avals]
    as_values = [
        not jax_internals.is_ref_aval(out) and not accumulator
        for out, accumulator in zip(ctx.avals_out, accumulators, strict=True)
    ]
    body = jax_internals.discharge_refs(jaxpr, as_values)
    allocs, allocated = _allocation.plan(
        ctx,
        [a for a, is_acc in zip(avals, accumulators, strict=True) if is_acc],
        [()] * sum(accumulators),
        ["accumulator"] * sum(accumulators),
    )
    with b.region(allocated.params) as region:
        accs = iter(allocated.args)
        args = []
        for value, is_acc in zip(init, accumulators, strict=True):
            if is_acc:
                acc = next(accs)
                b.emit("store", [acc, value])
                args.append(acc)
            else:
                args.append(value)
        returned = ctx.kernel.lower_jaxpr(body, args)
        # The values' last contents come after what the body itself returns.
        finals = iter(returned[len(open_.outvars) :])
        # A body should return nothing. What it does return comes before the contents in JAX's
        # native lowering and takes their place; so it does here.
        outs: list[Any] = returned[: len(open_.outvars)]
        for arg, value, is_acc, is_value in zip(args, init, accumulators, as_values, strict=True):
            if is_acc:
                contents = b.op("accumulator_load", [arg], arg.elem, arg.shape, wait=0)
                outs.append(contents)
            else:
                outs.append(next(finals) if is_value else value)
        del outs[len(init) :]
        region.yields = [v.id for v in outs if isinstance(v, Val)]
    results = [b.like(v) if isinstance(v, Val) else v for v in outs]
    b.emit(
        "scope",
        [],
        [v for v in results if isinstance(v, Val)],
        [region],
        allocs=allocs,
        collective=False,
    )
    return results
