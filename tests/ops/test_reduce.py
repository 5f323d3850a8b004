from __future__ import annotations

import jax.numpy as jnp
import pytest
from jax import lax

from .conftest import FLOATS, INTS, TOLERANCE, assert_same, in_kernel, sample


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (0, 1, 2), (-1, -2)])
@pytest.mark.parametrize("function", [jnp.sum, jnp.max, jnp.min, jnp.prod])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "uint8"])
def test_reduce(function, axis, dtype):
    low, high = (0.5, 1.5) if function is jnp.prod else (-4, 4)
    x = sample(dtype, (3, 4, 5), low=low, high=high)

    def reduce(x):
        return function(x, axis=axis)

    rtol = 10 * TOLERANCE.get(dtype, 0)
    assert_same(in_kernel(reduce, x), reduce(x), rtol)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("function", [jnp.all, jnp.any])
def test_reduce_bool(function, keepdims):
    x = sample("bool", (4, 6))

    def reduce(x):
        return function(x, axis=1, keepdims=keepdims)

    assert_same(in_kernel(reduce, x), reduce(x))


@pytest.mark.parametrize("function", [lax.reduce_and, lax.reduce_or, lax.reduce_xor])
@pytest.mark.parametrize("dtype", INTS)
def test_reduce_bitwise(function, dtype):
    x = sample(dtype, (4, 6))
    assert_same(in_kernel(lambda x: function(x, (0,)), x), function(x, (0,)))


@pytest.mark.parametrize("function", [jnp.argmax, jnp.argmin])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_arg_reduce(function, axis, dtype):
    x = sample(dtype, (6, 9))

    def reduce(x):
        return function(x, axis=axis)

    assert_same(in_kernel(reduce, x), reduce(x))


def test_arg_reduce_takes_the_first_of_equals_and_a_nan():
    x = jnp.array([[3, 7, 7, 1], [1, jnp.nan, 9, jnp.nan]], jnp.float32)
    for function in (jnp.argmax, jnp.argmin):
        assert_same(in_kernel(lambda x, f=function: f(x, axis=1), x), function(x, axis=1))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "function", [lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
def test_cumulative(function, reverse, dtype):
    if function is lax.cumlogsumexp and dtype == "int32":
        pytest.skip("floats only")
    low, high = (0.7, 1.3) if function is lax.cumprod else (-2, 2)
    x = sample(dtype, (4, 17), low=low, high=high)

    def cumulate(x):
        return function(x, axis=1, reverse=reverse)

    # XLA sums in another order; a bfloat16 sum of 17 terms may differ by a few steps.
    rtol = 20 * TOLERANCE.get(dtype, 0)
    assert_same(in_kernel(cumulate, x), cumulate(x), rtol)


def test_reduce_an_empty_axis():
    x = jnp.zeros((3, 0), jnp.float32)
    assert_same(in_kernel(lambda x: jnp.sum(x, 1), x), jnp.zeros(3, jnp.float32))


def test_softmax():
    x = sample("float32", (8, 50))

    def softmax(x):
        e = jnp.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    assert_same(in_kernel(softmax, x), softmax(x), 1e-5)
