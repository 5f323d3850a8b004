"""Barriers used against their protocol, and runs that do not end."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .cases import N, case, kernel, ones, smem, vector, when_thread

ONE_BARRIER = [plgpu.Barrier()]


@case("PRS-D1")
def phase_that_nobody_observes(wrong):
    def body(o, done):
        plgpu.barrier_arrive(done)
        if not wrong:
            plgpu.barrier_wait(done)
        plgpu.barrier_arrive(done)
        plgpu.barrier_wait(done)
        o[...] = ones()

    return kernel(body, ONE_BARRIER)


@case("PRS-D2", detect_races=True)
def consumer_is_lapped(wrong):
    def body(o, full, empty):
        @when_thread(0)
        def _():
            plgpu.barrier_arrive(full)
            plgpu.barrier_wait(empty)
            plgpu.barrier_arrive(full)
            o[...] = ones()

        @when_thread(1)
        def _():
            plgpu.barrier_wait(full)
            plgpu.barrier_arrive(empty)
            plgpu.barrier_wait(full)

        @when_thread(2)
        def _():
            plgpu.barrier_wait(full)
            if not wrong:
                plgpu.barrier_arrive(empty)
            plgpu.barrier_wait(full)

    arrivals = 1 if wrong else 2
    return kernel(body, [plgpu.Barrier(), plgpu.Barrier(num_arrivals=arrivals)], threads=3)


@case("PRS-D3")
def wait_that_comes_too_late(wrong):
    def body(o, full, go):
        @when_thread(0)
        def _():
            for _ in range(2):
                plgpu.barrier_arrive(full)
                plgpu.barrier_wait(full)
            plgpu.barrier_arrive(go)
            o[...] = ones()

        @when_thread(1)
        def _():
            plgpu.barrier_wait(go)
            if wrong:
                plgpu.barrier_wait(full)

    return kernel(body, [plgpu.Barrier(), plgpu.Barrier()], threads=2)


@case("PRS-D4")
def arrival_that_has_no_room(wrong):
    def body(x, o, s, ready):
        plgpu.copy_gmem_to_smem(x, s, ready)
        plgpu.barrier_arrive(ready)
        plgpu.barrier_wait(ready)
        o[...] = s[...]

    call = kernel(body, [smem(), plgpu.Barrier(num_arrivals=1 if wrong else 2)])
    return lambda: call(vector())


@case("PRS-D8")
def scope_ends_in_a_phase(wrong):
    def body(o, done):
        plgpu.barrier_arrive(done)
        if not wrong:
            plgpu.barrier_arrive(done)
            plgpu.barrier_wait(done)
        o[...] = ones()

    return kernel(body, [plgpu.Barrier(num_arrivals=2)])


@case("PRS-D9", severity="lint", detect_races=True, lints=True)
def last_phase_without_a_wait(wrong):
    def body(o, done):
        plgpu.barrier_arrive(done)
        if not wrong:
            plgpu.barrier_wait(done)
        o[...] = ones()

    return kernel(body, ONE_BARRIER)


@case("PRS-D11")
def barrier_that_does_not_exist(wrong):
    def body(i, o, bars):
        which = i[0]
        plgpu.barrier_arrive(bars.at[which])
        plgpu.barrier_wait(bars.at[which])
        o[...] = ones()

    call = kernel(body, [plgpu.Barrier(num_barriers=2)])
    return lambda: call(jnp.full((1,), 2 if wrong else 1, jnp.int32))


@case("PRS-E1")
def nobody_arrives(wrong):
    def body(o, ready):
        if not wrong:
            plgpu.barrier_arrive(ready)
        plgpu.barrier_wait(ready)
        o[...] = ones()

    return kernel(body, ONE_BARRIER)


@case("PRS-E1")
def consumer_counts_one_more(wrong):
    def body(o, full, empty):
        @when_thread(0)
        def _():
            @pl.loop(0, 3)
            def _(k):
                plgpu.barrier_arrive(full)
                plgpu.barrier_wait(empty)

        @when_thread(1)
        def _():
            @pl.loop(0, 4 if wrong else 3)
            def _(k):
                plgpu.barrier_wait(full)
                plgpu.barrier_arrive(empty)

            o[...] = ones()

    return kernel(body, [plgpu.Barrier(), plgpu.Barrier()], threads=2)


@case("PRS-E1")
def block_without_the_cluster_barrier(wrong):
    def body(o, done):
        block = lax.axis_index("c")
        if wrong:
            pl.when(block == 0)(lambda: plgpu.barrier_arrive(done))
        else:
            plgpu.barrier_arrive(done)
        plgpu.barrier_wait(done)
        o[pl.ds(block * (N // 2), N // 2)] = ones()[: N // 2]

    barrier = plgpu.ClusterBarrier(collective_axes=("c",))
    return kernel(body, [barrier], cluster=(2,), cluster_names=("c",))


@case("PRS-E2", max_steps=10_000)
def loop_without_an_end(wrong):
    def body(o):
        step = 0 if wrong else 1
        n = lax.while_loop(lambda i: i < 8, lambda i: i + step, jnp.int32(0))
        o[...] = ones() * n

    return kernel(body, [])


@case("PRS-J2")
def division_by_zero(wrong):
    def body(d, o):
        o[...] = ones() * (7 // d[0])

    call = kernel(body, [])
    return lambda: call(jnp.full((1,), 0 if wrong else 2, jnp.int32))


@case("PRS-K1", seeds=4, detect_races=False)
def result_of_the_faster_thread(wrong):
    def body(o, s, ready):
        @when_thread(0)
        def _():
            s[...] = ones()
            plgpu.barrier_arrive(ready)

        @when_thread(1)
        def _():
            if not wrong:
                plgpu.barrier_wait(ready)
            o[...] = s[...]
            if wrong:
                plgpu.barrier_wait(ready)

    return kernel(
        body, [smem(), plgpu.Barrier()], threads=2, out=jax.ShapeDtypeStruct((N,), jnp.float32)
    )


@case("PRS-D8", detect_races=True)
def next_scope_inherits_a_phase(wrong):
    def body(o):
        def scope(done):
            plgpu.barrier_arrive(done)
            if not wrong:
                plgpu.barrier_wait(done)

        pl.run_scoped(scope, plgpu.Barrier())
        pl.run_scoped(lambda other: None, plgpu.Barrier())
        o[...] = ones()

    return kernel(body, [])
