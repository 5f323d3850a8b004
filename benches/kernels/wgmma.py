"""Matrix products on Hopper: `wgmma`."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .case import Case, mma_transforms, plgpu_force, uniform


def wgmma_matmul(m=256, n=256, k=256, tm=128, tn=128, tk=64, steps=2):
    """o = a @ b (f16 in, f32 accumulate, f16 out), one warpgroup, emit_pipeline."""
    a, b = uniform((m, k), jnp.float16, 1), uniform((k, n), jnp.float16, 2)
    ta, tb = mma_transforms(tk, jnp.float16), mma_transforms(tn, jnp.float16)
    to = mma_transforms(tn, jnp.float16)

    def body(a_g, b_g, o_g, o_s):
        mi, ni = lax.axis_index("m"), lax.axis_index("n")

        def compute(acc):
            def step(_, a_s, b_s):
                plgpu.wgmma(acc, a_s, b_s)
                plgpu.wgmma_wait(1)

            plgpu.emit_pipeline(
                step,
                grid=(k // tk,),
                in_specs=[
                    plgpu.BlockSpec((tm, tk), lambda i: (mi, i), transforms=ta, delay_release=1),
                    plgpu.BlockSpec((tk, tn), lambda i: (i, ni), transforms=tb, delay_release=1),
                ],
                max_concurrent_steps=steps,
            )(a_g, b_g)
            return acc[...]

        acc = pl.run_scoped(compute, plgpu.ACC((tm, tn), jnp.float32))
        o_s[...] = acc.astype(jnp.float16)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_s, o_g.at[pl.ds(mi * tm, tm), pl.ds(ni * tn, tn)])
        plgpu.wait_smem_to_gmem(0)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((m, n), jnp.float16),
            grid=(m // tm, n // tn),
            grid_names=("m", "n"),
            scratch_types=[plgpu.SMEM((tm, tn), jnp.float16, transforms=to)],
            interpret=interpret,
        )

    nb = (m // tm) * (n // tn)
    return Case(
        fn,
        (a, b),
        lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32).astype(jnp.float16),
        dict(
            blocks=nb,
            threads=1,
            flops=2 * m * n * k,
            bytes=2 * (m * k + k * n + m * n),
            ops=nb * (k // tk * 6 + 6),
        ),
        rtol=2e-2,
        atol=2e-2,
    )


def ws_matmul(m=256, n=256, k=256, tm=64, tn=128, tk=64, steps=2):
    """Warp-specialised f16 matmul by hand: 1 producer + 2 consumer warpgroups,
    full/empty barriers. Block tile is (2 tm, tn)."""
    a, b = uniform((m, k), jnp.float16, 1), uniform((k, n), jnp.float16, 2)
    kt = k // tk
    ta, tb = mma_transforms(tk, jnp.float16), mma_transforms(tn, jnp.float16)

    def body(a_g, b_g, o_g, a_s, b_s, o_s, full, empty):
        mi, ni, w = lax.axis_index("m"), lax.axis_index("n"), lax.axis_index("wg")

        @pl.when(w == 2)
        def _producer():
            def load(i, _):
                slot = lax.rem(i, jnp.int32(steps))

                @pl.when(i >= steps)
                def _():
                    plgpu.barrier_wait(empty.at[slot])

                plgpu.copy_gmem_to_smem(
                    a_g.at[pl.ds(mi * 2 * tm, 2 * tm), pl.ds(i * tk, tk)],
                    a_s.at[slot],
                    full.at[slot],
                )
                plgpu.copy_gmem_to_smem(
                    b_g.at[pl.ds(i * tk, tk), pl.ds(ni * tn, tn)], b_s.at[slot], full.at[slot]
                )
                return 0

            lax.fori_loop(0, kt, load, 0)
            for s in range(min(steps, kt)):  # observe the last completions
                plgpu.barrier_wait(empty.at[(kt - min(steps, kt) + s) % steps])

        @pl.when(w < 2)
        def _consumer():
            def compute(acc):
                def step(i, _):
                    slot = lax.rem(i, jnp.int32(steps))
                    plgpu.barrier_wait(full.at[slot])
                    plgpu.wgmma(acc, a_s.at[slot, pl.ds(w * tm, tm)], b_s.at[slot])
                    plgpu.wgmma_wait(0)
                    plgpu.barrier_arrive(empty.at[slot])
                    return 0

                lax.fori_loop(0, kt, step, 0)
                return acc[...]

            acc = pl.run_scoped(compute, plgpu.ACC((tm, tn), jnp.float32))
            o_s[w] = acc.astype(jnp.float16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(
                o_s.at[w], o_g.at[pl.ds(mi * 2 * tm + w * tm, tm), pl.ds(ni * tn, tn)]
            )
            plgpu.wait_smem_to_gmem(0)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((m, n), jnp.float16),
            grid=(m // (2 * tm), n // tn),
            grid_names=("m", "n"),
            num_threads=3,
            thread_name="wg",
            scratch_types=[
                plgpu.SMEM((steps, 2 * tm, tk), jnp.float16, transforms=ta),
                plgpu.SMEM((steps, tk, tn), jnp.float16, transforms=tb),
                plgpu.SMEM((2, tm, tn), jnp.float16, transforms=tb),
                plgpu.Barrier(num_arrivals=2, num_barriers=steps),
                plgpu.Barrier(num_arrivals=2, num_barriers=steps),
            ],
            interpret=interpret,
        )

    nb = (m // (2 * tm)) * (n // tn)
    return Case(
        fn,
        (a, b),
        lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32).astype(jnp.float16),
        dict(
            blocks=nb,
            threads=3,
            flops=2 * m * n * k,
            bytes=2 * (m * k + k * n + m * n),
            ops=nb * (kt * 11 + 16),
        ),
        rtol=2e-2,
        atol=2e-2,
    )


def hopper_upstream(m=256, n=256, k=256, tm=64, tn=64, tk=64, steps=2):
    """jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu, as shipped."""
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as H

    a, b = uniform((m, k), jnp.float16, 1), uniform((k, n), jnp.float16, 2)
    cfg = H.TuningConfig(
        tile_m=tm, tile_n=tn, tile_k=tk, max_concurrent_steps=steps, epi_tile_m=64, epi_tile_n=64
    )

    def fn(interpret):
        def f(a, b):
            with plgpu_force(interpret):
                try:
                    return H.matmul(a, b, None, cfg)
                except TypeError:
                    return H.matmul(a, b, cfg)

        return f

    return Case(
        fn,
        (a, b),
        lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32).astype(jnp.float16),
        dict(threads=3, flops=2 * m * n * k, bytes=2 * (m * k + k * n + m * n)),
        rtol=2e-2,
        atol=2e-2,
    )
