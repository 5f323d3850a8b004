"""Copies between GMEM and SMEM: values, edges, predicates, reductions, groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F32 = jnp.float32
NEW_JAX = jax.__version_info__ >= (0, 11)
needs_new_jax = pytest.mark.skipif(not NEW_JAX, reason="needs jax 0.11")
COMPLETION = ["late", "eager", "random"]


def kernel_of(body, out, scratch, **kw):
    return plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(*out), scratch_types=scratch, **kw)


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("dtype", [F32, jnp.float16, jnp.int8, jnp.int32, jnp.bool_])
def test_there_and_back(run, rand, dtype, completion):
    def body(x, o, s, done):
        plgpu.copy_gmem_to_smem(x, s, done)
        plgpu.barrier_wait(done)
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)

    x = rand((32, 16), jnp.int32).astype(dtype)
    kernel = kernel_of(body, (x.shape, dtype), [plgpu.SMEM(x.shape, dtype), plgpu.Barrier()])
    np.testing.assert_array_equal(run(kernel, x, async_completion=completion), x)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_tiling_and_swizzle_change_no_value(run, rand, swizzle):
    tiled = (plgpu.TilingTransform((8, swizzle // 2)), plgpu.SwizzleTransform(swizzle))

    def body(x, o, s, done):
        plgpu.copy_gmem_to_smem(x, s, done)
        plgpu.barrier_wait(done)
        s[...] = s[...] * 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)

    x = rand((64, 128), jnp.float16)
    kernel = kernel_of(
        body,
        (x.shape, x.dtype),
        [plgpu.SMEM(x.shape, x.dtype, transforms=tiled), plgpu.Barrier()],
    )
    np.testing.assert_array_equal(run(kernel, x), x * 2)


def test_slices_of_slices(run, rand):
    def body(x, o, s, done):
        i = lax.axis_index("i")
        rows = x.at[pl.ds(i * 16, 16)]
        plgpu.copy_gmem_to_smem(rows.at[pl.ds(8, 8), pl.ds(16, 16)], s.at[1], done)
        plgpu.barrier_wait(done)
        plgpu.copy_smem_to_gmem(s.at[1], o.at[i])
        plgpu.wait_smem_to_gmem(0)

    x = rand((64, 32))
    kernel = kernel_of(
        body,
        ((4, 8, 16), F32),
        [plgpu.SMEM((2, 8, 16), F32), plgpu.Barrier()],
        grid=(4,),
        grid_names=("i",),
    )
    np.testing.assert_array_equal(run(kernel, x), x.reshape(4, 16, 32)[:, 8:, 16:])


@pytest.mark.parametrize("start", [0, 4, 60, 64, 200, -4, -100])
def test_a_load_past_the_edge_reads_zeros(run, rand, start):
    def call(x, start):
        def body(x, o, s, done):
            plgpu.copy_gmem_to_smem(x.at[pl.ds(start, 8)], s, done)
            plgpu.barrier_wait(done)
            o[...] = s[...]

        return kernel_of(body, ((8, 16), F32), [plgpu.SMEM((8, 16), F32), plgpu.Barrier()])(x)

    x = rand((64, 16))
    rows = start + np.arange(8)
    inside = (rows >= 0) & (rows < 64)
    want = np.where(inside[:, None], np.asarray(x)[np.clip(rows, 0, 63)], 0)
    np.testing.assert_array_equal(run(call, x, jnp.int32(start)), want)


def store_at(x, start):
    def body(x, o, s):
        o[...] = jnp.zeros((64, 16), F32)
        s[...] = x[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o.at[pl.ds(start, 8)])
        plgpu.wait_smem_to_gmem(0)

    return kernel_of(body, ((64, 16), F32), [plgpu.SMEM((8, 16), F32)])(x)


def test_a_store_before_the_array_is_an_error(fails, rand):
    fails(pallas_rs.OutOfBoundsError, store_at, rand((8, 16)), jnp.int32(-4))


@pytest.mark.parametrize("start", [0, 60, 64])
def test_a_store_past_the_edge_is_dropped(run, rand, start):
    x = rand((8, 16))
    want = np.zeros((64, 16), np.float32)
    for i in range(8):
        if 0 <= start + i < 64:
            want[start + i] = x[i]
    np.testing.assert_array_equal(run(store_at, x, jnp.int32(start)), want)


def test_a_view_that_leaves_its_array_may_come_back(run, rand):
    """A slice longer than what is left of the array, of which only the inside is copied."""

    def call(x, start):
        def body(x, o, s, done):
            tail = x.at[pl.ds(start, 64)]
            plgpu.copy_gmem_to_smem(tail.at[pl.ds(8, 8)], s, done)
            plgpu.barrier_wait(done)
            o[...] = s[...]

        return kernel_of(body, ((8, 16), F32), [plgpu.SMEM((8, 16), F32), plgpu.Barrier()])(x)

    x = rand((64, 16))
    np.testing.assert_array_equal(run(call, x, jnp.int32(48)), x[56:])


@needs_new_jax
@pytest.mark.parametrize("completion", COMPLETION)
def test_a_predicated_load_neither_copies_nor_arrives(run, rand, completion):
    def body(x, o, s, done):
        s[...] = jnp.zeros((4, 16), F32)
        plgpu.commit_smem()
        for i in range(4):
            plgpu.copy_gmem_to_smem(x.at[i], s.at[i], done, predicate=i % 2 == 0)
        plgpu.barrier_wait(done)
        o[...] = s[...]

    x = rand((4, 16))
    kernel = kernel_of(
        body, ((4, 16), F32), [plgpu.SMEM((4, 16), F32), plgpu.Barrier(num_arrivals=2)]
    )
    want = np.where(np.arange(4)[:, None] % 2 == 0, x, 0)
    np.testing.assert_array_equal(run(kernel, x, async_completion=completion), want)


def test_a_predicated_store(run, rand):
    def body(x, o, s):
        i = lax.axis_index("i")
        o[i] = jnp.zeros((16,), F32)
        s[...] = x[i]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o.at[i], predicate=i < 2)
        plgpu.wait_smem_to_gmem(0)

    x = rand((4, 16))
    kernel = kernel_of(body, ((4, 16), F32), [plgpu.SMEM((16,), F32)], grid=(4,), grid_names=("i",))
    np.testing.assert_array_equal(run(kernel, x), np.where(np.arange(4)[:, None] < 2, x, 0))


REDUCTIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@pytest.mark.parametrize("op", REDUCTIONS)
def test_a_store_may_reduce(run, rand, op):
    def body(x, o, s):
        o[...] = jnp.full((16,), 5, jnp.int32)
        s[...] = x[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o, reduction_op=op)
        plgpu.copy_smem_to_gmem(s, o, reduction_op=op)
        plgpu.wait_smem_to_gmem(0)

    x = rand((16,), jnp.int32)
    kernel = kernel_of(body, ((16,), jnp.int32), [plgpu.SMEM((16,), jnp.int32)])
    reduce = REDUCTIONS[op]
    np.testing.assert_array_equal(run(kernel, x), reduce(reduce(5, x), x))


def test_inc_and_dec_reductions(run):
    def body(x, o, s):
        o[...] = lax.rem(jnp.arange(8, dtype=jnp.uint32), jnp.uint32(4))
        s[...] = x[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o.at[pl.ds(0, 4)], reduction_op="inc")
        plgpu.copy_smem_to_gmem(s, o.at[pl.ds(4, 4)], reduction_op="dec")
        plgpu.wait_smem_to_gmem(0)

    x = jnp.asarray([9, 1, 9, 1], jnp.uint32)
    kernel = kernel_of(body, ((8,), jnp.uint32), [plgpu.SMEM((4,), jnp.uint32)])
    # inc wraps to 0 at its bound, dec to its bound at 0 or above the bound.
    np.testing.assert_array_equal(run(kernel, x), [1, 0, 3, 0, 9, 0, 1, 1])


def test_blocks_may_reduce_into_one_array(run, rand):
    def body(x, o, s):
        s[...] = x[lax.axis_index("i")]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o, reduction_op="add")
        plgpu.wait_smem_to_gmem(0)

    def call(x):
        total = jax.new_ref(jnp.zeros((16,), jnp.int32))

        def with_ref(x, o, dummy, s):
            body(x, o, s)

        kernel_of(
            with_ref,
            ((1,), jnp.int32),
            [plgpu.SMEM((16,), jnp.int32)],
            grid=(7,),
            grid_names=("i",),
        )(x, total)
        return total[...]

    if not NEW_JAX:
        pytest.skip("JAX before 0.11 cannot pass a ref into a kernel under jit")
    x = rand((7, 16), jnp.int32)
    np.testing.assert_array_equal(run(call, x), x.sum(0))


@pytest.mark.parametrize("completion", COMPLETION)
def test_groups_of_stores(run, rand, completion):
    """Slots are reused as soon as the group that reads them is done reading."""

    def body(x, o, s):
        for i in range(8):
            plgpu.wait_smem_to_gmem(1, wait_read_only=True)
            s[i % 2] = x[i]
            plgpu.commit_smem()
            for half in range(2):
                part = pl.ds(half * 8, 8)
                plgpu.copy_smem_to_gmem(s.at[i % 2, part], o.at[i, part], commit_group=False)
            plgpu.commit_smem_to_gmem_group()
        plgpu.wait_smem_to_gmem(0)

    x = rand((8, 16))
    kernel = kernel_of(body, ((8, 16), F32), [plgpu.SMEM((2, 16), F32)])
    np.testing.assert_array_equal(run(kernel, x, async_completion=completion), x)


def test_a_missing_wait_is_seen(run, rand):
    """Late completion: a load that nobody waited for has not happened."""

    def body(x, o, s, done):
        plgpu.copy_gmem_to_smem(x, s, done)
        o[...] = s[...]
        plgpu.barrier_wait(done)

    x = rand((16,))
    kernel = kernel_of(body, ((16,), F32), [plgpu.SMEM((16,), F32), plgpu.Barrier()])
    assert np.isnan(run(kernel, x, async_completion="late")).all()
    np.testing.assert_array_equal(run(kernel, x, async_completion="eager"), x)


def test_memory_reused_too_early_is_seen(run, rand):
    """Late completion: a store reads its source when it is waited for."""

    def body(x, o, s):
        s[...] = x[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o)
        s[...] = jnp.zeros((16,), F32)
        plgpu.wait_smem_to_gmem(0)

    x = rand((16,))
    kernel = kernel_of(body, ((16,), F32), [plgpu.SMEM((16,), F32)])
    np.testing.assert_array_equal(run(kernel, x, async_completion="late"), np.zeros(16))
    np.testing.assert_array_equal(run(kernel, x, async_completion="eager"), x)


def test_stores_finish_before_the_kernel_does(run, rand):
    def body(x, o, s):
        s[...] = x[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)

    x = rand((16,))
    kernel = kernel_of(body, ((16,), F32), [plgpu.SMEM((16,), F32)])
    np.testing.assert_array_equal(run(kernel, x), x)


@needs_new_jax
@pytest.mark.parametrize("completion", COMPLETION)
def test_copies_without_a_barrier(run, rand, completion):
    def body(x, o, s):
        for i in range(4):
            plgpu.copy_gmem_to_smem(x.at[i], s.at[i])
        for i in range(4):
            plgpu.wait_gmem_to_smem(3 - i)
            o[i] = s[i]

    x = rand((4, 16))
    kernel = kernel_of(body, ((4, 16), F32), [plgpu.SMEM((4, 16), F32)])
    np.testing.assert_array_equal(run(kernel, x, async_completion=completion), x)


@needs_new_jax
def test_a_prefetch_changes_nothing(run, rand):
    def body(x, o):
        plgpu.async_prefetch(x.at[pl.ds(0, 8)])
        o[...] = x[...]

    x = rand((16,))
    kernel = kernel_of(body, ((16,), F32), [])
    np.testing.assert_array_equal(run(kernel, x), x)


@needs_new_jax
@pytest.mark.parametrize("mode", ["UNDEFINED", "PROMISE_IN_BOUNDS", "ZEROS"])
def test_modes_agree_inside_the_array(run, rand, mode):
    def body(x, o, s, done):
        plgpu.copy_gmem_to_smem(
            x.at[pl.ds(8, 8)], s, done, oob_mode=getattr(plgpu.OOBFillMode, mode)
        )
        plgpu.barrier_wait(done)
        o[...] = s[...]

    x = rand((16,))
    kernel = kernel_of(body, ((8,), F32), [plgpu.SMEM((8,), F32), plgpu.Barrier()])
    np.testing.assert_array_equal(run(kernel, x), x[8:])
