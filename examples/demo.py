"""What pallas-rs does, in a minute: run, check, time, and explain a wrong kernel.

    python examples/demo.py

Times are the best of interleaved runs, shown beside JAX's own interpreters and the same
mathematics in jitted `jnp`; the ratios are what to look at.
"""

import contextlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas.ops.gpu import attention as triton_attention


def heading(text):
    print(f"\n── {text} " + "─" * max(0, 76 - len(text)))


def best_times(functions, args, seconds=1.0):
    """Best wall time of each function over interleaved runs."""
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        jax.block_until_ready(function(*args))
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        rounds += 1
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function(*args))
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def show_times(best):
    ours = best["pallas-rs"]
    for name, seconds in best.items():
        ratio = "" if name == "pallas-rs" else f"   {seconds / ours:10.2f} x pallas-rs"
        print(f"  {name:34} {seconds * 1e6:12.1f} us{ratio}")


def close(got, want, tolerance):
    np.testing.assert_allclose(
        np.asarray(got, np.float32),
        np.asarray(want, np.float32),
        rtol=tolerance,
        atol=tolerance,
    )


# ── a grid whose bound arrives at run time ──────────────────────────────────────────────


def softmax_kernel(x_ref, o_ref):
    x = x_ref[...]
    e = jnp.exp(x - x.max(axis=-1, keepdims=True))
    o_ref[...] = e / e.sum(axis=-1, keepdims=True)


def softmax_rows(x, rows, interpret):
    """Softmax of the first `rows` rows, eight at a time; the others are left as they are."""
    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        softmax_kernel,
        grid=(pl.cdiv(rows, 8),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
        interpret=interpret,
    )(x)


def dynamic_grid():
    heading("pl.pallas_call with a grid bound that arrives at run time")
    traces = 0

    @jax.jit
    def run(x, rows):
        nonlocal traces
        traces += 1
        return softmax_rows(x, rows, pallas_rs.Params())

    @jax.jit
    def native(x, rows):
        keep = jnp.arange(x.shape[0])[:, None] < (rows + 7) // 8 * 8
        return jnp.where(keep, jax.nn.softmax(x, axis=-1), x)

    x = jnp.asarray(np.random.default_rng(0).normal(size=(512, 512)), jnp.float32)
    for rows in (512, 8, 0, 200, 320):
        close(run(x, rows), native(x, rows), 1e-5)
        print(f"  rows = {rows:3}: right")
    print(f"  {traces} trace for five bounds")
    show_times(
        best_times(
            {
                "pallas-rs": run,
                "jax, interpret=True": jax.jit(lambda x, n: softmax_rows(x, n, True)),
                "jitted jnp": native,
            },
            (x, 512),
        )
    )


# ── kernels that JAX ships ──────────────────────────────────────────────────────────────


def shipped_attention():
    heading("jax.experimental.pallas.ops.gpu.attention, as shipped")
    q, k, v = (
        jnp.asarray(np.random.default_rng(i).normal(size=(1, 256, 2, 64)), jnp.float16)
        for i in range(3)
    )
    sizes = triton_attention.BlockSizes(block_q=64, block_k=64)

    def run(interpret):
        return jax.jit(
            lambda q, k, v: triton_attention.mha(
                q, k, v, segment_ids=None, causal=True, block_sizes=sizes, interpret=interpret
            )
        )

    reference = jax.jit(lambda q, k, v: triton_attention.mha_reference(q, k, v, None, causal=True))
    ours = run(pallas_rs.Params())
    close(ours(q, k, v), reference(q, k, v), 2e-2)
    print("  agrees with the reference")
    show_times(
        best_times(
            {
                "pallas-rs": ours,
                "jax, interpret=True": run(True),
                "jitted jnp": reference,
            },
            (q, k, v),
        )
    )


# ── a Hopper kernel: warpgroups, TMA, barriers, wgmma ───────────────────────────────────


def flash_attention():
    heading("flash attention for Hopper (plgpu.kernel), as shipped by JAX")
    from jax.experimental.pallas.ops.gpu import attention_mgpu

    shape = (1, 256, 1, 64)
    q, k, v = (
        jnp.asarray(np.random.default_rng(i).normal(size=shape), jnp.float16) for i in range(3)
    )
    config = attention_mgpu.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2)

    def run(q, k, v):
        return attention_mgpu.attention(q, k, v, config)

    def reference(q, k, v):
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(logits, axis=-1)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v.astype(jnp.float32)).astype(q.dtype)

    with pallas_rs.simulate("h100"):
        ours = jax.jit(run).lower(q, k, v).compile()
    native = jax.jit(reference)
    close(ours(q, k, v), native(q, k, v), 2e-2)
    print("  agrees with the reference")
    show_times(best_times({"pallas-rs": ours, "jitted jnp": native}, (q, k, v)))


def ping_pong(interpret, rounds=25):
    """Two warpgroups hand a token back and forth."""

    def body(o_gmem, turn):
        me = lax.axis_index("wg")

        def one_round(i, _):
            @pl.when(me == 0)
            def _():
                plgpu.barrier_arrive(turn.at[1])
                plgpu.barrier_wait(turn.at[0])

            @pl.when(me == 1)
            def _():
                plgpu.barrier_wait(turn.at[1])
                plgpu.barrier_arrive(turn.at[0])

            return 0

        lax.fori_loop(0, rounds, one_round, 0)

        @pl.when(me == 0)
        def _():
            o_gmem[0] = jnp.int32(rounds)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((1,), jnp.int32),
        num_threads=2,
        thread_name="wg",
        scratch_types=[plgpu.Barrier(num_barriers=2)],
        interpret=interpret,
    )
    return jax.jit(lambda: kernel())


def barriers():
    heading("two warpgroups, 50 arrivals and waits")
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

    ours, jaxs = ping_pong(pallas_rs.Params()), ping_pong(InterpretGPUParams())
    assert int(ours()[0]) == 25
    show_times(best_times({"pallas-rs": ours, "jax's GPU interpreter": jaxs}, ()))


# ── wrong kernels ───────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def explained(kind):
    """Prints the report of a kernel that must fail with `kind`."""
    try:
        with pallas_rs.typed_errors():
            yield
    except kind as error:
        print("  | " + str(error).replace("\n", "\n  | "))
    else:
        raise AssertionError(f"no {kind.__name__}")


def wrong_index_map():
    heading("a wrong kernel: the index map returns rows, not blocks")
    x = jnp.ones((64, 128), jnp.float32)

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    wrong = pl.pallas_call(
        copy,
        grid=(8,),
        out_shape=x,
        interpret=pallas_rs.Params(),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i * 8, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )
    with explained(pallas_rs.OutOfBoundsError):
        jax.block_until_ready(jax.jit(wrong)(x))


def deadlock():
    heading("a wrong kernel: two warpgroups wait for each other")

    def body(o_gmem, ready):
        me = lax.axis_index("wg")
        plgpu.barrier_wait(ready.at[me])
        plgpu.barrier_arrive(ready.at[1 - me])
        o_gmem[me] = me

    wrong = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((2,), jnp.int32),
        num_threads=2,
        thread_name="wg",
        scratch_types=[plgpu.Barrier(num_barriers=2)],
        interpret=pallas_rs.Params(),
    )
    with explained(pallas_rs.DeadlockError):
        jax.block_until_ready(jax.jit(lambda: wrong())())


def main():
    print(f"pallas-rs {pallas_rs.__version__}, jax {jax.__version__}")
    dynamic_grid()
    shipped_attention()
    flash_attention()
    barriers()
    wrong_index_map()
    deadlock()
    heading("done")


if __name__ == "__main__":
    main()
