"""Time `pl.pallas_call` kernels under pallas-rs, JAX's HLO interpreter and jitted `jnp`.

    python benches/pallas_call.py

All three are interleaved in one process and the best sample of each counts, so that a busy
machine disturbs them alike. Ratios are what to quote. A floor that is missed is printed as
such and the exit status is 1.
"""

import argparse
import functools
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.gpu import attention


def softmax():
    """512 rows of 512, eight rows a block."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(512, 512)), jnp.float32)

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - x.max(axis=-1, keepdims=True))
        o_ref[...] = e / e.sum(axis=-1, keepdims=True)

    block = pl.BlockSpec((8, 512), lambda i: (i, 0))

    def make(interpret):
        return pl.pallas_call(
            kernel,
            grid=(64,),
            in_specs=[block],
            out_specs=block,
            out_shape=x,
            interpret=interpret,
        )

    return make, (x,), functools.partial(jax.nn.softmax, axis=-1)


def tiny_blocks():
    """4096 blocks that add 128 numbers each."""
    x = jnp.arange(4096 * 128, dtype=jnp.float32)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    block = pl.BlockSpec((128,), lambda i: (i,))

    def make(interpret):
        return pl.pallas_call(
            kernel,
            grid=(4096,),
            in_specs=[block, block],
            out_specs=block,
            out_shape=x,
            interpret=interpret,
        )

    return make, (x, x), lambda x, y: x + y


def shipped_attention():
    """jax.experimental.pallas.ops.gpu.attention, 256 x 64, two heads, causal."""
    q, k, v = (
        jnp.asarray(np.random.default_rng(i).normal(size=(1, 256, 2, 64)), jnp.float16)
        for i in range(3)
    )
    sizes = attention.BlockSizes(block_q=64, block_k=64)

    def make(interpret):
        return lambda q, k, v: attention.mha(
            q, k, v, segment_ids=None, causal=True, block_sizes=sizes, interpret=interpret
        )

    return make, (q, k, v), lambda q, k, v: attention.mha_reference(q, k, v, None, causal=True)


# case, least factor over the HLO interpreter
CASES = [(softmax, 20.0), (tiny_blocks, 20.0), (shipped_attention, 1.0)]


def sample(function, args, least=3e-3):
    start = time.perf_counter()
    jax.block_until_ready(function(*args))
    once = max(time.perf_counter() - start, 1e-7)
    repeats = max(1, min(2000, int(least / once)))
    start = time.perf_counter()
    for _ in range(repeats):
        result = function(*args)
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / repeats


def measure(case, seconds):
    make, args, native = case()
    functions = {
        "ours": jax.jit(make(pallas_rs.Params())),
        "hlo": jax.jit(make(True)),
        "native": jax.jit(native),
    }
    results = {name: np.asarray(f(*args), np.float32) for name, f in functions.items()}
    np.testing.assert_allclose(results["ours"], results["native"], rtol=2e-2, atol=2e-2)
    best = dict.fromkeys(functions, float("inf"))
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end:
        rounds += 1
        for name, function in functions.items():
            best[name] = min(best[name], sample(function, args))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="per case")
    options = parser.parse_args()
    print(f"{'case':20} {'pallas-rs':>12} {'x native':>9} {'hlo / ours':>11} {'floor':>6}")
    missed = 0
    for case, floor in CASES:
        best = measure(case, options.seconds)
        factor = best["hlo"] / best["ours"]
        missed += factor < floor
        print(
            f"{case.__name__:20} {best['ours'] * 1e6:9.1f} us {best['ours'] / best['native']:9.2f} "
            f"{factor:11.1f} {floor:6.0f} {'' if factor >= floor else ' missed'}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
