from __future__ import annotations

import jax.numpy as jnp
import pytest
from jax import lax

from .conftest import assert_same, in_kernel, sample

RTOL = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 2e-2}


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 16, 16), (5, 7, 3), (64, 33, 128)])
def test_matmul(dtype, shape):
    m, k, n = shape
    a, b = sample(dtype, (m, k), low=-1, high=1), sample(dtype, (k, n), 1, -1, 1)
    expected = (a.astype("float64") @ b.astype("float64")).astype(dtype)
    assert_same(in_kernel(jnp.dot, a, b), expected, RTOL[dtype] * 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_accumulates_in_float32(dtype):
    a, b = sample(dtype, (32, 64)), sample(dtype, (64, 24), 1)

    def dot(a, b):
        return jnp.dot(a, b, preferred_element_type=jnp.float32)

    expected = (a.astype("float64") @ b.astype("float64")).astype("float32")
    assert_same(in_kernel(dot, a, b), expected, 1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int4"])
def test_integers(dtype):
    a, b = sample(dtype, (9, 20)), sample(dtype, (20, 5), 1)

    def dot(a, b):
        return jnp.dot(a, b, preferred_element_type=jnp.int32)

    assert_same(in_kernel(dot, a, b), a.astype("int32") @ b.astype("int32"))


def test_mixed_operands():
    a, b = sample("bfloat16", (8, 16)), sample("float32", (16, 8))

    def dot(a, b):
        return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)

    assert_same(in_kernel(dot, a, b), a.astype("float32") @ b, 1e-5)


@pytest.mark.parametrize(
    "subscripts",
    ["mk,nk->mn", "km,kn->mn", "bmk,bkn->bmn", "bmk,bnk->bmn", "mk,k->m", "k,k->", "mij,ijn->mn"],
)
def test_einsum(subscripts):
    sizes = {"b": 3, "m": 4, "k": 5, "n": 6, "i": 2, "j": 7}
    left, right = subscripts.split("->")[0].split(",")
    a = sample("float32", tuple(sizes[c] for c in left), 0, -1, 1)
    b = sample("float32", tuple(sizes[c] for c in right), 1, -1, 1)

    def function(a, b):
        return jnp.einsum(subscripts, a, b)

    assert_same(in_kernel(function, a, b), function(a, b), 1e-5)
