"""Forward mode of `pl.pallas_call`, one feature of a call at a time."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton

P = pallas_rs.Params()
ROWS, COLUMNS = 6, 16

row_spec = pl.BlockSpec((1, COLUMNS), lambda i, *_: (i, 0))


def shape_of(x, dtype=None):
    return jax.ShapeDtypeStruct(x.shape, dtype or x.dtype)


def by_rows(kernel, *arrays, **kwargs):
    """`kernel` on the rows of arrays of one shape."""
    kwargs = {"out_shape": shape_of(arrays[0]), "grid": (ROWS,), **kwargs}
    return pl.pallas_call(
        kernel,
        in_specs=[row_spec] * len(arrays),
        out_specs=jax.tree.map(lambda _: row_spec, kwargs["out_shape"]),
        interpret=P,
        **kwargs,
    )(*arrays)


def test_elementwise(check_jvp, rand):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...]) * y_ref[...]

    args = rand(ROWS, COLUMNS), rand(ROWS, COLUMNS)
    tangents = rand(ROWS, COLUMNS), rand(ROWS, COLUMNS)
    check_jvp(functools.partial(by_rows, kernel), lambda x, y: jnp.sin(x) * y, args, tangents)


def test_without_a_grid(check_jvp, rand):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] @ x_ref[...].T

    def f(x):
        out = jax.ShapeDtypeStruct((ROWS, ROWS), x.dtype)
        return pl.pallas_call(kernel, out_shape=out, interpret=P)(x)

    check_jvp(f, lambda x: x @ x.T, (rand(ROWS, COLUMNS),), (rand(ROWS, COLUMNS),))


def test_program_id_and_num_programs_in_kernel_and_index_map(check_jvp, rand):
    def kernel(x_ref, o_ref):
        i, n = pl.program_id(0), pl.num_programs(0)
        o_ref[...] = x_ref[...] ** 2 * (i + 1) / n

    def f(x):
        reverse = pl.BlockSpec((1, COLUMNS), lambda i: (ROWS - 1 - i, 0))
        return pl.pallas_call(
            kernel,
            grid=(ROWS,),
            in_specs=[reverse],
            out_specs=row_spec,
            out_shape=shape_of(x),
            interpret=P,
        )(x)

    def twin(x):
        return x[::-1] ** 2 * (jnp.arange(ROWS)[:, None] + 1) / ROWS

    check_jvp(f, twin, (rand(ROWS, COLUMNS),), (rand(ROWS, COLUMNS),))


def test_blocks_visited_more_than_once(check_jvp, rand):
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.exp(x_ref[...])

    def f(x):
        return pl.pallas_call(
            kernel,
            grid=(ROWS,),
            in_specs=[row_spec],
            out_specs=pl.BlockSpec((1, COLUMNS), lambda i: (0, 0)),
            out_shape=jax.ShapeDtypeStruct((1, COLUMNS), x.dtype),
            interpret=P,
        )(x)

    check_jvp(
        f,
        lambda x: jnp.exp(x).sum(0, keepdims=True),
        (rand(ROWS, COLUMNS),),
        (rand(ROWS, COLUMNS),),
    )


def test_ragged_blocks(check_jvp, rand):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.tanh(x_ref[...])

    def f(x):
        spec = pl.BlockSpec((4, 8), lambda i, j: (i, j))
        return pl.pallas_call(
            kernel,
            grid=(2, 3),
            in_specs=[spec],
            out_specs=spec,
            out_shape=shape_of(x),
            interpret=P,
        )(x)

    check_jvp(f, jnp.tanh, (rand(7, 19),), (rand(7, 19),))


def test_an_operand_without_a_tangent(check_jvp, rand):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] + y_ref[...] ** 2

    y = rand(ROWS, COLUMNS)
    check_jvp(
        lambda x: by_rows(kernel, x, y),
        lambda x: x * y + y**2,
        (rand(ROWS, COLUMNS),),
        (rand(ROWS, COLUMNS),),
    )


def test_integers_booleans_and_unused_operands(check_jvp, rand):
    def kernel(n_ref, m_ref, x_ref, _, o_ref, count_ref):
        o_ref[...] = jnp.where(m_ref[...], x_ref[...] * n_ref[...], 0.5 * x_ref[...])
        count_ref[...] = n_ref[...] + 1

    n = jnp.arange(ROWS * COLUMNS, dtype=jnp.int32).reshape(ROWS, COLUMNS) % 5
    m = n > 2

    def f(x, y):
        out = (shape_of(x), shape_of(n))
        return by_rows(kernel, n, m, x, y, out_shape=out)[0]

    args = rand(ROWS, COLUMNS), rand(ROWS, COLUMNS)
    check_jvp(f, lambda x, _: jnp.where(m, x * n, 0.5 * x), args, args[::-1])


def test_an_integer_result_has_a_float0_tangent(rand):
    def kernel(x_ref, o_ref, n_ref):
        o_ref[...] = 2 * x_ref[...]
        n_ref[...] = jnp.sign(x_ref[...]).astype(jnp.int32)

    def f(x):
        return by_rows(kernel, x, out_shape=(shape_of(x), shape_of(x, jnp.int32)))

    x = rand(ROWS, COLUMNS)
    _, (tangent, of_integers) = jax.jvp(f, (x,), (x,))
    np.testing.assert_array_equal(tangent, 2 * x)
    assert of_integers.dtype == jax.dtypes.float0


def test_only_integer_results(rand):
    def kernel(x_ref, n_ref):
        n_ref[...] = jnp.sign(x_ref[...]).astype(jnp.int32)

    def f(x):
        return by_rows(kernel, x, out_shape=shape_of(x, jnp.int32))

    x = rand(ROWS, COLUMNS)
    n, tangent = jax.jvp(f, (x,), (x,))
    np.testing.assert_array_equal(n, jnp.sign(x))
    assert tangent.dtype == jax.dtypes.float0


@pytest.mark.parametrize("aliased_has_tangent", [True, False])
def test_aliased_operand(check_jvp, rand, aliased_has_tangent):
    def kernel(y_ref, x_ref, o_ref):
        @pl.when(pl.program_id(0) % 2 == 0)
        def _():
            o_ref[...] = x_ref[...] * y_ref[...]

    def call(y, x):
        return by_rows(kernel, y, x, input_output_aliases={1: 0})

    def twin(y, x):
        return jnp.where(jnp.arange(ROWS)[:, None] % 2 == 0, x * y, x)

    y, x = rand(ROWS, COLUMNS), rand(ROWS, COLUMNS)
    t = rand(ROWS, COLUMNS)
    if aliased_has_tangent:
        check_jvp(call, twin, (y, x), (t, t))
    else:
        check_jvp(lambda y: call(y, x), lambda y: twin(y, x), (y,), (t,))


def test_scratch(check_jvp, rand):
    def kernel(x_ref, o_ref, sum_ref, count_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)
            count_ref[...] = jnp.zeros_like(count_ref)

        count_ref[...] += 1
        sum_ref[...] += x_ref[...] ** 2
        o_ref[...] = sum_ref[...] / count_ref[...]

    def f(x):
        scratch = [pltpu.VMEM((1, COLUMNS), jnp.float32), pltpu.VMEM((1, 1), jnp.int32)]
        return by_rows(kernel, x, scratch_shapes=scratch)

    def twin(x):
        return jnp.cumsum(x**2, 0) / (jnp.arange(ROWS)[:, None] + 1)

    check_jvp(f, twin, (rand(ROWS, COLUMNS),), (rand(ROWS, COLUMNS),))


def prefetching(kernel, scalars, x, **kwargs):
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(ROWS,),
        in_specs=[pl.BlockSpec((1, COLUMNS), kwargs.pop("index_map", lambda i, s: (i, 0)))],
        out_specs=row_spec,
    )
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=shape_of(x), interpret=P, **kwargs)(
        scalars, x
    )


def test_prefetched_integers_in_kernel_and_index_map(check_jvp, rand):
    def kernel(s_ref, x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...]) * s_ref[pl.program_id(0)]

    scalars = jnp.array([5, 3, 0, 1, 2, 4], jnp.int32)

    def f(x):
        return prefetching(kernel, scalars, x, index_map=lambda i, s: (s[i], 0))

    def twin(x):
        return jnp.sin(x[scalars]) * scalars[:, None]

    check_jvp(f, twin, (rand(ROWS, COLUMNS),), (rand(ROWS, COLUMNS),))


@pytest.mark.parametrize("which", ["both", "scalars", "array"])
def test_prefetched_floats_with_a_tangent(check_jvp, rand, which):
    def kernel(s_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * s_ref[pl.program_id(0)] ** 2

    def f(s, x):
        return prefetching(kernel, s, x)

    def twin(s, x):
        return x * s[:, None] ** 2

    s, x = rand(ROWS), rand(ROWS, COLUMNS)
    if which == "both":
        check_jvp(f, twin, (s, x), (s, x))
    elif which == "scalars":
        check_jvp(lambda s: f(s, x), lambda s: twin(s, x), (s,), (rand(ROWS),))
    else:
        check_jvp(lambda x: f(s, x), lambda x: twin(s, x), (x,), (rand(*x.shape),))


def test_control_flow_and_calls_in_the_kernel(check_jvp, rand):
    def kernel(n_ref, x_ref, o_ref):
        def step(j, carry):
            return jnp.sin(carry) * x_ref[...] + j * 0.1

        looped = lax.fori_loop(0, 3, step, x_ref[...])
        row = pl.program_id(0)
        o_ref[...] = lax.cond(
            row % 2 == 0,
            lambda: looped,
            lambda: jax.nn.relu(looped) * jax.jit(jnp.cos)(x_ref[...]),
        )

        def add(_, carry):
            o_ref[...] += x_ref[...]
            return carry

        lax.fori_loop(0, n_ref[row], add, 0)
        total, _ = lax.scan(lambda c, y: (c + y, None), 0.0, x_ref[0])
        o_ref[0, 0] += total

    counts = jnp.array([0, 2, 1, 3, 0, 1], jnp.int32)

    def twin(x):
        value = x
        for j in range(3):
            value = jnp.sin(value) * x + j * 0.1
        odd = jax.nn.relu(value) * jnp.cos(x)
        out = jnp.where(jnp.arange(ROWS)[:, None] % 2 == 0, value, odd)
        return (out + counts[:, None] * x).at[:, 0].add(x.sum(1))

    check_jvp(
        functools.partial(prefetching, kernel, counts),
        twin,
        (rand(ROWS, COLUMNS),),
        (rand(ROWS, COLUMNS),),
        differences=False,  # relu has a corner
    )


def test_custom_jvp_in_the_kernel_whose_rule_brings_an_array(check_jvp, rand):
    weights = np.linspace(1, 2, COLUMNS, dtype=np.float32)[None]

    @jax.custom_jvp
    def twice(x):
        return 2 * x

    @twice.defjvp
    def _(primals, tangents):
        # Not the true derivative, so that it can be told from it.
        return twice(*primals), tangents[0] * weights

    def kernel(x_ref, o_ref):
        o_ref[...] = twice(x_ref[...]) + lax.fori_loop(
            0, 2, lambda _, c: twice(c), jnp.zeros_like(x_ref)
        )

    check_jvp(
        functools.partial(by_rows, kernel),
        twice,
        (rand(ROWS, COLUMNS),),
        (rand(ROWS, COLUMNS),),
        differences=False,
    )


def test_masked_accesses(check_jvp, rand):
    def kernel(x_ref, y_ref, o_ref):
        mask = lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) < 10
        x = triton.load(x_ref.at[...], mask=mask, other=y_ref[...])
        o_ref[...] = y_ref[...] ** 2
        triton.store(o_ref.at[...], x * y_ref[...], mask=mask)

    def twin(x, y):
        return jnp.where(jnp.arange(COLUMNS) < 10, x * y, y**2)

    f = functools.partial(by_rows, kernel)
    x, y, t = rand(ROWS, COLUMNS), rand(ROWS, COLUMNS), rand(ROWS, COLUMNS)
    check_jvp(f, twin, (x, y), (t, t))
    check_jvp(lambda y: f(x, y), lambda y: twin(x, y), (y,), (t,))
    check_jvp(lambda x: f(x, y), lambda x: twin(x, y), (x,), (t,))


def test_atomic_add(check_jvp, rand):
    def kernel(x_ref, start_ref, o_ref):
        del start_ref
        triton.atomic_add(o_ref, (0, slice(None)), x_ref[0] ** 2)

    def f(x, start):
        return pl.pallas_call(
            kernel,
            grid=(ROWS,),
            in_specs=[row_spec, pl.BlockSpec((1, COLUMNS), lambda i: (0, 0))],
            out_specs=pl.BlockSpec((1, COLUMNS), lambda i: (0, 0)),
            out_shape=shape_of(start),
            input_output_aliases={1: 0},
            interpret=P,
        )(x, start)

    def twin(x, start):
        return start + (x**2).sum(0)

    args = rand(ROWS, COLUMNS), rand(1, COLUMNS)
    check_jvp(f, twin, args, (rand(ROWS, COLUMNS), rand(1, COLUMNS)))


def test_an_atomic_maximum_has_no_derivative(rand):
    def kernel(x_ref, o_ref):
        triton.atomic_max(o_ref, (0, slice(None)), x_ref[0])

    def f(x):
        return by_rows(kernel, x)

    x = rand(ROWS, COLUMNS)
    with pytest.raises(pallas_rs.UnsupportedError, match="atomic max"):
        jax.jvp(f, (x,), (x,))


def test_prints_and_checks_come_from_the_primal_call_alone(rand, capfd):
    def kernel(x_ref, o_ref):
        pl.debug_print("row {}", pl.program_id(0))
        lax.fori_loop(0, 1, lambda i, _: pl.debug_print("step {}", i), None)
        o_ref[...] = x_ref[...] ** 2

    x = rand(ROWS, COLUMNS)
    jax.block_until_ready(jax.jvp(functools.partial(by_rows, kernel), (x,), (x,)))
    jax.effects_barrier()
    printed = capfd.readouterr().out
    assert printed.count("row") == ROWS
    assert printed.count("step") == ROWS


def test_findings_come_from_the_primal_call_alone(rand):
    def kernel(x_ref, o_ref):
        o_ref[0, 0] = x_ref[pl.program_id(0), 0]

    def f(x):
        out = jax.ShapeDtypeStruct((1, 1), x.dtype)
        params = pallas_rs.Params(detect_races=True, on_race="warn")
        return pl.pallas_call(kernel, grid=(2,), out_shape=out, interpret=params)(x)

    x = rand(2, 1)
    before = len(pallas_rs.reports())
    _, tangent = jax.block_until_ready(jax.jvp(f, (x,), (x,)))
    np.testing.assert_array_equal(tangent, x[1:])
    reports = pallas_rs.reports()[before:]
    assert len([r for r in reports if r.findings]) <= 1


def test_jvp_of_a_kernel_with_a_ref_that_it_writes(rand):
    def kernel(x_ref, state_ref, o_ref):
        o_ref[...] = x_ref[...] * state_ref[...]
        state_ref[...] = state_ref[...] + x_ref[...] ** 2

    def f(x):
        state = jax.new_ref(2 * x)

        def body(x_ref, o_ref):
            kernel(x_ref, state, o_ref)

        out = pl.pallas_call(body, out_shape=shape_of(x), interpret=P)(x)
        return out, jax.freeze(state)

    def twin(x):
        return x * 2 * x, 2 * x + x**2

    x, t = rand(ROWS, COLUMNS), rand(ROWS, COLUMNS)
    actual = jax.jit(lambda x, t: jax.jvp(f, (x,), (t,)))(x, t)
    expected = jax.jvp(twin, (x,), (t,))
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-6), actual, expected)
