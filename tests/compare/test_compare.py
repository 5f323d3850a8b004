"""`compare`: two runs of a kernel, one verdict. JAX's interpreter stands in for a GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl
from pallas_rs._compare import _sides

ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
X = jnp.arange(64 * 128, dtype=jnp.float32).reshape(64, 128) / 9e3


def exp_kernel(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref[...])


def exp(x):
    return pl.pallas_call(exp_kernel, grid=(8,), in_specs=[ROWS], out_specs=ROWS, out_shape=x)(x)


def wrong_in_native(monkeypatch, element, value):
    """Makes the stand-in's first output wrong in one element."""
    run = _sides.run_native

    def broken(*args):
        found = run(*args)
        output = found.outputs[0].copy()
        output[element] = value
        return _sides.Run([output, *found.outputs[1:]], found.seconds)

    monkeypatch.setattr(_sides, "run_native", broken)


def test_the_same_kernel_agrees_with_itself():
    found = pallas_rs.compare(exp, X, native="jax")
    assert found
    (output,) = found.outputs
    assert (output.name, output.dtype, output.shape) == ("out", "float32", (64, 128))
    assert output.max_ulp <= 2
    assert sum(output.histogram) == output.compared == X.size
    assert found.environment.stand_in
    assert "standing in for a GPU" in str(found)
    assert found.interpreted_seconds > 0
    assert found.native_seconds > 0


def test_the_first_element_beyond_the_tolerance_is_found_with_its_block(monkeypatch):
    wrong_in_native(monkeypatch, (19, 5), 3.5)
    found = pallas_rs.compare(exp, X, native="jax")
    assert not found
    (output,) = found.outputs
    assert output.beyond == 1
    assert output.first.index == (19, 5)
    assert output.first.native == 3.5
    assert output.first.tile == ((2, 0), (8, 128))
    assert output.first.grid_point == (2,)
    assert output.max_abs == pytest.approx(abs(float(jnp.exp(X[19, 5])) - 3.5), rel=1e-5)
    text = str(found)
    assert "differ in out" in text
    assert "element [19, 5] of block [2, 0] (of 8x128), written by grid point (2,)" in text


def test_a_nan_on_one_side_is_beyond_every_tolerance(monkeypatch):
    wrong_in_native(monkeypatch, (0, 0), np.nan)
    found = pallas_rs.compare(exp, X, native="jax", rtol=1.0, atol=1e9)
    assert not found
    assert found.outputs[0].max_abs == np.inf


def test_run_time_bounds_are_numbers_in_the_native_run():
    seen = []

    @jax.jit
    def some_rows(x, n):
        return pl.pallas_call(
            exp_kernel,
            grid=(n + 1,),
            in_specs=[ROWS],
            out_specs=ROWS,
            out_shape=x,
            input_output_aliases={0: 0},
            interpret=pallas_rs.Params(),
        )(x)

    run = _sides._bind_bounds

    def spy(evaluate, *operands, **params):
        def spied(*rest, **bound):
            seen.append(bound["grid_mapping"].grid)
            return evaluate(*rest, **bound)

        return run(spied, *operands, **params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sides, "_bind_bounds", spy)
        found = pallas_rs.compare(some_rows, X, jnp.int32(2), native="jax")
    assert found
    assert seen == [(3,), (3,)]
    rows = found.values[0].native.reshape(X.shape)
    np.testing.assert_array_equal(rows[24:], X[24:])
    np.testing.assert_allclose(rows[:24], np.exp(X[:24]), rtol=1e-6)


def test_integers_must_be_equal(monkeypatch):
    def add(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def call(x):
        return {"sum": pl.pallas_call(add, out_shape=x)(x)}

    x = jnp.arange(16, dtype=jnp.int32)
    assert pallas_rs.compare(call, x, native="jax")
    wrong_in_native(monkeypatch, 3, 5)
    found = pallas_rs.compare(call, x, native="jax")
    assert not found
    assert found.outputs[0].name == "out['sum']"
    assert found.outputs[0].max_ulp is None
    assert "must be equal" in str(found)


def test_tolerances_grow_with_the_length_of_sums():
    def total(length):
        def kernel(x_ref, o_ref):
            o_ref[0] = jnp.sum(x_ref[...], axis=0)

        x = jnp.ones((length, 128), jnp.float32)
        call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32))
        return pallas_rs.compare(call, x, native="jax").outputs[0].tolerance

    short, long = total(16), total(4096)
    assert (short.terms, long.terms) == (16, 4096)
    assert long.atol / 4096 > 2 * short.atol / 16


def test_a_block_visited_many_times_is_a_long_sum():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.sum(x_ref[...], axis=0, keepdims=True)

    call = pl.pallas_call(
        kernel,
        grid=(8,),
        in_specs=[ROWS],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32),
    )
    found = pallas_rs.compare(call, X, native="jax")
    assert found
    assert found.outputs[0].tolerance.terms == 64


def test_given_tolerances_are_used():
    tolerance = pallas_rs.compare(exp, X, native="jax", rtol=0.5, atol=0.25).outputs[0].tolerance
    assert (tolerance.rtol, tolerance.atol) == (0.5, 0.25)


def test_without_a_gpu_and_a_record_it_says_so():
    with pytest.raises(pallas_rs.UnsupportedError, match=r"no GPU to compare with.*native="):
        pallas_rs.compare(exp, X)


class FakeGpu:
    """What JAX says of a CUDA device."""

    device_kind = "NVIDIA B200"
    compute_capability = "10.0"

    class client:
        platform_version = "PJRT C API\ncuda 13000"


def test_a_gpu_that_the_kernel_is_not_for_is_refused(monkeypatch):
    from jax.experimental.pallas import mosaic_gpu as plgpu

    def kernel(a_smem, o_gmem, acc_ref):
        plgpu.wgmma(acc_ref, a_smem, a_smem)
        o_gmem[...] = acc_ref[...]

    def call(a):
        return plgpu.kernel(
            lambda a_gmem, o_gmem: plgpu_body(a_gmem, o_gmem),
            out_type=jax.ShapeDtypeStruct((64, 64), jnp.float32),
        )(a)

    def plgpu_body(a_gmem, o_gmem):
        def scoped(a_smem, barrier, acc):
            plgpu.copy_gmem_to_smem(a_gmem, a_smem, barrier)
            plgpu.barrier_wait(barrier)
            plgpu.wgmma(acc, a_smem, a_smem)
            o_gmem[...] = acc[...]

        tiling = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
        pl.run_scoped(
            scoped,
            plgpu.SMEM((64, 64), jnp.float16, transforms=tiling),
            plgpu.Barrier(),
            plgpu.ACC((64, 64), jnp.float32),
        )

    monkeypatch.setattr(_sides, "find_gpu", FakeGpu)
    with pytest.raises(pallas_rs.UnsupportedError, match=r"capability 9\.x, and NVIDIA B200"):
        pallas_rs.compare(
            call, jnp.ones((64, 64), jnp.float16), params=pallas_rs.Params(target="h100")
        )
