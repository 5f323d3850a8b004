"""`vmap` over an axis whose size is a symbol, as in a shape-polymorphic export.

JAX makes a batch axis an axis of the grid, and the batched arrays operands of the kernel. A
program has arrays of known shapes, so here the kernel runs once per element of the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _calls

Rule = Callable[..., tuple[Sequence[Any], Sequence[Any]]]
Call = Callable[..., Sequence[Any]]


def install() -> None:
    """Wraps JAX's rules."""
    rules = jax_internals.axis_batchers
    pallas_call_p, custom_vmap_p = jax_internals.pallas_call_p, jax_internals.custom_vmap_p

    def pallas_call(params: dict[str, Any]) -> Call | None:
        if not _calls.is_ours(params["interpret"]):
            return None
        return lambda *args: pallas_call_p.bind(*args, **params)

    def custom_vmap(params: dict[str, Any]) -> Call | None:
        if not _calls.kernels_in(jax_internals.bare_jaxpr(params["call"])):
            return None
        return jax_internals.as_function(params["call"])

    _calls.wrap_rule(rules, pallas_call_p, functools.partial(_wrap, pallas_call))
    _calls.wrap_rule(rules, custom_vmap_p, functools.partial(_wrap, custom_vmap))


def _wrap(ours: Callable[[dict[str, Any]], Call | None], jax_rule: Rule | None) -> Rule:
    assert jax_rule is not None

    def rule(axis: Any, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        if not jax_internals.is_constant_dim(axis.size) and (call := ours(params)):
            return _one_by_one(call, args, dims)
        return jax_rule(axis, args, dims, **params)

    return rule


def _mapped(dim: Any) -> bool:
    return isinstance(dim, int)


def _one_by_one(
    call: Call, args: Sequence[Any], dims: Sequence[Any]
) -> tuple[list[Any], list[int]]:
    batched = [
        jnp.moveaxis(arg, dim, 0) for arg, dim in zip(args, dims, strict=True) if _mapped(dim)
    ]

    def element(slices: list[Any]) -> list[Any]:
        left = iter(slices)
        return list(
            call(
                *(next(left) if _mapped(dim) else arg for arg, dim in zip(args, dims, strict=True))
            )
        )

    outs = jax.lax.map(element, batched)
    return outs, [0] * len(outs)
