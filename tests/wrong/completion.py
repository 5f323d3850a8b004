"""Asynchronous operations that nobody waits for."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .cases import F32, case, kernel, ones, smem, vector, when_thread

RACES = {"detect_races": True}


@case("PRS-C1", **RACES)
def read_before_the_copy(wrong):
    def body(x, o, s, ready):
        plgpu.copy_gmem_to_smem(x, s, ready)
        if not wrong:
            plgpu.barrier_wait(ready)
        o[...] = s[...]
        if wrong:
            plgpu.barrier_wait(ready)

    call = kernel(body, [smem(), plgpu.Barrier()])
    return lambda: call(vector())


@case("PRS-C2", **RACES)
def two_copies_into_one_buffer(wrong):
    def body(x, o, s, first, second):
        plgpu.copy_gmem_to_smem(x, s, first)
        if not wrong:
            plgpu.barrier_wait(first)
        plgpu.copy_gmem_to_smem(x, s, second)
        if wrong:
            plgpu.barrier_wait(first)
        plgpu.barrier_wait(second)
        o[...] = s[...]

    call = kernel(body, [smem(), plgpu.Barrier(), plgpu.Barrier()])
    return lambda: call(vector())


def _store(body_after):
    def body(o, s, *rest):
        s[...] = ones()
        plgpu.commit_smem()
        body_after(o, s, *rest)

    return body


@case("PRS-C3", **RACES)
def reuse_of_a_source(wrong):
    def after(o, s):
        plgpu.copy_smem_to_gmem(s, o)
        if not wrong:
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        s[...] = ones() * 2
        plgpu.wait_smem_to_gmem(0)

    return kernel(_store(after), [smem()])


@case("PRS-C3", **RACES)
def wait_of_another_thread(wrong):
    def body(o, s, stored):
        @when_thread(0)
        def _():
            s[...] = ones()
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(s, o)
            if not wrong:
                plgpu.wait_smem_to_gmem(0)
            plgpu.barrier_arrive(stored)
            if wrong:
                plgpu.wait_smem_to_gmem(0)

        @when_thread(1)
        def _():
            plgpu.barrier_wait(stored)
            plgpu.wait_smem_to_gmem(0)
            s[...] = ones() * 2

    return kernel(body, [smem(), plgpu.Barrier()], threads=2)


@case("PRS-C4", **RACES)
def read_of_a_target(wrong):
    def after(o, s):
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0, wait_read_only=wrong)
        o[...] = o[...] * 2

    return kernel(_store(after), [smem()])


@case("PRS-C5", **RACES)
def group_that_nobody_commits(wrong):
    def after(o, s):
        plgpu.copy_smem_to_gmem(s, o, commit_group=not wrong)
        plgpu.wait_smem_to_gmem(0)
        s[...] = ones() * 2
        if wrong:
            plgpu.commit_smem_to_gmem_group()
        plgpu.wait_smem_to_gmem(0)

    return kernel(_store(after), [smem()])


@case("PRS-C14", **RACES)
def store_at_the_end(wrong):
    def after(o, s):
        plgpu.copy_smem_to_gmem(s, o)
        if not wrong:
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)

    return kernel(_store(after), [smem()])


@case("PRS-C16", **RACES)
def source_is_overwritten(wrong):
    def body(o, s, t, ready):
        s[...] = ones()
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)
        plgpu.copy_gmem_to_smem(o, t, ready)
        if not wrong:
            plgpu.barrier_wait(ready)
        o[...] = ones() * 2
        if wrong:
            plgpu.barrier_wait(ready)

    return kernel(body, [smem(), smem(), plgpu.Barrier()])


F16 = jnp.float16
TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def _product(multiply):
    """`multiply(acc, a, b, x)` on operands that have been copied to SMEM."""

    def body(x, y, o, a, b, ready):
        plgpu.copy_gmem_to_smem(x, a, ready)
        plgpu.copy_gmem_to_smem(y, b, ready)
        plgpu.barrier_wait(ready)
        o[...] = pl.run_scoped(lambda acc: multiply(acc, a, b), plgpu.ACC((64, 64), F32))

    call = kernel(
        body,
        [plgpu.SMEM((64, 64), F16, transforms=TILED)] * 2 + [plgpu.Barrier(num_arrivals=2)],
        out=jax.ShapeDtypeStruct((64, 64), F32),
    )
    return lambda: call(jnp.ones((64, 64), F16), jnp.ones((64, 64), F16))


@case("PRS-C7", **RACES)
def operand_is_overwritten(wrong):
    def multiply(acc, a, b):
        plgpu.wgmma(acc, a, b)
        if not wrong:
            plgpu.wgmma_wait(0)
        a[...] = jnp.zeros((64, 64), F16)
        return acc[...]

    return _product(multiply)


@case("PRS-C7", **RACES)
def a_product_waits_for_no_other(wrong):
    def multiply(acc, a, b):
        plgpu.wgmma(acc, a, b)
        plgpu.wgmma(acc, b, b)
        if not wrong:
            plgpu.wgmma_wait(1)
        a[...] = jnp.zeros((64, 64), F16)
        return acc[...]

    return _product(multiply)


@case("PRS-C8", **RACES)
def accumulator_in_flight(wrong):
    def multiply(acc, a, b):
        plgpu.wgmma(acc, a, b)
        early = plgpu.wgmma_accumulator_load(acc, wait_n=None if wrong else 0)
        plgpu.wgmma_wait(0)
        return early

    return _product(multiply)
