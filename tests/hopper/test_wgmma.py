"""Tensor cores: operand types, places and views, accumulators, groups in flight."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F16, F32, I8, I32 = jnp.float16, jnp.float32, jnp.int8, jnp.int32
E4M3, E5M2 = jnp.float8_e4m3fn, jnp.float8_e5m2
COMPLETION = ["late", "eager", "random"]
NEW_JAX = jax.__version_info__ >= (0, 11)


def tiled(dtype):
    elements = 128 // jnp.dtype(dtype).itemsize
    return (plgpu.TilingTransform((8, elements)), plgpu.SwizzleTransform(128))


def smem(shape, dtype):
    return plgpu.SMEM(shape, dtype, transforms=tiled(dtype))


def product(a, b):
    return np.asarray(a, np.float64) @ np.asarray(b, np.float64)


def matmul_kernel(a, b, multiply, acc_dtype=F32, out=None):
    """`multiply(acc, a_smem, b_smem)` on a and b, which have been copied to SMEM."""
    out = out or (a.shape[0], b.shape[1])

    def body(a, b, o, a_s, b_s, done):
        plgpu.copy_gmem_to_smem(a, a_s, done)
        plgpu.copy_gmem_to_smem(b, b_s, done)
        plgpu.barrier_wait(done)

        def scope(acc):
            multiply(acc, a_s, b_s)
            return acc[...]

        o[...] = pl.run_scoped(scope, plgpu.ACC(out, acc_dtype))

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(out, acc_dtype),
        scratch_types=[
            smem(a.shape, a.dtype),
            smem(b.shape, b.dtype),
            plgpu.Barrier(num_arrivals=2),
        ],
    )


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize(
    ("dtype", "acc_dtype"),
    [(F16, F32), (F16, F16), (jnp.bfloat16, F32), (E4M3, F32), (E5M2, F32), (I8, I32)],
)
def test_operand_types(run, rand, dtype, acc_dtype, completion):
    a, b = rand((64, 128), dtype, 1), rand((128, 128), dtype, 2)

    def multiply(acc, a_s, b_s):
        # Eight-bit operands are only taken with the contracted dimension last.
        if jnp.dtype(dtype).itemsize == 1:
            b_s = b_s.transpose((1, 0))
        plgpu.wgmma(acc, a_s, b_s)

    if jnp.dtype(dtype).itemsize == 1:
        kernel = matmul_kernel(a, b.T, multiply, acc_dtype, (64, 128))
        got = run(kernel, a, b.T, async_completion=completion)
    else:
        kernel = matmul_kernel(a, b, multiply, acc_dtype)
        got = run(kernel, a, b, async_completion=completion)
    tolerance = 2e-2 if acc_dtype == F16 else 1e-4
    np.testing.assert_allclose(np.asarray(got, np.float64), product(a, b), atol=tolerance)


def test_mixed_eight_bit_floats(run, rand):
    if not NEW_JAX:
        pytest.skip("needs jax 0.11")
    a, b = rand((64, 128), E4M3, 1), rand((64, 128), E5M2, 2)
    kernel = matmul_kernel(
        a,
        b,
        lambda acc, a_s, b_s: plgpu.wgmma(acc, a_s, b_s.transpose((1, 0))),
        out=(64, 64),
    )
    np.testing.assert_allclose(run(kernel, a, b), product(a, b.T), atol=1e-4)


def test_float32_operands_are_rounded_to_tf32(run):
    """An operand keeps ten bits of its fraction: the eleventh disappears."""
    eye = jnp.eye(64, 32, dtype=F32)
    b = jnp.full((64, 32), 1 + 2.0**-10 + 2.0**-13, F32)
    kernel = matmul_kernel(
        eye,
        b,
        lambda acc, a_s, b_s: plgpu.wgmma(acc, a_s, b_s.transpose((1, 0))),
        out=(64, 64),
    )
    want = np.where(np.arange(64)[:, None] < 32, 1 + 2.0**-10, 0) * np.ones((1, 64))
    np.testing.assert_array_equal(run(kernel, eye, b), want)


def test_left_operand_in_registers(run, rand):
    a, b = rand((64, 64), F16, 1), rand((64, 64), F16, 2)
    kernel = matmul_kernel(a, b, lambda acc, a_s, b_s: plgpu.wgmma(acc, a_s[...] * 2, b_s))
    np.testing.assert_allclose(run(kernel, a, b), 2 * product(a, b), atol=1e-4)


@pytest.mark.parametrize("which", ["a", "b", "both"])
def test_transposed_operands(run, rand, which):
    a, b = rand((64, 64), F16, 1), rand((64, 64), F16, 2)

    def multiply(acc, a_s, b_s):
        if which != "b":
            a_s = a_s.transpose((1, 0))
        if which != "a":
            b_s = b_s.transpose((1, 0))
        plgpu.wgmma(acc, a_s, b_s)

    want = product(a.T if which != "b" else a, b.T if which != "a" else b)
    np.testing.assert_allclose(run(matmul_kernel(a, b, multiply), a, b), want, atol=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_in_a_union(run, rand, transposed):
    """What a union's member is extracted by is a transform of the operand."""

    def body(a, b, o, union, done):
        (a_s, b_s), _ = union
        plgpu.copy_gmem_to_smem(a, a_s, done)
        plgpu.copy_gmem_to_smem(b, b_s, done)
        plgpu.barrier_wait(done)

        def scope(acc):
            plgpu.wgmma(acc, a_s, b_s.T if transposed else b_s)
            return acc[...]

        o[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    a, b = rand((64, 64), F16, 1), rand((64, 64), F16, 2)
    call = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((64, 64), F32),
        scratch_types=[
            plgpu.RefUnion([smem((64, 64), F16), smem((64, 64), F16)], smem((64, 64), F16)),
            plgpu.Barrier(num_arrivals=2),
        ],
    )
    got = run(lambda a, b: call(a, b), a, b)
    np.testing.assert_allclose(got, product(a, b.T if transposed else b), atol=1e-3)


@pytest.mark.parametrize("completion", COMPLETION)
def test_slices_and_several_groups_in_flight(run, rand, completion):
    a, b = rand((64, 256), F16, 1), rand((256, 64), F16, 2)

    def multiply(acc, a_s, b_s):
        for k in range(4):
            part = pl.ds(k * 64, 64)
            plgpu.wgmma(acc, a_s.at[:, part], b_s.at[part])
            plgpu.wgmma_wait(1)

    kernel = matmul_kernel(a, b, multiply)
    got = run(kernel, a, b, async_completion=completion)
    np.testing.assert_allclose(got, product(a, b), atol=1e-3)


def test_an_operand_is_read_when_the_product_completes(run, rand):
    """Late completion: overwriting an operand in flight changes the result."""
    a, b = rand((64, 64), F16, 1), rand((64, 64), F16, 2)

    def multiply(acc, a_s, b_s):
        plgpu.wgmma(acc, a_s, b_s)
        b_s[...] = jnp.zeros((64, 64), F16)
        plgpu.wgmma_wait(0)

    kernel = matmul_kernel(a, b, multiply)
    late = run(kernel, a, b, async_completion="late")
    np.testing.assert_array_equal(late, np.zeros((64, 64)))
    eager = run(kernel, a, b, async_completion="eager")
    np.testing.assert_allclose(eager, product(a, b), atol=1e-4)


@pytest.mark.parametrize("columns", [64, 128])
def test_views_of_an_accumulator(run, rand, columns):
    if not NEW_JAX:
        pytest.skip("needs jax 0.11")
    a, b = rand((64, 64), F16, 1), rand((64, 256), F16, 2)

    def multiply(acc, a_s, b_s):
        for start in range(0, 256, columns):
            part = pl.ds(start, columns)
            plgpu.wgmma(acc.at[:, part], a_s, b_s.at[:, part])

    kernel = matmul_kernel(a, b, multiply)
    np.testing.assert_allclose(run(kernel, a, b), product(a, b), atol=1e-4)


@pytest.mark.parametrize("completion", COMPLETION)
def test_an_accumulator_with_first_contents(run, rand, completion):
    def body(a, b, c, o, a_s, b_s, done):
        plgpu.copy_gmem_to_smem(a, a_s, done)
        plgpu.copy_gmem_to_smem(b, b_s, done)
        plgpu.barrier_wait(done)

        def inner(acc):
            plgpu.wgmma(acc, a_s, b_s)

        o[...] = pl.run_state(inner)(plgpu.ACC.init(c[...]))

    a, b, c = rand((64, 64), F16, 1), rand((64, 64), F16, 2), rand((64, 64), F32, 3)
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((64, 64), F32),
        scratch_types=[smem((64, 64), F16)] * 2 + [plgpu.Barrier(num_arrivals=2)],
    )
    got = run(kernel, a, b, c, async_completion=completion)
    np.testing.assert_allclose(got, product(a, b) + np.asarray(c), atol=1e-4)


def test_an_accumulator_may_be_read_and_set(run, rand):
    a, b = rand((64, 64), F16, 1), rand((64, 64), F16, 2)

    def multiply(acc, a_s, b_s):
        acc[...] = jnp.ones((64, 64), F32)
        plgpu.wgmma(acc, a_s, b_s)
        acc[...] = acc[...] * 2

    kernel = matmul_kernel(a, b, multiply)
    np.testing.assert_allclose(run(kernel, a, b), 2 * (product(a, b) + 1), atol=1e-3)


def test_each_thread_has_its_own_accumulator(run, rand):
    def body(a, b, o, a_s, b_s, done):
        w = lax.axis_index("w")

        @pl.when(w == 0)
        def _():
            plgpu.copy_gmem_to_smem(a, a_s, done)
            plgpu.copy_gmem_to_smem(b, b_s, done)

        plgpu.barrier_wait(done)

        def scope(acc):
            plgpu.wgmma(acc, a_s.at[pl.ds(w * 64, 64)], b_s)
            return acc[...]

        o[pl.ds(w * 64, 64)] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    a, b = rand((128, 64), F16, 1), rand((64, 64), F16, 2)
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((128, 64), F32),
        num_threads=2,
        thread_name="w",
        scratch_types=[
            smem((128, 64), F16),
            smem((64, 64), F16),
            plgpu.Barrier(num_arrivals=2),
        ],
    )
    np.testing.assert_allclose(run(kernel, a, b), product(a, b), atol=1e-4)


@pytest.mark.skipif(not hasattr(plgpu, "mma"), reason="this JAX has no mma")
@pytest.mark.parametrize(("dtype", "acc_dtype"), [(F16, F32), (jnp.bfloat16, F32), (I8, I32)])
def test_synchronous_mma(run, rand, dtype, acc_dtype):
    def body(a, b, c, o):
        o[...] = plgpu.mma(c[...], a[...], b[...])

    a, b, c = rand((64, 32), dtype, 1), rand((32, 16), dtype, 2), rand((64, 16), acc_dtype)
    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((64, 16), acc_dtype))
    want = product(a, b) + np.asarray(c, np.float64)
    np.testing.assert_allclose(run(kernel, a, b, c), want, atol=1e-4)
