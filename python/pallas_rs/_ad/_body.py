"""Differentiates the body of a kernel.

JAX's forward mode does the work. Of the primitives and types of kernels some have no rule
in JAX, or a wrong one: those of `_rules` are in force only in a thread that is in
`differentiate`, and JAX's types are patched only as long as some thread is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _calls
from pallas_rs._errors import UnsupportedError

# Primitives that tell the user something and compute nothing: the primal call does it.
_OBSERVERS = frozenset({"debug_print", "debug_callback", "check", "print_layout"})

_COPIES = ("copy_gmem_to_smem", "copy_smem_to_gmem", "tcgen05_mma", "wgmma_ref")


@dataclasses.dataclass(frozen=True)
class Tangents:
    """A differentiated body.

    Attributes:
        jaxpr: Its inputs are the primal ones, the tangents of those that carry one, and
            `constant_vars`.
        primals: The primal inputs.
        tangents: Per primal input, the input with its tangent, or None.
        constants: Arrays that derivative rules brought in.
        constant_vars: The inputs for them: refs, or the arrays themselves.
        nonzero: Per output, whether it has a tangent. The outputs are those of the body,
            and then the tangents.
    """

    jaxpr: Any
    primals: list[Any]
    tangents: list[Any]
    constants: list[Any]
    constant_vars: list[Any]
    nonzero: list[bool]


def carries_tangent(aval: Any) -> bool:
    """Whether values (or the memory) of this type have tangents."""
    if members := getattr(aval, "refs", None):
        return any(carries_tangent(leaf) for leaf in jax.tree.leaves(members))
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.inexact)


def copies_asynchronously(jaxpr: Any) -> bool:
    """Whether something in the jaxpr is copied other than by loads and stores."""
    return jax_internals.has_primitive(jaxpr, *_COPIES)


def kernel_name(jaxpr: Any) -> str:
    """The kernel as errors call it: the user's function, and where it is."""
    name, _, place = jaxpr.debug_info.func_src_info.partition(" at ")
    if not jax_internals.is_user_file(place.rpartition(":")[0]):
        # `plgpu.kernel` calls the user's function in the scope of its scratch.
        for eqn in jaxpr.eqns:
            if eqn.primitive is jax_internals.run_scoped_p:
                inner = jax_internals.bare_jaxpr(eqn.params["jaxpr"])
                return kernel_name(inner)
    return f"{name!r} ({place})" if place else repr(name)


def differentiate(
    jaxpr: Any,
    carried: Sequence[bool],
    *,
    env: AbstractContextManager[Any],
    tangent_avals: Sequence[Any] | None = None,
    constant_ref: Callable[[Any], Any] | None,
) -> Tangents:
    """The body and its tangents as one body.

    Args:
        jaxpr: The body; its constants count as leading inputs.
        carried: Per input, whether it gets a tangent.
        env: What the body was traced in: the grid, the names of axes.
        tangent_avals: Types of the tangents, where not those that JAX derives.
        constant_ref: The type of the ref that holds an array of some type, or None where
            the body may have arrays for inputs.

    Raises:
        UnsupportedError: The body does something that has no derivative.
    """
    name = kernel_name(jaxpr)
    try:
        with env, _rules_in_force():
            return _differentiate(jaxpr, carried, tangent_avals, constant_ref)
    except UnsupportedError:
        raise
    except NotImplementedError as error:
        raise UnsupportedError(f"kernel {name} cannot be differentiated: {error}") from error


def _differentiate(
    jaxpr: Any,
    carried: Sequence[bool],
    tangent_avals: Sequence[Any] | None,
    constant_ref: Callable[[Any], Any] | None,
) -> Tangents:
    jaxpr = without_observers(jaxpr)
    constants = len(jaxpr.constvars)
    avals = [var.aval for var in (*jaxpr.constvars, *jaxpr.invars)]
    count = len(avals)
    if tangent_avals is None:
        tangent_avals = [aval.to_tangent_aval() for aval in _calls.pick(avals, carried)]
    nonzero: list[bool] = []

    def body(*flat: Any) -> list[Any]:
        primals = flat[:count]
        tangents = [
            _calls.zero_tangent(primal) if tangent is None else tangent
            for primal, tangent in zip(primals, _calls.spread(flat[count:], carried), strict=True)
        ]

        def evaluate(*inputs: Any) -> Sequence[Any]:
            outs: Sequence[Any] = jax_internals.eval_jaxpr(
                jaxpr, inputs[:constants], *inputs[constants:]
            )
            return outs

        outs, out_tangents = jax_internals.jvp_of(evaluate, primals, tangents)
        nonzero[:] = [carries_tangent(jax_internals.typeof(out)) for out in outs]
        kept = _calls.pick(out_tangents, nonzero)
        return [*outs, *map(jax_internals.instantiate_zeros, kept)]

    debug_info = jaxpr.debug_info
    traced, consts = jax_internals.trace_flat(body, [*avals, *tangent_avals], debug_info)
    if jax_internals.has_primitive(traced, "custom_lin"):
        raise UnsupportedError(
            f"kernel {kernel_name(jaxpr)} cannot be differentiated: it calls a function"
            " with jax.custom_vjp, which has no forward-mode rule"
        )
    constant_vars = list(traced.constvars)
    if consts and constant_ref is not None:
        refs = [constant_ref(jax_internals.typeof(const)) for const in consts]
        traced = _constants_as_refs(traced, refs, debug_info)
        constant_vars = traced.invars[count + len(tangent_avals) :]
    primals, tangents = _calls.split(
        traced.invars[: count + len(tangent_avals)], (count, len(tangent_avals))
    )
    return Tangents(
        jaxpr=traced,
        primals=primals,
        tangents=list(_calls.spread(tangents, carried)),
        constants=consts,
        constant_vars=constant_vars,
        nonzero=nonzero,
    )


def _constants_as_refs(jaxpr: Any, refs: Sequence[Any], debug_info: Any) -> Any:
    """The jaxpr with its constants read from trailing inputs, which are refs."""
    inputs = [var.aval for var in jaxpr.invars]

    def body(*flat: Any) -> Sequence[Any]:
        args, ref_args = flat[: len(inputs)], flat[len(inputs) :]
        outs: Sequence[Any] = jax_internals.eval_jaxpr(jaxpr, [ref[...] for ref in ref_args], *args)
        return outs

    traced, rest = jax_internals.trace_flat(body, [*inputs, *refs], debug_info)
    assert not rest, rest
    return traced


def without_observers(jaxpr: Any) -> Any:
    """The jaxpr, and those inside it, without prints and checks."""
    eqns, changed, dropped, effects = [], False, set(), set()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.removesuffix("_p") in _OBSERVERS:
            dropped |= set(eqn.effects)
            changed = True
            continue
        inner_dropped: set[Any] = set()

        def visit(inner: Any, inner_dropped: set[Any] = inner_dropped) -> Any:
            result = without_observers(inner)
            inner_dropped |= set(inner.effects) - set(result.effects)
            return result

        params = jax_internals.map_sub_jaxprs(eqn.params, visit)
        if _differs(params, eqn.params):
            changed = True
            dropped |= inner_dropped
            eqn = eqn.replace(params=params, effects=set(eqn.effects) - inner_dropped)
        effects |= set(eqn.effects)
        eqns.append(eqn)
    if not changed:
        return jaxpr
    gone = dropped - effects
    return jaxpr.replace(eqns=eqns, effects=set(jaxpr.effects) - gone)


def _differs(new: dict[str, Any], old: dict[str, Any]) -> bool:
    def same(a: Any, b: Any) -> bool:
        if type(a) in (tuple, list):
            return all(map(same, a, b))
        return a is b

    return not all(same(new[name], old[name]) for name in old)


# ── JAX as it has to be meanwhile ───────────────────────────────────────────────────────

_here = threading.local()
_patch_lock = threading.Lock()
_patch_users = 0
_unpatch: list[Callable[[], None]] = []


def in_kernel() -> bool:
    """Whether this thread is differentiating the body of a kernel of ours."""
    return getattr(_here, "depth", 0) > 0


@contextlib.contextmanager
def _rules_in_force() -> Iterator[None]:
    from pallas_rs._ad import _rules

    _rules.install()
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        with _patched_types():
            yield
    finally:
        _here.depth -= 1


@contextlib.contextmanager
def _patched_types() -> Iterator[None]:
    global _patch_users
    with _patch_lock:
        if _patch_users == 0:
            _patch_types()
        _patch_users += 1
    try:
        yield
    finally:
        with _patch_lock:
            _patch_users -= 1
            if _patch_users == 0:
                while _unpatch:
                    _unpatch.pop()()


class _NoTangents:
    """Rules of a dtype whose values have no tangents."""

    @staticmethod
    def tangent_dtype(_: Any) -> Any:
        return jax.dtypes.float0


def _patch_types() -> None:
    gpu_core, _ = jax_internals.mosaic_gpu_modules()
    for dtype in (gpu_core.BarrierType, gpu_core.ClusterBarrierType):
        _patch(dtype, "_rules", _NoTangents)
    no_tangent = staticmethod(_NoTangents.tangent_dtype)
    _patch(jax_internals.SemaphoreRules, "tangent_dtype", no_tangent)
    # The tangent of one of these refs is a ref of the same class, not a plain one.
    for ref in (
        gpu_core.WGMMAAbstractAccumulatorRef,
        gpu_core.AbstractTMEMRef,
        gpu_core.AbstractRefUnion,
    ):
        _patch(ref, "to_tangent_aval", lambda self: self)


def _patch(cls: type, name: str, value: Any) -> None:
    missing = object()
    old = cls.__dict__.get(name, missing)
    setattr(cls, name, value)

    def undo() -> None:
        if old is missing:
            delattr(cls, name)
        else:
            setattr(cls, name, old)

    _unpatch.append(undo)
