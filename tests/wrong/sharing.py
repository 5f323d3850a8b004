"""Tensor memory between threads, unions of refs, semaphores, collective scopes."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .cases import F32, N, case, kernel, ones, smem, when_thread

TILE = jax.ShapeDtypeStruct((128, 32), F32)


def handed_over(barrier, waits=True):
    """One thread stores to tensor memory, another one loads."""

    def body(o, tmem, stored):
        @when_thread(0)
        def _():
            plgpu.async_store_tmem(tmem, jnp.ones((128, 32), F32))
            plgpu.commit_tmem()
            plgpu.barrier_arrive(stored)

        @when_thread(1)
        def _():
            if waits:
                plgpu.barrier_wait(stored)
            o[...] = plgpu.async_load_tmem(tmem)
            if not waits:
                plgpu.barrier_wait(stored)

    return kernel(body, [plgpu.TMEM((128, 32), F32), barrier], threads=2, out=TILE)


@case("PRS-A3", target="b200", detect_races=True)
def tensor_memory_loaded_before_it_is_handed_over(wrong):
    return handed_over(plgpu.Barrier(orders_tensor_core=True), waits=not wrong)


@case("PRS-C13", target="b200", detect_races=True)
def tensor_memory_behind_a_plain_barrier(wrong):
    return handed_over(plgpu.Barrier(orders_tensor_core=not wrong))


@case("PRS-A8", detect_races=True)
def read_through_another_member(wrong):
    def body(o, union):
        number, bits = union
        number[...] = ones()
        o[...] = bits[...].astype(F32) if wrong else number[...]

    return kernel(body, [plgpu.RefUnion(smem(), smem(dtype=jnp.int32))])


@case("PRS-E3")
def fewer_signals_than_waited_for(wrong):
    def body(o, signalled):
        pl.semaphore_signal(signalled, 1 if wrong else 2)
        pl.semaphore_wait(signalled, 2)
        o[...] = ones()

    return kernel(body, [plgpu.SemaphoreType.REGULAR])


@case("PRS-L2", severity="warning", detect_races=True)
def semaphore_left_behind(wrong):
    def body(o, signalled):
        pl.semaphore_signal(signalled, 2)
        pl.semaphore_wait(signalled, 1 if wrong else 2)
        o[...] = ones()

    return kernel(body, [plgpu.SemaphoreType.REGULAR])


@case("PRS-E6")
def each_thread_in_a_scope_of_its_own(wrong):
    def body(o):
        def fill(memory):
            o[pl.ds(lax.axis_index("w") * (N // 2), N // 2)] = ones()[: N // 2]

        def scope():
            pl.run_scoped(fill, smem(), collective_axes="w")

        if wrong:
            when_thread(0)(scope)
            when_thread(1)(scope)
        else:
            scope()

    return kernel(body, [], threads=2)
