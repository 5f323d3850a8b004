"""Pure primitives that the machine has no op for: they travel as StableHLO and run through XLA."""

from __future__ import annotations

import functools
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from ._builder import Val
from ._context import RuleContext


def lower(ctx: RuleContext, *operands: Any) -> list[Val]:
    """Lowers the context's equation to an `xla_call`."""
    if not all(isinstance(x, Val) for x in operands):
        raise ctx.unsupported("it takes a ref and pallas_rs has no rule for it")
    if ctx.eqn.effects:
        raise ctx.unsupported("it has an effect and pallas_rs has no rule for it")
    try:
        module = _module(ctx)
    except NotImplementedError as error:
        raise ctx.unsupported(
            f"pallas_rs has no rule for it, and JAX cannot lower it for a CPU either: {error}"
        ) from error
    b = ctx.builder
    results = ctx.fresh_results()
    b.emit("xla_call", operands, results, name=ctx.primitive, blob=b.blob(module))
    return results


def _module(ctx: RuleContext) -> bytes:
    primitive, avals = ctx.eqn.primitive, tuple(ctx.avals_in)
    try:
        return _cached_module(primitive, tuple(sorted(ctx.eqn.params.items())), avals)
    except TypeError:  # a parameter that cannot be hashed
        return jax_internals.primitive_as_stablehlo(primitive, ctx.eqn.params, avals)


@functools.lru_cache(maxsize=1024)
def _cached_module(primitive: Any, params: tuple[tuple[str, Any], ...], avals: Any) -> bytes:
    return jax_internals.primitive_as_stablehlo(primitive, dict(params), avals)
