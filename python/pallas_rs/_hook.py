"""Makes ``interpret=pallas_rs.Params()`` reach `pallas_rs._interpret`.

JAX has no registry of interpreters. ``pl.pallas_call``, ``plgpu.kernel``, ``core_map``
and ``mpmd_map`` all end in one lowering rule, which is wrapped.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._params import Params

_MARK = "_pallas_rs_hook"

# What `interpret` is to be instead, given a call's own and its mesh.
Chosen = Callable[[Any, Any], Any]
_chosen: contextvars.ContextVar[Chosen | None] = contextvars.ContextVar(
    "pallas_rs_chosen_interpret", default=None
)


def install() -> None:
    """Wraps JAX's rule, once, however often it is called.

    Other packages may wrap it as well, before or after.
    """
    if is_installed():
        return
    original = jax_internals.pallas_call_lowering()

    @functools.wraps(original)
    def lowering(ctx: Any, *nodes: Any, interpret: Any, **params: Any) -> Any:
        choose = _chosen.get()
        if choose is not None:
            interpret = choose(interpret, params.get("mesh"))
        if isinstance(interpret, Params):
            return _lower(ctx, *nodes, interpret=interpret, **params)
        return original(ctx, *nodes, interpret=interpret, **params)

    setattr(lowering, _MARK, True)
    jax_internals.replace_pallas_call_lowering(lowering)

    mpmd_map = jax_internals.mpmd_map_lowering()

    @functools.wraps(mpmd_map)
    def mpmd_map_lowering(ctx: Any, *nodes: Any, interpret: Any, **params: Any) -> Any:
        rule = mpmd_map
        if isinstance(interpret, Params):
            # What JAX does on each single platform; it refuses exports for several.
            _check_shapes(ctx, **params)
            rule = jax_internals.mpmd_map_as_pallas_call
        return rule(ctx, *nodes, interpret=interpret, **params)

    jax_internals.replace_mpmd_map_lowering(mpmd_map_lowering)


def _check_shapes(ctx: Any, *, name: str, out_avals: Sequence[Any], **_: Any) -> None:
    from pallas_rs import _interpret

    _interpret.check_shapes(name, [*ctx.avals_in, *out_avals])


def is_installed() -> bool:
    """Whether JAX's rule is still, or leads to, the one installed here."""
    rule: Any = jax_internals.pallas_call_lowering()
    while rule is not None:
        if hasattr(rule, _MARK):
            return True
        rule = getattr(rule, "__wrapped__", None)
    return False


def _lower(ctx: Any, *nodes: Any, interpret: Params, jaxpr: Any, **params: Any) -> Any:
    # The lowering of kernels is a large import, needed by the first kernel only.
    from pallas_rs import _interpret

    if jaxpr.constvars:
        raise ValueError(
            "the kernel closes over arrays that were not made its operands: "
            + ", ".join(str(var.aval) for var in jaxpr.constvars)
        )
    call = functools.partial(_interpret.interpret_call, interpret=interpret, jaxpr=jaxpr, **params)
    return jax_internals.lower_as_jax(call, ctx, *nodes)


@contextlib.contextmanager
def force_interpret_mode(params: Params | None = None) -> Iterator[None]:
    """Every kernel traced inside runs in pallas_rs, whatever its ``interpret=`` says."""
    with jax_internals.interpret_mode(Params() if params is None else params):
        yield


@contextlib.contextmanager
def lowered_with(choose: Chosen) -> Iterator[None]:
    """Kernels lowered inside get the ``interpret`` that ``choose(interpret, mesh)`` gives.

    JAX keeps what it has lowered: the function that contains the kernels has to be traced
    inside as well, under a name that JAX has not seen.
    """
    token = _chosen.set(choose)
    try:
        yield
    finally:
        _chosen.reset(token)
