"""Kernels over drawn shapes, blocks, dtypes and bounds against the same in numpy."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl

from .conftest import pallas_call

DTYPES = st.sampled_from(
    ["float32", "bfloat16", "float16", "int32", "int8", "uint8", "int4", "bool", "float8_e5m2"]
)
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)

quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def values(shape, dtype):
    rng = np.random.default_rng(len(shape))
    return jnp.asarray(rng.integers(0, 2 if dtype == "bool" else 8, shape)).astype(dtype)


@quick
@given(shape=SHAPES, dtype=DTYPES, data=st.data())
def test_a_blocked_copy_is_the_identity(shape, dtype, data):
    block = tuple(data.draw(st.integers(1, n + 1)) for n in shape)
    block = tuple(min(b, n) for b, n in zip(block, shape, strict=False))
    grid = tuple(-(-n // b) for n, b in zip(shape, block, strict=False))

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = values(shape, dtype)
    spec = pl.BlockSpec(block, lambda *ids: ids)
    result = pallas_call(kernel, x, grid=grid, in_specs=[spec], out_specs=spec)(x)
    assert result.dtype == x.dtype
    assert (result == x).all()


@functools.cache
def _row_sums(rows, columns):
    """One compiled function for all bounds and starts."""

    def kernel(start_ref, x_ref, o_ref):
        def body(j, total):
            return total + x_ref[0, j]

        o_ref[0] = jax.lax.fori_loop(start_ref[0], columns, body, jnp.int32(0))

    @jax.jit
    def run(start, x, n):
        return pallas_call(
            kernel,
            jnp.zeros(rows, jnp.int32),
            grid=(n,),
            in_specs=[
                pl.BlockSpec((1,), lambda i: (0,)),
                pl.BlockSpec((1, columns), lambda i: (i, 0)),
            ],
            out_specs=pl.BlockSpec((1,), lambda i: (i,)),
        )(start, x)

    return run


@quick
@given(
    shape=st.sampled_from([(1, 1), (5, 3), (8, 16)]),
    bound=st.integers(0, 8),
    start=st.integers(-0, 20),
)
def test_bounds_of_grid_and_loop(shape, bound, start):
    rows, columns = shape
    bound = min(bound, rows)
    x = values(shape, "int32")
    result = _row_sums(rows, columns)(jnp.array([start]), x, bound)
    expected = np.asarray(x)[:bound, start:].sum(1)
    np.testing.assert_array_equal(result[:bound], expected)
    unwritten = np.iinfo(np.int32).max
    assert (np.asarray(result[bound:]) == unwritten).all()


@quick
@given(shape=SHAPES, dtype=DTYPES, data=st.data())
def test_static_slices_read_what_numpy_reads(shape, dtype, data):
    index = tuple(
        data.draw(
            st.one_of(
                st.integers(-n, n - 1),
                st.tuples(st.integers(0, n - 1), st.integers(1, 3)).map(
                    lambda p: slice(p[0], None, p[1])
                ),
            )
        )
        for n in shape
    )

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[index]

    x = values(shape, dtype)
    expected = x[index]
    assert (pallas_call(kernel, expected)(x) == expected).all()


@quick
@given(m=st.integers(1, 20), n=st.integers(1, 20), k=st.integers(1, 40), block=st.integers(1, 8))
def test_a_matmul_over_a_ragged_grid(m, n, k, block):
    def kernel(a_ref, b_ref, o_ref):
        o_ref[...] = a_ref[...] @ b_ref[...]

    a, b = values((m, k), "float32"), values((k, n), "float32")
    result = pallas_call(
        kernel,
        jnp.zeros((m, n)),
        grid=(pl.cdiv(m, block), pl.cdiv(n, block)),
        in_specs=[
            pl.BlockSpec((block, k), lambda i, j: (i, 0)),
            pl.BlockSpec((k, block), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j: (i, j)),
    )(a, b)
    np.testing.assert_array_equal(result, a @ b)
