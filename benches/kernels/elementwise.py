"""Pipelines and rows of elementwise maths."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .case import Case, uniform


def pipe_axpb(rows=512, cols=512, tr=64, tc=128, steps=2, grid=4, out_specs=False):
    """y = 2 x + 1, `grid` blocks, each an emit_pipeline over its row band.
    out_specs=True lets the pipeline do the stores too (predicated SMEM->GMEM
    copies, which upstream's interpreter rejects); otherwise the body stores."""
    x = uniform((rows, cols))
    band = rows // grid
    nr, nc = band // tr, cols // tc

    def body(x_g, y_g, y_s):
        b = lax.axis_index("i")
        spec = lambda: plgpu.BlockSpec((tr, tc), lambda i, j: (b * nr + i, j))
        if out_specs:

            def step(_, xs, ys):
                ys[...] = xs[...] * 2.0 + 1.0

            plgpu.emit_pipeline(
                step,
                grid=(nr, nc),
                in_specs=[spec()],
                out_specs=[spec()],
                max_concurrent_steps=steps,
            )(x_g, y_g)
        else:

            def step(idx, xs):
                i, j = idx
                y_s[...] = xs[...] * 2.0 + 1.0
                plgpu.commit_smem()
                plgpu.copy_smem_to_gmem(
                    y_s, y_g.at[pl.ds((b * nr + i) * tr, tr), pl.ds(j * tc, tc)]
                )
                plgpu.wait_smem_to_gmem(0)

            plgpu.emit_pipeline(step, grid=(nr, nc), in_specs=[spec()], max_concurrent_steps=steps)(
                x_g
            )

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((rows, cols), jnp.float32),
            grid=(grid,),
            grid_names=("i",),
            scratch_types=[plgpu.SMEM((tr, tc), jnp.float32)],
            interpret=interpret,
        )

    return Case(
        fn,
        (x,),
        lambda x: x * 2.0 + 1.0,
        dict(
            blocks=grid,
            threads=1,
            flops=2 * rows * cols,
            bytes=8 * rows * cols,
            tiles=grid * nr * nc,
        ),
    )


def ws_pipe(rows=512, cols=512, tr=128, tc=128, grid=2, compute_wgs=2, steps=2):
    """y = 2 x + 1, emit_pipeline_warp_specialized: compute_wgs + 1 memory thread.
    Each compute warpgroup does its own rows of each tile and stores them itself."""
    x = uniform((rows, cols))
    band = rows // grid
    nr, nc = band // tr, cols // tc
    half = tr // compute_wgs

    def body(x_g, y_g, y_s):
        b = lax.axis_index("i")
        w = lax.axis_index("wg")

        def step(idx, xs):
            i, j = idx
            y_s[w] = xs[pl.ds(w * half, half)] * 2.0 + 1.0
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(
                y_s.at[w], y_g.at[pl.ds((b * nr + i) * tr + w * half, half), pl.ds(j * tc, tc)]
            )
            plgpu.wait_smem_to_gmem(0)

        spec = plgpu.BlockSpec((tr, tc), lambda i, j: (b * nr + i, j))
        plgpu.emit_pipeline_warp_specialized(
            step,
            grid=(nr, nc),
            in_specs=[spec],
            memory_registers=40,
            max_concurrent_steps=steps,
            wg_axis="wg",
            num_compute_wgs=compute_wgs,
        )(x_g)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((rows, cols), jnp.float32),
            grid=(grid,),
            grid_names=("i",),
            scratch_types=[plgpu.SMEM((compute_wgs, half, tc), jnp.float32)],
            num_threads=compute_wgs + 1,
            thread_name="wg",
            interpret=interpret,
        )

    return Case(
        fn,
        (x,),
        lambda x: x * 2.0 + 1.0,
        dict(
            blocks=grid,
            threads=compute_wgs + 1,
            flops=2 * rows * cols,
            bytes=8 * rows * cols,
            tiles=grid * nr * nc,
        ),
    )


def _rowwise(math_fn, native, rows, cols, br):
    x = uniform((rows, cols))

    def body(x_g, y_g, xs, ys, bar):
        sl = pl.ds(lax.axis_index("i") * br, br)
        plgpu.copy_gmem_to_smem(x_g.at[sl], xs, bar)
        plgpu.barrier_wait(bar)
        ys[...] = math_fn(xs[...])
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(ys, y_g.at[sl])
        plgpu.wait_smem_to_gmem(0)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((rows, cols), jnp.float32),
            grid=(rows // br,),
            grid_names=("i",),
            scratch_types=[plgpu.SMEM((br, cols), jnp.float32)] * 2 + [plgpu.Barrier()],
            interpret=interpret,
        )

    nb = rows // br
    return Case(
        fn,
        (x,),
        native,
        dict(blocks=nb, threads=1, flops=8 * rows * cols, bytes=8 * rows * cols, ops=nb * 8),
        rtol=1e-4,
        atol=1e-5,
    )


def softmax(rows=512, cols=512, br=8):
    def f(v):
        e = jnp.exp(v - v.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return _rowwise(f, lambda x: jax.nn.softmax(x, axis=1), rows, cols, br)


def layernorm(rows=512, cols=512, br=8):
    def f(v):
        mu = v.sum(axis=1, keepdims=True) / cols
        c = v - mu
        return c * lax.rsqrt((c * c).sum(axis=1, keepdims=True) / cols + 1e-5)

    return _rowwise(f, f, rows, cols, br)
