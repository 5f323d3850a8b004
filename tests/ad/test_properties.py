"""Random kernels, shapes and bounds: values to the last bit, tangents against a twin.

The twin is the same expression in `jax.numpy`; finite differences are those of the kernel.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

P = pallas_rs.Params(uninitialized_memory="zero")

UNARY = [jnp.sin, jnp.tanh, jnp.exp, jnp.square, jax.nn.sigmoid, lambda x: x**3, lambda x: -x]
# Finite differences need them smooth: no `jnp.hypot`, which has a kink at zero.
BINARY = [
    jnp.add,
    jnp.multiply,
    jnp.subtract,
    lambda x, y: x / (2 + y * y),
    lambda x, y: jnp.sqrt(1 + x * x + y * y),
]


@st.composite
def expressions(draw):
    """A smooth function of two arrays of one shape, as nested choices."""
    steps = draw(
        st.lists(
            st.tuples(
                st.integers(0, len(BINARY) - 1),
                st.integers(0, len(UNARY) - 1),
                st.integers(0, 9),
                st.integers(0, 9),
            ),
            min_size=1,
            max_size=5,
        )
    )

    def function(x, y):
        values = [x, y]
        for binary, unary, i, j in steps:
            left, right = values[i % len(values)], values[j % len(values)]
            values.append(jnp.tanh(BINARY[binary](UNARY[unary](left), right)))
        return values[-1]

    return function


def numbers(rng, *shape):
    return jnp.asarray(rng.uniform(-1, 1, shape), jnp.float32)


def check(f, twin, primals, tangents):
    """As the fixture `check_jvp`, which hypothesis cannot share between examples."""
    outs, out_tangents = jax.jit(lambda p, t: jax.jvp(f, p, t))(primals, tangents)
    np.testing.assert_array_equal(outs, jax.jit(f)(*primals))
    expected = jax.jvp(twin, primals, tangents)
    np.testing.assert_allclose(outs, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out_tangents, expected[1], rtol=1e-4, atol=1e-5)
    step = 1e-2
    forth, back = (
        f(*(p + sign * step * t for p, t in zip(primals, tangents, strict=True)))
        for sign in (1, -1)
    )
    np.testing.assert_allclose(out_tangents, (forth - back) / (2 * step), rtol=5e-2, atol=2e-2)


@settings(max_examples=15, deadline=None)
@given(
    function=expressions(),
    rows=st.integers(1, 9),
    columns=st.integers(1, 17),
    block=st.tuples(st.integers(1, 4), st.integers(1, 8)),
    seed=st.integers(0, 99),
)
def test_blocks_of_any_shape(function, rows, columns, block, seed):
    def f(x, y):
        def kernel(x_ref, y_ref, o_ref):
            o_ref[...] = function(x_ref[...], y_ref[...])

        spec = pl.BlockSpec(block, lambda i, j: (i, j))
        grid = (pl.cdiv(rows, block[0]), pl.cdiv(columns, block[1]))
        return pl.pallas_call(
            kernel,
            grid=grid,
            in_specs=[spec] * 2,
            out_specs=spec,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            interpret=P,
        )(x, y)

    rng = np.random.default_rng(seed)
    x, y, s, t = (numbers(rng, rows, columns) for _ in "xyst")
    check(f, function, (x, y), (s, t))


@settings(max_examples=12, deadline=None)
@given(
    function=expressions(),
    rows=st.integers(1, 6),
    columns=st.integers(1, 9),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_bounds_that_change_between_calls(function, rows, columns, seed, data):
    """A running total in scratch, over as many rows as the bound says; the rest is aliased."""

    def f(scalars, x, y, n):
        def kernel(s_ref, x_ref, y_ref, o_ref, total_ref):
            @pl.when(pl.program_id(0) == 0)
            def _():
                total_ref[...] = jnp.zeros_like(total_ref)

            total_ref[...] += function(x_ref[...], y_ref[...]) * s_ref[pl.program_id(0)]
            o_ref[...] = total_ref[...] / pl.num_programs(0)

        row = pl.BlockSpec((1, columns), lambda i, s: (i, 0))
        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(n,),
            in_specs=[row, row],
            out_specs=row,
            scratch_shapes=[pltpu.VMEM((1, columns), jnp.float32)],
        )
        return pl.pallas_call(
            kernel,
            grid_spec=grid,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            input_output_aliases={1: 0},
            interpret=P,
        )(scalars, x, y)

    def twin(scalars, x, y, n):
        totals = jnp.cumsum(function(x, y) * scalars[:, None], 0) / max(n, 1)
        return jnp.where(jnp.arange(rows)[:, None] < n, totals, x)

    rng = np.random.default_rng(seed)
    primals = numbers(rng, rows), numbers(rng, rows, columns), numbers(rng, rows, columns)
    tangents = numbers(rng, rows), numbers(rng, rows, columns), numbers(rng, rows, columns)
    jvp = jax.jit(lambda p, t, n: jax.jvp(lambda *p: f(*p, n), p, t))
    alone = jax.jit(f)
    bounds = data.draw(st.lists(st.integers(0, rows), min_size=1, max_size=3))
    for n in [0, *bounds]:
        outs, out_tangents = jvp(primals, tangents, n)
        expected = jax.jvp(lambda *p, n=n: twin(*p, n), primals, tangents)
        np.testing.assert_array_equal(outs, alone(*primals, n))
        np.testing.assert_allclose(outs, expected[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(out_tangents, expected[1], rtol=1e-4, atol=1e-5)
    assert jvp._cache_size() == alone._cache_size() == 1


@settings(max_examples=10, deadline=None)
@given(
    function=expressions(),
    steps=st.integers(1, 5),
    depth=st.integers(1, 3),
    columns=st.sampled_from([8, 32]),
    completion=st.sampled_from(["late", "eager", "random"]),
    seed=st.integers(0, 99),
)
def test_kernels_with_a_ring_of_buffers(function, steps, depth, columns, completion, seed):
    def f(x, y):
        def body(x, y, o, x_s, y_s, o_s, loaded):
            def fetch(step):
                slot = lax.rem(step, depth)
                plgpu.copy_gmem_to_smem(x.at[step], x_s.at[slot], loaded.at[slot])
                plgpu.copy_gmem_to_smem(y.at[step], y_s.at[slot], loaded.at[slot])

            for step in range(min(depth, steps)):
                fetch(step)

            def run(step, carry):
                slot = lax.rem(step, depth)
                plgpu.barrier_wait(loaded.at[slot])
                carry = carry + function(x_s[slot], y_s[slot])
                plgpu.wait_smem_to_gmem(0, wait_read_only=True)
                o_s[...] = carry
                plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(o_s, o.at[step])

                @pl.when(step + depth < steps)
                def _():
                    fetch(step + depth)

                return carry

            lax.fori_loop(0, steps, run, jnp.zeros((columns,), jnp.float32))
            plgpu.wait_smem_to_gmem(0)

        ring = plgpu.SMEM((depth, columns), jnp.float32)
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
            scratch_types=[
                ring,
                ring,
                plgpu.SMEM((columns,), jnp.float32),
                plgpu.Barrier(num_arrivals=2, num_barriers=depth),
            ],
            interpret=pallas_rs.Params(async_completion=completion, seed=seed),
        )(x, y)

    rng = np.random.default_rng(seed)
    x, y, s, t = (numbers(rng, steps, columns) for _ in "xyst")
    check(f, lambda x, y: jnp.cumsum(function(x, y), 0), (x, y), (s, t))


@pytest.mark.parametrize("enabled", [False, True])
def test_64_bit_mode(enabled):
    with jax.enable_x64(enabled):
        dtype = jnp.float64 if enabled else jnp.float32
        x = jnp.linspace(-1, 1, 24, dtype=dtype).reshape(3, 8)

        def kernel(x_ref, o_ref):
            o_ref[...] = jnp.sin(x_ref[...]) * pl.program_id(0)

        def f(x, n):
            spec = pl.BlockSpec((1, 8), lambda i: (i, 0))
            return pl.pallas_call(
                kernel,
                grid=(n,),
                in_specs=[spec],
                out_specs=spec,
                out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                interpret=P,
            )(x)

        g = functools.partial(f, n=jnp.int64(3) if enabled else jnp.int32(3))
        out, tangent = jax.jit(lambda x: jax.jvp(g, (x,), (x,)))(x)
        assert out.dtype == tangent.dtype == dtype
        rows = np.arange(3)[:, None]
        tolerance = 1e-12 if enabled else 1e-6
        np.testing.assert_allclose(out, np.sin(x) * rows, rtol=tolerance)
        np.testing.assert_allclose(tangent, x * np.cos(x) * rows, rtol=tolerance)
