"""What the machine has no op for runs through XLA, is counted and named."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pallas_rs
import pytest
from jax import lax

from .conftest import assert_same, in_kernel, sample


def conv(x):
    return lax.conv_general_dilated(
        x.reshape(1, 1, 8, 8), jnp.ones((1, 1, 3, 3), x.dtype), (1, 1), "SAME"
    )


FUNCTIONS = {
    "sort": lambda x: jnp.sort(x, axis=-1),
    "argsort": lambda x: jnp.argsort(x, axis=-1),
    "gather": lambda x: x[jnp.arange(3) * 2, jnp.arange(3) + 1],
    "scatter": lambda x: x.at[jnp.arange(4) // 2].add(1.0),
    "conv": conv,
    "fft": lambda x: jnp.abs(jnp.fft.fft(x)),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + 99 * jnp.eye(8, dtype=x.dtype)),
    "igamma": lambda x: lax.igamma(jnp.abs(x) + 1, jnp.abs(x)),
    "top_k": lambda x: lax.top_k(x, 3),
    "threefry": lambda x: x + jax.random.uniform(jax.random.key(3), x.shape, x.dtype),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_runs_through_xla(name):
    function = FUNCTIONS[name]
    x = sample("float32", (8, 8))
    assert_same(in_kernel(function, x, fallback=True), function(x), 1e-4)


def test_is_counted_and_named():
    in_kernel(FUNCTIONS["sort"], sample("float32", (8, 8)), fallback=True)
    calls = pallas_rs.last_report().stats["fallback_calls"]
    assert calls == {"sort": 1}


def test_sub_byte_operands():
    x = sample("int4", (4, 8))
    assert_same(in_kernel(lambda x: jnp.sort(x, -1), x, fallback=True), jnp.sort(x, -1))


def test_a_rank_zero_operand():
    x = jnp.float32(0.3)

    def function(x):
        return lax.igamma(x, x + 1)

    assert_same(in_kernel(function, x, fallback=True), function(x), 1e-5)


def test_complex_constants():
    x = sample("float32", (4, 8))
    assert_same(in_kernel(lambda x: jnp.abs(x + 1j), x, fallback=True), jnp.abs(x + 1j), 1e-6)
