"""Attention, written for this benchmark and as JAX ships it."""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .case import Case, mha_native, plgpu_force, uniform


def flash(seq=256, heads=1, d=64, bq=64, bkv=64, batch=1, p_in_smem=True, k_t=False):
    """FlashAttention forward: online softmax; wgmma for QK and PV; 2 warpgroups a
    block each with its own q rows, K/V tiles loaded by a third. p_in_smem stages
    the probabilities in SMEM; False feeds PV's wgmma from registers, as
    FlashAttention-3 does (upstream's interpreters cannot). k_t takes K already
    transposed in GMEM (0.10.2's interpreter has no transposed SMEM operand)."""
    steps = 2
    q, k, v = (uniform((batch, seq, heads, d), jnp.float16, s) for s in (1, 2, 3))
    if k_t:
        k = jnp.transpose(k, (0, 2, 3, 1))
    kt = seq // bkv
    t = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    log2e = math.log2(math.e)

    def body(q_g, k_g, v_g, o_g, q_s, k_s, v_s, p_s, qb, kb, vb, kc, vc):
        b, h, qi, w = (lax.axis_index(a) for a in ("b", "h", "q", "wg"))

        @pl.when(w == 2)
        def _memory():
            def load(i, _):
                slot = lax.rem(i, jnp.int32(steps))
                s = (b, pl.ds(i * bkv, bkv), h)

                @pl.when(i >= steps)
                def _():
                    plgpu.barrier_wait(kc.at[slot])
                    plgpu.barrier_wait(vc.at[slot])

                ks = (b, h, slice(None), pl.ds(i * bkv, bkv)) if k_t else s
                plgpu.copy_gmem_to_smem(k_g.at[ks], k_s.at[slot], kb.at[slot])
                plgpu.copy_gmem_to_smem(v_g.at[s], v_s.at[slot], vb.at[slot])
                return 0

            lax.fori_loop(0, kt, load, 0)
            for s in range(min(steps, kt)):
                plgpu.barrier_wait(kc.at[(kt - min(steps, kt) + s) % steps])
                plgpu.barrier_wait(vc.at[(kt - min(steps, kt) + s) % steps])

        @pl.when(w < 2)
        def _compute():
            rows = pl.ds((qi * 2 + w) * bq, bq)
            plgpu.copy_gmem_to_smem(q_g.at[b, rows, h], q_s.at[w], qb.at[w])
            plgpu.barrier_wait(qb.at[w])

            def step(i, carry):
                acc, m_i, l_i = carry
                slot = lax.rem(i, jnp.int32(steps))
                plgpu.barrier_wait(kb.at[slot])

                def qk_(r):
                    kk = k_s.at[slot]
                    plgpu.wgmma(r, q_s.at[w], kk if k_t else plgpu.transpose_ref(kk, (1, 0)))
                    return r[...]

                s = pl.run_scoped(qk_, plgpu.ACC((bq, bkv), jnp.float32))
                plgpu.barrier_arrive(kc.at[slot])
                m_n = jnp.maximum(m_i, s.max(axis=1) * log2e)
                alpha = jnp.exp2(m_i - m_n)
                p = jnp.exp2(s * log2e - m_n[:, None])
                l_n = l_i * alpha + p.sum(axis=1)
                acc = acc * alpha[:, None]
                plgpu.barrier_wait(vb.at[slot])
                if p_in_smem:
                    p_s[w] = p.astype(jnp.float16)
                    plgpu.commit_smem()

                def pv_(r):
                    plgpu.wgmma(r, p_s.at[w] if p_in_smem else p.astype(jnp.float16), v_s.at[slot])
                    return r[...]

                acc = acc + pl.run_scoped(pv_, plgpu.ACC((bq, d), jnp.float32))
                plgpu.barrier_arrive(vc.at[slot])
                return acc, m_n, l_n

            acc, _m_i, l_i = lax.fori_loop(
                0,
                kt,
                step,
                (
                    jnp.zeros((bq, d), jnp.float32),
                    jnp.full((bq,), -jnp.inf, jnp.float32),
                    jnp.zeros((bq,), jnp.float32),
                ),
            )
            q_s[w] = (acc / l_i[:, None]).astype(jnp.float16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(q_s.at[w], o_g.at[b, rows, h])
            plgpu.wait_smem_to_gmem(0)

    def fn(interpret):
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct(q.shape, q.dtype),
            grid=(batch, heads, seq // (2 * bq)),
            grid_names=("b", "h", "q"),
            num_threads=3,
            thread_name="wg",
            scratch_types=[
                plgpu.SMEM((2, bq, d), jnp.float16, transforms=t),
                plgpu.SMEM((steps, d, bkv) if k_t else (steps, bkv, d), jnp.float16, transforms=t),
                plgpu.SMEM((steps, bkv, d), jnp.float16, transforms=t),
                plgpu.SMEM((2, bq, bkv), jnp.float16, transforms=t),
                plgpu.Barrier(num_barriers=2),
                plgpu.Barrier(num_barriers=steps),
                plgpu.Barrier(num_barriers=steps),
                plgpu.Barrier(num_arrivals=2, num_barriers=steps),
                plgpu.Barrier(num_arrivals=2, num_barriers=steps),
            ],
            interpret=interpret,
        )

    nb = batch * heads * (seq // (2 * bq))
    native = (
        (lambda q, k, v: mha_native(q, jnp.transpose(k, (0, 3, 1, 2)), v)) if k_t else mha_native
    )
    return Case(
        fn,
        (q, k, v),
        native,
        dict(
            blocks=nb,
            threads=3,
            flops=4 * batch * heads * seq * seq * d,
            bytes=8 * batch * heads * seq * d,
        ),
        rtol=2e-2,
        atol=2e-2,
    )


def flash_upstream(seq=256, heads=1, d=64, bq=64, bkv=64, batch=1):
    """jax.experimental.pallas.ops.gpu.attention_mgpu, forward, as shipped."""
    from jax.experimental.pallas.ops.gpu import attention_mgpu as A

    q, k, v = (uniform((batch, seq, heads, d), jnp.float16, s) for s in (1, 2, 3))
    cfg = A.TuningConfig(block_q=bq, block_kv=bkv, max_concurrent_steps=2)
    if A.cuda_versions is None:  # absent from CPU jaxlib; only gates causal=True

        class _V:
            cuda_runtime_get_version = staticmethod(lambda: 12091)

        A.cuda_versions = _V

    def fn(interpret):
        def f(q, k, v):
            with plgpu_force(interpret):
                return A.attention(q, k, v, cfg)

        return f

    nb = batch * heads * (seq // (2 * bq))
    return Case(
        fn,
        (q, k, v),
        mha_native,
        dict(
            blocks=nb,
            threads=3,
            flops=4 * batch * heads * seq * seq * d,
            bytes=8 * batch * heads * seq * d,
        ),
        rtol=2e-2,
        atol=2e-2,
    )
