"""`attention_mgpu`: FlashAttention 3, forward in both forms, and backward."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.pallas.ops.gpu import attention_mgpu as attention

CONFIG = functools.partial(attention.TuningConfig, block_q=64, block_kv=64, max_concurrent_steps=2)
BACKWARD = {"block_q_dkv": 64, "block_kv_dkv": 64, "block_q_dq": 64, "block_kv_dq": 64}


def reference(q, k, v, causal=False):
    heads = q.shape[2] // k.shape[2]
    q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
    k, v = jnp.repeat(k, heads, axis=2), jnp.repeat(v, heads, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    if causal:
        mask = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])[None]
        scores = jnp.where(mask, scores, -jnp.inf)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
    return out, jax.nn.logsumexp(scores, axis=-1)


def arguments(rand, batch, q_len, kv_len, heads, kv_heads, dim, dtype=jnp.float16):
    q = rand((batch, q_len, heads, dim), dtype, 1)
    k, v = (rand((batch, kv_len, kv_heads, dim), dtype, seed) for seed in (2, 3))
    return q, k, v


SHAPES = [
    (1, 128, 128, 1, 1, 64),
    (2, 256, 128, 2, 1, 64),
    (1, 128, 256, 4, 2, 128),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ["attention", "attention_with_pipeline_emitter"])
def test_forward(h100, rand, close, form, shape):
    args = arguments(rand, *shape)
    with h100():
        got = jax.jit(lambda *a: getattr(attention, form)(*a, CONFIG()))(*args)
    close(got, reference(*args)[0])


@pytest.mark.parametrize("form", ["attention", "attention_with_pipeline_emitter"])
def test_residuals(h100, rand, close, form):
    args = arguments(rand, 1, 128, 256, 2, 1, 64)
    call = functools.partial(getattr(attention, form), config=CONFIG(), save_residuals=True)
    with h100():
        out, (lse,) = jax.jit(call)(*args)
    want, want_lse = reference(*args)
    close(out, want)
    # The kernel's logarithms have base 2.
    close(lse / jnp.log2(jnp.e), want_lse)


@pytest.mark.parametrize("length", [128, 256])
def test_causal(h100, rand, close, length):
    args = arguments(rand, 1, length, length, 2, 1, 64)
    with h100():
        got = jax.jit(lambda *a: attention.attention(*a, CONFIG(causal=True)))(*args)
    close(got, reference(*args, causal=True)[0])


@pytest.mark.parametrize("blocks", [(64, 128), (128, 64)])
def test_block_sizes(h100, rand, close, blocks):
    config = CONFIG(block_q=blocks[0], block_kv=blocks[1])
    args = arguments(rand, 1, 256, 256, 1, 1, 64)
    with h100():
        got = jax.jit(lambda *a: attention.attention(*a, config))(*args)
    close(got, reference(*args)[0])


def test_completion(h100, rand, close, completion):
    args = arguments(rand, 1, 128, 256, 1, 1, 64)
    with h100(async_completion=completion, schedule="random", seeds=10):
        got = jax.jit(lambda *a: attention.attention(*a, CONFIG()))(*args)
    close(got, reference(*args)[0])


@pytest.mark.parametrize("shape", [(1, 128, 128, 1, 1, 64), (2, 128, 256, 2, 1, 64)])
def test_backward(h100, rand, close, shape):
    args = arguments(rand, *shape)
    cotangent = rand(args[0].shape, jnp.float16, 4)

    def loss(q, k, v):
        out = attention.attention(q, k, v, CONFIG(**BACKWARD))
        return (out.astype(jnp.float32) * cotangent).sum()

    def reference_loss(q, k, v):
        return (reference(q, k, v)[0] * cotangent).sum()

    with h100():
        got = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*args)
    want = jax.grad(reference_loss, argnums=(0, 1, 2))(*args)
    for g, w in zip(got, want, strict=True):
        close(g, w, scale=4)
