"""Forward mode composed with itself, with batching and with control flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl

ROWS, COLUMNS = 4, 8


def f(x, n):
    """Rows below `n`: sine times (row + 1). The others stay."""

    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...]) * (pl.program_id(0) + 1).astype(x_ref.dtype)

    spec = pl.BlockSpec((1, COLUMNS), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(n,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
        interpret=pallas_rs.Params(),
    )(x)


def twin(x, n):
    i = jnp.arange(ROWS)[:, None]
    return jnp.where(i < n, jnp.sin(x) * (i + 1), x)


def jvp(function, x, t):
    return jax.jvp(function, (x,), (t,))


COMPOSITIONS = {
    "jvp": lambda f, x, t, n: jvp(lambda x: f(x, n), x, t),
    "linearize": lambda f, x, t, n: [
        y if i == 0 else y(t) for i, y in enumerate(jax.linearize(lambda x: f(x, n), x))
    ],
    "linear function used twice": lambda f, x, t, n: [
        jax.linearize(lambda x: f(x, n), x)[1](s) for s in (t, x)
    ],
    "jacfwd over a scalar": lambda f, x, t, n: jax.jacfwd(lambda s: f(s * x, n))(1.3),
    "jacfwd over a vector": lambda f, x, t, n: jax.jacfwd(lambda s: f(x * s[:, None], n))(x[:, 0]),
    "jacfwd of jacfwd": lambda f, x, t, n: jax.jacfwd(jax.jacfwd(lambda s: f(s * x, n).sum()))(1.3),
    "jvp of jvp": lambda f, x, t, n: jvp(lambda x: jvp(lambda x: f(x, n), x, t), x, 2 * t),
    "jvp of jvp along another direction": lambda f, x, t, n: jvp(
        lambda t: jvp(lambda x: f(x, n), x, t), t, x
    ),
    "linearize of jvp": lambda f, x, t, n: jax.linearize(lambda x: jvp(lambda x: f(x, n), x, t), x)[
        1
    ](t),
    "vmap of jvp": lambda f, x, t, n: jax.vmap(lambda x, t: jvp(lambda x: f(x, n), x, t))(
        jnp.stack([x, t]), jnp.stack([t, x])
    ),
    "vmap of jvp over primals": lambda f, x, t, n: jax.vmap(lambda x: jvp(lambda x: f(x, n), x, t))(
        jnp.stack([x, t])
    ),
    "vmap of jvp over tangents": lambda f, x, t, n: jax.vmap(
        lambda t: jvp(lambda x: f(x, n), x, t)
    )(jnp.stack([x, t])),
    "vmap of jvp over the bound": lambda f, x, t, n: jax.vmap(
        lambda n: jvp(lambda x: f(x, n), x, t)
    )(jnp.arange(ROWS + 1)),
    "vmap of vmap of jvp": lambda f, x, t, n: jax.vmap(
        jax.vmap(lambda x, t: jvp(lambda x: f(x, n), x, t), (0, None)), (None, 0)
    )(jnp.stack([x, t]), jnp.stack([t, x])),
    "jvp of vmap": lambda f, x, t, n: jvp(
        jax.vmap(lambda x: f(x, n)), jnp.stack([x, t]), jnp.stack([t, x])
    ),
    "jvp of vmap over the bound": lambda f, x, t, n: jvp(
        lambda x: jax.vmap(lambda n: f(x, n))(jnp.arange(ROWS + 1)), x, t
    ),
    "scan of jvp": lambda f, x, t, n: lax.scan(
        lambda c, _: (jvp(lambda x: f(x, n), *c), None), (x, t), None, length=3
    )[0],
    "jvp of scan": lambda f, x, t, n: jvp(
        lambda x: lax.scan(lambda c, m: (f(c, m), c), x, jnp.array([1, 4, 2])), x, t
    ),
    "jvp of while": lambda f, x, t, n: jvp(
        lambda x: lax.fori_loop(0, n, lambda i, c: f(c, i), x), x, t
    ),
    "jvp of cond": lambda f, x, t, n: jvp(
        lambda x: lax.cond(n > 2, lambda x: f(x, n), lambda x: x, x), x, t
    ),
    "jvp of map": lambda f, x, t, n: jvp(
        lambda x: lax.map(lambda m: f(x, m), jnp.array([1, 4])), x, t
    ),
    "jvp of checkpoint": lambda f, x, t, n: jvp(jax.checkpoint(lambda x: f(x, n)), x, t),
    "linearize of checkpoint": lambda f, x, t, n: jax.linearize(
        jax.checkpoint(lambda x: f(x, n)), x
    )[1](t),
    "jvp of two kernels": lambda f, x, t, n: jvp(lambda x: f(f(x, n), 2) * x, x, t),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_composition(name, rand, close):
    compose = COMPOSITIONS[name]
    x, t = rand(ROWS, COLUMNS), rand(ROWS, COLUMNS)
    actual = jax.jit(lambda x, t, n: compose(f, x, t, n))(x, t, 3)
    close(actual, compose(twin, x, t, 3))


def test_the_primal_of_linearize_is_known_and_computed_once(rand):
    x = rand(ROWS, COLUMNS)
    y, linear = jax.linearize(lambda x: f(x, 3), x)
    assert not isinstance(y, jax.core.Tracer)
    before = len(pallas_rs.reports())
    jax.block_until_ready(linear(x))
    assert len(pallas_rs.reports()) - before in (0, 1)
    np.testing.assert_array_equal(y, f(x, 3))
