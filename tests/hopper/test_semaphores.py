"""Semaphores and atomics: how the clusters of a grid work together."""

import functools

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
SEMAPHORES = plgpu.SemaphoreType.REGULAR


def kernel_of(body, out, scratch=(), grid=(4,), **kw):
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(*out),
        scratch_types=list(scratch),
        grid=grid,
        grid_names=tuple("ijk"[: len(grid)]),
        **kw,
    )


@pytest.mark.parametrize("resident", [None, 4])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("schedule", ["round_robin", "random", "pct"])
def test_a_chain_of_clusters_in_either_order(run, order, schedule, resident):
    """Each cluster adds to what its predecessor left: the last one launched may be the first."""

    def body(o):
        turn = pl.get_global(SEMAPHORES((4,)))
        i = lax.axis_index("i") if order > 0 else 3 - lax.axis_index("i")

        @pl.when(i > 0)
        def _():
            pl.semaphore_wait(turn.at[i])
            o[i] = o[i - 1] * 2

        @pl.when(i == 0)
        def _():
            o[0] = 1

        @pl.when(i < 3)
        def _():
            pl.semaphore_signal(turn.at[i + 1])

    kernel = kernel_of(body, ((4,), I32))
    got = run(kernel, schedule=schedule, resident_clusters=resident, detect_races=True)
    np.testing.assert_array_equal(got, [1, 2, 4, 8])


def test_a_cluster_that_polls_lets_others_launch(run):
    def body(o):
        done = pl.get_global(SEMAPHORES(()))
        i = lax.axis_index("i")

        @pl.when(i == 0)
        def _():
            seen = lax.while_loop(lambda n: n < 3, lambda _: pl.semaphore_read(done), I32(0))
            o[...] = jnp.full((4,), seen, I32)

        @pl.when(i > 0)
        def _():
            pl.semaphore_signal(done)

    np.testing.assert_array_equal(run(kernel_of(body, ((4,), I32))), [3] * 4)


def test_more_clusters_than_fit_is_a_deadlock_with_names(fails):
    """The first cluster waits for the last one, for which there is no room."""

    def body(o):
        ready = pl.get_global(SEMAPHORES((2,)))
        i = lax.axis_index("i")

        @pl.when(i < 3)
        def _():
            pl.semaphore_wait(ready.at[1], 2)

        @pl.when(i == 3)
        def _():
            pl.semaphore_signal(ready.at[1], 6)

        o[i] = i

    text = fails(pallas_rs.DeadlockError, kernel_of(body, ((4,), I32)), resident_clusters=2)
    assert "waits until semaphore `semaphore[1]` is 2 (it is 0)" in text


def test_values_and_decrements(run):
    def body(o, s):
        pl.semaphore_signal(s.at[1], 5)
        pl.semaphore_wait(s.at[1], 2)
        o[0] = pl.semaphore_read(s.at[1])
        pl.semaphore_wait(s.at[1], 3, decrement=False)
        o[1] = pl.semaphore_read(s.at[1])
        o[2] = pl.semaphore_read(s.at[0])

    kernel = kernel_of(body, ((3,), I32), [SEMAPHORES((2,))], grid=(1,))
    np.testing.assert_array_equal(run(kernel), [3, 3, 0])


def test_scratch_semaphores_belong_to_a_block(run):
    def body(o, s):
        i = lax.axis_index("i")
        pl.semaphore_signal(s, i + 1)
        o[i] = pl.semaphore_read(s)
        pl.semaphore_wait(s, i + 1)

    np.testing.assert_array_equal(run(kernel_of(body, ((4,), I32), [SEMAPHORES(())])), range(1, 5))


def test_threads_of_a_block_share_a_scratch_semaphore(run):
    def body(o, s, x):
        w = lax.axis_index("w")

        @pl.when(w == 0)
        def _():
            x[0] = 7
            pl.semaphore_signal(s)

        @pl.when(w == 1)
        def _():
            pl.semaphore_wait(s)
            o[0] = x[0]

    scratch = [SEMAPHORES(()), plgpu.SMEM((1,), I32)]
    kernel = kernel_of(body, ((1,), I32), scratch, grid=(1,), num_threads=2, thread_name="w")
    np.testing.assert_array_equal(run(kernel, detect_races=True, schedule="random"), [7])


@pytest.mark.parametrize("signals", [True, False])
def test_clusters_ordered_by_a_semaphore_do_not_race(run, fails, signals):
    def body(o):
        ready = pl.get_global(SEMAPHORES(()))
        i = lax.axis_index("i")

        @pl.when(i == 0)
        def _():
            o[...] = jnp.full((128,), 1, I32)
            if signals:
                pl.semaphore_signal(ready)

        @pl.when(i == 1)
        def _():
            if signals:
                pl.semaphore_wait(ready)
            o[...] = o[...] + 1

    kernel = kernel_of(body, ((128,), I32), grid=(2,))
    if signals:
        np.testing.assert_array_equal(run(kernel, detect_races=True), np.full(128, 2))
    else:
        assert "PRS-A5" in fails(pallas_rs.RaceError, kernel, detect_races=True)


def test_what_a_cluster_learns_by_a_barrier_it_may_pass_on(run):
    """Thread 1 signals for what thread 0 wrote, and another cluster's thread 1 reads it."""

    def body(o, told):
        ready = pl.get_global(SEMAPHORES(()))
        i, w = lax.axis_index("i"), lax.axis_index("w")

        @pl.when((i == 0) & (w == 0))
        def _():
            o[0] = 5
            plgpu.barrier_arrive(told)

        @pl.when((i == 0) & (w == 1))
        def _():
            plgpu.barrier_wait(told)
            pl.semaphore_signal(ready)

        @pl.when((i == 1) & (w == 0))
        def _():
            pl.semaphore_wait(ready)
            plgpu.barrier_arrive(told)

        @pl.when((i == 1) & (w == 1))
        def _():
            plgpu.barrier_wait(told)
            o[1] = o[0]

    kernel = kernel_of(
        body, ((2,), I32), [plgpu.Barrier()], grid=(2,), num_threads=2, thread_name="w"
    )
    np.testing.assert_array_equal(run(kernel, detect_races=True), [5, 5])


@pytest.mark.parametrize(
    ("op", "combine", "start"),
    [
        (plgpu.atomic_add, np.add, 1),
        (plgpu.atomic_max, np.maximum, 1),
        (plgpu.atomic_min, np.minimum, 1),
        (plgpu.atomic_and, np.bitwise_and, -1),
        (plgpu.atomic_or, np.bitwise_or, 1),
        (plgpu.atomic_xor, np.bitwise_xor, 1),
    ],
)
@pytest.mark.skipif(not hasattr(plgpu, "atomic_add"), reason="needs atomics of Mosaic GPU")
def test_atomics_of_all_clusters(run, rand, op, combine, start):
    def body(x, init, o):
        ready = pl.get_global(SEMAPHORES(()))
        i = lax.axis_index("i")

        @pl.when(i == 0)
        def _():
            o[...] = init[...]
            pl.semaphore_signal(ready)

        pl.semaphore_wait(ready, decrement=False)
        op(o, x[i])

    x = rand((4, 128), I32)
    init = jnp.full((128,), start, I32)
    want = functools.reduce(combine, np.asarray(x), np.asarray(init))
    got = run(kernel_of(body, ((128,), I32)), x, init, detect_races=True)
    np.testing.assert_array_equal(got, want)


@pytest.mark.skipif(not hasattr(plgpu, "alloc_semaphore"), reason="needs jax 0.12")
@pytest.mark.parametrize("seeds", [1, 5])
def test_a_semaphore_outlives_the_kernel_that_signals_it(seeds):
    """One kernel leaves signals behind that another one, of the same program, finds.

    The next run of the program starts with zeros again, and so does every schedule of one call.
    """

    def signals(s, o):
        pl.semaphore_signal(s.at[1], 4)
        o[0] = 0

    def finds(s, _, o):
        pl.semaphore_wait(s.at[1], 1)
        o[0] = pl.semaphore_read(s.at[1])
        pl.semaphore_wait(s.at[1], 2)

    @jax.jit
    def program():
        s = plgpu.alloc_semaphore((2,))
        kernel = functools.partial(
            plgpu.kernel,
            out_type=jax.ShapeDtypeStruct((1,), I32),
            interpret=pallas_rs.Params(seeds=seeds),
        )
        first = kernel(signals)(s)
        return kernel(finds)(s, first)

    for _ in range(3):
        np.testing.assert_array_equal(program(), [3])
