"""Two accesses without an order."""

import jax
import jax.numpy as jnp
import pallas_rs
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as plt

from .cases import N, case, kernel, ones, smem, vector, when_thread

RACES = {"detect_races": True}


@case("PRS-A1", **RACES)
def threads_race_on_smem(wrong):
    def body(o, s, ready):
        @when_thread(0)
        def _():
            if wrong:
                plgpu.barrier_arrive(ready)
            s[...] = ones()
            if not wrong:
                plgpu.barrier_arrive(ready)

        @when_thread(1)
        def _():
            plgpu.barrier_wait(ready)
            o[...] = s[...]

    return kernel(body, [smem(), plgpu.Barrier()], threads=2)


@case("PRS-A1", **RACES)
def threads_write_the_same_value(wrong):
    def body(o, s, ready):
        if wrong:
            s[...] = ones()
        else:
            pl.when(lax.axis_index("w") == 0)(lambda: s.__setitem__(..., ones()))
        plgpu.barrier_arrive(ready)
        plgpu.barrier_wait(ready)

        @when_thread(0)
        def _():
            o[...] = s[...]

    return kernel(body, [smem(), plgpu.Barrier(num_arrivals=2)], threads=2)


@case("PRS-A1", **RACES)
def strided_views_overlap(wrong):
    def body(o, s, done):
        @when_thread(0)
        def _():
            s[pl.ds(0, N // 2, stride=2)] = ones()[: N // 2]

        @when_thread(1)
        def _():
            s[pl.ds(0 if wrong else 1, N // 2, stride=2)] = ones()[: N // 2] * 2

        plgpu.barrier_arrive(done)
        plgpu.barrier_wait(done)

        @when_thread(0)
        def _():
            o[...] = s[...]

    return kernel(body, [smem(), plgpu.Barrier(num_arrivals=2)], threads=2)


@case("PRS-A4", **RACES)
def threads_race_on_gmem(wrong):
    def body(o, ready):
        @when_thread(0)
        def _():
            if wrong:
                plgpu.barrier_arrive(ready)
            o[...] = ones()
            if not wrong:
                plgpu.barrier_arrive(ready)

        @when_thread(1)
        def _():
            plgpu.barrier_wait(ready)
            o[...] = ones() * 2

    return kernel(body, [plgpu.Barrier()], threads=2)


@case("PRS-A5", **RACES)
def grid_points_race(wrong):
    def body(o):
        i = lax.axis_index("g")
        o[pl.ds(0 if wrong else i * (N // 2), N // 2)] = ones()[: N // 2] * i

    return kernel(body, [], grid=(2,), grid_names=("g",))


@case("PRS-B1", **RACES)
def store_before_the_fence(wrong):
    def body(x, o, s):
        s[...] = x[...]
        if not wrong:
            plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)

    call = kernel(body, [smem()])
    return lambda: call(vector())


@case("PRS-B1", **RACES)
def fence_before_the_wait(wrong):
    def body(o, s, written):
        @when_thread(0)
        def _():
            s[...] = ones()
            plgpu.barrier_arrive(written)

        @when_thread(1)
        def _():
            if wrong:
                plgpu.commit_smem()
            plgpu.barrier_wait(written)
            if not wrong:
                plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(s, o)
            plgpu.wait_smem_to_gmem(0)

    return kernel(body, [smem(), plgpu.Barrier()], threads=2)


@case("PRS-B2", severity="warning", **RACES)
def refill_without_a_fence(wrong):
    def body(x, o, s, ready):
        for _ in range(2):
            plgpu.copy_gmem_to_smem(x, s, ready)
            plgpu.barrier_wait(ready)
            o[...] = s[...]
            if not wrong:
                plgpu.commit_smem()

    call = kernel(body, [smem(), plgpu.Barrier()])
    return lambda: call(vector())


@case("PRS-B2", strict_proxy=True, **RACES)
def refill_without_a_fence_strictly(wrong):
    return refill_without_a_fence(wrong)


@case("PRS-B3", **RACES)
def load_over_a_fresh_write(wrong):
    def body(x, o, s, ready):
        s[...] = ones()
        if not wrong:
            plgpu.commit_smem()
        plgpu.copy_gmem_to_smem(x, s, ready)
        plgpu.barrier_wait(ready)
        o[...] = s[...]

    call = kernel(body, [smem(), plgpu.Barrier()])
    return lambda: call(vector())


@case("PRS-B4", severity="warning", **RACES)
def load_of_what_was_stored(wrong):
    def body(o, s, ready):
        if wrong:
            o[...] = ones()
        else:
            s[...] = ones()
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(s, o)
            plgpu.wait_smem_to_gmem(0)
        plgpu.copy_gmem_to_smem(o, s, ready)
        plgpu.barrier_wait(ready)

    return kernel(body, [smem(), plgpu.Barrier()])


@case("PRS-A7", **RACES)
def atomic_beside_a_store(wrong):
    def body(o):
        first = pl.program_id(0) == 0

        @pl.when(first)
        def _():
            plt.atomic_add(o, (0,), 1.0)

        @pl.when(~first)
        def _():
            if wrong:
                o[0] = 2.0
            else:
                plt.atomic_add(o, (0,), 2.0)

    call = pl.pallas_call(
        body,
        grid=(2,),
        out_shape=jax.ShapeDtypeStruct((1,), jnp.float32),
        interpret=pallas_rs.Params(detect_races=True, uninitialized_memory="zero"),
    )
    return lambda: call()
