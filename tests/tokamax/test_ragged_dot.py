"""Ragged products on Ampere, Hopper and Blackwell, most of them quantised."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest

BF16, I4, I8, F8 = jnp.bfloat16, jnp.int4, jnp.int8, jnp.float8_e4m3fn
M_MINOR = 0

# Rows, depth, columns, sizes of the groups: even, uneven with rows left over, empty ones.
SHAPES = [
    (256, 128, 256, (64, 64, 64, 64)),
    (384, 256, 256, (100, 0, 200, 37)),
    (200, 512, 512, (0, 1, 130, 0, 7)),
]

# Kernel: device, tile, type of both operands, further configuration.
KERNELS = {
    "ragged_dot_sm80": ("a100", (64, 128, 64), BF16, BF16, {}),
    "ragged_dot_sm90": ("h100", (128, 64, 128), BF16, BF16, {}),
    "ragged_dot_sm90, one tile per block": (
        "h100",
        (64, 64, 64),
        BF16,
        BF16,
        {"persistent": False},
    ),
    "ragged_dot_quant_sm90, int8": ("h100", (128, 64, 128), BF16, I8, {}),
    "ragged_dot_quant_sm90, int4": ("h100", (64, 64, 128), BF16, I4, {}),
    "ragged_dot_quant_sm90, float8": ("h100", (128, 64, 128), BF16, F8, {}),
    "ragged_dot_sm100": ("b200", (128, 128, 128), BF16, BF16, {}),
    "ragged_dot_sm100, two blocks": ("b200", (64, 128, 128), BF16, BF16, {"collective": True}),
    "ragged_dot_quant_sm100": ("b200", (64, 128, 128), BF16, I4, {}),
    "ragged_dot_quant_sm100, two blocks": (
        "b200",
        (32, 128, 128),
        BF16,
        I4,
        {"collective": True},
    ),
    "ragged_dot_quant_post_scale_sm100": (
        "b200",
        (64, 128, 128),
        BF16,
        I4,
        {"post_scale": True},
    ),
    "ragged_dot_fp8_quant_sm100": (
        "b200",
        (16, 128, 128),
        F8,
        I4,
        {"grid_minor_dim": M_MINOR},
    ),
    "ragged_dot_fp8_quant_sm100, two blocks": (
        "b200",
        (32, 128, 128),
        F8,
        I4,
        {"collective": True},
    ),
    "ragged_dot_i8_quant_sm100": ("b200", (16, 128, 128), I8, I4, {}),
}


@pytest.fixture(scope="module")
def ragged():
    return importlib.import_module("tokamax._src.ops.ragged_dot.pallas_mosaic_gpu")


def config(ragged, tile, **more):
    m, n, k = tile
    return ragged.Config(block_m=m, block_n=n, block_k=k, num_stages=2, split_k=1, **more)


def quantised(x, dtype, tile):
    import qwix

    if x.dtype == dtype:
        return x
    return qwix.quantize(x, dtype, tiled_axes=dict(enumerate(tile)))


def numbers(x):
    """What an operand stands for, in float32."""
    if isinstance(x, jax.Array):
        return x.astype(jnp.float32)
    values, scales = x.qvalue.astype(jnp.float32), x.scale.astype(jnp.float32)
    for axis, (size, scaled) in enumerate(zip(values.shape, scales.shape, strict=True)):
        scales = jnp.repeat(scales, size // scaled, axis)
    return values * scales


def reference(lhs, rhs, sizes):
    """The rows that are in a group."""
    lhs, rhs = numbers(lhs), numbers(rhs)
    ends = np.cumsum(sizes)
    parts = [
        lhs[end - size : end] @ rhs[g]
        for g, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]
    return jnp.concatenate(parts)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s[:3])))
@pytest.mark.parametrize("kernel", KERNELS)
def test_ragged_dot(ragged, rand, close, ran, kernel, shape):
    device, tile, lhs_type, rhs_type, more = KERNELS[kernel]
    m, k, n, sizes = shape
    lhs = quantised(rand((m, k), 1), lhs_type, (1, 128))
    rhs = quantised(rand((len(sizes), k, n), 2, std=k**-0.5), rhs_type, (1, 128, 1))
    op = ragged.PallasMosaicGpuRaggedDot(config=config(ragged, tile, **more))
    with pallas_rs.simulate(device, cores=4):
        got = ran(
            lambda: op(lhs, rhs, group_sizes=jnp.asarray(sizes, jnp.int32)),
            kernel.split(",")[0],
        )
    close(got[: sum(sizes)], reference(lhs, rhs, sizes))


def test_activation_in_the_epilogue(ragged, rand, close):
    lhs, rhs, sizes = rand((256, 128), 1), rand((4, 128, 256), 2, std=0.1), (60, 70, 66, 60)
    for device, tile in [("a100", (64, 128, 64)), ("h100", (128, 64, 64)), ("b200", (64, 128, 64))]:
        op = ragged.PallasMosaicGpuRaggedDot(config=config(ragged, tile))
        with pallas_rs.simulate(device, cores=4):
            got = op(lhs, rhs, group_sizes=jnp.asarray(sizes), activation=jax.nn.relu)
        close(got, jax.nn.relu(reference(lhs, rhs, sizes)))


def test_contraction_over_the_ragged_dimension(ragged, rand, close, ran):
    """The derivative by the right operand, which on Hopper is a kernel of its own."""
    lhs, rhs, sizes = rand((256, 128), 1), rand((4, 128, 256), 2, std=0.1), (60, 70, 66, 60)
    dout = rand((256, 256), 3)
    op = ragged.PallasMosaicGpuRaggedDot(config=config(ragged, (64, 64, 64)))

    def gradients():
        call = lambda a, b: op(a, b, group_sizes=jnp.asarray(sizes))  # noqa: E731
        return jax.vjp(call, lhs, rhs)[1](dout)

    with pallas_rs.simulate("h100", cores=4):
        got = ran(gradients, "ragged_dot_sm90", "ragged_contracting_dim_dot_sm90")
    _, vjp = jax.vjp(lambda a, b: reference(a, b, sizes), lhs, rhs)
    for g, want in zip(got, vjp(dout.astype(jnp.float32)), strict=True):
        close(g, want)


@pytest.mark.parametrize("permuted", [False, True])
def test_epilogue_that_quantises(ragged, rand, close, ran, permuted):
    """A body stores one scale per row, to where no other thread does."""
    from tokamax._src import mosaic_gpu
    from tokamax._src.ops.ragged_dot import pallas_mosaic_gpu_kernel_sm100_fp8_quant as fp8

    sizes = (70, 0, 30, 28)
    lhs = quantised(rand((128, 256), 1), F8, (1, 128))
    rhs = quantised(rand((4, 256, 256), 2, std=0.1), I4, (1, 128, 1))
    want = reference(lhs, rhs, sizes)
    name = "ragged_dot_fp8_quant_fused_output_sm100"
    if permuted:
        import dataclasses

        order = mosaic_gpu.apply_int4_to_fp8_offline_permute(rhs.qvalue, axis=1)
        rhs, name = dataclasses.replace(rhs, qvalue=order), f"{name}_offline_permute"
    epilogue = {"epilogue_quant_qtype": F8, "epilogue_quant_subchannel_size": 128}
    with pallas_rs.simulate("b200", cores=4):
        got = ran(
            lambda: fp8.ragged_dot_gpu_fp8_quant_blackwell_kernel(
                lhs,
                rhs,
                jnp.asarray(sizes),
                BF16,
                config(ragged, (16, 128, 128), **epilogue),
                None,
                int4_to_fp8_offline_permute=permuted,
            ),
            name,
        )
    # Three bits of mantissa.
    close(numbers(got), want, roundings=16)


def test_a_scale_that_is_read_out_of_bounds(ragged, rand):
    """The int8 kernel takes two tiles of columns at a time, and there is one."""
    lhs = quantised(rand((64, 128), 1), I8, (1, 128))
    rhs = quantised(rand((2, 128, 128), 2), I4, (1, 128, 1))
    op = ragged.PallasMosaicGpuRaggedDot(config=config(ragged, (16, 128, 128)))
    sizes = jnp.asarray([32, 32])
    with (
        pytest.raises(pallas_rs.OutOfBoundsError, match="128:256 of dimension 2 of size 128"),
        pallas_rs.typed_errors(),
        pallas_rs.simulate("b200", cores=4),
    ):
        jax.block_until_ready(op(lhs, rhs, group_sizes=sizes))
