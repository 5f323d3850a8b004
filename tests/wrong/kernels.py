"""Right kernels, of which the mutation tests make wrong ones."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F16, F32, I32 = jnp.float16, jnp.float32, jnp.int32
TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
SLOTS = 2


def tile(*shape):
    return plgpu.SMEM(shape, F16, transforms=TILED)


def transposed(ref):
    if hasattr(ref, "transpose"):
        return ref.transpose((1, 0))
    return plgpu.transpose_ref(ref, (1, 0))


def barriers(arrivals=1, count=SLOTS):
    return plgpu.Barrier(num_arrivals=arrivals, num_barriers=count)


def stream(x):
    """One thread: TMA in, a sum, TMA out, two slots."""
    steps, n = x.shape

    def body(x, o, inputs, outputs, ready):
        for k in range(SLOTS):
            plgpu.copy_gmem_to_smem(x.at[k], inputs.at[k], ready.at[k])

        @pl.loop(0, steps)
        def _(k):
            slot = lax.rem(k, SLOTS)
            plgpu.barrier_wait(ready.at[slot])
            plgpu.wait_smem_to_gmem(1, wait_read_only=True)
            outputs[slot] = inputs[slot] * 2 + 1
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(outputs.at[slot], o.at[k])

            @pl.when(k + SLOTS < steps)
            def _():
                plgpu.copy_gmem_to_smem(x.at[k + SLOTS], inputs.at[slot], ready.at[slot])

        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(x.shape, F32),
        scratch_types=[plgpu.SMEM((SLOTS, n), F32), plgpu.SMEM((SLOTS, n), F32), barriers()],
    )(x)


def exchange(x):
    """Two threads hand a buffer to each other."""

    def body(x, o, there, back, ping, pong):
        thread = lax.axis_index("wg")

        @pl.when(thread == 0)
        def _():
            @pl.loop(0, 3)
            def _(k):
                there[...] = x[k]
                plgpu.barrier_arrive(ping)
                plgpu.barrier_wait(pong)
                o[k] = back[...]

        @pl.when(thread == 1)
        def _():
            @pl.loop(0, 3)
            def _(k):
                plgpu.barrier_wait(ping)
                back[...] = there[...] + 1
                plgpu.barrier_arrive(pong)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((3, 128), F32),
        scratch_types=[plgpu.SMEM((128,), F32)] * 2 + [plgpu.Barrier(), plgpu.Barrier()],
        num_threads=2,
        thread_name="wg",
    )(x)


def matmul(a, b):
    """A thread feeds the tensor core of the other one; the sum leaves by TMA."""
    (m, depth), n = a.shape, b.shape[1]
    steps = depth // 64

    def body(a, b, o, a_s, b_s, o_s, full, empty):
        thread = lax.axis_index("wg")

        @pl.when(thread == 1)
        def _():
            @pl.loop(0, steps)
            def _(k):
                slot = lax.rem(k, SLOTS)
                pl.when(k >= SLOTS)(lambda: plgpu.barrier_wait(empty.at[slot]))
                at = pl.ds(k * 64, 64)
                plgpu.copy_gmem_to_smem(a.at[:, at], a_s.at[slot], full.at[slot])
                plgpu.copy_gmem_to_smem(b.at[at], b_s.at[slot], full.at[slot])

        @pl.when(thread == 0)
        def _():
            def product(acc):
                @pl.loop(0, steps)
                def _(k):
                    slot = lax.rem(k, SLOTS)
                    plgpu.barrier_wait(full.at[slot])
                    plgpu.wgmma(acc, a_s.at[slot], b_s.at[slot])
                    plgpu.wgmma_wait(0)
                    plgpu.barrier_arrive(empty.at[slot])

                return acc[...]

            o_s[...] = pl.run_scoped(product, plgpu.ACC((m, n), F32)).astype(F16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_s, o)
            plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((m, n), F16),
        scratch_types=[
            tile(SLOTS, m, 64),
            tile(SLOTS, 64, n),
            tile(m, n),
            barriers(2),
            barriers(),
        ],
        num_threads=2,
        thread_name="wg",
    )(a, b)


def attention(q, k, v):
    """Two threads with a query tile each, fed by a third one."""
    blocks = k.shape[0] // 64

    def body(q, k, v, o, q_s, k_s, v_s, o_s, q_full, full, empty):
        thread = lax.axis_index("wg")

        @pl.when(thread == 2)
        def _():
            @pl.loop(0, blocks)
            def _(j):
                slot = lax.rem(j, SLOTS)
                pl.when(j >= SLOTS)(lambda: plgpu.barrier_wait(empty.at[slot]))
                at = pl.ds(j * 64, 64)
                plgpu.copy_gmem_to_smem(k.at[at], k_s.at[slot], full.at[slot])
                plgpu.copy_gmem_to_smem(v.at[at], v_s.at[slot], full.at[slot])

        @pl.when(thread < 2)
        def _():
            rows = pl.ds(thread * 64, 64)
            plgpu.copy_gmem_to_smem(q.at[rows], q_s.at[thread], q_full.at[thread])
            plgpu.barrier_wait(q_full.at[thread])

            def step(j, carry):
                total, top, norm = carry
                slot = lax.rem(j, SLOTS)
                plgpu.barrier_wait(full.at[slot])

                def scores(acc):
                    keys = transposed(k_s.at[slot])
                    plgpu.wgmma(acc, q_s.at[thread], keys)
                    return acc[...]

                s = pl.run_scoped(scores, plgpu.ACC((64, 64), F32))
                new_top = jnp.maximum(top, s.max(axis=1))
                scale = jnp.exp(top - new_top)
                p = jnp.exp(s - lax.broadcast_in_dim(new_top, (64, 64), [0]))
                norm = norm * scale + p.sum(axis=1)

                def values(acc):
                    plgpu.wgmma(acc, p.astype(F16), v_s.at[slot])
                    return acc[...]

                pv = pl.run_scoped(values, plgpu.ACC((64, 64), F32))
                plgpu.barrier_arrive(empty.at[slot])
                total = total * lax.broadcast_in_dim(scale, (64, 64), [0]) + pv
                return total, new_top, norm

            zero = plgpu.layout_cast(jnp.zeros((64, 64), F32), plgpu.Layout.WGMMA)
            row = plgpu.Layout.WGMMA.reduce(1)
            start = (
                zero,
                plgpu.layout_cast(jnp.full((64,), -1e9, F32), row),
                plgpu.layout_cast(jnp.zeros((64,), F32), row),
            )
            total, _, norm = lax.fori_loop(0, blocks, step, start)
            out = total / lax.broadcast_in_dim(norm, (64, 64), [0])
            o_s[thread] = out.astype(F16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_s.at[thread], o.at[rows])
            plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(q.shape, F16),
        scratch_types=[
            tile(2, 64, 64),
            tile(SLOTS, 64, 64),
            tile(SLOTS, 64, 64),
            tile(2, 64, 64),
            barriers(),
            barriers(2),
            barriers(2),
        ],
        num_threads=3,
        thread_name="wg",
    )(q, k, v)


def ragged(ends, x, w):
    """Rows of groups of different sizes, each times the matrix of its group."""
    groups = w.shape[0]

    def body(ends, x, w, o, x_s, w_s, o_s, full):
        g = lax.axis_index("g")
        first = jnp.where(g == 0, 0, ends[jnp.maximum(g - 1, 0)])
        last = ends[g]
        plgpu.copy_gmem_to_smem(w.at[g], w_s, full)
        plgpu.barrier_wait(full)

        @pl.loop(0, pl.cdiv(last - first, 64))
        def _(i):
            plgpu.copy_gmem_to_smem(x.at[pl.ds(first + i * 64, 64)], x_s, full)
            plgpu.barrier_wait(full)

            def product(acc):
                plgpu.wgmma(acc, x_s, w_s)
                return acc[...]

            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            o_s[...] = pl.run_scoped(product, plgpu.ACC((64, 64), F32)).astype(F16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_s, o.at[pl.ds(first + i * 64, 64)])

        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(x.shape, F16),
        grid=(groups,),
        grid_names=("g",),
        scratch_types=[tile(64, 64), tile(64, 64), tile(64, 64), plgpu.Barrier()],
    )(ends, x, w)


def blackwell(a, b):
    """TMA feeds products into tensor memory; their completion frees the slots."""
    (m, depth), n = a.shape, b.shape[1]
    steps = depth // 64

    def body(a, b, o, a_s, b_s, o_s, full, free, done, acc):
        thread = lax.axis_index("wg")

        @pl.when(thread == 0)
        def _():
            @pl.loop(0, steps)
            def _(k):
                slot = lax.rem(k, SLOTS)
                pl.when(k >= SLOTS)(lambda: plgpu.barrier_wait(free.at[slot]))
                at = pl.ds(k * 64, 64)
                plgpu.copy_gmem_to_smem(a.at[:, at], a_s.at[slot], full.at[slot])
                plgpu.copy_gmem_to_smem(b.at[at], b_s.at[slot], full.at[slot])

        @pl.when(thread == 1)
        def _():
            @pl.loop(0, steps)
            def _(k):
                slot = lax.rem(k, SLOTS)
                plgpu.barrier_wait(full.at[slot])
                operands = a_s.at[slot], b_s.at[slot]
                plgpu.tcgen05_mma(acc, *operands, free.at[slot], accumulate=k > 0)

            plgpu.tcgen05_commit_arrive(done)

        @pl.when(thread == 2)
        def _():
            plgpu.barrier_wait(done)
            o_s[...] = plgpu.async_load_tmem(acc).astype(F16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_s, o)
            plgpu.wait_smem_to_gmem(0)

    ordered = {"orders_tensor_core": True}
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((m, n), F16),
        scratch_types=[
            tile(SLOTS, m, 64),
            tile(SLOTS, 64, n),
            tile(m, n),
            barriers(2),
            plgpu.Barrier(num_barriers=SLOTS, **ordered),
            plgpu.Barrier(**ordered),
            plgpu.TMEM((m, n), F32),
        ],
        num_threads=3,
        thread_name="wg",
    )(a, b)


def multicast(x):
    """A tile that two blocks share arrives in both; each adds its own, and both free the slot."""
    steps, n = x.shape

    def body(x, o, shared, full, empty):
        c = lax.axis_index("c")

        @pl.loop(0, steps)
        def _(k):
            plgpu.copy_gmem_to_smem(x.at[k], shared, full, collective_axes="c")
            plgpu.barrier_wait(full)
            o[c, k] = shared[...] + c.astype(F32)
            plgpu.commit_smem()
            plgpu.barrier_arrive(empty.at[0])
            plgpu.barrier_wait(empty.at[0])

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((2, steps, n), F32),
        cluster=(2,),
        cluster_names=("c",),
        scratch_types=[
            plgpu.SMEM((n,), F32),
            plgpu.Barrier(),
            plgpu.ClusterBarrier(collective_axes=("c",), num_barriers=(1,)),
        ],
    )(x)


def stealing(x):
    """Blocks take tiles from blocks that have not begun, and two threads share a tile."""
    tiles, n = x.shape

    def body(x, o, x_s, answer, told, full, used):
        thread = lax.axis_index("wg")

        def step(carry):
            (at,), _ = carry

            @pl.when(thread == 0)
            def _():
                plgpu.try_cluster_cancel(answer, told)
                plgpu.copy_gmem_to_smem(x.at[at], x_s, full)

            plgpu.barrier_wait(full)
            o[thread, at] = x_s[...] * 2
            plgpu.barrier_wait(told)
            here = plgpu.query_cluster_cancel(answer, ("g",))
            plgpu.commit_smem()
            plgpu.barrier_arrive(used)
            plgpu.barrier_wait(used)
            return here

        start = ((lax.axis_index("g"),), jnp.bool_(True))
        lax.while_loop(lambda carry: carry[1], step, start)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((2, tiles, n), F32),
        grid=(tiles,),
        grid_names=("g",),
        scratch_types=[
            plgpu.SMEM((n,), F32),
            plgpu.TryClusterCancelResult(),
            plgpu.Barrier(),
            plgpu.Barrier(),
            plgpu.Barrier(num_arrivals=2),
        ],
        num_threads=2,
        thread_name="wg",
    )(x)


def shape(*dims, dtype=F16):
    return jax.ShapeDtypeStruct(dims, dtype)


KERNELS = {
    "stream": (stream, [shape(5, 128, dtype=F32)]),
    "exchange": (exchange, [shape(3, 128, dtype=F32)]),
    "matmul": (matmul, [shape(64, 256), shape(256, 64)]),
    "attention": (attention, [shape(128, 64), shape(256, 64), shape(256, 64)]),
    "blackwell": (blackwell, [shape(128, 256), shape(256, 64)]),
    "multicast": (multicast, [shape(3, 128, dtype=F32)]),
    "stealing": (stealing, [shape(4, 128, dtype=F32)]),
    "ragged": (ragged, [shape(3, dtype=I32), shape(256, 64), shape(3, 64, 64)]),
}

# What a kernel is made for, where it is not an H100.
TARGETS = {"blackwell": "b200", "stealing": "b200"}

# Of these one run does not speak for all schedules: stolen work depends on the schedule, and the
# proof does not extend to ops of tensor memory.
SAMPLED = {"blackwell", "stealing"}
