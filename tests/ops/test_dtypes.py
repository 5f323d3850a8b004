"""Element types in kernels, bit by bit against `ml_dtypes`; packed operands at the call's edge."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl

BYTE_FLOATS = [
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
FLOATS = [*BYTE_FLOATS, "float4_e2m1fn", "float16", "bfloat16", "float32"]
SMALL_INTEGERS = ["int2", "int4", "uint2", "uint4"]
INTEGERS = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]


def in_kernel(function, out_dtype, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = function(x_ref[...])

    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, out_dtype),
        interpret=pallas_rs.Params(),
    )
    return np.asarray(jax.jit(call)(x))


def same_bits(got, want, from_nan=False):
    """NaNs may differ in their payload, all else must not.

    A NaN becomes a zero of either sign in a type that has no NaN.
    """
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.name == "float4_e2m1fn":
        np.testing.assert_array_equal(got.astype(np.float32)[from_nan], 0)
        got, want = (np.where(from_nan, want.dtype.type(0), x) for x in (got, want))
    assert got.dtype == want.dtype
    unsigned = np.dtype(f"uint{8 * got.dtype.itemsize}")
    nan = np.isnan(want.astype(np.float32)) if want.dtype.kind not in "iub" else False
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)) & nan, nan)
    np.testing.assert_array_equal(
        np.where(nan, 0, got.view(unsigned)), np.where(nan, 0, want.view(unsigned))
    )


def every(dtype):
    """Every value of a type of at most 16 bits, and NaNs, ties and borders of a wider one."""
    dtype = np.dtype(jnp.dtype(dtype))
    if dtype.name == "float4_e2m1fn":
        return np.arange(16, dtype=np.uint8).view(dtype)
    if dtype.itemsize <= 2:
        codes = np.arange(256**dtype.itemsize, dtype=np.dtype(f"uint{8 * dtype.itemsize}"))
        return codes.view(dtype)
    halves = np.arange(2**16, dtype=np.uint32) << 16
    tails = np.resize(np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32), 2**16)
    return (halves | tails).view(np.float32)


@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("source", [*BYTE_FLOATS, "float4_e2m1fn", "float16", "bfloat16"])
def test_conversions_of_every_value(source, to):
    x = every(source)
    with np.errstate(all="ignore"):
        want = x.astype(np.float32).astype(np.dtype(jnp.dtype(to)))
    got = in_kernel(lambda v: v.astype(to), jnp.dtype(to), jnp.asarray(x))
    same_bits(got, want, np.isnan(x.astype(np.float32)))


@pytest.mark.parametrize("to", [t for t in FLOATS if t != "float32"])
def test_conversions_from_float32(to):
    x = every("float32")
    with np.errstate(all="ignore"):
        want = x.astype(np.dtype(jnp.dtype(to)))
    got = in_kernel(lambda v: v.astype(to), jnp.dtype(to), jnp.asarray(x))
    same_bits(got, want, np.isnan(x))


@pytest.mark.parametrize("to", [*SMALL_INTEGERS, *INTEGERS, "float32", "bfloat16", "bool"])
@pytest.mark.parametrize("source", SMALL_INTEGERS)
def test_small_integers_are_packed_at_the_edge(source, to):
    bits = int(source[-1])
    low = -(2 ** (bits - 1)) if source.startswith("int") else 0
    x = np.arange(low, low + 2**bits, dtype=np.int8).astype(np.dtype(jnp.dtype(source)))
    x = np.resize(x, (3, 16))
    want = x.astype(np.int32).astype(np.dtype(jnp.dtype(to)))
    got = in_kernel(lambda v: v.astype(to), jnp.dtype(to), jnp.asarray(x))
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("dtype", ["int2", "int4", "uint2", "uint4", "float4_e2m1fn"])
def test_slices_of_packed_operands(dtype):
    x = jnp.asarray(np.random.default_rng(0).integers(0, 2, (4, 32)), jnp.float32).astype(dtype)

    def kernel(x_ref, o_ref):
        o_ref[:, :16] = x_ref[:, 16:]
        o_ref[:, 16:] = x_ref[:, 1:17]

    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=pallas_rs.Params(),
    )
    got, x = np.asarray(jax.jit(call)(x)).astype(np.float32), np.asarray(x).astype(np.float32)
    np.testing.assert_array_equal(got, np.concatenate([x[:, 16:], x[:, 1:17]], axis=1))


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64"])
def test_wide_types(dtype):
    with jax.enable_x64(True):
        x = jnp.asarray([0, 1, 2**40 + 1, 2**52], dtype)

        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * jnp.asarray(3, dtype) + jnp.asarray(1, dtype)

        call = pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            interpret=pallas_rs.Params(),
        )
        np.testing.assert_array_equal(jax.jit(call)(x), np.asarray(x) * 3 + 1)


@pytest.mark.parametrize("source", INTEGERS)
def test_booleans_and_integers(source):
    info = np.iinfo(source)
    x = np.array([0, 1, 2, info.max, info.min, 100], np.dtype(source))
    same_bits(in_kernel(lambda v: v.astype(bool), jnp.bool_, jnp.asarray(x)), x.astype(bool))
    flags = jnp.asarray([True, False, True])
    want = np.array([1, 0, 1], np.dtype(source))
    same_bits(in_kernel(lambda v: v.astype(source), jnp.dtype(source), flags), want)


def test_the_list_is_that_of_ml_dtypes():
    """A float of a byte or less that `ml_dtypes` has and JAX knows is tested above."""
    known = {n for n in dir(ml_dtypes) if n.startswith(("float8_", "float4_")) and hasattr(jnp, n)}
    assert known <= set(FLOATS)
