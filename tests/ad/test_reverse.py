"""Reverse mode: refused with advice, and possible with a rule of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

P = pallas_rs.Params()


def times_sine(x_ref, o_ref):
    o_ref[...] = x_ref[...] * jnp.sin(x_ref[...])


def by_pallas_call(x):
    return pl.pallas_call(
        times_sine, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=P
    )(x)


def by_kernel(x):
    return plgpu.kernel(times_sine, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=P)(x)


x = jnp.linspace(-1, 1, 16, dtype=jnp.float32)

WAYS = {
    "grad": lambda f: jax.grad(lambda x: f(x).sum())(x),
    "grad in jit": lambda f: jax.jit(jax.grad(lambda x: f(x).sum()))(x),
    "vjp": lambda f: jax.vjp(f, x)[1](x),
    "value_and_grad": lambda f: jax.value_and_grad(lambda x: f(x).sum())(x),
    "linearize and transpose": lambda f: jax.linear_transpose(jax.linearize(f, x)[1], x)(x),
    "jacrev": lambda f: jax.jacrev(f)(x),
    "hessian": lambda f: jax.hessian(lambda x: f(x).sum())(x),
    "checkpoint": lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(x),
    "scan": lambda f: jax.grad(
        lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0].sum()
    )(x),
    "vmap": lambda f: jax.grad(lambda x: jax.vmap(f)(x.reshape(2, 8)).sum())(x),
}


@pytest.mark.parametrize("f", [by_pallas_call, by_kernel])
@pytest.mark.parametrize("way", WAYS)
def test_error_names_the_kernel_and_the_way_out(way, f):
    with pytest.raises(pallas_rs.UnsupportedError) as caught:
        WAYS[way](f)
    text = str(caught.value)
    assert "times_sine" in text or f is by_kernel
    assert "test_reverse.py" in text or f is by_kernel
    assert "jax.custom_vjp" in text
    assert isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize("f", [by_pallas_call, by_kernel])
def test_a_rule_of_ones_own(f):
    def derivative(x_ref, ct_ref, o_ref):
        o_ref[...] = ct_ref[...] * (jnp.sin(x_ref[...]) + x_ref[...] * jnp.cos(x_ref[...]))

    def backward(x, ct):
        return pl.pallas_call(
            derivative, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=P
        )(x, ct)

    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda x, ct: (backward(x, ct),))

    def twin(x):
        return x * jnp.sin(x)

    for transform in (
        lambda f: jax.grad(lambda x: f(x).sum()),
        lambda f: jax.jit(jax.grad(lambda x: f(x).sum())),
        lambda f: jax.vmap(jax.grad(lambda x: f(x).sum())),
        lambda f: jax.jacrev(f),
        lambda f: jax.grad(lambda x: jax.checkpoint(f)(f(x)).sum()),
    ):
        arg = jnp.stack([x, 2 * x])
        np.testing.assert_allclose(transform(g)(arg), transform(twin)(arg), rtol=1e-5, atol=1e-6)


def test_a_forward_rule_of_ones_own_is_reversed_by_jax():
    @jax.custom_jvp
    def g(x):
        return by_pallas_call(x)

    @g.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return g(x), t * (jnp.sin(x) + x * jnp.cos(x))

    np.testing.assert_allclose(
        jax.grad(lambda x: g(x).sum())(x),
        jax.grad(lambda x: (x * jnp.sin(x)).sum())(x),
        rtol=1e-5,
        atol=1e-6,
    )
