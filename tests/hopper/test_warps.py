"""`plgpu.WarpMesh`: bodies that the warps of a warpgroup run by themselves."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

pytestmark = pytest.mark.filterwarnings("ignore:.*core_map is deprecated")
F32, I32 = jnp.float32, jnp.int32
NEW_JAX = jax.__version_info__ >= (0, 11)


def in_warps(body):
    pl.core_map(plgpu.WarpMesh(axis_name="warp"))(lambda: body(lax.axis_index("warp")))


def kernel_of(body, out, scratch, **kw):
    return plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(*out), scratch_types=scratch, **kw)


@pytest.mark.parametrize("races", [False, True])
@pytest.mark.parametrize("schedule", ["round_robin", "random", "pct"])
def test_one_warp_loads_and_another_stores(run, rand, schedule, races):
    def body(x, o, s, loaded, free):
        def warp(w):
            @pl.when(w == 1)
            def _():
                def step(i, carry):
                    @pl.when(i >= 2)
                    def _():
                        plgpu.barrier_wait(free.at[lax.rem(i, 2)])

                    slot = lax.rem(i, 2)
                    plgpu.copy_gmem_to_smem(x.at[i], s.at[slot], loaded.at[slot])
                    return carry

                lax.fori_loop(0, 6, step, 0)

            @pl.when(w == 3)
            def _():
                def step(i, carry):
                    slot = lax.rem(i, 2)
                    plgpu.barrier_wait(loaded.at[slot])
                    plgpu.copy_smem_to_gmem(s.at[slot], o.at[5 - i])
                    plgpu.wait_smem_to_gmem(0, wait_read_only=True)
                    plgpu.barrier_arrive(free.at[slot])
                    return carry

                lax.fori_loop(0, 6, step, 0)

        in_warps(warp)
        plgpu.wait_smem_to_gmem(0)

    x = rand((6, 128))
    kernel = kernel_of(
        body,
        (x.shape, F32),
        [plgpu.SMEM((2, 128), F32), plgpu.Barrier(num_barriers=2), plgpu.Barrier(num_barriers=2)],
    )
    got = run(kernel, x, schedule=schedule, detect_races=races)
    np.testing.assert_array_equal(got, x[::-1])


def test_scalars_of_each_warp_are_its_own(run):
    def body(o):
        def step(i, carry):
            def warp(w):
                o[w] = carry + w

            in_warps(warp)
            return carry + i

        o[4] = lax.fori_loop(0, 4, step, I32(0))

    np.testing.assert_array_equal(run(kernel_of(body, ((5,), I32), []))[:5], [3, 4, 5, 6, 6])


def test_warps_of_two_warpgroups(run):
    """A warp of each warpgroup hands something to a warp of the other."""

    def body(o, s, ready):
        g = lax.axis_index("wg")

        def warp(w):
            @pl.when(w == g)
            def _():
                s[g] = 10 + g
                plgpu.barrier_arrive(ready.at[g])

            @pl.when(w == 2)
            def _():
                plgpu.barrier_wait(ready.at[1 - g])
                o[g] = s[1 - g]

        in_warps(warp)

    kernel = kernel_of(
        body,
        ((2,), I32),
        [plgpu.SMEM((2,), I32), plgpu.Barrier(num_barriers=2)],
        num_threads=2,
        thread_name="wg",
    )
    np.testing.assert_array_equal(run(kernel, detect_races=True), [11, 10])


def test_a_warp_asks_whether_a_phase_is_complete(run):
    def body(o, done):
        def warp(w):
            @pl.when(w == 2)
            def _():
                o[0] = plgpu.barrier_test(done).astype(I32)
                plgpu.barrier_arrive(done)
                o[1] = plgpu.barrier_test(done).astype(I32)
                o[2] = plgpu.barrier_test(done).astype(I32)

        in_warps(warp)

    np.testing.assert_array_equal(run(kernel_of(body, ((3,), I32), [plgpu.Barrier()])), [0, 1, 0])


@pytest.mark.skipif(not NEW_JAX, reason="needs jax 0.11")
def test_predicates_and_arrivals_that_wait(run):
    def body(x, o, s, loaded, both):
        def warp(w):
            plgpu.copy_gmem_to_smem(x, s, loaded, predicate=w == 3)

            @pl.when(w < 2)
            def _():
                plgpu.barrier_arrive_and_wait(both)
                plgpu.barrier_wait(loaded)
                plgpu.copy_smem_to_gmem(s, o, predicate=w == 1)

        in_warps(warp)
        plgpu.wait_smem_to_gmem(0)

    x = jnp.arange(128, dtype=F32)
    kernel = kernel_of(
        body,
        ((128,), F32),
        [plgpu.SMEM((128,), F32), plgpu.Barrier(), plgpu.Barrier(num_arrivals=2)],
    )
    np.testing.assert_array_equal(run(kernel, x), x)


def test_a_race_between_warps_names_them(fails):
    def body(o, s):
        def warp(w):
            s[0] = w

        in_warps(warp)
        o[0] = s[0]

    kernel = kernel_of(body, ((1,), I32), [plgpu.SMEM((1,), I32)])
    text = fails(pallas_rs.RaceError, kernel, detect_races=True)
    assert re.search(r"who .*warp \d", text)


def test_a_warp_that_waits_for_nothing(fails):
    def body(o, never):
        def warp(w):
            @pl.when(w == 3)
            def _():
                plgpu.barrier_wait(never)

        in_warps(warp)
        o[0] = 1

    kernel = kernel_of(body, ((1,), I32), [plgpu.Barrier()])
    text = fails(pallas_rs.DeadlockError, kernel)
    assert "warp 3" in text
    assert "waits for its warps" in text
