"""Forward mode of what has a body inside a kernel: scopes, and a mesh of warps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _body, _calls

Pair = tuple[Any, Any]
Rule = Callable[..., Pair]


def tables() -> Iterator[tuple[Any, dict[str, Callable[[Any], Rule]]]]:
    """Modules of JAX, and per name of a primitive in them what makes its rule."""
    yield jax_internals, {"run_scoped_p": run_scoped, "run_state_p": run_state}


def run_scoped(primitive: Any) -> Rule:
    """Allocates a second ref beside each one that can hold tangents."""

    def rule(
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        jaxpr: Any,
        ref_transforms: Sequence[Any],
        **params: Any,
    ) -> Pair:
        closed_over = [not _calls.is_zero(tangent) for tangent in tangents]
        allocated = [_body.carries_tangent(var.aval) for var in jaxpr.invars]
        body = _body.differentiate(
            jaxpr,
            [*closed_over, *allocated],
            env=contextlib.nullcontext(),
            constant_ref=None,
        )
        sizes = (len(closed_over), len(allocated))
        operands, refs = _calls.split(body.primals, sizes)
        operands_t, refs_t = _calls.split(body.tangents, sizes)
        values = [
            *primals,
            *_calls.pick(tangents, closed_over),
            *body.constants,
        ]
        scoped = jax_internals.with_inputs(
            body.jaxpr,
            [*refs, *_calls.pick(refs_t, allocated)],
            constvars=[
                *operands,
                *_calls.pick(operands_t, closed_over),
                *body.constant_vars,
            ],
            consts=values,
        )
        outs = primitive.bind(
            *values,
            jaxpr=scoped,
            ref_transforms=(*ref_transforms, *_calls.pick(ref_transforms, allocated)),
            **params,
        )
        return _with_zeros(outs, body)

    return rule


def _with_zeros(outs: Sequence[Any], body: _body.Tangents) -> Pair:
    count = len(body.nonzero)
    found = _calls.spread(outs[count:], body.nonzero)
    return outs[:count], [
        _calls.zero_tangent(out) if tangent is None else tangent
        for out, tangent in zip(outs[:count], found, strict=True)
    ]


def run_state(primitive: Any) -> Rule:
    """As `run_scoped`, of refs that have an initial value and whose final one is returned.

    JAX's rule looks for a fixed point with refs made values, as which tensor cores have no
    rules. Here each ref of floating-point data has a tangent.
    """

    def rule(
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        jaxpr: Any,
        which_linear: Sequence[bool],
        is_initialized: Sequence[bool],
    ) -> Pair:
        jaxpr = jax_internals.bare_jaxpr(jaxpr)
        operands = _calls.spread(zip(primals, tangents, strict=True), is_initialized)
        carried = [
            not _calls.is_zero(operand[1])
            if operand is not None and jax_internals.is_ref_aval(jax_internals.typeof(operand[0]))
            else _body.carries_tangent(var.aval)
            for var, operand in zip(jaxpr.invars, operands, strict=True)
        ]
        body = _body.differentiate(
            jaxpr,
            carried,
            env=contextlib.nullcontext(),
            constant_ref=jax_internals.AbstractRef,
        )
        initial_carried = _calls.pick(carried, is_initialized)
        initial_tangents = _calls.pick(tangents, initial_carried)
        count, constants = sum(carried), len(body.constants)
        outs = primitive.bind(
            *primals,
            *map(jax_internals.instantiate_zeros, initial_tangents),
            *body.constants,
            jaxpr=jax_internals.with_inputs(body.jaxpr, body.jaxpr.invars),
            which_linear=(*which_linear, *[False] * (count + constants)),
            is_initialized=(
                *is_initialized,
                *_calls.pick(is_initialized, carried),
                *[True] * constants,
            ),
        )
        results = outs[: len(carried)]
        found = _calls.spread(outs[len(carried) : len(carried) + count], carried)
        return results, [
            _calls.zero_tangent(out) if tangent is None else tangent
            for out, tangent in zip(results, found, strict=True)
        ]

    return rule


def core_map(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: Any,
    mesh: Any,
    **params: Any,
) -> Pair:
    """A mesh whose body closes over refs and has no results (JAX < 0.11).

    Inside a kernel its threads are warps, and values and tangents are computed together.
    Outside it is a kernel: one call is made for the tangents, and then the primal one.
    """
    primitive: Any = jax_internals.core_map_p
    inside = _body.in_kernel()
    carried = [not _calls.is_zero(tangent) for tangent in tangents]
    written = _calls.written_inputs(jaxpr)
    if inside:
        written = [False] * len(written)
    body = _body.differentiate(
        jaxpr,
        carried,
        env=jax_internals.extended_axis_env(mesh.shape),
        constant_ref=None if inside else jax_internals.AbstractRef,
    )
    constants = body.constants if inside else map(jax.new_ref, body.constants)
    others = [*_calls.pick(tangents, carried), *constants]

    def tangent_call(*refs: Any) -> None:
        values = [*refs, *others]
        inner = jax_internals.with_inputs(
            body.jaxpr,
            [],
            constvars=[
                *body.primals,
                *_calls.pick(body.tangents, carried),
                *body.constant_vars,
            ],
            consts=values,
        )
        interpret = params["interpret"] if inside else _calls.quiet(params["interpret"])
        primitive.bind(*values, jaxpr=inner, mesh=mesh, **{**params, "interpret": interpret})

    # On the refs as they were; the tangents' own are updated.
    _calls.on_copies(primals, written, tangent_call)
    if not inside:
        primitive.bind(*primals, jaxpr=jaxpr, mesh=mesh, **params)
    return [], []
