"""A kernel never hangs: what cannot go on is reported, by the user's names."""

import jax
import jax.numpy as jnp
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

I32 = jnp.int32
SCHEDULES = ["round_robin", "random", "pct"]


def kernel_of(body, scratch, threads=2):
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8,), I32),
        scratch_types=scratch,
        num_threads=threads,
        thread_name="w",
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_crossed_waits(fails, schedule):
    """Each of two threads waits for what the other does afterwards."""

    def body(o, ping, pong):
        w = lax.axis_index("w")

        @pl.when(w == 0)
        def _():
            plgpu.barrier_wait(ping)
            plgpu.barrier_arrive(pong)

        @pl.when(w == 1)
        def _():
            plgpu.barrier_wait(pong)
            plgpu.barrier_arrive(ping)

        o[w] = w

    kernel = kernel_of(body, [plgpu.Barrier(), plgpu.Barrier()])
    text = fails(pallas_rs.DeadlockError, kernel, schedule=schedule)
    assert "ping" in text
    assert "pong" in text
    assert "test_deadlock.py" in text


def test_too_few_arrivals(fails):
    def body(o, ready):
        plgpu.barrier_arrive(ready.at[1])
        plgpu.barrier_wait(ready.at[1])

    kernel = kernel_of(body, [plgpu.Barrier(num_arrivals=3, num_barriers=2)])
    text = fails(pallas_rs.DeadlockError, kernel)
    assert "ready[1]" in text
    assert "2 of 3" in text


def test_who_has_exited_is_told(fails):
    def body(o, ready):
        @pl.when(lax.axis_index("w") == 0)
        def _():
            plgpu.barrier_wait(ready)

    text = fails(pallas_rs.DeadlockError, kernel_of(body, [plgpu.Barrier()], threads=3))
    assert "thread 1: has ended" in text
    assert "1 of 1 arrival on `ready" in text


def test_a_copy_in_flight_is_no_deadlock(run):
    def body(x, o, s, done):
        plgpu.copy_gmem_to_smem(x, s, done)
        plgpu.barrier_wait(done)
        o[...] = s[...]

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8,), I32),
        scratch_types=[plgpu.SMEM((8,), I32), plgpu.Barrier()],
    )
    assert (run(kernel, jnp.arange(8)) == jnp.arange(8)).all()


def test_a_loop_without_an_end_is_stopped(fails):
    def body(o):
        o[0] = lax.while_loop(lambda i: i >= 0, lambda i: i * 0, I32(0))

    text = fails(pallas_rs.KernelError, kernel_of(body, []), max_steps=10_000)
    assert "max_steps" in text


def test_the_next_kernel_runs(run, fails):
    def body(o, ready):
        plgpu.barrier_wait(ready)

    fails(pallas_rs.DeadlockError, kernel_of(body, [plgpu.Barrier()]))

    def good(o):
        o[...] = jnp.ones((8,), I32)

    assert (run(kernel_of(good, [], threads=1)) == 1).all()
