"""Forward mode of `pl.pallas_call`.

Grids with run-time bounds, `program_id`, prefetched scalars, aliasing, scratch, integer
operands and operands without a tangent need no case of their own: bounds and prefetched
scalars are passed on, and each ref of floating-point data that can hold a tangent gets a
second one with the same block mapping.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _body, _calls

Rule = Callable[..., tuple[Sequence[Any], Sequence[Any]]]


def install() -> None:
    """Wraps JAX's rule."""
    _calls.wrap_rule(jax_internals.primitive_jvps, jax_internals.pallas_call_p, _wrap)


def _wrap(jax_rule: Rule | None) -> Rule:
    assert jax_rule is not None

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        if not _calls.is_ours(params["interpret"]):
            return jax_rule(primals, tangents, **params)
        return _jvp(primals, tangents, **params)

    return rule


class _Operands(NamedTuple):
    """The operands of a call, or something for each of them."""

    refs: list[Any]
    bounds: list[Any]
    scalars: list[Any]
    inputs: list[Any]

    @staticmethod
    def of(values: Sequence[Any], jaxpr: Any, grid_mapping: Any) -> _Operands:
        sizes = (
            len(jaxpr.constvars),
            grid_mapping.num_dynamic_grid_bounds,
            grid_mapping.num_index_operands,
            grid_mapping.num_inputs,
        )
        return _Operands(*_calls.split(values, sizes))


@dataclasses.dataclass(frozen=True)
class _Carried:
    """Which refs of the kernel have a second one for the tangent."""

    refs: list[bool]
    scalars: list[bool]
    inputs: list[bool]
    outputs: list[bool]
    scratch: list[bool]

    def flat(self) -> list[bool]:
        """In the order of the kernel's constants and inputs."""
        return [
            *self.refs,
            *self.scalars,
            *self.inputs,
            *self.outputs,
            *self.scratch,
        ]


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: Any,
    grid_mapping: Any,
    input_output_aliases: Sequence[tuple[int, int]],
    out_avals: Sequence[Any],
    interpret: Any,
    name: str | None,
    **params: Any,
) -> tuple[Sequence[Any], Sequence[Any]]:
    operands = _Operands.of(primals, jaxpr, grid_mapping)
    tangent_of = _Operands.of(tangents, jaxpr, grid_mapping)
    carried = _carried(operands, tangent_of, jaxpr, grid_mapping, input_output_aliases)

    # The tangent call sees refs as they were before the primal call writes them.
    writes = _calls.written_inputs(jaxpr)
    refs_before = _before(operands.refs, writes)
    skipped = len(operands.refs) + len(operands.scalars)
    inputs_before = _before(operands.inputs, writes[skipped:])

    outs = jax_internals.pallas_call_p.bind(
        *primals,
        jaxpr=jaxpr,
        grid_mapping=grid_mapping,
        input_output_aliases=input_output_aliases,
        out_avals=out_avals,
        interpret=interpret,
        name=name,
        **params,
    )
    zeros = [jax_internals.Zero(aval.to_tangent_aval()) for aval in out_avals]
    if not any((*carried.refs, *carried.scalars, *carried.inputs)):
        return outs, zeros
    if not any((*carried.refs, *carried.outputs)):
        return outs, zeros

    body = _body.differentiate(
        jaxpr,
        carried.flat(),
        env=grid_mapping.trace_env(),
        tangent_avals=_tangent_avals(jaxpr, grid_mapping, carried),
        constant_ref=lambda aval: _whole(grid_mapping, aval).ref_aval,
    )
    ref_tangents = _calls.pick(tangent_of.refs, carried.refs)
    scalar_tangents = _calls.pick(tangent_of.scalars, carried.scalars)
    input_tangents = _calls.pick(tangent_of.inputs, carried.inputs)
    tangent_outs = jax_internals.pallas_call_p.bind(
        *refs_before,
        *ref_tangents,
        *operands.bounds,
        *operands.scalars,
        *inputs_before,
        *body.constants,
        *map(jax_internals.instantiate_zeros, scalar_tangents),
        *map(jax_internals.instantiate_zeros, input_tangents),
        jaxpr=_tangent_kernel(jaxpr, body, grid_mapping, [*refs_before, *ref_tangents]),
        grid_mapping=_tangent_grid_mapping(grid_mapping, carried, body.constants, scalar_tangents),
        input_output_aliases=_tangent_aliases(
            input_output_aliases, grid_mapping, carried, len(body.constants)
        ),
        out_avals=(
            *out_avals,
            *(a.to_tangent_aval() for a in _calls.pick(out_avals, carried.outputs)),
        ),
        interpret=_calls.quiet(interpret),
        name=None if name is None else f"{name}_jvp",
        **{**params, "cost_estimate": None},
    )
    found = _calls.spread(tangent_outs[len(out_avals) :], carried.outputs)
    return outs, [
        zero if tangent is None else tangent for tangent, zero in zip(found, zeros, strict=True)
    ]


def _before(operands: Sequence[Any], writes: Sequence[bool]) -> list[Any]:
    return [
        _calls.snapshot(operand)
        if written and jax_internals.is_ref_aval(jax_internals.typeof(operand))
        else operand
        for operand, written in zip(operands, writes, strict=False)
    ]


def _carried(
    operands: _Operands,
    tangent_of: _Operands,
    jaxpr: Any,
    grid_mapping: Any,
    aliases: Sequence[tuple[int, int]],
) -> _Carried:
    refs, scalars, inputs, outputs, scratch = _calls.split(
        [*jaxpr.constvars, *jaxpr.invars],
        (
            len(operands.refs),
            len(operands.scalars),
            len(operands.inputs),
            grid_mapping.num_outputs,
            grid_mapping.num_scratch_operands,
        ),
    )
    writes = _calls.written_inputs(jaxpr)[len(refs) + len(scalars) :]
    aliased = {index - len(scalars) for index, _ in aliases}
    # A copy into memory that has tangents needs a tangent to copy.
    everything = _body.copies_asynchronously(jaxpr)

    def has_tangents(var: Any) -> bool:
        return _body.carries_tangent(var.aval)

    return _Carried(
        refs=[not _calls.is_zero(tangent) for tangent in tangent_of.refs],
        scalars=[not _calls.is_zero(tangent) for tangent in tangent_of.scalars],
        inputs=[
            has_tangents(var)
            and (not _calls.is_zero(tangent) or everything or writes[index] or index in aliased)
            for index, (var, tangent) in enumerate(zip(inputs, tangent_of.inputs, strict=True))
        ],
        outputs=[has_tangents(var) for var in outputs],
        scratch=[has_tangents(var) for var in scratch],
    )


def _whole(grid_mapping: Any, aval: Any, origin: str = "constant") -> Any:
    return jax_internals.whole_array_mapping(grid_mapping, aval, origin)


def _scalar_avals(grid_mapping: Any) -> list[Any]:
    """The arrays of the prefetched scalars."""
    refs = grid_mapping.index_map_avals[len(grid_mapping.grid) :]
    return [ref.inner_aval for ref in refs]


def _tangent_avals(jaxpr: Any, grid_mapping: Any, carried: _Carried) -> list[Any]:
    """Types of the tangents' refs: a prefetched scalar's is an input."""
    avals = [var.aval.to_tangent_aval() for var in jaxpr.constvars]
    scalars = [
        _whole(grid_mapping, aval.to_tangent_aval()).ref_aval if wanted else None
        for aval, wanted in zip(_scalar_avals(grid_mapping), carried.scalars, strict=True)
    ]
    others = [
        var.aval.to_tangent_aval() if _body.carries_tangent(var.aval) else None
        for var in jaxpr.invars[len(scalars) :]
    ]
    return _calls.pick([*avals, *scalars, *others], carried.flat())


def _tangent_kernel(
    jaxpr: Any, body: _body.Tangents, grid_mapping: Any, refs: Sequence[Any]
) -> Any:
    sizes = (
        len(jaxpr.constvars),
        grid_mapping.num_index_operands,
        grid_mapping.num_inputs,
        grid_mapping.num_outputs,
        grid_mapping.num_scratch_operands,
    )
    names = [*[""] * len(jaxpr.constvars), *jax_internals.arg_names(jaxpr)]
    held, scalars, inputs, outputs, scratch = _calls.split(
        list(zip(body.primals, names, strict=True)), sizes
    )
    tangents = [(var, f"tangent of {name}") for var, name in zip(body.tangents, names, strict=True)]
    held_t, scalars_t, inputs_t, outputs_t, scratch_t = (
        [(var, name) for var, name in group if var is not None]
        for group in _calls.split(tangents, sizes)
    )
    order = [
        *scalars,
        *inputs,
        *((var, "constant") for var in body.constant_vars),
        *scalars_t,
        *inputs_t,
        *outputs,
        *outputs_t,
        *scratch,
        *scratch_t,
    ]
    return jax_internals.with_inputs(
        body.jaxpr,
        [var for var, _ in order],
        arg_names=[name for _, name in order],
        constvars=[var for var, _ in (*held, *held_t)],
        consts=refs,
    )


def _tangent_grid_mapping(
    grid_mapping: Any,
    carried: _Carried,
    constants: Sequence[Any],
    scalar_tangents: Sequence[Any],
) -> Any:
    inputs, outputs = _calls.split(
        grid_mapping.block_mappings, (grid_mapping.num_inputs, grid_mapping.num_outputs)
    )

    def tangent_of(mapping: Any) -> Any:
        return mapping.replace(origin=f"tangent of {mapping.origin}")

    new_inputs = [
        *inputs,
        *(_whole(grid_mapping, jax_internals.typeof(const)) for const in constants),
        *(
            _whole(grid_mapping, aval.to_tangent_aval(), "tangent of a scalar")
            for aval in _calls.pick(_scalar_avals(grid_mapping), carried.scalars)
        ),
        *map(tangent_of, _calls.pick(inputs, carried.inputs)),
    ]
    new_outputs = [*outputs, *map(tangent_of, _calls.pick(outputs, carried.outputs))]
    scratch = grid_mapping.scratch_avals
    return grid_mapping.replace(
        block_mappings=(*new_inputs, *new_outputs),
        num_inputs=len(new_inputs),
        num_outputs=len(new_outputs),
        scratch_avals=(
            *scratch,
            *_calls.pick(scratch, carried.scratch),
        ),
    )


def _tangent_aliases(
    aliases: Sequence[tuple[int, int]],
    grid_mapping: Any,
    carried: _Carried,
    constants: int,
) -> tuple[tuple[int, int], ...]:
    """The aliases, and the same between tangents. Indices count prefetched scalars."""
    scalars = grid_mapping.num_index_operands
    first_input = scalars + grid_mapping.num_inputs + constants + sum(carried.scalars)
    first_output = grid_mapping.num_outputs
    return (
        *aliases,
        *(
            (
                first_input + sum(carried.inputs[: index - scalars]),
                first_output + sum(carried.outputs[:out]),
            )
            for index, out in aliases
            if index >= scalars and carried.inputs[index - scalars] and carried.outputs[out]
        ),
    )
