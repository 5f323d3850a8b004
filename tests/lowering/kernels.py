"""Small kernels, one for each thing that the lowering does.

Each is a function and its operands; its program is in `golden/`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pallas_rs
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

X = jax.ShapeDtypeStruct((8, 128), jnp.float32)
ROW = pl.BlockSpec((1, 128), lambda i: (i, 0))


def _call(kernel, **kwargs):
    kwargs.setdefault("out_shape", X)
    return pl.pallas_call(kernel, interpret=pallas_rs.Params(), **kwargs)


def add():
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...] * 2

    return _call(kernel), (X, X)


def blocks():
    """Index maps and windows; the grid's bound is the first operand."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...])

    def run(n, x):
        return _call(kernel, grid=(n,), in_specs=[ROW], out_specs=ROW)(x)

    return run, (jax.ShapeDtypeStruct((), jnp.int32), X)


def block_dims():
    """A dimension of each kind."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((None, pl.Element(6, (1, 1)), 128), lambda i, j: (i * 2, j * 4, 0))
    out = pl.BlockSpec((None, 6, 128), lambda i, j: (i, j, 0))
    return _call(
        kernel,
        grid=(2, 3),
        in_specs=[spec],
        out_specs=out,
        out_shape=jax.ShapeDtypeStruct((2, 18, 128), jnp.float32),
    ), (jax.ShapeDtypeStruct((4, 10, 128), jnp.float32),)


def alias():
    def kernel(x_ref, o_ref):
        o_ref[...] += 1

    return _call(kernel, input_output_aliases={0: 0}), (X,)


def views():
    """Slices, an index from the end, a dynamic start, a chain."""

    def kernel(i_ref, x_ref, o_ref):
        i = i_ref[0]
        o_ref[-1] = x_ref[i]
        o_ref[pl.ds(0, 2), 0:64] = x_ref.at[2:6].at[pl.ds(i, 2)][:, 0:128:2]

    return _call(kernel), (jax.ShapeDtypeStruct((1,), jnp.int32), X)


def masks():
    def kernel(x_ref, o_ref):
        index = lax.iota(jnp.int32, 16)
        x = plt.load(x_ref.at[0, index], mask=index < 5, other=0.0)
        plt.store(o_ref.at[0, pl.ds(0, 16)], x, mask=x > 0)
        plt.atomic_add(o_ref, (1, pl.ds(0, 16)), x)

    return _call(kernel), (X,)


def loops():
    """A loop with static bounds, one whose bound is read, one that asks."""

    def kernel(n_ref, x_ref, o_ref):
        total = lax.fori_loop(0, 4, lambda i, c: c + x_ref[i], jnp.zeros(128))
        total = lax.fori_loop(0, n_ref[0], lambda i, c: c * x_ref[i], total)
        o_ref[0] = lax.while_loop(lambda c: jnp.sum(c) < 9.0, lambda c: c * 2, total)

    return _call(kernel), (jax.ShapeDtypeStruct((1,), jnp.int32), X)


def scan():
    def kernel(x_ref, o_ref):
        def step(carry, row):
            carry = carry + row
            return carry, carry * 2

        _, o_ref[...] = lax.scan(step, jnp.zeros(128), x_ref[...], reverse=True)

    return _call(kernel), (X,)


def branches():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)

        @pl.when(i == 0)
        def _():
            o_ref[0] = x_ref[0]

        o_ref[i] = lax.switch(i, [lambda x: x, lambda x: -x], x_ref[i])

    return _call(kernel, grid=(3,)), (X,)


def calls():
    """`jit` and its like are inlined."""

    @jax.jit
    def double(x):
        return x * 2

    @jax.custom_jvp
    def half(x):
        return x / 2

    half.defjvp(lambda x, t: (half(*x), t[0] / 2))

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.checkpoint(double)(half(x_ref[...]))

    return _call(kernel), (X,)


def matmul():
    def kernel(a_ref, b_ref, o_ref):
        o_ref[...] = jnp.dot(a_ref[...], b_ref[...].T, preferred_element_type=jnp.float32)

    half = jax.ShapeDtypeStruct((8, 128), jnp.float16)
    return _call(kernel, out_shape=jax.ShapeDtypeStruct((8, 8), jnp.float32)), (half, half)


def softmax():
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
        o_ref[...] = e / jnp.sum(e, axis=-1, keepdims=True)

    return _call(kernel, grid=(8,), in_specs=[ROW], out_specs=ROW), (X,)


def scratch():
    """Memory of a block, and memory that lasts as long as the grid."""
    from jax.experimental.pallas import mosaic_gpu as plgpu

    def kernel(x_ref, o_ref, block_ref, grid_ref):
        block_ref[...] = x_ref[...]
        grid_ref[...] += block_ref[...]
        o_ref[...] = grid_ref[...]

    return _call(
        kernel,
        grid=(2,),
        scratch_shapes=[
            plgpu.SMEM((8, 128), jnp.float32),
            pl.ANY((8, 128), jnp.float32),
        ],
    ), (X,)


def printing():
    def kernel(x_ref, o_ref):
        jax.debug.print("at {i}: {x}", i=pl.program_id(0), x=x_ref[0, 0])
        o_ref[...] = x_ref[...]

    return _call(kernel, grid=(2,)), (X,)


KERNELS = {
    f.__name__: f
    for f in (
        add,
        blocks,
        block_dims,
        alias,
        views,
        masks,
        loops,
        scan,
        branches,
        calls,
        matmul,
        softmax,
        scratch,
        printing,
    )
}
