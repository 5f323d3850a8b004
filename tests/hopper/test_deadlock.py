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


def kernel_of(body, scratch, threads=2, **grid):
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8,), I32),
        scratch_types=scratch,
        num_threads=threads,
        thread_name="w",
        **grid,
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


def scope(body, *memory):
    pl.run_scoped(body, *memory, collective_axes="w")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_collective_scope_is_a_barrier_at_its_entry(run, schedule):
    """Of memory as well: what was written before is seen by the others inside."""

    def body(o, shared):
        w = lax.axis_index("w")

        def round(i, _):
            @pl.when(w == i % 2)
            def _():
                shared[...] = jnp.full((8,), i, I32)

            def inside(own):
                @pl.when(w != i % 2)
                def _():
                    own[...] = shared[...] + 1
                    o[i] = own[0]

            scope(inside, plgpu.SMEM((8,), I32))
            scope(lambda own: None, plgpu.SMEM((8,), I32))

        lax.fori_loop(0, 8, round, None)

    kernel = kernel_of(body, [plgpu.SMEM((8,), I32)])
    out = run(kernel, schedule=schedule, seeds=8, detect_races=True)
    assert out.tolist() == list(range(1, 9))


def test_a_scope_that_waits_for_who_waits_for_it(fails):
    def body(o, ready):
        w = lax.axis_index("w")
        pl.when(w == 1)(lambda: plgpu.barrier_wait(ready))

        def inside(own):
            pl.when(w == 0)(lambda: plgpu.barrier_arrive(ready))

        scope(inside, plgpu.SMEM((8,), I32))

    text = fails(pallas_rs.DeadlockError, kernel_of(body, [plgpu.Barrier()]))
    assert "waits for the other threads of its block to enter a scope (1 of 2)" in text
    assert "waits on `ready" in text


def test_who_has_ended_need_not_enter(run):
    def body(o):
        @pl.when(lax.axis_index("w") == 0)
        def _():
            def inside(own):
                own[...] = jnp.ones((8,), I32)
                o[lax.axis_index("x")] = own[0]

            scope(inside, plgpu.SMEM((8,), I32))

    kernel = kernel_of(body, [], threads=3, grid=(8,), grid_names=("x",))
    assert (run(kernel, resident_clusters=1) == 1).all()


def test_threads_in_different_scopes(fails):
    def body(o):
        w = lax.axis_index("w")
        pl.when(w == 0)(lambda: scope(lambda left: None, plgpu.SMEM((8,), I32)))
        pl.when(w == 1)(
            lambda: scope(lambda right, b: None, plgpu.SMEM((4,), I32), plgpu.Barrier())
        )

    text = fails(pallas_rs.DeadlockError, kernel_of(body, []))
    assert "PRS-E6" in text
    assert "enters the scope of `left` where another thread" in text
    assert "has entered that of `right`" in text
