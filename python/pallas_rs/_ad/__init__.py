"""Derivatives of kernels that run in pallas_rs.

Forward mode makes two calls. The primal call is the one that would have been made without
differentiation: its values are the same to the last bit, and it alone prints, checks and
reports. The tangent call runs the differentiated kernel, with a second ref beside each ref
of floating-point data, and returns the tangents; the primal outputs that it computes on
the way are dropped. One doubled call would not do: `jax.linearize` and `jax.jacfwd` need
primal outputs that depend on no tangent.

Reverse mode has no rule, and says so. Batching is JAX's but for axes of symbolic size.

JAX's rules for calls that are not ours are wrapped and left as they are.
"""

from __future__ import annotations

from pallas_rs._ad import _batching, _kernel, _pallas_call, _reverse


def install() -> None:
    """Registers the rules with JAX, once, however often it is called."""
    _pallas_call.install()
    _kernel.install()
    _reverse.install()
    _batching.install()
