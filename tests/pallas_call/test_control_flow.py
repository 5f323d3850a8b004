from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl

from .conftest import arange, pallas_call


def check(function, *args, out=None):
    """`function` inside a kernel gives what it gives outside."""
    expected = function(*args)
    leaves, tree = jax.tree.flatten(expected)

    def kernel(*refs):
        results = function(*(r[...] for r in refs[: len(args)]))
        for ref, x in zip(refs[len(args) :], jax.tree.leaves(results), strict=True):
            ref[...] = x

    results = tree.unflatten(pallas_call(kernel, leaves)(*args))
    for a, e in zip(jax.tree.leaves(results), leaves, strict=True):
        assert a.dtype == e.dtype
        np.testing.assert_allclose(a, e, rtol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_scan(reverse, length):
    def function(x, y):
        def step(carry, row):
            a, i = carry
            a = a * 0.5 + row
            return (a, i + 1), (a.sum(), a * y, i)

        return lax.scan(step, (jnp.zeros(4), 0), x, reverse=reverse)

    check(function, arange(length, 4), arange(4))


def test_scan_without_inputs():
    def function(x):
        return lax.scan(lambda c, _: (c * 2, c[0]), x, None, length=5)

    check(function, arange(4))


def test_scan_of_scalars_and_booleans():
    def function(x):
        def step(carry, row):
            return carry ^ (row > 2), (carry, row.astype(jnp.int8))

        return lax.scan(step, False, x)

    check(function, arange(6))


def test_while():
    def function(x):
        def cond(state):
            i, v = state
            return (i < 50) & (v.sum() < 1000)

        return lax.while_loop(cond, lambda s: (s[0] + 1, s[1] * 2), (0, x))

    check(function, arange(4))


@pytest.mark.parametrize(("lo", "hi"), [(0, 5), (3, 3), (5, 2), (-3, 4)])
def test_fori_loop_with_dynamic_bounds(lo, hi):
    def function(n, x):
        i, total = lax.fori_loop(n[0], n[1], lambda i, c: (i, c[1] + i * x), (-9, x))
        return i, total

    check(function, jnp.array([lo, hi]), arange(4))


def test_nested_loops():
    def function(n, x):
        def outer(i, acc):
            return lax.fori_loop(0, i, lambda j, a: a + x * (i * 10 + j), acc)

        return lax.fori_loop(0, n[0], outer, jnp.zeros(4))

    check(function, jnp.array([5]), arange(4))


@pytest.mark.parametrize("which", [-1, 0, 1, 2, 7])
def test_switch(which):
    def function(i, x):
        branches = [lambda x: x + 1, lambda x: x * 2, lambda x: -x]
        return lax.switch(i[0], branches, x)

    check(function, jnp.array([which]), arange(4))


@pytest.mark.parametrize("flag", [False, True])
def test_cond(flag):
    def function(p, x):
        return lax.cond(p[0], lambda x: (x + 1, 3), lambda x: (x * 2, 4), x)

    check(function, jnp.array([flag]), arange(4))


def test_branches_that_write():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)

        @pl.when(i % 2 == 0)
        def _():
            o_ref[i] = x_ref[i]

        @pl.when(i % 2 == 1)
        def _():
            @pl.when(i > 2)
            def _():
                o_ref[i] = -x_ref[i]

    x = arange(6) + 1
    result = pallas_call(kernel, x, grid=(6,), input_output_aliases={0: 0})(x)
    np.testing.assert_array_equal(result, [1, 2, 3, -4, 5, -6])


def test_jit_inside():
    @jax.jit
    def helper(x):
        return jax.jit(jnp.sin)(x) + 1

    check(lambda x: helper(helper(x)), arange(4))


def test_jit_of_a_function_of_refs():
    @jax.jit
    def helper(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    x = arange(4)
    np.testing.assert_array_equal(pallas_call(helper, x)(x), x + 1)


def test_custom_derivatives():
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x) * 2

    f.defjvp(lambda p, t: (f(*p), t[0]))

    @jax.custom_vjp
    def g(x):
        return jnp.cos(x) * 3

    g.defvjp(lambda x: (g(x), None), lambda _, t: (t,))
    check(lambda x: f(x) + g(x) + jax.nn.relu(x - 1) + jax.nn.softplus(x), arange(4))


def test_remat():
    check(lambda x: jax.checkpoint(lambda x: jnp.sin(x) + 1)(x), arange(4))


def test_custom_vmap():
    @jax.custom_batching.custom_vmap
    def f(x):
        return x * 2

    f.def_vmap(lambda size, batched, x: (x * 2, True))
    check(f, arange(4))


def test_optimization_barrier():
    check(lambda x: lax.optimization_barrier((x, x + 1)), arange(4))


def test_program_id_inside_of_nested_code():
    def kernel(x_ref, o_ref):
        def body(j, total):
            return total + pl.program_id(0) * j

        i = pl.program_id(0)
        o_ref[i] = lax.fori_loop(0, 4, body, 0) + jax.jit(lambda: pl.program_id(0))()

    x = jnp.zeros(3, jnp.int32)
    np.testing.assert_array_equal(pallas_call(kernel, x, grid=(3,))(x), [0, 7, 14])


def test_values_carried_with_refs_captured():
    def kernel(x_ref, o_ref):
        def step(i, carry):
            o_ref[i] = carry
            return carry + x_ref[i]

        lax.fori_loop(0, 6, step, jnp.float32(0))

    x = arange(6) + 1
    expected = jnp.concatenate([jnp.zeros(1), jnp.cumsum(x)[:-1]])
    np.testing.assert_array_equal(pallas_call(kernel, x)(x), expected)
