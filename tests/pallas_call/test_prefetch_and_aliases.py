"""Scalar prefetch, aliases, and both with bounds that come at run time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from .conftest import arange, pallas_call

pltpu = pytest.importorskip("jax.experimental.pallas.tpu")


def prefetch(num, **kwargs):
    return pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=num, **kwargs)


def copy_kernel(index_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...]


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int16", "uint32"])
def test_an_index_map_reads_a_prefetched_operand(dtype):
    x = arange(6, 8)
    rows = jnp.array([3, 0, 5, 3], dtype)
    result = pallas_call(
        copy_kernel,
        jnp.zeros((4, 8)),
        grid_spec=prefetch(
            1,
            grid=(4,),
            in_specs=[pl.BlockSpec((1, 8), lambda i, rows: (rows[i].astype(jnp.int32), 0))],
            out_specs=pl.BlockSpec((1, 8), lambda i, rows: (i, 0)),
        ),
    )(rows, x)
    np.testing.assert_array_equal(result, x[rows.astype(int)])


def test_the_kernel_reads_it_too():
    def kernel(index_ref, scale_ref, x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[...] = x_ref[...] * scale_ref[index_ref[i]]

    x = arange(4, 8)
    spec = pl.BlockSpec((1, 8), lambda i, *_: (i, 0))
    result = pallas_call(
        kernel,
        x,
        grid_spec=prefetch(2, grid=(4,), in_specs=[spec], out_specs=spec),
    )(jnp.array([1, 0, 1, 2]), jnp.array([2.0, 3.0, 5.0]), x)
    np.testing.assert_array_equal(result, x * jnp.array([3.0, 2.0, 3.0, 5.0])[:, None])


def test_prefetch_alias_dynamic_bound_and_ragged_blocks_together():
    def kernel(rows_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + 100

    @jax.jit
    def run(rows, x, n):
        spec = pl.BlockSpec((None, 4), lambda i, j, rows: (rows[i], j))
        return pallas_call(
            kernel,
            x,
            grid_spec=prefetch(1, grid=(n, 2), in_specs=[spec], out_specs=spec),
            input_output_aliases={1: 0},
        )(rows, x)

    x = arange(5, 7)
    rows = jnp.array([4, 1, 2])
    for n in (0, 1, 3):
        expected = np.array(x)
        expected[np.asarray(rows[:n])] += 100
        np.testing.assert_array_equal(run(rows, x, n), expected)


def test_vmap_over_a_prefetched_operand():
    x = arange(6, 8)
    rows = jnp.array([[3, 0], [5, 3], [1, 1]])

    def run(rows):
        return pallas_call(
            copy_kernel,
            jnp.zeros((2, 8)),
            grid_spec=prefetch(
                1,
                grid=(2,),
                in_specs=[pl.BlockSpec((1, 8), lambda i, rows: (rows[i], 0))],
                out_specs=pl.BlockSpec((1, 8), lambda i, rows: (i, 0)),
            ),
        )(rows, x)

    np.testing.assert_array_equal(jax.vmap(run)(rows), x[rows])


def test_an_alias_keeps_what_is_not_written():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) % 2 == 0)
        def _():
            o_ref[...] = -x_ref[...]

    x = arange(4, 8)
    spec = pl.BlockSpec((1, 8), lambda i: (i, 0))
    result = pallas_call(
        kernel, x, grid=(4,), in_specs=[spec], out_specs=spec, input_output_aliases={0: 0}
    )(x)
    np.testing.assert_array_equal(result, x * jnp.array([-1, 1, -1, 1.0])[:, None])
    np.testing.assert_array_equal(x, arange(4, 8), "the operand was not donated")


def test_the_second_of_two_operands_is_aliased():
    def kernel(x_ref, y_ref, p_ref, q_ref):
        p_ref[...] = x_ref[...] + y_ref[...]
        q_ref[...] = y_ref[...] * 2

    x, y = arange(4, 8), arange(4, 8) + 1
    p, q = pallas_call(kernel, (x, y), input_output_aliases={1: 1})(x, y)
    np.testing.assert_array_equal(p, x + y)
    np.testing.assert_array_equal(q, y * 2)


def test_donation():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    @jax.jit
    def run(x):
        return pallas_call(kernel, x, input_output_aliases={0: 0})(x)

    donating = jax.jit(run, donate_argnums=0)
    np.testing.assert_array_equal(donating(arange(4, 8)), arange(4, 8) + 1)
