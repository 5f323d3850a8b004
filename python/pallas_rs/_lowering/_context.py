"""Walks a jaxpr: an environment of values, one rule per equation, errors with the user's line."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _jax_internals as jax_internals
from .._errors import UnsupportedError
from . import _source_info
from ._builder import Builder, Ref, Region, Span, Val, Value
from ._registry import RULES, key
from ._unsupported import UNSUPPORTED


def dtype_of(aval: Any) -> str:
    """The machine's dtype name of a type."""
    return jax_internals.key_data_aval(aval).dtype.name


def shape_of(aval: Any) -> tuple[int, ...]:
    """The machine's shape of an array type."""
    return tuple(int(d) for d in jax_internals.key_data_aval(aval).shape)


class Kernel:
    """The lowering of one kernel.

    `program_axes[i]` is the grid dimension that `program_id(i)` means. `axes` maps what
    `axis_index` may be asked for to a function that emits the index.
    """

    def __init__(self, program_axes: Sequence[int] = (), grid_sizes: Sequence[int | None] = ()):
        self.builder = Builder()
        self.program_axes = tuple(program_axes)
        self.grid_sizes = tuple(grid_sizes)
        self.axes: dict[Any, Any] = {}
        self.mesh: Any = None
        self.in_order = True
        # Set while equations of JAX's own helpers are lowered: the line that called the helper.
        self._caller: Span | None = None
        self._spans: dict[Any, Span | None] = {}

    # ---- jaxprs ------------------------------------------------------------------------------

    def lower_jaxpr(self, jaxpr: Any, args: Sequence[Any], consts: Sequence[Any] | None = None) -> list[Any]:
        """Emits a jaxpr's equations where the builder stands and returns its results.

        `args` (and `consts`, where the jaxpr's own are not meant) are values of the program.
        """
        jaxpr, own_consts = jax_internals.open_jaxpr(jaxpr)
        if consts is None:
            consts = [self.constant(c) for c in own_consts]
        env: dict[Any, Any] = {}
        env.update(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            self._lower_eqn(eqn, env)
        return [self._read(env, v) for v in jaxpr.outvars]

    def lower_call(self, jaxpr: Any, args: Sequence[Any], consts: Sequence[Any] | None = None) -> list[Any]:
        """Inlines a call. Ops of a helper of JAX's own get the line that called it."""
        open_, _ = jax_internals.open_jaxpr(jaxpr)
        if self._caller is None and _source_info.is_helper(open_.debug_info):
            # A helper's jaxpr is cached: its tracebacks are those of whoever called it first.
            self._caller = self.builder.span
            try:
                return self.lower_jaxpr(jaxpr, args, consts)
            finally:
                self._caller = None
        return self.lower_jaxpr(jaxpr, args, consts)

    def _read(self, env: Mapping[Any, Any], atom: Any) -> Any:
        if jax_internals.is_literal(atom):
            return self.constant(atom.val, atom.aval)
        return env[atom]

    def constant(self, value: Any, aval: Any = None) -> Any:
        """The program's value of a constant of the jaxpr."""
        if isinstance(value, (Val, Ref)):
            return value
        if jax_internals.is_key_array(value):
            return self.builder.constant_array(np.asarray(jax_internals.key_data(value)))
        if aval is not None:
            return self.builder.constant_array(np.asarray(value, aval.dtype))
        return self.builder.constant_array(np.asarray(value))

    def _lower_eqn(self, eqn: Any, env: dict[Any, Any]) -> None:
        name = key(eqn.primitive)
        operands = [self._read(env, v) for v in eqn.invars]
        ctx = RuleContext(
            self, name, eqn, [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
        )
        with self.builder.at(self.span_of(eqn)):
            results = self._lower_primitive(ctx, name, operands)
        if not isinstance(results, Sequence):
            results = [results]
        env.update(zip(eqn.outvars, results, strict=True))

    def _lower_primitive(self, ctx: RuleContext, name: str, operands: list[Any]) -> Any:
        rule = RULES.get(name)
        if rule is not None:
            return rule(ctx, *operands, **ctx.eqn.params)
        if name in UNSUPPORTED:
            raise ctx.unsupported(UNSUPPORTED[name])
        from . import _fallback

        return _fallback.lower(ctx, *operands)

    def span_of(self, eqn: Any) -> Span:
        """The user's line of an equation."""
        if self._caller is not None:
            return self._caller
        traceback = eqn.source_info.traceback
        if traceback not in self._spans:
            self._spans[traceback] = _source_info.span_of(eqn.source_info)
        return self._spans[traceback] or self.builder.span


@dataclasses.dataclass(slots=True)
class RuleContext:
    """What a rule is told about the equation that it lowers."""

    kernel: Kernel
    primitive: str
    eqn: Any
    avals_in: list[Any]
    avals_out: list[Any]

    @property
    def builder(self) -> Builder:
        return self.kernel.builder

    @property
    def out_dtype(self) -> str:
        """dtype of the first result."""
        return dtype_of(self.avals_out[0])

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the first result."""
        return shape_of(self.avals_out[0])

    def unsupported(self, reason: str) -> UnsupportedError:
        """The error to raise for this equation."""
        return unsupported(self.primitive, reason, self.builder.span)

    def fresh_results(self) -> list[Val]:
        """New values of the equation's result types."""
        return [self.builder.val(dtype_of(a), shape_of(a)) for a in self.avals_out]

    @contextlib.contextmanager
    def region(self, params: Sequence[Value] = ()) -> Iterator[Region]:
        with self.builder.region(params) as region:
            yield region

    def lower_region(self, jaxpr: Any, params: Sequence[Value], args: Sequence[Any]) -> Region:
        """A region that runs a jaxpr on `args` and yields its results."""
        with self.builder.region(params) as region:
            region.yields = [v.id for v in self.kernel.lower_jaxpr(jaxpr, args)]
        return region


def unsupported(primitive: str, reason: str, span: Span) -> UnsupportedError:
    """The error for a primitive that a kernel may not use."""
    place = f"{span.file}:{span.line}, in {span.function}" if span.line else "an unknown line"
    return UnsupportedError(
        f"primitive `{primitive}` is not supported because {reason}\n  at {place}",
        primitive=primitive,
        reason=reason,
        line=place,
    )
