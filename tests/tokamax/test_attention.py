"""Flash attention on Ampere, Hopper and Blackwell, and its derivatives."""

import importlib

import jax
import jax.numpy as jnp
import pallas_rs
import pytest

KERNELS = {
    "a100": "flash_attention_sm80_split_head",
    "h100": "flash_attention_sm90",
    "b200": "flash_attention_sm100",
}
DERIVATIVES = {
    "h100": (),  # they have no names of their own
    "b200": ("sm100_dq_kernel", "sm100_dkv_kernel"),
}

# Batch, length of queries and of keys, heads of both, depth.
SHAPES = [
    (1, 128, 128, 1, 1, 64),
    (2, 256, 384, 4, 2, 128),
    (1, 100, 200, 2, 2, 64),
]


@pytest.fixture(scope="module")
def attention():
    return importlib.import_module("tokamax._src.ops.attention.pallas_mosaic_gpu")


def operands(rand, shape, dtype=jnp.bfloat16):
    batch, queries, keys, heads, kv_heads, depth = shape
    q = rand((batch, queries, heads, depth), 1, dtype)
    return q, *(rand((batch, keys, kv_heads, depth), seed, dtype) for seed in (2, 3))


def reference(q, k, v, *, causal=False, mask=None, bias=None, cap=None):
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
    k, v = jnp.repeat(k, group, 2), jnp.repeat(v, group, 2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    if bias is not None:
        scores += bias.astype(jnp.float32)
    if cap is not None:
        scores = jnp.tanh(scores / cap) * cap
    if causal:
        scores = jnp.where(
            jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1]), scores, -jnp.inf
        )
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def params(device):
    # Its last steps use K and V before their copies have completed, see below.
    eager = {"async_completion": "eager"} if device == "a100" else {}
    return pallas_rs.Params(**eager)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("device", KERNELS)
def test_forward(attention, rand, close, ran, device, shape, causal):
    q, k, v = operands(rand, shape)
    if causal:
        k, v = k[:, : q.shape[1]], v[:, : q.shape[1]]
    op = attention.PallasMosaicGpuFlashAttention()
    with pallas_rs.simulate(device, cores=4, params=params(device)):
        got = ran(lambda: op(q, k, v, is_causal=causal), KERNELS[device])
    close(got, reference(q, k, v, causal=causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("device", "shape"),
    # The third shape on Hopper: see the test of out-of-bounds reads below.
    [("h100", s) for s in SHAPES[:2]] + [("b200", s) for s in SHAPES],
    ids=str,
)
def test_derivatives(attention, rand, close, ran, device, shape, causal):
    q, k, v = operands(rand, shape)
    if causal:
        k, v = k[:, : q.shape[1]], v[:, : q.shape[1]]
    dout = rand(q.shape, 4)
    op = attention.PallasMosaicGpuFlashAttention()

    def gradients():
        return jax.vjp(lambda q, k, v: op(q, k, v, is_causal=causal), q, k, v)[1](dout)

    with pallas_rs.simulate(device, cores=4):
        names = DERIVATIVES[device]
        got = ran(gradients, KERNELS[device], *names) if names else gradients()
    _, vjp = jax.vjp(lambda *x: reference(*x, causal=causal), q, k, v)
    for g, want in zip(got, vjp(dout.astype(jnp.float32)), strict=True):
        close(g, want, roundings=4)


@pytest.mark.parametrize("what", ["mask", "bias", "cap", "mask for all heads"])
@pytest.mark.parametrize("device", KERNELS)
def test_scores_that_are_changed(attention, rand, close, device, what):
    q, k, v = operands(rand, (2, 128, 256, 2, 2, 64))
    mask = rand((2, 2, 128, 256), 5) > -1
    ours, theirs = {
        "mask": ({"mask": mask},) * 2,
        "mask for all heads": ({"mask": mask[:, :1]},) * 2,
        "bias": ({"bias": rand((2, 2, 128, 256), 6)},) * 2,
        "cap": ({"cap": 2.0}, {"logits_soft_cap": 2.0}),
    }[what]
    op = attention.PallasMosaicGpuFlashAttention()
    with pallas_rs.simulate(device, cores=4, params=params(device)):
        got = op(q, k, v, **theirs)
    close(got, reference(q, k, v, **ours))


@pytest.mark.parametrize(
    ("device", "config"),
    [
        ("h100", {"block_q": 64, "block_kv": 64, "persistent": True}),
        ("b200", {"block_q": 256, "block_kv": 128, "collective": True}),
        ("b200", {"block_q": 128, "block_kv": 128, "collective": False, "persistent": True}),
        ("b200", {"block_q": 128, "block_kv": 128, "collective": False, "persistent": "static"}),
        ("b200", {"block_q": 128, "block_kv": 128, "collective": False, "num_tma_splits": 2}),
    ],
    ids=str,
)
def test_configurations(attention, rand, close, ran, device, config):
    q, k, v = operands(rand, (2, 512, 256, 2, 1, 64))
    cls = attention.ConfigSM90 if device == "h100" else attention.ConfigSM100
    op = attention.PallasMosaicGpuFlashAttention(config=cls(num_stages=2, **config))
    with pallas_rs.simulate(device, cores=4):
        got = ran(lambda: op(q, k, v), KERNELS[device])
    close(got, reference(q, k, v))


def test_the_last_steps_on_ampere_do_not_wait_for_their_copies(attention, rand):
    """A finding of ours, in a kernel that is right where copies are fast.

    Each step leaves one copy in flight, the last one too, behind which there is no other.
    """
    q, k, v = operands(rand, (1, 64, 384, 1, 1, 128))
    races = pallas_rs.Params(detect_races=True)
    op = attention.PallasMosaicGpuFlashAttention()
    with (
        pytest.raises(pallas_rs.RaceError, match=r"PRS-C1.*before the copy that fills it"),
        pallas_rs.typed_errors(),
        pallas_rs.simulate("a100", cores=4, params=races),
    ):
        jax.block_until_ready(op(q, k, v))


def test_a_derivative_on_hopper_reads_past_the_last_query(attention, rand):
    """A finding of ours: its sums per row are padded to eight rows and read in tiles of 64."""
    q, k, v = operands(rand, SHAPES[2])
    op = attention.PallasMosaicGpuFlashAttention()
    with (
        pytest.raises(pallas_rs.OutOfBoundsError, match=r"`delta_gmem` at 64:128 .* of size 104"),
        pallas_rs.typed_errors(),
        pallas_rs.simulate("h100", cores=4),
    ):
        jax.block_until_ready(jax.vjp(op, q, k, v)[1](q))
