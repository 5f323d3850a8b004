"""Matrix products on Blackwell: `tcgen05`."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .case import Case, mma_transforms, plgpu_force, uniform


def tcgen05_upstream(m=256, n=256, k=256, tm=128, tn=128, tk=64, steps=2, collective=False):
    from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu as B

    a, b = uniform((m, k), jnp.float16, 1), uniform((k, n), jnp.float16, 2)
    cfg = B.TuningConfig(
        tile_m=tm,
        tile_n=tn,
        tile_k=tk,
        max_concurrent_steps=steps,
        collective=collective,
        epilogue_tile_n=64,
    )

    def fn(interpret):
        def f(a, b):
            with plgpu_force(interpret):
                return B.matmul_kernel(a, b, cfg)

        return f

    return Case(
        fn,
        (a, b),
        lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32).astype(jnp.float16),
        dict(
            blocks=(m // tm) * (n // tn),
            threads=2,
            flops=2 * m * n * k,
            bytes=2 * (m * k + k * n + m * n),
        ),
        rtol=2e-2,
        atol=2e-2,
    )


def tcgen05_simple(m=256, n=256, k=256, tm=128, tn=128, tk=64, steps=2):
    """One warpgroup, emit_pipeline, tcgen05_mma into TMEM."""
    a, b = uniform((m, k), jnp.float16, 1), uniform((k, n), jnp.float16, 2)
    kt = k // tk
    ta, tb = mma_transforms(tk, jnp.float16), mma_transforms(tn, jnp.float16)

    def body(a_g, b_g, o_g, acc, o_s, done):
        mi, ni = lax.axis_index("m"), lax.axis_index("n")

        def step(idx, a_s, b_s):
            (ki,) = idx
            plgpu.tcgen05_mma(acc, a_s, b_s, done.at[0], accumulate=(ki > 0))
            plgpu.barrier_wait(done.at[0])

        plgpu.emit_pipeline(
            step,
            grid=(kt,),
            in_specs=[
                plgpu.BlockSpec((tm, tk), lambda i: (mi, i), transforms=ta),
                plgpu.BlockSpec((tk, tn), lambda i: (i, ni), transforms=tb),
            ],
            max_concurrent_steps=steps,
        )(a_g, b_g)
        o_s[...] = plgpu.async_load_tmem(acc).astype(jnp.float16)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_s, o_g.at[pl.ds(mi * tm, tm), pl.ds(ni * tn, tn)])
        plgpu.wait_smem_to_gmem(0)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((m, n), jnp.float16),
            grid=(m // tm, n // tn),
            grid_names=("m", "n"),
            scratch_types=[
                plgpu.TMEM((tm, tn), jnp.float32),
                plgpu.SMEM((tm, tn), jnp.float16, transforms=tb),
                plgpu.Barrier(num_barriers=1, orders_tensor_core=True),
            ],
            interpret=interpret,
        )

    nb = (m // tm) * (n // tn)
    return Case(
        fn,
        (a, b),
        lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32).astype(jnp.float16),
        dict(blocks=nb, threads=1, flops=2 * m * n * k, bytes=2 * (m * k + k * n + m * n)),
        rtol=2e-2,
        atol=2e-2,
    )
