"""Barriers: arrivals, phases, indices, predicates."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

I32 = jnp.int32
NEW_JAX = jax.__version_info__ >= (0, 11)


OUT = jax.ShapeDtypeStruct((8,), I32)


def kernel_of(body, scratch, threads=2, out=OUT):
    return plgpu.kernel(
        body,
        out_type=out,
        scratch_types=scratch,
        num_threads=threads,
        thread_name="w",
    )


@pytest.mark.parametrize("arrivals", [1, 2, 5])
def test_a_phase_needs_all_its_arrivals(run, arrivals):
    def body(o, s, done):
        w = lax.axis_index("w")

        @pl.when(w < arrivals)
        def _():
            s[w] = w + 1
            plgpu.barrier_arrive(done)

        @pl.when(w == arrivals)
        def _():
            plgpu.barrier_wait(done)
            o[...] = s[...]

    kernel = kernel_of(
        body,
        [plgpu.SMEM((8,), I32), plgpu.Barrier(num_arrivals=arrivals)],
        threads=arrivals + 1,
    )
    got = run(kernel)[:arrivals]
    np.testing.assert_array_equal(got, np.arange(1, arrivals + 1))


def test_ping_pong(run):
    def body(o, s, ping, pong):
        w = lax.axis_index("w")

        def step(i, carry):
            @pl.when(w == 0)
            def _():
                s[0] = i
                plgpu.barrier_arrive(ping)
                plgpu.barrier_wait(pong)
                o[i] = s[0]

            @pl.when(w == 1)
            def _():
                plgpu.barrier_wait(ping)
                s[0] = s[0] * 10
                plgpu.barrier_arrive(pong)

            return carry

        lax.fori_loop(0, 8, step, 0)

    kernel = kernel_of(body, [plgpu.SMEM((1,), I32), plgpu.Barrier(), plgpu.Barrier()])
    np.testing.assert_array_equal(run(kernel), np.arange(8) * 10)


@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((3,), lambda b, i: b.at[i]),
        ((3,), lambda b, i: b.at[pl.ds(i, 1)]),
        ((3,), lambda b, i: b.at[pl.ds(i, 2)]),
        ((2, 3), lambda b, i: b.at[1, i]),
        ((2, 3), lambda b, i: b.at[1].at[i]),
        ((3, 2), lambda b, i: b.at[i]),
        ((3, 1), lambda b, i: b.at[i]),
        ((1, 3), lambda b, i: b.at[0].at[pl.ds(i, 1)]),
    ],
)
def test_an_index_names_one_barrier(run, shape, index):
    """Waits on barrier 1 of those that are told apart, which alone is arrived on."""

    def body(o, barriers):
        w = lax.axis_index("w")

        @pl.when(w == 0)
        def _():
            plgpu.barrier_arrive(index(barriers, 1))

        @pl.when(w == 1)
        def _():
            plgpu.barrier_wait(index(barriers, w))
            o[...] = jnp.ones((8,), I32)

    kernel = kernel_of(body, [plgpu.Barrier(num_barriers=shape)])
    np.testing.assert_array_equal(run(kernel), np.ones(8))


def test_one_barrier_needs_no_index(run):
    def body(o, barrier):
        plgpu.barrier_arrive(barrier)
        plgpu.barrier_wait(barrier)
        o[...] = jnp.ones((8,), I32)

    kernel = kernel_of(body, [plgpu.Barrier(num_barriers=(1, 1))], threads=1)
    np.testing.assert_array_equal(run(kernel), np.ones(8))


def test_several_barriers_need_an_index(run):
    def body(o, barriers):
        plgpu.barrier_arrive(barriers)

    kernel = kernel_of(body, [plgpu.Barrier(num_barriers=2)], threads=1)
    with pytest.raises(pallas_rs.UnsupportedError, match="index it"):
        run(kernel)


@pytest.mark.parametrize("bad", [2, 7, -1])
def test_an_index_outside_the_array_is_an_error(fails, bad):
    def call(index):
        def body(o, ready):
            plgpu.barrier_arrive(ready.at[index])
            o[...] = jnp.ones((8,), I32)

        return kernel_of(body, [plgpu.Barrier(num_barriers=2)], threads=1)()

    text = fails(pallas_rs.BarrierError, call, I32(bad))
    assert "`ready`" in text


@pytest.mark.skipif(not NEW_JAX, reason="needs jax 0.11")
def test_an_arrival_may_be_predicated(run):
    def body(o, done):
        def step(i, carry):
            plgpu.barrier_arrive(done, predicate=lax.rem(i, 2) == 0)
            return carry

        lax.fori_loop(0, 6, step, 0)
        plgpu.barrier_wait(done)
        o[...] = jnp.ones((8,), I32)

    kernel = kernel_of(body, [plgpu.Barrier(num_arrivals=3)], threads=1)
    np.testing.assert_array_equal(run(kernel), np.ones(8))


@pytest.mark.skipif(
    not hasattr(plgpu, "barrier_arrive_and_wait"), reason="this JAX has no such function"
)
def test_arrive_and_wait(run):
    def body(o, s, done):
        w = lax.axis_index("w")
        s[w] = w + 1
        plgpu.barrier_arrive_and_wait(done)
        o[w] = s[1 - w]

    kernel = kernel_of(
        body,
        [plgpu.SMEM((2,), I32), plgpu.Barrier(num_arrivals=2)],
        out=jax.ShapeDtypeStruct((2,), I32),
    )
    np.testing.assert_array_equal(run(kernel), [2, 1])


def test_testing_a_barrier_does_not_block(run):
    """A successful test counts as having seen the phase, a failed one as nothing."""

    def body(o, done):
        o[0] = plgpu.barrier_test(done).astype(I32)
        plgpu.barrier_arrive(done)
        o[1] = plgpu.barrier_test(done).astype(I32)
        o[2] = plgpu.barrier_test(done).astype(I32)
        plgpu.barrier_arrive(done)
        plgpu.barrier_wait(done)

    kernel = kernel_of(body, [plgpu.Barrier()], threads=1)
    np.testing.assert_array_equal(run(kernel)[:3], [0, 1, 0])


def test_schedule_barrier_of_two_threads(run):
    """Two threads that alternate by arriving and waiting on one barrier with two arrivals."""

    def body(o, turn):
        w = lax.axis_index("w")

        def both():
            plgpu.barrier_arrive(turn)
            plgpu.barrier_wait(turn)

        @pl.when(w == 1)
        def _():
            both()

        def step(i, carry):
            both()
            both()
            return carry

        lax.fori_loop(0, 4, step, 0)

        @pl.when(w == 0)
        def _():
            both()

        o[w] = w

    kernel = kernel_of(body, [plgpu.Barrier(num_arrivals=2)], out=jax.ShapeDtypeStruct((2,), I32))
    np.testing.assert_array_equal(run(kernel), [0, 1])
