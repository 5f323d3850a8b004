"""Forward mode of `plgpu.kernel`, `core_map` and `mpmd_map`.

`plgpu.kernel` is an `mpmd_map` in a `custom_vmap`, whose batching rule builds the kernel
anew with one more grid axis. JAX differentiates `custom_vmap` by one joint call, which
`jax.linearize` cannot use, with a batching rule that never ends when only tangents are
batched. Here the tangents are a second `custom_vmap`, whose batching rule differentiates
the kernel that the user's one builds.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _body, _calls, _scope_rules
from pallas_rs._errors import UnsupportedError

Pair = tuple[Sequence[Any], Sequence[Any]]
Rule = Callable[..., Pair]


def install() -> None:
    """Wraps JAX's rules."""
    rules = jax_internals.primitive_jvps
    _calls.wrap_rule(rules, jax_internals.mpmd_map_p, _wrap_mpmd_map)
    _calls.wrap_rule(rules, jax_internals.custom_vmap_p, _wrap_custom_vmap)
    if jax_internals.core_map_p is not None:
        _calls.wrap_rule(rules, jax_internals.core_map_p, _wrap_core_map)


# Inside the tangent call of a `custom_vmap` the primal outputs come from the tangent call
# of the kernel: the primal call has been made already, and must not print twice.
_joint = threading.local()


@contextlib.contextmanager
def _joint_calls() -> Iterator[None]:
    previous = getattr(_joint, "active", False)
    _joint.active = True
    try:
        yield
    finally:
        _joint.active = previous


def _is_joint() -> bool:
    return getattr(_joint, "active", False)


# ── mpmd_map ────────────────────────────────────────────────────────────────────────────


def _wrap_mpmd_map(jax_rule: Rule | None) -> Rule:
    primitive = jax_internals.mpmd_map_p

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        if _body.in_kernel():
            return _inner_mesh(primals, tangents, **params)
        if _calls.is_ours(params["interpret"]):
            return _mpmd_map(primals, tangents, **params)
        if jax_rule is None:
            raise NotImplementedError(f"Differentiation rule for '{primitive}' not implemented")
        return jax_rule(primals, tangents, **params)

    return rule


def _wrap_core_map(jax_rule: Rule | None) -> Rule:
    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        if _body.in_kernel() or _calls.is_ours(params["interpret"]):
            return _scope_rules.core_map(primals, tangents, **params)
        if jax_rule is None:
            raise NotImplementedError("Differentiation rule for 'core_map' not implemented")
        return jax_rule(primals, tangents, **params)

    return rule


def _mpmd_map(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxprs: Sequence[Any],
    meshes: Sequence[Any],
    external_meshes: Sequence[Any],
    input_output_aliases: Any,
    out_avals: Sequence[Any],
    interpret: Any,
    name: str,
    **params: Any,
) -> Pair:
    if len(jaxprs) != 1:
        raise UnsupportedError(
            f"kernel {name!r} runs {len(jaxprs)} programs at the same time, which"
            " cannot be differentiated"
        )
    (jaxpr,), (mesh,) = jaxprs, meshes
    everything = {
        "meshes": meshes,
        "external_meshes": external_meshes,
        **params,
    }
    writes = _calls.written_inputs(jaxpr)
    joint = _is_joint()
    written = [
        wanted and not joint and jax_internals.is_ref_aval(jax_internals.typeof(operand))
        for operand, wanted in zip(primals, writes, strict=False)
    ]
    # The tangent call sees refs as they were before the primal call writes them.
    before = [
        _calls.snapshot(operand) if wanted and out_avals else operand
        for operand, wanted in zip(primals, written, strict=True)
    ]
    zeros = [jax_internals.Zero(aval.to_tangent_aval()) for aval in out_avals]
    outs = None

    def primal_call() -> Sequence[Any]:
        results: Sequence[Any] = jax_internals.mpmd_map_p.bind(
            *primals,
            jaxprs=jaxprs,
            input_output_aliases=input_output_aliases,
            out_avals=out_avals,
            interpret=interpret,
            name=name,
            **everything,
        )
        return results

    if not joint and (out_avals or all(map(_calls.is_zero, tangents))):
        outs = primal_call()
        if all(map(_calls.is_zero, tangents)):
            return outs, zeros

    inputs, outputs, scratch = _calls.split(
        jaxpr.invars,
        (len(primals), len(out_avals), len(jaxpr.invars) - len(primals) - len(out_avals)),
    )
    # A copy into memory that has tangents needs a tangent to copy, so that all operands
    # that can have one do. A ref that has none cannot be given one.
    inputs_carried = [
        not _calls.is_zero(tangent)
        if jax_internals.is_ref_aval(jax_internals.typeof(primal))
        else _body.carries_tangent(var.aval)
        for var, primal, tangent in zip(inputs, primals, tangents, strict=True)
    ]
    outputs_carried = [_body.carries_tangent(var.aval) for var in outputs]
    scratch_carried = [_body.carries_tangent(var.aval) for var in scratch]
    body = _body.differentiate(
        jaxpr,
        [*inputs_carried, *outputs_carried, *scratch_carried],
        env=jax_internals.mpmd_map_tracing_context(mesh, (*meshes, *external_meshes)),
        constant_ref=lambda aval: jax_internals.AbstractRef(aval, mesh.default_memory_space),
    )
    tangent_call = functools.partial(
        jax_internals.mpmd_map_p.bind,
        jaxprs=(_tangent_kernel(jaxpr, body, len(primals), len(out_avals)),),
        input_output_aliases=_tangent_aliases(
            input_output_aliases, inputs_carried, outputs_carried, len(body.constants)
        ),
        out_avals=(
            *out_avals,
            *(a.to_tangent_aval() for a in _calls.pick(out_avals, outputs_carried)),
        ),
        interpret=_calls.quiet(interpret),
        name=f"{name}_jvp",
        **{**everything, "cost_estimate": None},
    )
    others = [
        *body.constants,
        *map(jax_internals.instantiate_zeros, _calls.pick(tangents, inputs_carried)),
    ]
    if not out_avals and not joint:
        _calls.on_copies(primals, written, lambda *refs: tangent_call(*refs, *others))
        primal_call()
        return [], []
    tangent_outs = tangent_call(*before, *others)
    found = _calls.spread(tangent_outs[len(out_avals) :], outputs_carried)
    return outs or tangent_outs[: len(out_avals)], [
        zero if tangent is None else tangent for tangent, zero in zip(found, zeros, strict=True)
    ]


def _tangent_kernel(jaxpr: Any, body: _body.Tangents, inputs: int, outputs: int) -> Any:
    """The body with its inputs in the order of the call's operands and results."""
    sizes = (inputs, outputs, len(jaxpr.invars) - inputs - outputs)
    names = jax_internals.arg_names(jaxpr)
    primals = _calls.split(list(zip(body.primals, names, strict=True)), sizes)
    tangents = [
        [(var, f"tangent of {name}") for var, name in group if var is not None]
        for group in _calls.split(list(zip(body.tangents, names, strict=True)), sizes)
    ]
    constants = [(var, "constant") for var in body.constant_vars]
    order = [
        *primals[0],
        *constants,
        *tangents[0],
        *primals[1],
        *tangents[1],
        *primals[2],
        *tangents[2],
    ]
    return jax_internals.with_inputs(
        body.jaxpr, [var for var, _ in order], arg_names=[name for _, name in order]
    )


def _tangent_aliases(
    aliases: Any, inputs: Sequence[bool], outputs: Sequence[bool], constants: int
) -> Any:
    first_input, first_output = len(inputs) + constants, len(outputs)
    between_tangents = {
        first_input + sum(inputs[:index]): first_output + sum(outputs[:out])
        for index, out in aliases.items()
        if inputs[index] and outputs[out]
    }
    return type(aliases)({**aliases, **between_tangents})


def _inner_mesh(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxprs: Sequence[Any],
    meshes: Sequence[Any],
    external_meshes: Sequence[Any],
    **params: Any,
) -> Pair:
    """The warps of a warpgroup: their body gets refs, and has no results."""
    (jaxpr,), (mesh,) = jaxprs, meshes
    carried = [not _calls.is_zero(tangent) for tangent in tangents]
    body = _body.differentiate(
        jaxpr,
        carried,
        env=jax_internals.mpmd_map_tracing_context(mesh, (*meshes, *external_meshes)),
        constant_ref=None,
    )
    inner = jax_internals.with_inputs(
        body.jaxpr,
        [
            *body.primals,
            *_calls.pick(body.tangents, carried),
            *body.constant_vars,
        ],
    )
    jax_internals.mpmd_map_p.bind(
        *primals,
        *_calls.pick(tangents, carried),
        *body.constants,
        jaxprs=(inner,),
        meshes=meshes,
        external_meshes=external_meshes,
        **params,
    )
    return [], []


# ── custom_vmap ─────────────────────────────────────────────────────────────────────────


def _wrap_custom_vmap(jax_rule: Rule | None) -> Rule:
    assert jax_rule is not None

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        if _calls.kernels_in(jax_internals.bare_jaxpr(params["call"])):
            return _custom_vmap(primals, tangents, **params)
        return jax_rule(primals, tangents, **params)

    return rule


def _custom_vmap(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    call: Any,
    rule: Callable[..., Any],
    in_tree: Any,
    out_tree: Any,
) -> Pair:
    outs = None
    before = primals
    if not _is_joint():
        before = [
            _calls.snapshot(primal)
            if jax_internals.is_ref_aval(jax_internals.typeof(primal))
            else primal
            for primal in primals
        ]
        outs = jax_internals.custom_vmap_p.bind(
            *primals, call=call, rule=rule, in_tree=in_tree, out_tree=out_tree
        )
    carried = [not _calls.is_zero(tangent) for tangent in tangents]
    jaxpr, consts, nonzero = _trace_joint(
        jax_internals.as_function(call),
        primals,
        carried,
        jax_internals.bare_jaxpr(call).debug_info,
    )
    operands = [*before, *_calls.pick(tangents, carried), *consts]
    results = jax_internals.custom_vmap_p.bind(
        *operands,
        call=jax_internals.close_jaxpr(
            jax_internals.with_inputs(jaxpr, [*jaxpr.invars, *jaxpr.constvars])
        ),
        rule=_JointBatching(rule, in_tree, carried, jaxpr.debug_info),
        in_tree=jax_internals.flat_tree_of_arguments(len(operands)),
        out_tree=jax.tree.structure([0] * (len(nonzero) + sum(nonzero))),
    )
    count = len(nonzero)
    found = _calls.spread(results[count:], nonzero)
    outs = outs or results[:count]
    return outs, [
        _calls.zero_tangent(out) if tangent is None else tangent
        for out, tangent in zip(outs, found, strict=True)
    ]


def _trace_joint(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    carried: Sequence[bool],
    debug_info: Any,
) -> tuple[Any, list[Any], list[bool]]:
    """The jaxpr of a function's outputs and tangents, its constants, which have tangents.

    Nothing is executed, so that no transformation around sees the primal call left out.
    """
    nonzero: list[bool] = []

    def joint(*flat: Any) -> list[Any]:
        values = flat[: len(primals)]
        tangents = [
            _calls.zero_tangent(value) if tangent is None else tangent
            for value, tangent in zip(
                values, _calls.spread(flat[len(primals) :], carried), strict=True
            )
        ]
        with _joint_calls():
            outs, out_tangents = jax_internals.jvp_of(function, values, tangents)
        nonzero[:] = [_body.carries_tangent(jax_internals.typeof(out)) for out in outs]
        kept = _calls.pick(out_tangents, nonzero)
        return [*outs, *map(jax_internals.instantiate_zeros, kept)]

    avals = [jax_internals.typeof(primal) for primal in primals]
    tangent_avals = [aval.to_tangent_aval() for aval in _calls.pick(avals, carried)]
    jaxpr, consts = jax_internals.trace_flat(joint, [*avals, *tangent_avals], debug_info)
    return jaxpr, consts, nonzero


class _JointBatching:
    """Batches a tangent call: differentiates what the user's rule makes of the kernel."""

    def __init__(
        self,
        rule: Callable[..., Any],
        in_tree: Any,
        carried: Sequence[bool],
        debug_info: Any,
    ) -> None:
        self._rule = rule
        self._in_tree = in_tree
        self._carried = carried
        self._debug_info = debug_info
        self.__name__ = "tangents"

    def __call__(
        self, axis_size: int, in_batched: Sequence[bool], *args: Any
    ) -> tuple[list[Any], list[bool]]:
        # Constants are derived anew from the batched kernel.
        sizes = (len(self._carried), sum(self._carried))
        primals, tangents = _calls.split(args[: sum(sizes)], sizes)
        primals_in, tangents_in = _calls.split(in_batched[: sum(sizes)], sizes)
        # An operand and its tangent are batched together.
        both = [
            batched or bool(tangent_batched)
            for batched, tangent_batched in zip(
                primals_in, _calls.spread(tangents_in, self._carried), strict=True
            )
        ]

        def widened(values: Sequence[Any], have: Sequence[bool], want: Sequence[bool]) -> list[Any]:
            return [
                jnp.broadcast_to(value, (axis_size, *value.shape))
                if wanted and not batched
                else value
                for value, batched, wanted in zip(values, have, want, strict=True)
            ]

        primals = widened(primals, primals_in, both)
        tangents = widened(tangents, tangents_in, _calls.pick(both, self._carried))
        outs_batched: list[bool] = []

        def kernel(*operands: Any) -> list[Any]:
            out, out_batched = jax_internals.call_custom_vmap_rule(
                self._rule,
                axis_size,
                jax.tree.unflatten(self._in_tree, both),
                jax.tree.unflatten(self._in_tree, operands),
            )
            outs_batched[:] = jax.tree.leaves(out_batched)
            leaves: list[Any] = jax.tree.leaves(out)
            return leaves

        jaxpr, consts, nonzero = _trace_joint(kernel, primals, self._carried, self._debug_info)
        outs = jax_internals.eval_jaxpr(jaxpr, consts, *primals, *tangents)
        return list(outs), [*outs_batched, *_calls.pick(outs_batched, nonzero)]
