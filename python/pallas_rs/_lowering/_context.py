"""Walks a jaxpr: an environment of values, one rule per equation, errors with the user's line."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._errors import UnsupportedError

from . import _source_info
from ._builder import Builder, Ref, Region, Shape, Span, Val, Value
from ._registry import RULES, key
from ._unsupported import UNSUPPORTED


def dtype_of(aval: Any) -> str:
    """The machine's dtype name of a type."""
    return _name_of(jax_internals.key_data_aval(aval).dtype)


@functools.cache
def _name_of(dtype: np.dtype) -> str:
    return str(dtype.name)  # numpy computes it anew each time


def shape_of(aval: Any) -> tuple[int, ...]:
    """The machine's shape of an array type."""
    return tuple(int(d) for d in jax_internals.key_data_aval(aval).shape)


class Kernel:
    """The lowering of one kernel; a subclass for each way to launch one.

    `program_axes[i]` is the grid dimension that `program_id(i)` means; `grid_sizes` has a `None`
    where a bound comes at run time. `axes` maps what `axis_index` may be asked for to a function
    that emits the index.
    """

    def __init__(
        self,
        program_axes: Sequence[int] = (),
        grid_sizes: Sequence[int | None] = (),
        cluster_names: Sequence[Any] = (),
    ) -> None:
        self.builder = Builder()
        self.program_axes = tuple(program_axes)
        self.grid_sizes = tuple(grid_sizes)
        self.cluster_names = tuple(cluster_names)
        self.grid_names: tuple[Any, ...] = ()
        self.axes: dict[Any, Any] = {}
        self.mesh: Any = None
        # Compute capability that inline bodies are emitted for.
        self.arch = (9, 0)
        # Whether inline bodies are left out, and what has been left out of the program.
        self.leave_out_bodies = False
        self.left_out: list[dict[str, Any]] = []
        # Whether the kernel's TMEM is collective, and the name of the first that is allocated.
        self.tmem: tuple[bool, str] | None = None
        # Whether a warp runs the code by itself.
        self.in_warp = False
        # Whether the call must be kept even if nothing uses its results.
        self.has_side_effect = False
        # Makes semaphores of the whole grid: whoever knows the program's arguments sets it.
        self.global_semaphores: Callable[[str, Shape], Ref]
        # Set while equations of JAX's own helpers are lowered: the line that called the helper.
        self._caller: Span | None = None
        self._unions = itertools.count()
        self._spans: dict[Any, Span | None] = {}

    def next_union(self) -> int:
        """A number for a union of refs."""
        return next(self._unions)

    # ---- jaxprs ------------------------------------------------------------------------------

    def lower_jaxpr(
        self,
        jaxpr: Any,
        args: Sequence[Any],
        consts: Sequence[Any] | None = None,
        wanted: Sequence[bool] | None = None,
    ) -> list[Any]:
        """Emits a jaxpr's equations where the builder stands and returns its results.

        `args` (and `consts`, where the jaxpr's own are not meant) are values of the program. A
        result that is not `wanted` is not computed and comes back as None.
        """
        jaxpr, own_consts = jax_internals.open_jaxpr(jaxpr)
        if consts is None:
            consts = [self.constant(c) for c in own_consts]
        env: dict[Any, Any] = {}
        env.update(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        wanted = [True] * len(jaxpr.outvars) if wanted is None else wanted
        results = list(zip(jaxpr.outvars, wanted, strict=True))
        for eqn, used in _live_equations(jaxpr, [v for v, asked in results if asked]):
            self._lower_eqn(eqn, used, env)
        return [self._read(env, v) if asked else None for v, asked in results]

    def lower_call(
        self, jaxpr: Any, args: Sequence[Any], consts: Sequence[Any] | None = None
    ) -> list[Any]:
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

    def header(self) -> dict[str, Any]:
        """The program's fields that describe the grid, the cluster and the threads."""
        raise NotImplementedError

    # ---- the grid ----------------------------------------------------------------------------

    def program_id(self, axis: int) -> Val:
        """Index of this point along what `pl.program_id(axis)` means."""
        return self.grid_index(self.program_axes[axis])

    def grid_index(self, dim: int) -> Val:
        """Index of this point along a dimension of the grid."""
        return self.builder.head("program_id", "int32", axis=dim)

    def num_programs(self, axis: int) -> Val:
        """Size of what `pl.num_programs(axis)` means."""
        dim = self.program_axes[axis]
        size = self.grid_sizes[dim]
        if size is not None:
            return self.builder.i32(size)
        return self.builder.head("num_programs", "int32", axis=dim)

    def cluster_dims(self, axis: Any) -> list[int]:
        """Dimensions of the cluster that a (composite) axis name means."""
        names = axis if isinstance(axis, tuple) else (axis,)
        return [self.cluster_names.index(name) for name in names]

    # ---- values ------------------------------------------------------------------------------

    def value(self, x: Any) -> Any:
        """`x` if it is a value of the program, else the constant."""
        return x if isinstance(x, (Val, Ref)) else self.constant(x)

    def constant(self, value: Any, aval: Any = None) -> Any:
        """The program's value of a constant of the jaxpr."""
        if isinstance(value, (Val, Ref)):
            return value
        if jax_internals.is_key_array(value):
            return self.builder.constant_array(np.asarray(jax_internals.key_data(value)))
        if aval is not None:
            return self.builder.constant_array(np.asarray(value, aval.dtype))
        return self.builder.constant_array(np.asarray(value))

    def _lower_eqn(self, eqn: Any, used: Sequence[bool], env: dict[Any, Any]) -> None:
        name = key(eqn.primitive)
        operands = [self._read(env, v) for v in eqn.invars]
        ctx = RuleContext(
            self, name, eqn, [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars], used
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


def _live_equations(jaxpr: Any, results: Sequence[Any]) -> list[tuple[Any, list[bool]]]:
    """The equations that do something, each with which of its results are read.

    `results` are the results of the jaxpr that are read.

    An equation without effects whose results nothing reads is dropped: differentiation and
    `jax.numpy` leave many.
    """
    read = {v for v in results if not jax_internals.is_literal(v)}
    live = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in read for v in eqn.outvars]
        if used and not any(used) and not eqn.effects:
            continue
        live.append((eqn, used))
        read.update(v for v in eqn.invars if not jax_internals.is_literal(v))
    live.reverse()
    return live


@dataclasses.dataclass(slots=True)
class RuleContext:
    """What a rule is told about the equation that it lowers."""

    kernel: Kernel
    primitive: str
    eqn: Any
    avals_in: list[Any]
    avals_out: list[Any]
    # Per result, whether anything reads it. A rule may return None for one that nothing reads.
    used: Sequence[bool]
    # Whether the operation is a part of the next one; see `_together`.
    more: bool = False

    @property
    def builder(self) -> Builder:
        return self.kernel.builder

    @property
    def out_dtype(self) -> str:
        """Element type of the first result."""
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
        f"primitive `{primitive}` is not supported because {reason}\n  at {place}"
    )
