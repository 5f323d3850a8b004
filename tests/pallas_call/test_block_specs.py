"""Block specs: what part of an array a grid point sees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl

from .conftest import arange, pallas_call


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def test_blocked():
    x = arange(6, 8)
    spec = pl.BlockSpec((2, 4), lambda i, j: (i, j))
    result = pallas_call(copy_kernel, x, grid=(3, 2), in_specs=[spec], out_specs=spec)(x)
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("squeezed", [None, pl.squeezed])
def test_squeezed(squeezed):
    def kernel(x_ref, o_ref):
        assert x_ref.shape == (4,)
        o_ref[...] = x_ref[...] + 1

    x = arange(3, 2, 4)
    spec = pl.BlockSpec((squeezed, squeezed, 4), lambda i, j: (i, j, 0))
    result = pallas_call(kernel, x, grid=(3, 2), in_specs=[spec], out_specs=spec)(x)
    np.testing.assert_array_equal(result, x + 1)


def test_index_map_with_arithmetic():
    x = arange(8, 4)
    result = pallas_call(
        copy_kernel,
        x,
        grid=(8,),
        in_specs=[pl.BlockSpec((1, 4), lambda i: ((i * 3 + 1) % 8, 0))],
        out_specs=pl.BlockSpec((1, 4), lambda i: (7 - i, 0)),
    )(x)
    order = (np.arange(8)[::-1] * 3 + 1) % 8
    np.testing.assert_array_equal(result, x[order])


def test_index_map_with_branches_and_jit():
    @jax.jit
    def choose(i):
        return jnp.where(i % 2 == 0, i, jnp.minimum(i + 1, 7))

    x = arange(8, 4)
    result = pallas_call(
        copy_kernel,
        x,
        grid=(8,),
        in_specs=[pl.BlockSpec((1, 4), lambda i: (choose(i), 0))],
        out_specs=pl.BlockSpec((1, 4), lambda i: (i, 0)),
    )(x)
    order = [i if i % 2 == 0 else min(i + 1, 7) for i in range(8)]
    np.testing.assert_array_equal(result, x[jnp.array(order)])


def test_element_offsets():
    x = arange(10, 4)
    result = pallas_call(
        copy_kernel,
        jnp.zeros((4, 4, 4)),
        grid=(4,),
        in_specs=[pl.BlockSpec((pl.Element(4), pl.Element(4)), lambda i: (i * 2, 0))],
        out_specs=pl.BlockSpec((None, 4, 4), lambda i: (i, 0, 0)),
    )(x)
    np.testing.assert_array_equal(result, jnp.stack([x[2 * i : 2 * i + 4] for i in range(4)]))


def test_element_with_padding():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        rows = i * 4 - 1 + jax.lax.broadcasted_iota(jnp.int32, (6, 4), 0)
        inside = (rows >= 0) & (rows < 8)
        o_ref[...] = jnp.where(inside, x_ref[...], 0)

    x = arange(8, 4)
    result = pallas_call(
        kernel,
        jnp.zeros((2, 6, 4)),
        grid=(2,),
        in_specs=[pl.BlockSpec((pl.Element(6, (1, 1)), pl.Element(4)), lambda i: (i * 4, 0))],
        out_specs=pl.BlockSpec((None, 6, 4), lambda i: (i, 0, 0)),
    )(x)
    padded = jnp.pad(x, ((1, 1), (0, 0)))
    np.testing.assert_array_equal(result, jnp.stack([padded[0:6], padded[4:10]]))


def test_ragged_edges():
    def kernel(x_ref, o_ref, tail_ref):
        o_ref[...] = x_ref[...] + 1
        tail_ref[...] = x_ref[...]

    x = arange(7, 5)
    spec = pl.BlockSpec((4, 4), lambda i, j: (i, j))
    result, blocks = pallas_call(
        kernel,
        (x, jnp.zeros((2, 2, 4, 4))),
        grid=(2, 2),
        in_specs=[spec],
        out_specs=[spec, pl.BlockSpec((None, None, 4, 4), lambda i, j: (i, j, 0, 0))],
    )(x)
    np.testing.assert_array_equal(result, x + 1)
    whole = np.asarray(blocks).swapaxes(1, 2).reshape(8, 8)
    np.testing.assert_array_equal(whole[:7, :5], x)
    assert np.isnan(whole[7]).all(), "past the edge there is unwritten memory"
    assert np.isnan(whole[:, 5:]).all()


@pytest.mark.parametrize("dtype", ["int4", "int8", "bool", "bfloat16", "float8_e4m3fn"])
def test_ragged_edges_of_any_dtype(dtype):
    x = (arange(7, 5) % 2).astype(dtype)
    spec = pl.BlockSpec((4, 2), lambda i, j: (i, j))
    result = pallas_call(copy_kernel, x, grid=(2, 3), in_specs=[spec], out_specs=spec)(x)
    assert (result == x).all()


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_packed_operands(dtype):
    x = (arange(3, 5) % 2).astype(dtype)
    spec = pl.BlockSpec((1, 5), lambda i: (i, 0))
    result = pallas_call(copy_kernel, x, grid=(3,), in_specs=[spec], out_specs=spec)(x)
    assert (result.astype(jnp.float32) == x.astype(jnp.float32)).all()


def test_an_index_map_that_leaves_the_array(fails):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def run(x):
        return pallas_call(
            kernel,
            x,
            grid=(4,),
            in_specs=[pl.BlockSpec((2, 4), lambda i: (i * 2, 0))],
            out_specs=pl.BlockSpec((2, 4), lambda i: (i, 0)),
        )(x)

    text = fails(pallas_rs.OutOfBoundsError, run, arange(8, 4))
    assert "x_ref" in text
    assert "block" in text
    assert "test_block_specs.py" in text


def test_memory_spaces_of_a_tpu_are_plain_memory():
    pltpu = pytest.importorskip("jax.experimental.pallas.tpu")

    def kernel(x_ref, s_ref, o_ref, scratch_ref):
        scratch_ref[...] = x_ref[...]
        o_ref[...] = scratch_ref[...] + s_ref[0]

    x = arange(4, 8)
    result = pallas_call(
        kernel,
        x,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((2, 8), lambda i: (i, 0), memory_space=pltpu.VMEM),
            pl.BlockSpec(memory_space=pltpu.SMEM),
        ],
        out_specs=pl.BlockSpec((2, 8), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((2, 8), jnp.float32)],
    )(x, jnp.array([5.0]))
    np.testing.assert_array_equal(result, x + 5)


def test_scratch_that_accumulates_over_the_grid():
    pltpu = pytest.importorskip("jax.experimental.pallas.tpu")

    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    x = arange(3, 4, 8)
    result = pallas_call(
        kernel,
        x[:, 0],
        grid=(3, 4),
        in_specs=[pl.BlockSpec((None, None, 8), lambda i, k: (i, k, 0))],
        out_specs=pl.BlockSpec((None, 8), lambda i, k: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8,), jnp.float32)],
    )(x)
    np.testing.assert_array_equal(result, x.sum(1))


def test_the_whole_array_in_any_space():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[...] = x_ref[pl.ds(i, 1), :]

    x = arange(4, 8)
    result = pallas_call(
        kernel,
        x,
        grid=(4,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((1, 8), lambda i: (i, 0)),
    )(x)
    np.testing.assert_array_equal(result, x)
