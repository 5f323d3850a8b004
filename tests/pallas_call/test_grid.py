"""Grids: any rank, static and dynamic bounds in any mix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl

from .conftest import arange, pallas_call


def count_kernel(o_ref):
    """Counts its visits in the last dimension's first element."""
    o_ref[...] += 1


def ids_kernel(o_ref):
    rank = o_ref.shape[-1]
    where = tuple(pl.program_id(d) for d in range(rank))
    for d in range(rank):
        o_ref[(*where, d)] = where[d] * 10 + pl.num_programs(d)


@pytest.mark.parametrize("grid", [(), (1,), (5,), (2, 3), (2, 3, 4), (2, 1, 3, 2)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_every_point_knows_where_it_is(grid, dynamic):
    rank = max(len(grid), 1)
    if not grid:
        pytest.skip("no axis to ask for")

    @jax.jit
    def run(*bounds):
        bounds = bounds if dynamic else grid
        return pallas_call(ids_kernel, jnp.zeros((*grid, rank), jnp.int32), grid=bounds)()

    expected = np.stack(np.indices(grid), -1) * 10 + np.array(grid)
    np.testing.assert_array_equal(run(*grid), expected)


def test_no_grid():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    x = arange(3, 4)
    np.testing.assert_array_equal(pallas_call(kernel, x)(x), x + 1)


def test_mixed_static_and_dynamic_axes():
    @jax.jit
    def run(n):
        return pallas_call(ids_kernel, jnp.zeros((2, 4, 3, 3), jnp.int32), grid=(2, n, 3))()

    result = run(3)
    expected = np.stack(np.indices((2, 3, 3)), -1) * 10 + np.array((2, 3, 3))
    np.testing.assert_array_equal(result[:, :3], expected)


def scale(x, n):
    """Doubles the first `n` rows of `x`."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    row = pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))
    return pallas_call(
        kernel, x, grid=(n,), in_specs=[row], out_specs=row, input_output_aliases={0: 0}
    )(x)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_a_bound_of_any_integer_dtype(dtype):
    x = arange(5, 8)
    result = jax.jit(scale)(x, jnp.asarray(3, dtype))
    np.testing.assert_array_equal(result, np.concatenate([x[:3] * 2, x[3:]]))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_a_bound_of_64_bits(dtype):
    with jax.enable_x64(True):
        x = arange(5, 8)
        result = jax.jit(scale)(x, jnp.asarray(4, dtype))
        np.testing.assert_array_equal(result[:4], x[:4] * 2)


@pytest.mark.parametrize("bound", [1.0, True])
def test_a_bound_that_is_no_integer_is_refused(bound):
    with pytest.raises(pallas_rs.InvalidGridError, match="dimension 0") as caught:
        jax.jit(scale)(arange(5, 8), bound)
    assert jnp.asarray(bound).dtype.name in str(caught.value)


def test_one_trace_and_one_compile_serve_all_bounds():
    traces = []

    @jax.jit
    def run(x, n):
        traces.append(n)
        return scale(x, n)

    x = arange(6, 4)
    for n in (3, 6, 0, 1, 5, 2):
        result = run(x, n)
        np.testing.assert_array_equal(result, np.concatenate([x[:n] * 2, x[n:]]))
    assert len(traces) == 1
    assert run._cache_size() == 1


def test_zero_leaves_outputs_unwritten():
    def kernel(o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)

    @jax.jit
    def run(n):
        return pallas_call(
            kernel, jnp.zeros((4, 8)), grid=(n,), out_specs=pl.BlockSpec((1, 8), lambda i: (i, 0))
        )()

    assert np.isnan(run(0)).all()
    assert np.isnan(run(2)[2:]).all()
    assert (np.asarray(run(2)[:2]) == 0).all()


def test_a_negative_bound(fails):
    text = fails(pallas_rs.InvalidGridError, jax.jit(scale), arange(5, 8), -3)
    assert "dimension 0" in text
    assert "-3" in text


@pytest.mark.parametrize("size", [-3, 2**31])
def test_a_static_size_that_no_grid_has(size):
    with pytest.raises(pallas_rs.InvalidGridError, match=f"grid dimension 1 is {size}: "):
        pallas_call(lambda o_ref: None, jnp.zeros(8), grid=(2, size))()


def test_a_grid_that_overflows(fails):
    def run(n, m):
        def kernel(o_ref):
            o_ref[...] = jnp.zeros_like(o_ref)

        return pallas_call(kernel, jnp.zeros(8), grid=(n, m))()

    with jax.enable_x64(True):
        big = jnp.int64(2**33)
        fails(pallas_rs.InvalidGridError, jax.jit(run), big, big)


def test_a_bound_that_depends_on_other_values():
    @jax.jit
    def run(x):
        n = jnp.sum(x[:, 0] < 16).astype(jnp.int32)
        return scale(x, n)

    x = arange(6, 8)
    np.testing.assert_array_equal(run(x), np.concatenate([x[:2] * 2, x[2:]]))


def test_a_vmapped_bound():
    x = arange(3, 5, 4)
    result = jax.vmap(scale)(x, jnp.array([0, 2, 5]))
    for i, n in enumerate((0, 2, 5)):
        np.testing.assert_array_equal(result[i], np.concatenate([x[i, :n] * 2, x[i, n:]]))


def test_vmap_of_the_operands_under_a_dynamic_bound():
    @jax.jit
    def run(x, n):
        return jax.vmap(lambda x: scale(x, n))(x)

    x = arange(3, 5, 4)
    result = run(x, 2)
    np.testing.assert_array_equal(result, jnp.concatenate([x[:, :2] * 2, x[:, 2:]], 1))


def test_program_id_leaves_out_vmapped_dimensions():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + pl.program_id(0)

    spec = pl.BlockSpec((1, 4), lambda i: (i, 0))

    def run(x):
        return pallas_call(kernel, x, grid=(3,), in_specs=[spec], out_specs=spec)(x)

    x = arange(2, 3, 4)
    np.testing.assert_array_equal(jax.vmap(run)(x), x + jnp.arange(3)[:, None])
    twice = jax.vmap(jax.vmap(run))(x[None])
    np.testing.assert_array_equal(twice[0], x + jnp.arange(3)[:, None])


def test_an_output_block_visited_by_many_points():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    x = arange(3, 5, 8)

    @jax.jit
    def run(x, n):
        return pallas_call(
            kernel,
            x[:, 0],
            grid=(3, n),
            in_specs=[pl.BlockSpec((None, None, 8), lambda i, k: (i, k, 0))],
            out_specs=pl.BlockSpec((None, 8), lambda i, k: (i, 0)),
        )(x)

    np.testing.assert_array_equal(run(x, 5), x.sum(1))
    np.testing.assert_array_equal(run(x, 2), x[:, :2].sum(1))


def test_rows_in_order_when_points_touch_the_same_memory():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[...] = o_ref[...] * 2 + i

    x = jnp.zeros((1, 4), jnp.int32)
    result = pallas_call(kernel, x, grid=(9,), input_output_aliases={0: 0})(x)
    expected = 0
    for i in range(9):
        expected = expected * 2 + i
    assert (np.asarray(result) == expected).all()


def test_a_named_grid():
    def kernel(o_ref):
        o_ref[jax.lax.axis_index("rows"), :] = jnp.full(4, jax.lax.axis_index("rows"))

    result = pallas_call(kernel, jnp.zeros((3, 4), jnp.int32), grid=(("rows", 3),))()
    np.testing.assert_array_equal(result, np.arange(3)[:, None] + np.zeros((3, 4)))


def test_loops_with_dynamic_and_zero_bounds():
    def kernel(n_ref, x_ref, o_ref):
        def body(i, total):
            return total + x_ref[i]

        o_ref[0] = jax.lax.fori_loop(0, n_ref[0], body, 0.0)
        o_ref[1] = jax.lax.fori_loop(n_ref[0], 5, body, 0.0)
        o_ref[2] = jax.lax.fori_loop(4, 2, body, 7.0)

    x = arange(5)
    for n in (0, 3, 5):
        result = pallas_call(kernel, jnp.zeros(3))(jnp.array([n]), x)
        np.testing.assert_array_equal(result, [x[:n].sum(), x[n:].sum(), 7])
