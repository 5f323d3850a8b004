"""The answer of a correct kernel depends neither on who runs next nor on when copies complete."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F16, F32 = jnp.float16, jnp.float32
SCHEDULES = ["round_robin", "random", "pct"]
COMPLETION = ["late", "eager", "random"]


def producer_and_consumers(tiles=6, slots=2):
    """One thread loads tiles into a ring of slots, two threads multiply their halves."""
    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def body(a, b, o, a_s, b_s, full, empty):
        w = lax.axis_index("w")

        @pl.when(w == 2)
        def _():
            def load(i, carry):
                slot = lax.rem(i, jnp.int32(slots))

                @pl.when(i >= slots)
                def _():
                    plgpu.barrier_wait(empty.at[slot])

                part = pl.ds(i * 64, 64)
                plgpu.copy_gmem_to_smem(a.at[:, part], a_s.at[slot], full.at[slot])
                plgpu.copy_gmem_to_smem(b.at[part], b_s.at[slot], full.at[slot])
                return carry

            lax.fori_loop(0, tiles, load, 0)
            for i in range(tiles - slots, tiles):
                plgpu.barrier_wait(empty.at[i % slots])

        @pl.when(w < 2)
        def _():
            half = pl.ds(w * 64, 64)

            def scope(acc):
                def multiply(i, carry):
                    slot = lax.rem(i, jnp.int32(slots))
                    plgpu.barrier_wait(full.at[slot])
                    plgpu.wgmma(acc, a_s.at[slot, half], b_s.at[slot])
                    plgpu.wgmma_wait(0)
                    plgpu.barrier_arrive(empty.at[slot])
                    return carry

                lax.fori_loop(0, tiles, multiply, 0)
                return acc[...]

            o[half] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((128, 64), F32),
        num_threads=3,
        thread_name="w",
        scratch_types=[
            plgpu.SMEM((slots, 128, 64), F16, transforms=tiled),
            plgpu.SMEM((slots, 64, 64), F16, transforms=tiled),
            plgpu.Barrier(num_arrivals=2, num_barriers=slots),
            plgpu.Barrier(num_arrivals=2, num_barriers=slots),
        ],
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_copy_that_lands_while_its_thread_is_stuck_lets_others_go_on(run, schedule):
    def body(x, o, s, full, read):
        w = lax.axis_index("w")

        @pl.when(w == 0)
        def _():
            plgpu.copy_gmem_to_smem(x, s, full)
            plgpu.barrier_wait(read)

        @pl.when(w == 1)
        def _():
            plgpu.barrier_wait(full)
            o[...] = s[...]
            plgpu.barrier_arrive(read)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8,), F32),
        num_threads=2,
        thread_name="w",
        scratch_types=[plgpu.SMEM((8,), F32), plgpu.Barrier(), plgpu.Barrier()],
    )
    x = jnp.arange(8, dtype=F32)
    got = run(kernel, x, seeds=500, schedule=schedule, async_completion="random")
    assert (got == x).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("completion", COMPLETION)
def test_a_hundred_seeds_agree(run, rand, schedule, completion):
    a, b = rand((128, 384), F16, 1), rand((384, 64), F16, 2)
    kernel = producer_and_consumers()
    got = run(kernel, a, b, seeds=100, schedule=schedule, async_completion=completion)
    want = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    np.testing.assert_allclose(got, want, atol=1e-3)
    first = run(kernel, a, b)
    np.testing.assert_array_equal(got, first)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_number_of_workers_changes_nothing(run, rand, workers):
    a, b = rand((128, 384), F16, 1), rand((384, 64), F16, 2)
    kernel = producer_and_consumers()
    np.testing.assert_array_equal(run(kernel, a, b, num_workers=workers), run(kernel, a, b))
