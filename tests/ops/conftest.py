"""Every op is run inside a kernel and compared with what JAX computes outside of one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl

FLOATS = ("float64", "float32", "float16", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")
INTS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
INT4 = ("int4", "uint4")

# Relative error of a transcendental function, per dtype.
TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def in_kernel(function, *args, fallback: bool = False):
    """`function(*args)` computed inside a kernel.

    Unless `fallback`, the machine's own ops must have done it.
    """
    out_shape = jax.eval_shape(function, *args)
    flat_shapes, tree = jax.tree.flatten(out_shape)

    def kernel(*refs):
        inputs, outputs = refs[: len(args)], refs[len(args) :]
        results = jax.tree.leaves(function(*(ref[...] for ref in inputs)))
        for ref, result in zip(outputs, results, strict=True):
            ref[...] = result

    results = pl.pallas_call(kernel, out_shape=flat_shapes, interpret=pallas_rs.Params())(*args)
    jax.block_until_ready(results)
    stats = pallas_rs.last_report().stats
    if not fallback:
        assert not stats.get("fallback_calls"), stats
    return tree.unflatten(results)


def sample(dtype: str, shape=(4, 33), seed: int = 0, low=-4.0, high=4.0):
    """Values of a dtype, spread over a range that suits most functions."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return jnp.asarray(rng.integers(0, 2, shape), bool)
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        low, high = max(int(info.min), -100), min(int(info.max), 100)
        return jnp.asarray(rng.integers(low, high, shape, endpoint=True), dtype)
    return jnp.asarray(rng.uniform(low, high, shape), dtype)


def assert_same(actual, expected, rtol: float = 0.0):
    """Equal dtype, shape and values; `rtol` of 0 asks for the same numbers."""
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        wide = np.complex128 if jnp.issubdtype(a.dtype, jnp.complexfloating) else np.float64
        if jnp.issubdtype(a.dtype, jnp.integer) or a.dtype == bool:
            np.testing.assert_array_equal(np.asarray(a), np.asarray(e))
            continue
        np.testing.assert_allclose(np.asarray(a, wide), np.asarray(e, wide), rtol=rtol, atol=rtol)
