"""Derivatives of kernels whose grid has bounds that are known only at run time."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

P = pallas_rs.Params()
COLUMNS = 8


def scale(x, n):
    """Rows below `n`: their sine times (row + 1) / n. The others stay."""

    def kernel(x_ref, o_ref):
        i, bound = pl.program_id(0), pl.num_programs(0)
        o_ref[...] = jnp.sin(x_ref[...]) * (i + 1).astype(jnp.float32) / bound

    spec = pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(n,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
        interpret=P,
    )(x)


def scale_twin(x, n):
    i = jnp.arange(x.shape[0])[:, None]
    return jnp.where(i < n, jnp.sin(x) * (i + 1) / jnp.maximum(n, 1), x)


def test_a_bound_changes_without_a_trace_or_a_compilation(rand, close, monkeypatch):
    traces = 0

    @jax.jit
    def jvp(x, t, n):
        nonlocal traces
        traces += 1
        return jax.jvp(lambda x: scale(x, n), (x,), (t,))

    x, t = rand(8, COLUMNS), rand(8, COLUMNS)
    jvp(x, t, 1)
    compiled = jvp._cache_size()
    for n in (0, 1, 5, 8, 3):
        close(jvp(x, t, n), jax.jvp(lambda x, n=n: scale_twin(x, n), (x,), (t,)))
    assert traces == 1
    assert jvp._cache_size() == compiled == 1


def test_primals_are_those_without_differentiation_to_the_last_bit(rand):
    x = rand(8, COLUMNS)
    for n in range(9):
        primal, _ = jax.jit(lambda x, n: jax.jvp(lambda x: scale(x, n), (x,), (x,)))(x, n)
        np.testing.assert_array_equal(primal, jax.jit(scale)(x, n))


def test_tangents_of_rows_that_no_point_wrote_are_unwritten_memory(rand):
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    @jax.jit
    def f(x, n):
        spec = pl.BlockSpec((1, COLUMNS), lambda i: (i, 0))
        return pl.pallas_call(
            kernel,
            grid=(n,),
            in_specs=[spec],
            out_specs=spec,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            interpret=P,
        )(x)

    x = rand(4, COLUMNS)
    for out in jax.jvp(lambda x: f(x, 3), (x,), (x,)):
        assert np.isfinite(out[:3]).all()
        assert np.isnan(out[3]).all()


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 9),
    data=st.data(),
)
def test_any_shape_and_bound(rows, columns, data):
    rng = np.random.default_rng(rows * 10 + columns)
    x, t = (jnp.asarray(rng.normal(size=(rows, columns)), jnp.float32) for _ in range(2))
    jvp = jax.jit(lambda x, t, n: jax.jvp(lambda x: scale(x, n), (x,), (t,)))
    for n in data.draw(st.lists(st.integers(0, rows), min_size=1, max_size=4)):
        actual = jvp(x, t, n)
        expected = jax.jvp(lambda x, n=n: scale_twin(x, n), (x,), (t,))
        jax.tree.map(
            lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-6),
            actual,
            expected,
        )
    assert jvp._cache_size() == 1


def two_bounds(scalars, x, m, n):
    """Rows and column blocks below the bounds: x[i, s[j]] times s[j]."""

    def kernel(s_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] ** 2 * s_ref[pl.program_id(1)]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(m, n),
        in_specs=[pl.BlockSpec((1, 4), lambda i, j, s: (i, s[j]))],
        out_specs=pl.BlockSpec((1, 4), lambda i, j, s: (i, j)),
    )
    return pl.pallas_call(
        kernel,
        grid_spec=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=pallas_rs.Params(uninitialized_memory="zero"),
    )(scalars, x)


@settings(max_examples=10, deadline=None)
@given(
    rows=st.integers(1, 4),
    blocks=st.integers(1, 4),
    data=st.data(),
)
def test_two_bounds_and_prefetched_scalars(rows, blocks, data):
    rng = np.random.default_rng(rows * 10 + blocks)
    x, t = (jnp.asarray(rng.normal(size=(rows, 4 * blocks)), jnp.float32) for _ in "xt")
    scalars = jnp.asarray(rng.permutation(blocks), jnp.int32)
    m, n = data.draw(st.integers(0, rows)), data.draw(st.integers(0, blocks))

    def twin(x):
        tiles = x.reshape(rows, blocks, 4)[:, scalars] ** 2 * scalars[:, None]
        live = (jnp.arange(rows) < m)[:, None, None] & (jnp.arange(blocks) < n)[:, None]
        return jnp.where(live, tiles, 0).reshape(x.shape)

    actual = jax.jit(
        lambda x, t, m, n: jax.jvp(lambda x: two_bounds(scalars, x, m, n), (x,), (t,))
    )(x, t, m, n)
    jax.tree.map(
        lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-5),
        actual,
        jax.jvp(twin, (x,), (t,)),
    )


def test_an_int64_bound(rand, close):
    with jax.enable_x64(True):
        x, t, n = rand(4, COLUMNS), rand(4, COLUMNS), jnp.int64(3)
        jvp = jax.jit(lambda x, t, n: jax.jvp(lambda x: scale(x, n), (x,), (t,)))
        close(jvp(x, t, n), jax.jvp(lambda x: scale_twin(x, 3), (x,), (t,)))


def test_a_negative_bound_is_refused_once_and_says_which(rand):
    x = rand(4, COLUMNS)
    jvp = jax.jit(lambda n: jax.jvp(lambda x: scale(x, n), (x,), (x,)))
    with pytest.raises(pallas_rs.InvalidGridError, match="-2"), pallas_rs.typed_errors():
        jax.block_until_ready(jvp(-2))
