"""Kernels that are nothing but many small blocks."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .case import Case, uniform


def add_grid(nblocks=64, tile=128, threads=1):
    """z = x + y; one tiny block per tile: GMEM->SMEM copies, add, SMEM->GMEM."""
    n = nblocks * tile * threads
    x, y = uniform((n,), seed=1), uniform((n,), seed=2)

    def body(x_g, y_g, z_g, xs, ys, zs, bar):
        i = lax.axis_index("i")
        w = lax.axis_index("wg") if threads > 1 else 0
        sl = pl.ds((i * threads + w) * tile, tile)
        b = bar.at[w]
        plgpu.copy_gmem_to_smem(x_g.at[sl], xs.at[w], b)
        plgpu.copy_gmem_to_smem(y_g.at[sl], ys.at[w], b)
        plgpu.barrier_wait(b)
        zs[w] = xs[w] + ys[w]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(zs.at[w], z_g.at[sl])
        plgpu.wait_smem_to_gmem(0)

    def fn(interpret):
        kw = dict(num_threads=threads, thread_name="wg") if threads > 1 else {}
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((n,), jnp.float32),
            grid=(nblocks,),
            grid_names=("i",),
            scratch_types=[plgpu.SMEM((threads, tile), jnp.float32)] * 3
            + [plgpu.Barrier(num_arrivals=2, num_barriers=threads)],
            interpret=interpret,
            **kw,
        )

    return Case(
        fn,
        (x, y),
        lambda x, y: x + y,
        dict(blocks=nblocks, threads=threads, flops=n, bytes=12 * n, ops=nblocks * threads * 9),
    )


def add_direct(nblocks=64, tile=128):
    """z = x + y straight on GMEM refs: 2 loads + 1 store a block, no SMEM."""
    n = nblocks * tile
    x, y = uniform((n,), seed=1), uniform((n,), seed=2)

    def body(x_g, y_g, z_g):
        sl = pl.ds(lax.axis_index("i") * tile, tile)
        z_g[sl] = x_g[sl] + y_g[sl]

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((n,), jnp.float32),
            grid=(nblocks,),
            grid_names=("i",),
            interpret=interpret,
        )

    return Case(
        fn,
        (x, y),
        lambda x, y: x + y,
        dict(blocks=nblocks, threads=1, flops=n, bytes=12 * n, ops=nblocks * 3),
    )


def empty_grid(blocks=64, threads=1):
    """Nothing but blocks: one scalar store by thread 0 of each block."""

    def body(o_g):
        i = lax.axis_index("i")
        if threads > 1:

            @pl.when(lax.axis_index("wg") == 0)
            def _():
                o_g[i] = i
        else:
            o_g[i] = i

    def fn(interpret):
        kw = dict(num_threads=threads, thread_name="wg") if threads > 1 else {}
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((blocks,), jnp.int32),
            grid=(blocks,),
            grid_names=("i",),
            interpret=interpret,
            **kw,
        )

    return Case(
        fn, (), lambda: jnp.arange(blocks, dtype=jnp.int32), dict(blocks=blocks, threads=threads)
    )
