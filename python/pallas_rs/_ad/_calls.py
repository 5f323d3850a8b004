"""What the rules for `pallas_call` and for `mpmd_map` share.

That is: which calls are ours, and how the tangent call differs from the primal one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import jax

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._params import Params

T = TypeVar("T")

_WRAPPED = "_pallas_rs_rule"


def is_ours(interpret: Any) -> bool:
    """Whether a call with this `interpret=` runs in pallas_rs."""
    return isinstance(interpret, Params)


def quiet(interpret: Any) -> Any:
    """The tangent call's parameters: what there is to say, the primal call says."""
    return dataclasses.replace(
        interpret,
        detect_races=False,
        uninitialized_reads="ignore",
        strict_proxy=False,
        limits="ignore",
        seeds=1,
        logging_mode=None,
        trace=None,
    )


def wrap_rule(
    rules: dict[Any, Callable[..., Any]],
    primitive: Any,
    make: Callable[[Callable[..., Any] | None], Callable[..., Any]],
) -> None:
    """Puts `make(JAX's rule)` in the place of JAX's rule, unless that was done before."""
    previous = rules.get(primitive)
    if getattr(previous, _WRAPPED, False):
        return
    rule = make(previous)
    setattr(rule, _WRAPPED, True)
    rules[primitive] = rule


def is_zero(tangent: Any) -> bool:
    """Whether a tangent is zero without being looked at."""
    if isinstance(tangent, jax_internals.Zero):
        return True
    return bool(getattr(tangent, "dtype", None) == jax.dtypes.float0)


def zero_tangent(value: Any) -> Any:
    """The symbolic zero that is the tangent of a value."""
    return jax_internals.Zero(jax_internals.typeof(value).to_tangent_aval())


def split(values: Sequence[T], sizes: Iterable[int]) -> list[list[T]]:
    """Consecutive groups of these sizes."""
    values = list(values)
    groups, start = [], 0
    for size in sizes:
        groups.append(values[start : start + size])
        start += size
    assert start == len(values), (start, len(values))
    return groups


def pick(values: Iterable[T], which: Iterable[bool]) -> list[T]:
    """The values whose flag is set."""
    return [value for value, wanted in zip(values, which, strict=True) if wanted]


def spread(values: Iterable[T], which: Iterable[bool]) -> Iterator[T | None]:
    """The inverse of `pick`: None where the flag is not set."""
    left = iter(values)
    return (next(left) if present else None for present in which)


def written_inputs(jaxpr: Any) -> list[bool]:
    """Which constants and inputs of a kernel, in this order, it may write."""
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    written = {
        _input_of(effect, inputs)
        for effect in jaxpr.effects
        if isinstance(effect, (jax_internals.WriteEffect, jax_internals.AccumEffect))
    }
    return [var in written for var in inputs]


def _input_of(effect: Any, inputs: Sequence[Any]) -> Any:
    which = getattr(effect, "input", None)
    if which is None:
        which = effect.input_index
    return inputs[which] if isinstance(which, int) else which


def snapshot(operand: Any) -> Any:
    """A ref of its own with what `operand`, a ref that the primal call will write, holds."""
    return jax.new_ref(operand[...])


def on_copies(operands: Sequence[Any], written: Sequence[bool], call: Callable[..., Any]) -> None:
    """Calls with copies in the place of the refs that are written, which end with the call.

    Unlike those of `snapshot` they may stand inside `run_state`; the call has no results.
    """

    def body(copies: Sequence[Any]) -> None:
        call(
            *(
                operand if copy is None else copy
                for copy, operand in zip(spread(copies, written), operands, strict=True)
            )
        )

    if not any(written):
        call(*operands)
        return
    jax_internals.run_state(body)([ref[...] for ref in pick(operands, written)])


def kernels_in(jaxpr: Any) -> list[Any]:
    """The kernels of ours that a jaxpr launches by way of `mpmd_map`, at any depth."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is jax_internals.mpmd_map_p:
            if is_ours(eqn.params["interpret"]):
                found.extend(eqn.params["jaxprs"])
        else:
            for inner in jax_internals.sub_jaxprs(eqn.params):
                found.extend(kernels_in(inner))
    return found
