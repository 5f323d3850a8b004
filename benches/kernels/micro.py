"""One operation many times."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .case import Case, mma_transforms, uniform


def micro(op="load", n=100, rows=64, cols=64, blocks=1):
    """n times one operation in one thread; slope over n gives the cost of an op."""
    x = uniform((rows, cols))
    h = uniform((rows, cols), jnp.float16)
    tfm = mma_transforms(cols, jnp.float16) if op == "wgmma" else ()

    def body(x_g, h_g, o_g, xs, hs, bar):
        if op in ("load", "store", "load_scalar"):
            plgpu.copy_gmem_to_smem(x_g, xs, bar)
            plgpu.barrier_wait(bar)
        if op == "wgmma":
            plgpu.copy_gmem_to_smem(h_g, hs, bar)
            plgpu.barrier_wait(bar)

        def loop(f, init):
            return lax.fori_loop(0, n, f, init)

        if op == "load":
            r = loop(lambda i, c: c + xs[...], jnp.zeros((rows, cols), jnp.float32))
            o_g[...] = r
        elif op == "load_scalar":
            r = loop(lambda i, c: c + xs[0, 0], jnp.float32(0))
            o_g[0, 0] = r
        elif op == "store":
            v = xs[...]

            def st(i, c):
                xs[...] = v
                return c

            loop(st, 0)
            o_g[...] = xs[...]
        elif op == "arrive_wait":

            def aw(i, c):
                plgpu.barrier_arrive(bar)
                plgpu.barrier_wait(bar)
                return c

            loop(aw, 0)
        elif op == "copy_in":

            def ci(i, c):
                plgpu.copy_gmem_to_smem(x_g, xs, bar)
                plgpu.barrier_wait(bar)
                return c

            loop(ci, 0)
        elif op == "copy_out":

            def co(i, c):
                plgpu.copy_smem_to_gmem(xs, o_g)
                plgpu.wait_smem_to_gmem(0)
                return c

            loop(co, 0)
        elif op == "wgmma":

            def acc_(acc):
                def mm(i, c):
                    plgpu.wgmma(acc, hs, hs)
                    plgpu.wgmma_wait(0)
                    return c

                loop(mm, 0)
                return acc[...]

            o_g[...] = pl.run_scoped(acc_, plgpu.ACC((rows, cols), jnp.float32))
        elif op == "run_scoped":

            def rs(i, c):
                pl.run_scoped(lambda r: None, plgpu.SMEM((rows, cols), jnp.float32))
                return c

            loop(rs, 0)
        elif op == "arith":
            r = loop(lambda i, c: jnp.exp(c * 0.5) + 1.0, jnp.zeros((rows, cols), jnp.float32))
            o_g[...] = r
        elif op == "empty":
            pass
        else:
            raise ValueError(op)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((rows, cols), jnp.float32),
            grid=(blocks,),
            grid_names=("i",),
            scratch_types=[
                plgpu.SMEM((rows, cols), jnp.float32),
                plgpu.SMEM((rows, cols), jnp.float16, transforms=tfm),
                plgpu.Barrier(),
            ],
            interpret=interpret,
        )

    return Case(fn, (x, h), None, dict(blocks=blocks, threads=1))
