"""The Triton-style kernels that JAX ships, unchanged, against `jnp`: forward and backward."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest

with warnings.catch_warnings():  # newer versions of JAX name a successor
    warnings.simplefilter("ignore", DeprecationWarning)
    from jax.experimental.pallas.ops.gpu import (
        attention,
        decode_attention,
        layer_norm,
        paged_attention,
        rms_norm,
        softmax,
    )


OURS = pallas_rs.Params()
F16, F32 = jnp.float16, jnp.float32


def near(got, want, atol):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=atol, atol=atol)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("q_len", "kv_len", "head_dim", "dtype"),
    [(256, 256, 64, F16), (384, 384, 32, F16), (128, 320, 64, F16), (256, 256, 64, F32)],
)
def test_attention(rand, q_len, kv_len, head_dim, dtype, causal):
    if causal and q_len != kv_len:
        pytest.skip("a causal mask needs as many keys as queries")
    q = rand((2, q_len, 3, head_dim), dtype, 0)
    k, v = (rand((2, kv_len, 3, head_dim), dtype, seed) for seed in (1, 2))
    blocks = attention.BlockSizes(
        block_q=64, block_k=64, block_q_dkv=32, block_kv_dkv=32, block_q_dq=32, block_kv_dq=32
    )
    got = attention.mha(
        q, k, v, None, sm_scale=0.2, causal=causal, block_sizes=blocks, interpret=OURS
    )
    near(got, attention.mha_reference(q, k, v, None, sm_scale=0.2, causal=causal), 4e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_of_attention(rand, causal):
    q, k, v = (rand((1, 128, 2, 32), F16, seed) for seed in range(3))
    segments = jnp.asarray(np.arange(128)[None] // 48, jnp.int32)

    def loss(function, **more):
        return lambda q, k, v: function(
            q, k, v, segments, sm_scale=0.2, causal=causal, **more
        ).sum()

    got = jax.grad(loss(attention.mha, interpret=OURS), argnums=(0, 1, 2))(q, k, v)
    want = jax.grad(loss(attention.mha_reference), argnums=(0, 1, 2))(q, k, v)
    for mine, theirs in zip(got, want, strict=True):
        near(mine, theirs, 2e-2)


@pytest.mark.parametrize(("heads", "kv_heads", "seq_len"), [(8, 2, 512), (16, 16, 768)])
def test_grouped_query_decoding(rand, heads, kv_heads, seq_len):
    q = rand((2, heads, 64), F16, 0)
    k, v = (rand((2, seq_len, kv_heads, 64), F16, seed) for seed in (1, 2))
    bounds = {
        "start_idx": jnp.array([0, 17], jnp.int32),
        "kv_seq_len": jnp.array([seq_len, seq_len // 2], jnp.int32),
    }
    got = decode_attention.gqa(q, k, v, **bounds, k_splits=4, block_k=64, interpret=OURS)
    near(got, decode_attention.gqa_reference(q, k, v, **bounds), 4e-3)


def test_multi_query_decoding(rand):
    q, k, v = (rand(s, F16, i) for i, s in enumerate([(2, 24, 64), (2, 512, 64), (2, 512, 64)]))
    got = decode_attention.mqa(q, k, v, k_splits=8, block_k=64, interpret=OURS)
    near(got, decode_attention.mqa_reference(q, k, v), 4e-3)


@pytest.mark.parametrize("lengths", [[300, 7, 512], [512, 512, 1]])
def test_paged_attention(rand, lengths):
    batch, kv_heads, heads, pages, page, dim = 3, 2, 8, 16, 32, 64
    tables = jnp.asarray(
        np.random.default_rng(0).permutation(batch * pages).reshape(batch, pages), jnp.int32
    )
    q = rand((batch, heads, dim), F16, 0)
    k, v = (rand((kv_heads, batch * pages, page, dim), F16, seed) for seed in (1, 2))
    lengths = jnp.asarray(lengths, jnp.int32)
    got = paged_attention.paged_attention(
        q, k, v, tables, lengths, pages_per_compute_block=4, k_splits=2, interpret=OURS
    )

    def gathered(x):  # [batch, length, kv_heads, dim]
        return jnp.moveaxis(x[:, tables], 0, 3).reshape(batch, pages * page, kv_heads, dim)

    want = paged_attention.paged_attention_reference(q, gathered(k), gathered(v), lengths)
    near(got, want, 4e-3)


@pytest.mark.parametrize("dtype", [F16, jnp.bfloat16, F32])
@pytest.mark.parametrize("shape", [(64, 128), (3, 17, 250), (1000,)])
def test_softmax(rand, shape, dtype):
    x = rand(shape, dtype) * 8
    got = softmax.softmax(x, interpret=OURS)
    near(got, jax.nn.softmax(x, axis=-1), float(jnp.finfo(dtype).eps) * 4)


@pytest.mark.parametrize("shape", [(2, 64, 192), (1, 5, 4100)])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_norms(rand, norm, shape):
    module = {"layer_norm": layer_norm, "rms_norm": rms_norm}[norm]
    function, reference = getattr(module, norm), getattr(module, f"{norm}_reference")
    x, out_t = (rand(shape, F32, seed) for seed in (0, 1))
    weight, bias = (rand(shape[-1:], F32, seed) for seed in (2, 3))
    ours = (None, 3, 1e-5, "triton", OURS)
    near(function(x, weight, bias, *ours), reference(x, weight, bias), 1e-5)
    got = jax.grad(lambda *a: (function(*a, *ours) * out_t).sum(), (0, 1, 2))(x, weight, bias)
    want = jax.grad(lambda *a: (reference(*a) * out_t).sum(), (0, 1, 2))(x, weight, bias)
    for mine, theirs in zip(got, want, strict=True):
        near(mine, theirs, 2e-4)
