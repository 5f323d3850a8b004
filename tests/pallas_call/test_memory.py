"""Reads and writes of refs: indices, slices, masks, index arrays, atomics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from .conftest import arange, pallas_call


def run(kernel, out, *args, **kwargs):
    return pallas_call(kernel, out, **kwargs)(*args)


INDEXERS = {
    "int": lambda: (2,),
    "negative": lambda: (-1,),
    "negative_both": lambda: (-2, -3),
    "slice": lambda: (slice(1, 3),),
    "slice_to_end": lambda: (slice(None), slice(5, None)),
    "negative_slice": lambda: (slice(-3, -1),),
    "strided": lambda: (slice(0, 4, 2), slice(1, 8, 3)),
    "ellipsis": lambda: (..., 3),
    "int_and_slice": lambda: (1, slice(2, 6)),
    "ds": lambda: (pl.ds(1, 2), pl.ds(3, 4)),
    "ds_strided": lambda: (pl.ds(0, 2, stride=2),),
}


@pytest.mark.parametrize("name", INDEXERS)
def test_reads_as_numpy_does(name):
    x = arange(4, 8)
    index = INDEXERS[name]()
    plain = tuple(
        slice(i.start, i.start + i.size * i.stride, i.stride) if isinstance(i, pl.Slice) else i
        for i in index
    )

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[index]

    np.testing.assert_array_equal(run(kernel, x[plain], x), x[plain])


@pytest.mark.parametrize("name", INDEXERS)
def test_writes_as_numpy_does(name):
    x = arange(4, 8)
    index = INDEXERS[name]()
    plain = tuple(
        slice(i.start, i.start + i.size * i.stride, i.stride) if isinstance(i, pl.Slice) else i
        for i in index
    )

    def kernel(x_ref, o_ref):
        o_ref[index] = x_ref[index] * 0 - 7

    result = run(kernel, x, x, input_output_aliases={0: 0})
    expected = np.array(x)
    expected[plain] = -7
    np.testing.assert_array_equal(result, expected)


def test_dynamic_slices():
    def kernel(i_ref, x_ref, o_ref):
        i = i_ref[0]
        o_ref[...] = x_ref[pl.ds(i, 2), i] + x_ref[pl.ds(i + 1, 2), pl.ds(0, 1)][:, 0]

    x = arange(6, 8)
    for i in (0, 2, 3):
        expected = x[i : i + 2, i] + x[i + 1 : i + 3, 0]
        np.testing.assert_array_equal(run(kernel, jnp.zeros(2), jnp.array([i]), x), expected)


def test_chained_views():
    def kernel(x_ref, o_ref):
        view = x_ref.at[1:5].at[pl.ds(1, 2), 2:6].at[:, 1]
        o_ref[...] = view[...]

    x = arange(6, 8)
    np.testing.assert_array_equal(run(kernel, jnp.zeros(2), x), x[2:4, 3])


def test_reads_outside_the_array_are_errors(fails):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[i_ref[0]]

    def call(i):
        return run(kernel, jnp.zeros(8), jnp.array([i]), arange(4, 8))

    text = fails(pallas_rs.OutOfBoundsError, call, 4)
    assert "x_ref" in text
    assert "test_memory.py" in text
    fails(pallas_rs.OutOfBoundsError, call, -1)


def test_reads_outside_the_array_as_unwritten_memory():
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(i_ref[0], 3)]

    params = pallas_rs.Params(out_of_bounds_reads="uninitialized")
    result = run(kernel, jnp.zeros(3), jnp.array([2]), arange(4), params=params)
    np.testing.assert_array_equal(result, [2, 3, np.nan])


def test_index_arrays():
    def kernel(x_ref, o_ref, p_ref, q_ref):
        rows = jax.lax.iota(jnp.int32, 3) * 2
        o_ref[...] = x_ref[rows]
        p_ref[...] = x_ref[rows, rows + 1]
        q_ref[...] = x_ref[:, rows]

    x = arange(6, 8)
    o, p, q = run(kernel, (jnp.zeros((3, 8)), jnp.zeros(3), jnp.zeros((6, 3))), x)
    rows = np.arange(3) * 2
    np.testing.assert_array_equal(o, x[rows])
    np.testing.assert_array_equal(p, x[rows, rows + 1])
    np.testing.assert_array_equal(q, x[:, rows])


def test_index_arrays_of_rank_two_and_separated():
    def kernel(x_ref, o_ref, p_ref):
        rows = jax.lax.broadcasted_iota(jnp.int32, (2, 3), 1)
        o_ref[...] = x_ref[:, rows, rows + 1]
        p_ref[...] = x_ref[rows, :, rows]

    x = arange(3, 5, 6)
    o, p = run(kernel, (jnp.zeros((3, 2, 3)), jnp.zeros((2, 3, 5))), x)
    rows = np.broadcast_to(np.arange(3), (2, 3))
    np.testing.assert_array_equal(o, x[:, rows, rows + 1])
    np.testing.assert_array_equal(p, x[rows, :, rows])


def test_scatter_by_index_arrays():
    def kernel(x_ref, o_ref):
        rows = jax.lax.iota(jnp.int32, 3) * 2
        o_ref[rows] = x_ref[:3] * 10

    x = arange(6, 8)
    result = run(kernel, x, x, input_output_aliases={0: 0})
    expected = np.array(x)
    expected[np.arange(3) * 2] = x[:3] * 10
    np.testing.assert_array_equal(result, expected)


def test_masked_load_and_store():
    def kernel(x_ref, o_ref, p_ref):
        index = jax.lax.iota(jnp.int32, 8)
        mask = index < 5
        x = plt.load(x_ref.at[index], mask=mask, other=-1.0)
        o_ref[...] = x
        plt.store(p_ref.at[index], x * 2, mask=index % 2 == 0)

    x = arange(5) + 1
    o, p = run(kernel, (jnp.zeros(8), jnp.zeros(8)), x)
    np.testing.assert_array_equal(o, [1, 2, 3, 4, 5, -1, -1, -1])
    np.testing.assert_array_equal(p[::2], [2, 6, 10, -2])
    assert np.isnan(p[1::2]).all()


def test_masked_slices():
    def kernel(x_ref, o_ref):
        mask = jax.lax.broadcasted_iota(jnp.int32, (4, 8), 1) < 3
        o_ref[...] = plt.load(x_ref.at[pl.ds(2, 4)], mask=mask, other=0.0)

    x = arange(6, 8)
    expected = np.where(np.arange(8) < 3, x[2:], 0)
    np.testing.assert_array_equal(run(kernel, jnp.zeros((4, 8)), x), expected)


def test_a_masked_lane_is_not_accessed():
    def kernel(x_ref, o_ref):
        index = jax.lax.iota(jnp.int32, 8) * 1000
        o_ref[...] = plt.load(x_ref.at[index], mask=index == 0, other=9.0)

    np.testing.assert_array_equal(run(kernel, jnp.zeros(8), arange(4)), [0, *[9] * 7])


def test_swap_returns_what_was_there():
    def kernel(x_ref, o_ref, old_ref):
        old_ref[...] = (
            pl.swap(o_ref, (slice(None),), x_ref[...] + 1)
            if hasattr(pl, "swap")
            else jax.ref.swap(o_ref, ..., x_ref[...] + 1)
        )

    x = arange(8)
    o, old = run(kernel, (x, x), x, input_output_aliases={0: 0})
    np.testing.assert_array_equal(o, x + 1)
    np.testing.assert_array_equal(old, x)


def test_addupdate():
    def kernel(x_ref, o_ref):
        o_ref[1:3] += x_ref[1:3]
        jax.ref.addupdate(o_ref, 0, 5.0)

    x = arange(4)
    result = run(kernel, x, x, input_output_aliases={0: 0})
    np.testing.assert_array_equal(result, [5, 2, 4, 3])


ATOMICS = {
    "add": (plt.atomic_add, np.add),
    "max": (plt.atomic_max, np.maximum),
    "min": (plt.atomic_min, np.minimum),
    "and": (plt.atomic_and, np.bitwise_and),
    "or": (plt.atomic_or, np.bitwise_or),
    "xor": (plt.atomic_xor, np.bitwise_xor),
}


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(name):
    atomic, reference = ATOMICS[name]

    def kernel(x_ref, init_ref, o_ref, old_ref):
        i = pl.program_id(0)
        old_ref[i] = atomic(o_ref, (0,), x_ref[i])

    x = jnp.array([12, 7, 25, 3], jnp.int32)
    init = jnp.array([20, 1], jnp.int32)
    o, old = run(kernel, (init, x), x, init, grid=(4,), input_output_aliases={1: 0})
    value = 20
    for i, y in enumerate(np.asarray(x)):
        assert old[i] == value
        value = reference(value, y)
    np.testing.assert_array_equal(o, [value, 1])


def test_atomic_add_at_index_arrays():
    def kernel(x_ref, init_ref, o_ref):
        index = jax.lax.iota(jnp.int32, 8) // 4
        plt.atomic_add(o_ref, (index,), x_ref[...])

    x = arange(8)
    result = run(kernel, jnp.zeros(3), x, jnp.ones(3), input_output_aliases={1: 0})
    np.testing.assert_array_equal(result, [1 + 6, 1 + 22, 1])


def test_masked_atomic():
    def kernel(x_ref, init_ref, o_ref):
        mask = jax.lax.iota(jnp.int32, 4) < 2
        plt.atomic_add(o_ref, (slice(None),), x_ref[...], mask=mask)

    result = run(kernel, jnp.ones(4), arange(4), jnp.ones(4), input_output_aliases={1: 0})
    np.testing.assert_array_equal(result, [1, 2, 1, 1])


def test_atomic_exchange_and_compare():
    def kernel(lock_ref, o_ref, out_ref):
        out_ref[0] = plt.atomic_xchg(o_ref, (), 5)
        out_ref[1] = plt.atomic_cas(o_ref, 4, 9)
        out_ref[2] = plt.atomic_cas(o_ref, 5, 6)

    lock, out = run(
        kernel,
        (jnp.int32(0), jnp.zeros(3, jnp.int32)),
        jnp.int32(3),
        input_output_aliases={0: 0},
    )
    assert lock == 6
    np.testing.assert_array_equal(out, [3, 5, 5])


def test_hints_and_barriers_change_nothing():
    def kernel(x_ref, o_ref):
        plt.debug_barrier()
        i = pl.multiple_of(pl.program_id(0) * 4, 4)
        o_ref[pl.ds(i, 4)] = plt.approx_tanh(x_ref[pl.ds(i, 4)])

    x = arange(8) / 8
    np.testing.assert_allclose(run(kernel, x, x, grid=(2,)), jnp.tanh(x), rtol=1e-6)


def test_run_scoped():
    def kernel(x_ref, o_ref):
        def body(a_ref, b_ref):
            a_ref[...] = x_ref[...] * 2
            b_ref[...] = a_ref[::-1] if False else a_ref[...]
            return jnp.sum(b_ref[...])

        o_ref[...] = x_ref[...] + pl.run_scoped(
            body, pltpu.VMEM((8,), jnp.float32), pltpu.VMEM((8,), jnp.float32)
        )

    pltpu = pytest.importorskip("jax.experimental.pallas.tpu")
    x = arange(8)
    np.testing.assert_array_equal(run(kernel, x, x), x + 2 * x.sum())


def test_scratch():
    def kernel(x_ref, o_ref, scratch_ref):
        scratch_ref[...] = x_ref[...] * 2
        o_ref[...] = scratch_ref[...] + 1

    mgpu = pytest.importorskip("jax.experimental.pallas.mosaic_gpu")
    x = arange(4, 8)
    spec = pl.BlockSpec((1, 8), lambda i: (i, 0))
    result = run(
        kernel,
        x,
        x,
        grid=(4,),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[mgpu.SMEM((1, 8), jnp.float32)],
    )
    np.testing.assert_array_equal(result, x * 2 + 1)


def test_refs_of_rank_zero():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2
        o_ref[()] += 1

    assert run(kernel, jnp.float32(0), jnp.float32(4)) == 9
