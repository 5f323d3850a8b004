"""Tensor memory itself: loads, stores, slices, unions, and what is visible when."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

F16, F32 = jnp.float16, jnp.float32
COMPLETION = ["late", "eager", "random"]
NEW_JAX = jax.__version_info__ >= (0, 11)


def kernel(body, out, *scratch, **mesh):
    return plgpu.kernel(
        body, out_type=jax.ShapeDtypeStruct(*out), scratch_types=list(scratch), **mesh
    )


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("dtype", [F32, F16, jnp.bfloat16, jnp.int32, jnp.uint32])
@pytest.mark.parametrize("shape", [(128, 64), (64, 32), (128, 256)])
def test_round_trip(run, rand, shape, dtype, completion):
    def body(x, o, tmem):
        plgpu.async_store_tmem(tmem, x[...])
        plgpu.commit_tmem()
        o[...] = plgpu.async_load_tmem(tmem)
        plgpu.wait_load_tmem()

    x = rand(shape, dtype)
    packed = None if jnp.dtype(dtype).itemsize == 4 else False
    call = kernel(body, (shape, dtype), plgpu.TMEM(shape, dtype, packed=packed))
    np.testing.assert_array_equal(run(call, x, async_completion=completion), x)


def test_a_packed_round_trip_through_slices(run, rand):
    def body(x, o, tmem):
        for i in range(4):
            columns = slice(32 * i, 32 * (i + 1))
            plgpu.async_store_tmem(tmem.at[:, columns], x[:, columns] * (i + 1))
        plgpu.commit_tmem()
        o[...] = plgpu.async_load_tmem(tmem)

    x = rand((128, 128), F16)
    call = kernel(body, ((128, 128), F16), plgpu.TMEM((128, 128), F16, packed=True))
    np.testing.assert_array_equal(run(call, x), x * np.repeat(np.arange(1, 5), 32).astype(F16))


def test_batch_dimensions(run, rand):
    if not NEW_JAX:
        pytest.skip("needs jax 0.11")

    def body(x, o, tmem):
        for i in range(3):
            plgpu.async_store_tmem(tmem.at[i], x[i])
        plgpu.commit_tmem()
        for i in range(3):
            o[2 - i] = plgpu.async_load_tmem(tmem.at[i])

    x = rand((3, 128, 32))
    call = kernel(body, ((3, 128, 32), F32), plgpu.TMEM((3, 128, 32), F32))
    np.testing.assert_array_equal(run(call, x), x[::-1])


@pytest.mark.parametrize("reduction", ["max", "min", "absmax", "absmin"])
def test_a_load_with_a_reduction(run, rand, reduction):
    if not NEW_JAX:
        pytest.skip("needs jax 0.11")

    def body(x, o, reduced_o, tmem):
        plgpu.async_store_tmem(tmem, x[...])
        plgpu.commit_tmem()
        o[...], reduced_o[...] = plgpu.async_load_tmem(tmem, reduce=reduction)

    x = rand((128, 32))
    call = plgpu.kernel(
        body,
        out_type=[jax.ShapeDtypeStruct((128, 32), F32), jax.ShapeDtypeStruct((128,), F32)],
        scratch_types=[plgpu.TMEM((128, 32), F32)],
    )
    got, reduced = run(call, x)
    np.testing.assert_array_equal(got, x)
    magnitude = np.abs(x) if reduction.startswith("abs") else np.asarray(x)
    np.testing.assert_array_equal(reduced, getattr(np, reduction[-3:])(magnitude, axis=1))


def test_a_union_of_tensor_memory_and_one_of_shared_memory(run, rand):
    def body(x, o, tmem, smem):
        wide, (left, right) = tmem
        whole, halves = smem
        plgpu.async_store_tmem(wide, x[...])
        plgpu.commit_tmem()
        y = plgpu.async_load_tmem(wide)
        plgpu.wait_load_tmem()
        plgpu.async_store_tmem(left, y[:, :32])
        plgpu.async_store_tmem(right, y[:, 32:])
        plgpu.commit_tmem()
        halves[...] = plgpu.async_load_tmem(right)
        o[:, :32] = halves[...]
        whole[...] = plgpu.async_load_tmem(left)
        o[:, 32:] = whole[...]

    x = rand((128, 64))
    call = kernel(
        body,
        ((128, 64), F32),
        plgpu.RefUnion(
            plgpu.TMEM((128, 64), F32), [plgpu.TMEM((128, 32), F32), plgpu.TMEM((128, 32), F32)]
        ),
        plgpu.RefUnion(plgpu.SMEM((128, 32), F32), plgpu.SMEM((128, 32), F32)),
    )
    np.testing.assert_array_equal(run(call, x), np.roll(x, 32, axis=1))


def test_a_store_is_invisible_before_it_is_committed(run, races):
    """The late schedule shows the old contents, and the detector says which call is missing."""

    def body(o, tmem, *, commit):
        plgpu.async_store_tmem(tmem, jnp.zeros((128, 32), F32))
        plgpu.commit_tmem()
        plgpu.async_store_tmem(tmem, jnp.ones((128, 32), F32))
        if commit:
            plgpu.commit_tmem()
        o[...] = plgpu.async_load_tmem(tmem)
        plgpu.commit_tmem()

    def call(commit):
        return kernel(
            lambda o, tmem: body(o, tmem, commit=commit),
            ((128, 32), F32),
            plgpu.TMEM((128, 32), F32),
        )

    assert np.all(run(call(False)) == 0)
    assert np.all(run(call(True)) == 1)
    assert races(call(True)) == []
    assert races(call(False)) == ["C11"]
    finding = pallas_rs.last_report().findings[0]
    assert "commit_tmem()" in str(finding)


def test_what_a_load_reads_is_overwritten_too_early(races):
    def body(o, tmem, *, wait):
        plgpu.async_store_tmem(tmem, jnp.zeros((128, 32), F32))
        plgpu.commit_tmem()
        o[...] = plgpu.async_load_tmem(tmem)
        if wait:
            plgpu.wait_load_tmem()
        plgpu.async_store_tmem(tmem, jnp.ones((128, 32), F32))
        plgpu.commit_tmem()

    def call(wait):
        return kernel(
            lambda o, tmem: body(o, tmem, wait=wait),
            ((128, 32), F32),
            plgpu.TMEM((128, 32), F32),
        )

    assert races(call(True)) == []
    assert races(call(False)) == ["C11"]
    assert "wait_load_tmem()" in str(pallas_rs.last_report().findings[0])


def test_plain_accesses_cannot_reach_tensor_memory(fails):
    def body(o, tmem):
        o[...] = tmem[...]

    call = kernel(body, ((128, 32), F32), plgpu.TMEM((128, 32), F32))
    text = fails(pallas_rs.UnsupportedError, call)
    assert "async_load_tmem" in text
    assert "test_tensor_memory.py" in text


@pytest.mark.parametrize("first", [False, True])
def test_tensor_memory_of_one_and_of_two_blocks(fails, first):
    def body(o, one, other):
        o[0] = F32(1)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((1,), F32),
        cluster=(2,),
        cluster_names=("x",),
        scratch_types=[
            plgpu.TMEM((128, 64), F32, collective=first),
            plgpu.TMEM((128, 64), F32, collective=not first),
        ],
    )
    names = ("one", "other") if first else ("other", "one")
    text = fails(pallas_rs.UnsupportedError, kernel)
    assert "TMEM `{}` is collective and `{}` is not".format(*names) in text
