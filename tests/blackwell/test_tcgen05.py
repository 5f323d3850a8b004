"""Products into tensor memory: operand types and places, scales, sparsity, pairs of blocks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F16, BF16, F32, I8, I32 = jnp.float16, jnp.bfloat16, jnp.float32, jnp.int8, jnp.int32
E4M3, E5M2, E2M1 = jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float4_e2m1fn
E8M0 = jnp.float8_e8m0fnu
COMPLETION = ["late", "eager", "random"]
NEW_JAX = jax.__version_info__ >= (0, 11)
needs_new_jax = pytest.mark.skipif(not NEW_JAX, reason="needs jax 0.11")


def bits(dtype):
    return jnp.finfo(dtype).bits if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).bits


def smem(shape, dtype):
    """SMEM in the layout of an operand."""
    swizzle = min(128, shape[-1] * bits(dtype) // 8)
    elements = 8 * swizzle // bits(dtype)
    return plgpu.SMEM(
        shape,
        dtype,
        transforms=(plgpu.TilingTransform((8, elements)), plgpu.SwizzleTransform(swizzle)),
    )


def tensor_barrier(**kw):
    return plgpu.Barrier(orders_tensor_core=True, **kw)


def wide(x):
    return np.asarray(jnp.asarray(x).astype(F32), np.float64)


def matmul(a, b, acc_dtype=F32, *, a_in_tmem=False):
    """a @ b.T for a of [m, k] and b of [n, k], with one product."""
    (m, k), n = a.shape, b.shape[0]

    def body(a, b, o, a_s, b_s, loaded, done, acc, *a_tmem):
        plgpu.copy_gmem_to_smem(a, a_s, loaded)
        plgpu.copy_gmem_to_smem(b, b_s, loaded)
        plgpu.barrier_wait(loaded)
        left = a_s
        for left in a_tmem:
            plgpu.async_store_tmem(left, plgpu.load(a_s, **unindexed()))
            plgpu.commit_tmem()
        plgpu.tcgen05_mma(acc, left, b_s.transpose((1, 0)), done, accumulate=False)
        plgpu.barrier_wait(done)
        o[...] = plgpu.async_load_tmem(acc)

    extra = [plgpu.TMEM((m, k), a.dtype, packed=True)] if a_in_tmem else []
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((m, n), acc_dtype),
        scratch_types=[
            smem((m, k), a.dtype),
            smem((n, k), b.dtype),
            plgpu.Barrier(num_arrivals=2),
            tensor_barrier(),
            plgpu.TMEM((m, n), acc_dtype, **({} if bits(acc_dtype) == 32 else {"packed": False})),
            *extra,
        ],
    )


def unindexed():
    return {} if NEW_JAX else {"idx": ()}


TYPES = [
    (F16, F16, F32),
    (F16, F16, F16),
    (BF16, BF16, F32),
    (E4M3, E4M3, F32),
    (E5M2, E5M2, F16),
    (E4M3, E5M2, F32),
    (E5M2, E4M3, F32),
    (I8, I8, I32),
]


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize(("a_type", "b_type", "acc_type"), TYPES)
def test_operand_types(run, rand, a_type, b_type, acc_type, completion):
    a, b = rand((128, 128), a_type, 1), rand((64, 128), b_type, 2)
    got = run(matmul(a, b, acc_type), a, b, async_completion=completion)
    tolerance = {F16: 4e-2, F32: 1e-4, I32: 0}[acc_type]
    np.testing.assert_allclose(wide(got), wide(a) @ wide(b).T, atol=tolerance)


def test_float32_operands_are_rounded_to_tf32(run):
    """An operand keeps ten bits of its fraction: the eleventh disappears."""
    eye = jnp.eye(128, 32, dtype=F32)
    b = jnp.full((64, 32), 1 + 2.0**-10 + 2.0**-13, F32)
    want = np.where(np.arange(128)[:, None] < 32, 1 + 2.0**-10, 0) * np.ones((1, 64))
    np.testing.assert_array_equal(run(matmul(eye, b), eye, b), want)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (128, 256, 64), (128, 32, 256)])
def test_shapes(run, rand, m, n, k):
    a, b = rand((m, k), F16, 1), rand((n, k), F16, 2)
    np.testing.assert_allclose(run(matmul(a, b), a, b), wide(a) @ wide(b).T, atol=1e-4)


@pytest.mark.parametrize("dtype", [F16, BF16, E4M3])
def test_left_operand_in_tensor_memory(run, rand, dtype):
    a, b = rand((128, 128), dtype, 1), rand((64, 128), dtype, 2)
    got = run(matmul(a, b, a_in_tmem=True), a, b)
    np.testing.assert_allclose(got, wide(a) @ wide(b).T, atol=1e-4)


# ---- issue order, completion, races ------------------------------------------------------------


def accumulated(steps, *, wait_before_load=True, refill_early=False):
    """A product per step into one accumulator, with one arrival at the end."""

    def body(a, b, o, a_s, b_s, loaded, done, acc):
        for i in range(steps):
            plgpu.copy_gmem_to_smem(a.at[i], a_s.at[i], loaded)
            plgpu.copy_gmem_to_smem(b.at[i], b_s.at[i], loaded)
        plgpu.barrier_wait(loaded)
        for i in range(steps):
            right = b_s.at[i].transpose((1, 0))
            plgpu.tcgen05_mma(acc, a_s.at[i], right, accumulate=jnp.asarray(i > 0))
        plgpu.tcgen05_commit_arrive(done)
        if refill_early:
            a_s[0] = jnp.zeros((128, 64), F16)
        if wait_before_load:
            plgpu.barrier_wait(done)
        o[...] = plgpu.async_load_tmem(acc)
        if not wait_before_load:
            plgpu.barrier_wait(done)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((128, 64), F32),
        scratch_types=[
            smem((steps, 128, 64), F16),
            smem((steps, 64, 64), F16),
            plgpu.Barrier(num_arrivals=2 * steps),
            tensor_barrier(),
            plgpu.TMEM((128, 64), F32),
        ],
    )


@pytest.mark.parametrize("completion", COMPLETION)
def test_products_are_carried_out_in_order(run, races, rand, completion):
    a, b = rand((3, 128, 64), F16, 1), rand((3, 64, 64), F16, 2)
    want = np.einsum("imk,ink->mn", wide(a), wide(b))
    got = run(accumulated(3), a, b, async_completion=completion, seed=3)
    np.testing.assert_allclose(got, want, atol=1e-4)
    assert races(accumulated(3), a, b, async_completion=completion) == []


def test_a_load_does_not_wait_for_a_product(run, races, rand):
    a, b = rand((1, 128, 64), F16, 1), rand((1, 64, 64), F16, 2)
    kernel = accumulated(1, wait_before_load=False)
    assert np.all(np.isnan(run(kernel, a, b)))
    assert races(kernel, a, b) == ["C10"]


def test_an_operand_is_overwritten_too_early(races, rand):
    a, b = rand((1, 128, 64), F16, 1), rand((1, 64, 64), F16, 2)
    assert races(accumulated(1, refill_early=True), a, b) == ["C7"]


def handed_over(*, in_order):
    """Thread 0 starts a product, thread 1 goes on with the same accumulator and waits for both."""

    def body(a, b, o, a_s, b_s, loaded, started, done, acc):
        thread = lax.axis_index("wg")

        @pl.when(thread == 0)
        def _first():
            plgpu.copy_gmem_to_smem(a, a_s, loaded)
            plgpu.copy_gmem_to_smem(b, b_s, loaded)
            plgpu.barrier_wait(loaded)
            if not in_order:
                plgpu.barrier_arrive(started)
            plgpu.tcgen05_mma(acc, a_s, b_s.transpose((1, 0)), accumulate=False)
            if in_order:
                plgpu.barrier_arrive(started)

        @pl.when(thread == 1)
        def _second():
            plgpu.barrier_wait(started)
            plgpu.tcgen05_mma(acc, a_s, b_s.transpose((1, 0)), done)
            plgpu.barrier_wait(done)
            o[...] = plgpu.async_load_tmem(acc)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((128, 64), F32),
        num_threads=2,
        thread_name="wg",
        scratch_types=[
            smem((128, 64), F16),
            smem((64, 64), F16),
            plgpu.Barrier(num_arrivals=2),
            tensor_barrier(),
            tensor_barrier(),
            plgpu.TMEM((128, 64), F32),
        ],
    )


@pytest.mark.parametrize("completion", COMPLETION)
def test_an_accumulator_is_handed_over_without_a_wait(run, races, rand, completion):
    a, b = rand((128, 64), F16, 1), rand((64, 64), F16, 2)
    kernel = handed_over(in_order=True)
    got = run(kernel, a, b, async_completion=completion, schedule="random", seeds=4)
    np.testing.assert_allclose(got, 2 * wide(a) @ wide(b).T, atol=2e-4)
    assert races(kernel, a, b, async_completion=completion) == []


def test_an_accumulator_is_handed_over_too_early(races, rand):
    a, b = rand((128, 64), F16, 1), rand((64, 64), F16, 2)
    assert "C10" in races(handed_over(in_order=False), a, b)


def test_nobody_waits_for_the_product(races, rand):
    a, b = rand((128, 64), F16, 1), rand((64, 64), F16, 2)

    def body(a, b, o, a_s, b_s, loaded, acc):
        plgpu.copy_gmem_to_smem(a, a_s, loaded)
        plgpu.copy_gmem_to_smem(b, b_s, loaded)
        plgpu.barrier_wait(loaded)
        plgpu.tcgen05_mma(acc, a_s, b_s.transpose((1, 0)), accumulate=False)
        o[0] = F32(1)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((1,), F32),
        scratch_types=[
            smem((128, 64), F16),
            smem((64, 64), F16),
            plgpu.Barrier(num_arrivals=2),
            plgpu.TMEM((128, 64), F32),
        ],
    )
    assert races(kernel, a, b) == ["C14"]


@needs_new_jax
def test_a_predicate_on_an_arrival(run, rand):
    def body(o, done):
        for wanted in (False, True):
            plgpu.tcgen05_commit_arrive(done, predicate=jnp.asarray(wanted))
        plgpu.barrier_wait(done)
        o[0] = F32(1)

    kernel = plgpu.kernel(
        body, out_type=jax.ShapeDtypeStruct((1,), F32), scratch_types=[tensor_barrier()]
    )
    np.testing.assert_array_equal(run(kernel), [1])


# ---- copies to tensor memory -------------------------------------------------------------------


def test_left_operand_copied_to_tensor_memory(run, races, rand):
    if not hasattr(plgpu, "async_copy_smem_to_tmem"):
        pytest.skip("this JAX has no such copy")
    a, b = rand((128, 64), F16, 1), rand((64, 64), F16, 2)

    def body(a, b, o, a_s, b_s, loaded, done, acc, a_t):
        plgpu.copy_gmem_to_smem(a, a_s, loaded)
        plgpu.copy_gmem_to_smem(b, b_s, loaded)
        plgpu.barrier_wait(loaded)
        plgpu.async_copy_smem_to_tmem(a_s, a_t)
        plgpu.tcgen05_mma(acc, a_t, b_s.transpose((1, 0)), done, accumulate=False)
        plgpu.barrier_wait(done)
        o[...] = plgpu.async_load_tmem(acc)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((128, 64), F32),
        scratch_types=[
            smem((128, 64), F16),
            smem((64, 64), F16),
            plgpu.Barrier(num_arrivals=2),
            tensor_barrier(),
            plgpu.TMEM((128, 64), F32),
            plgpu.TMEM((128, 64), F16, packed=True),
        ],
    )
    for completion in COMPLETION:
        got = run(kernel, a, b, async_completion=completion)
        np.testing.assert_allclose(got, wide(a) @ wide(b).T, atol=1e-4)
    assert races(kernel, a, b) == []


def random_scales(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype == E8M0:
        return jnp.asarray(rng.integers(122, 132, shape).astype(np.uint8).view(np.dtype(E8M0)))
    return jnp.asarray(np.abs(rng.normal(size=shape)).astype(np.dtype(dtype)))


def arrange_scales(scales):
    rows, columns = scales.shape
    x = scales.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4)
    return x.reshape(rows // 128, columns // 4, 32, 16)


def random_sparse(rng, m, k, group=4):
    """Selectors of [m, k / group, 2], the smaller one first."""
    pairs = np.asarray([(i, j) for i in range(4) for j in range(i + 1, 4)], np.uint8)
    return pairs[rng.integers(0, 6, (m, k // group))]


def expanded(a, selectors):
    """The dense form of a 2:4 sparse matrix."""
    m, half = a.shape
    out = np.zeros((m, half // 2, 4), a.dtype)
    np.put_along_axis(out, selectors.astype(np.int64), a.reshape(selectors.shape), axis=-1)
    return out.reshape(m, 2 * half)


def special_matmul(a, b, o_shape, scale_block=None, scale_dtype=None, metadata=False):
    """a @ b.T with scales and selectors that come as further operands."""
    (m, ak), (n, k) = a.shape, b.shape
    assert ak in (k, k // 2)

    def body(a, b, *rest):
        extras = [x for x in ("a_scale", "b_scale") if scale_block] + ["meta"] * metadata
        gmem, rest = dict(zip(extras, rest, strict=False)), rest[len(extras) :]
        o, a_s, b_s, loaded, done, acc, *rest = rest
        staged, tmem = rest[: len(extras)], dict(zip(extras, rest[len(extras) :], strict=True))
        copies = [(a, a_s), (b, b_s), *zip(gmem.values(), staged, strict=True)]
        for source, target in copies:
            plgpu.copy_gmem_to_smem(source, target, loaded)
        plgpu.barrier_wait(loaded)
        for name, source in zip(extras, staged, strict=True):
            copy = plgpu.async_copy_scales_to_tmem
            if name == "meta":
                copy = plgpu.async_copy_sparse_metadata_to_tmem
            copy(source, tmem[name])
        plgpu.tcgen05_mma(
            acc,
            a_s,
            b_s.transpose((1, 0)),
            done,
            a_scale=tmem.get("a_scale"),
            b_scale=tmem.get("b_scale"),
            **({"a_sparse_metadata": tmem["meta"]} if metadata else {}),
            accumulate=False,
        )
        plgpu.barrier_wait(done)
        o[...] = plgpu.async_load_tmem(acc)

    staged, tmem = [], []
    if scale_block:
        for rows in (m, n):
            columns = k // scale_block
            staged.append(plgpu.SMEM((rows // 128, columns // 4, 32, 16), scale_dtype))
            layout = plgpu.TMEMLayout.SCALES_LAYOUT
            tmem.append(plgpu.TMEM((rows, columns), scale_dtype, layout=layout))
    if metadata:
        staged.append(plgpu.SMEM((m // 128, ak // 64, 128, 64), jnp.uint2))
        layout = plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT
        tmem.append(plgpu.TMEM((m, ak), jnp.uint2, layout=layout))
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(*o_shape),
        scratch_types=[
            smem((m, ak), a.dtype),
            smem((n, k), b.dtype),
            plgpu.Barrier(num_arrivals=2 + len(staged)),
            tensor_barrier(),
            plgpu.TMEM(*o_shape),
            *staged,
            *tmem,
        ],
    )


@pytest.mark.parametrize("n", [128, 256])
@pytest.mark.parametrize(
    ("a_type", "b_type", "scale_type", "block"),
    [
        (E4M3, E4M3, E8M0, 32),
        (E5M2, E4M3, E8M0, 32),
        (E2M1, E2M1, E8M0, 32),
        (E2M1, E2M1, E8M0, 16),
        (E2M1, E2M1, E4M3, 16),
    ],
)
def test_scaled_blocks(run, races, rand, a_type, b_type, scale_type, block, n):
    k = 256
    a, b = rand((128, k), F32, 1).astype(a_type), rand((n, k), F32, 2).astype(b_type)
    sa, sb = (random_scales((r, k // block), scale_type, r) for r in (128, n))
    kernel = special_matmul(a, b, ((128, n), F32), block, scale_type)
    arrays = (a, b, arrange_scales(sa), arrange_scales(sb))
    scaled = [wide(x) * np.repeat(wide(s), block, axis=1) for x, s in ((a, sa), (b, sb))]
    want = scaled[0] @ scaled[1].T
    np.testing.assert_allclose(run(kernel, *arrays), want, rtol=1e-4, atol=1e-3)
    assert races(kernel, *arrays) == []


@needs_new_jax
@pytest.mark.parametrize("dtype", [F16, BF16, I8, E4M3])
def test_a_sparse_operand(run, rand, dtype):
    k, n = 256, 64
    acc = I32 if dtype == I8 else F32
    a, b = rand((128, k // 2), dtype, 1), rand((n, k), dtype, 2)
    selectors = random_sparse(np.random.default_rng(3), 128, k)
    metadata = plgpu.format_tcgen05_sparse_metadata(jnp.asarray(selectors, jnp.uint2), dtype)
    kernel = special_matmul(a, b, ((128, n), acc), metadata=True)
    for completion in COMPLETION:
        got = run(kernel, a, b, metadata, async_completion=completion)
        want = expanded(wide(a), selectors) @ wide(b).T
        np.testing.assert_allclose(wide(got), want, atol=1e-4)


@needs_new_jax
def test_a_sparse_operand_with_scales(run, rand):
    k, n, block = 256, 128, 64
    a, b = rand((128, k // 2), F32, 1).astype(E5M2), rand((n, k), F32, 2).astype(E5M2)
    selectors = random_sparse(np.random.default_rng(3), 128, k)
    metadata = plgpu.format_tcgen05_sparse_metadata(jnp.asarray(selectors, jnp.uint2), E5M2)
    sa, sb = (random_scales((r, k // block), E8M0, r + 1) for r in (128, n))
    kernel = special_matmul(a, b, ((128, n), F32), block, E8M0, metadata=True)
    got = run(kernel, a, b, arrange_scales(sa), arrange_scales(sb), metadata)
    dense = expanded(wide(a), selectors) * np.repeat(wide(sa), block, axis=1)
    want = dense @ (wide(b) * np.repeat(wide(sb), block, axis=1)).T
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


# ---- pairs of blocks ---------------------------------------------------------------------------


def pair_kernel(m, n, k, dtype, *, a_in_tmem=False, steps=1):
    """Rows of a and of the result, and rows of b, are split between two blocks."""
    half_m, half_n = m // 2, n // 2

    def body(a, b, o, a_s, b_s, loaded, done, both, acc, *a_tmem):
        block = lax.axis_index("x")
        rows, columns = pl.ds(block * half_m, half_m), pl.ds(block * half_n, half_n)
        plgpu.copy_gmem_to_smem(a.at[rows], a_s, loaded)
        plgpu.copy_gmem_to_smem(b.at[columns], b_s, loaded)
        plgpu.barrier_wait(loaded)
        left = a_s
        for left in a_tmem:
            plgpu.async_store_tmem(left, plgpu.load(a_s, **unindexed()))
            plgpu.commit_tmem()
        plgpu.barrier_arrive(both)
        plgpu.barrier_wait(both)
        mma = functools.partial(plgpu.tcgen05_mma, collective_axis="x")
        for i in range(steps):
            mma(acc, left, b_s.transpose((1, 0)), accumulate=jnp.asarray(i > 0))
        plgpu.tcgen05_commit_arrive(done, collective_axis="x")
        plgpu.barrier_wait(done)
        o[rows, :] = plgpu.async_load_tmem(acc)

    a_tmem = [plgpu.TMEM((half_m, k), dtype, packed=True, collective=True)] if a_in_tmem else []
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((m, n), F32),
        cluster=(2,),
        cluster_names=("x",),
        scratch_types=[
            smem((half_m, k), dtype),
            smem((half_n, k), dtype),
            plgpu.Barrier(num_arrivals=2),
            tensor_barrier(),
            plgpu.ClusterBarrier(collective_axes=("x",), orders_tensor_core=True),
            plgpu.TMEM((half_m, n), F32, collective=True),
            *a_tmem,
        ],
    )


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("dtype", [F16, E4M3])
@pytest.mark.parametrize(("m", "n", "k"), [(256, 128, 64), (128, 64, 128), (256, 256, 64)])
def test_a_pair_of_blocks(run, rand, m, n, k, dtype, completion):
    a, b = rand((m, k), dtype, 1), rand((n, k), dtype, 2)
    kernel = pair_kernel(m, n, k, dtype, steps=2)
    got = run(kernel, a, b, async_completion=completion, schedule="random", seeds=4)
    np.testing.assert_allclose(got, 2 * wide(a) @ wide(b).T, atol=2e-4)


def test_a_pair_of_blocks_is_clean(races, rand):
    a, b = rand((256, 64), F16, 1), rand((128, 64), F16, 2)
    assert races(pair_kernel(256, 128, 64, F16), a, b) == []


def test_a_pair_with_the_left_operand_in_tensor_memory(run, rand):
    a, b = rand((256, 64), F16, 1), rand((128, 64), F16, 2)
    kernel = pair_kernel(256, 128, 64, F16, a_in_tmem=True)
    np.testing.assert_allclose(run(kernel, a, b), wide(a) @ wide(b).T, atol=1e-4)


@needs_new_jax
@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize(("m", "n"), [(256, 128), (256, 256), (128, 64), (128, 192), (128, 256)])
def test_a_pair_with_scales(run, rand, m, n, multicast, completion):
    """Only the leader waits for the copies; the other block's barrier never completes a phase.

    Blocks of 64 rows keep the scales of each half of the columns apart.
    """
    k, block = 256, 32
    half_m, half_n, small = m // 2, n // 2, m == 128
    layouts = plgpu.TMEMLayout
    split = functools.partial(plgpu.CopyPartition.PARTITIONED, 0)

    def body(a, b, sa, sb, o, a_s, b_s, sa_s, sb_s, loaded, done, acc, sa_t, sb_t):
        def copy(source, target, partition):
            plgpu.copy_gmem_to_smem(
                source, target, loaded, collective_axes="x", leader_tracked=partition
            )

        for source, target in ((a, a_s), (b, b_s), (sa, sa_s)):
            copy(source, target, split())
        # A multicast arrives at both blocks, of which one does not look.
        copy(sb, sb_s, None if multicast else plgpu.CopyPartition.REPLICATED)

        @pl.when(lax.axis_index("x") == 0)
        def _lead():
            plgpu.barrier_wait(loaded)
            plgpu.async_copy_scales_to_tmem(sa_s, sa_t, collective_axis="x")
            plgpu.async_copy_scales_to_tmem(sb_s, sb_t, collective_axis="x")
            plgpu.tcgen05_mma(
                acc,
                a_s,
                b_s.transpose((1, 0)),
                done,
                a_scale=sa_t,
                b_scale=sb_t,
                accumulate=False,
                collective_axis="x",
            )

        plgpu.barrier_wait(done)
        o[pl.ds(lax.axis_index("x") * half_m, half_m), :] = plgpu.async_load_tmem(acc)

    columns = k // block
    sb_smem = (1, columns // 4, 64, 16) if small else (n // 128, columns // 4, 32, 16)
    sb_layout = layouts.SCALES_M64_COLLECTIVE_LAYOUT if small else layouts.SCALES_LAYOUT
    scales = {"dtype": E8M0, "collective": True}
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((m, n), F32),
        cluster=(2,),
        cluster_names=("x",),
        scratch_types=[
            smem((half_m, k), E5M2),
            smem((half_n, k), E5M2),
            plgpu.SMEM((1, columns // 4, 32, 16), E8M0),
            plgpu.SMEM(sb_smem, E8M0),
            plgpu.Barrier(num_arrivals=4),
            tensor_barrier(),
            plgpu.TMEM((half_m, n), F32, collective=True),
            plgpu.TMEM((128, columns), layout=layouts.SCALES_LAYOUT, **scales),
            plgpu.TMEM((256 if small else n, columns), layout=sb_layout, **scales),
        ],
    )
    a, b = rand((m, k), F32, 1).astype(E5M2), rand((n, k), F32, 2).astype(E5M2)
    sa, sb = (random_scales((rows, columns), E8M0, rows + 1) for rows in (m, n))
    want = (wide(a) * np.repeat(wide(sa), block, axis=1)) @ (
        wide(b) * np.repeat(wide(sb), block, axis=1)
    ).T
    if small:
        halves = jnp.pad(sa.reshape(2, 64, columns), ((0, 0), (0, 64), (0, 0)))
        sa = halves.reshape(256, columns)
        groups = n // 64
        x = sb.reshape(2, groups, 32, columns // 4, 4).transpose(3, 0, 2, 1, 4)
        x = x.reshape(1, columns // 4, 64, groups * 4)
        sb = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, 16 - groups * 4)))
    else:
        sb = arrange_scales(sb)
    # What a multicast writes to the other block is not the leader's to know.
    params = {"async_completion": completion, "detect_races": not multicast}
    got = run(kernel, a, b, arrange_scales(sa), sb, **params)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_a_pair_lies_along_the_minor_axis(fails):
    def body(o, done):
        plgpu.tcgen05_commit_arrive(done, collective_axis="x")
        o[0] = F32(1)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((1,), F32),
        cluster=(2, 1),
        cluster_names=("x", "y"),
        scratch_types=[tensor_barrier()],
    )
    text = fails(pallas_rs.UnsupportedError, kernel)
    assert "minor axis `y`, not `x`" in text


def test_memory_of_a_pair_is_no_place_for_a_product_of_one_block(fails):
    def body(o, a, b, done, acc):
        plgpu.tcgen05_mma(acc, a, b, done, accumulate=False)
        o[0] = F32(1)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((1,), F32),
        cluster=(2,),
        cluster_names=("x",),
        scratch_types=[
            smem((128, 64), F16),
            smem((64, 64), F16),
            tensor_barrier(),
            plgpu.TMEM((128, 64), F32, collective=True),
        ],
    )
    text = fails(pallas_rs.UnsupportedError, kernel)
    assert "say collective_axis" in text
