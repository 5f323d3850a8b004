"""Barriers: between threads of a block and blocks of a cluster."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .case import Case, uniform


def pingpong(n=100, threads=2, blocks=1):
    """`threads` threads pass a token round: each round is `threads` arrives + waits."""

    def body(o_g, bars):
        w = lax.axis_index("wg")
        nxt = lax.rem(w + 1, jnp.int32(threads))

        def rnd(i, _):
            @pl.when(w == 0)
            def _():
                plgpu.barrier_arrive(bars.at[nxt])
                plgpu.barrier_wait(bars.at[0])

            @pl.when(w != 0)
            def _():
                plgpu.barrier_wait(bars.at[w])
                plgpu.barrier_arrive(bars.at[nxt])

            return 0

        lax.fori_loop(0, n, rnd, 0)

        @pl.when(w == 0)
        def _():
            o_g[lax.axis_index("i")] = jnp.int32(n)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((blocks,), jnp.int32),
            grid=(blocks,),
            grid_names=("i",),
            num_threads=threads,
            thread_name="wg",
            scratch_types=[plgpu.Barrier(num_barriers=threads)],
            interpret=interpret,
        )

    return Case(
        fn,
        (),
        lambda: jnp.full((blocks,), n, jnp.int32),
        dict(blocks=blocks, threads=threads, syncs=2 * n * threads * blocks),
    )


def cluster_exchange(n=8, blocks=2, tile=256, grid=2, collective_copy=True):
    """Cluster of 2 blocks: n rounds of a collective GMEM->SMEM copy, a store to
    GMEM and a cluster-barrier arrive/wait."""
    x = uniform((n, tile))

    def body(x_g, o_g, xs, bar, cbar):
        g, c = lax.axis_index("i"), lax.axis_index("c")

        def rnd(i, acc):
            kw = dict(collective_axes="c") if collective_copy else {}
            plgpu.copy_gmem_to_smem(x_g.at[i], xs, bar, **kw)
            plgpu.barrier_wait(bar)
            acc = acc + xs[...]
            plgpu.commit_smem()
            plgpu.barrier_arrive(cbar)
            plgpu.barrier_wait(cbar)
            return acc

        o_g[g, c] = lax.fori_loop(0, n, rnd, jnp.zeros((tile,), jnp.float32))

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((grid, blocks, tile), jnp.float32),
            grid=(grid,),
            grid_names=("i",),
            cluster=(blocks,),
            cluster_names=("c",),
            num_threads=1,
            thread_name="wg",
            scratch_types=[
                plgpu.SMEM((tile,), jnp.float32),
                plgpu.Barrier(),
                plgpu.ClusterBarrier(collective_axes=("c",), num_arrivals=1),
            ],
            interpret=interpret,
        )

    return Case(
        fn,
        (x,),
        lambda x: jnp.broadcast_to(x.sum(0), (grid, blocks, tile)),
        dict(
            blocks=grid * blocks,
            threads=1,
            flops=grid * blocks * n * tile,
            bytes=4 * n * tile,
            ops=grid * blocks * (n * 5 + 8),
        ),
    )
