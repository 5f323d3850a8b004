"""`FragmentedArray` on the machine: layouts, casts, functions, reductions, relayouts.

What JAX itself does not emit is passed over; how much is left is counted at the end of each test,
so that it cannot become nothing.
"""

import math
import operator

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pallas_rs
import pytest
from jax.experimental.mosaic.gpu import utils
from jax.experimental.pallas import mosaic_gpu as plgpu

from .conftest import call, kernel, mapped
from .emit import arith, c, i32, mgpu

L = plgpu.Layout
SDS = jax.ShapeDtypeStruct
# What JAX raises where a conversion, function or relayout has no code.
REFUSALS = (NotImplementedError, TypeError, ValueError)


def unless_jax_refuses(run):
    """What `run()` returns; nothing where JAX itself has no code for the body."""
    try:
        return run()
    except pallas_rs.KernelError:
        raise
    except Exception as error:
        if not (type(error).__module__.startswith("jax") or isinstance(error, REFUSALS)):
            raise
        return None


def emitted(function, xs, dtype, layout, **kwargs):
    """As `mapped`, unless JAX refuses."""
    return unless_jax_refuses(lambda: mapped(function, xs, dtype, layout, target="b200", **kwargs))


LAYOUTS = {
    "wgmma": (L.WGMMA, (128, 64)),
    "wgmma_row": (L.WGMMA.reduce(1), (128,)),
    "wgmma_column": (L.WGMMA.reduce(0), (64,)),
    "wgmma_upcast_2x": (L.WGMMA_UPCAST_2X, (64, 64)),
    "wgmma_upcast_4x": (L.WGMMA_UPCAST_4X, (64, 64)),
    "wgmma_transposed": (L.WGMMA_TRANSPOSED, (64, 64)),
    "tcgen05": (L.TCGEN05, (128, 32)),
    "tcgen05_row": (L.TCGEN05.reduce(1), (128,)),
    "tcgen05_column": (L.TCGEN05.reduce(0), (32,)),
    "tcgen05_transposed": (L.TCGEN05_TRANSPOSED, (32, 128)),
    "tmem_native": (L.TCGEN05_TMEM_NATIVE, (128, 16)),
    "tmem_native_row": (L.TCGEN05_TMEM_NATIVE.reduce(1), (128,)),
    "strided": (L.WG_STRIDED((32, 64), vec_size=4), (32, 64)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_as_jax_counts_its_elements(name):
    layout, shape = LAYOUTS[name]
    if "transposed" in name:
        pytest.skip("JAX's own indices of transposed layouts are wrong; its stores are tested")

    def number(x):
        def linear(v, index):
            total = c(0)
            for size, i in zip(shape, index, strict=True):
                total = arith.addi(arith.muli(total, c(size)), arith.index_cast(i32(), i))
            return arith.addi(arith.muli(v, c(10000)), total)

        return x.foreach(linear, create_array=True, is_signed=True)

    x = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    out = mapped(number, [x], jnp.int32, layout, target="b200")
    np.testing.assert_array_equal(out, x * 10001)


@pytest.mark.parametrize("name", [n for n in LAYOUTS if n != "wgmma_column"])
def test_a_layout_as_jax_stores_it(name):
    layout, shape = LAYOUTS[name]

    def body(x_ref, o_ref):
        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), layout))
        def store(_, o, x):
            x.store_untiled(o, optimized=False)

        store(o_ref, x_ref[...])

    x = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    k = kernel(body, SDS(shape, jnp.int32))
    out = unless_jax_refuses(lambda: call(k, x, target="b200"))
    if out is None:
        pytest.skip("JAX has no such store")
    np.testing.assert_array_equal(out, x)


TYPES = [
    "int8", "uint8", "int16", "int32", "uint32", "bool", "bfloat16", "float16", "float32",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def numbers(rng, source, target):
    """Small numbers that both types hold."""
    low = 0 if source[0] in "ub" or target[0] in "ub" else -4
    x = rng.integers(low, 2 if source == "bool" else 5, (64, 64)).astype(np.float32)
    if source[0] not in "iub":
        x = x + 0.5 * (rng.random(x.shape) < 0.5) * (target[0] not in "iub")
    return x.astype(jnp.dtype(source))


@pytest.mark.parametrize("source", TYPES)
def test_casts(source, rng):
    done = 0
    layout = L.WG_STRIDED((64, 64), vec_size=8)
    for target in TYPES:
        if target in (source, "bool"):
            continue
        x = numbers(rng, source, target)
        dtype = jnp.dtype(target)

        def cast(v, dtype=dtype):
            return v.astype(utils.dtype_to_ir_type(dtype), is_signed=utils.is_signed(dtype))

        out = emitted(cast, [x], dtype, layout)
        if out is None:
            continue
        want = np.asarray(x).astype(np.float32).astype(dtype).astype(np.float32)
        np.testing.assert_array_equal(out.astype(np.float32), want, err_msg=target)
        done += 1
    assert done >= 1


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "rsqrt": lambda v: v**-0.5, "sqrt": np.sqrt, "abs": np.abs,
    "round_even": np.rint, "__neg__": np.negative, "erf": np.vectorize(math.erf),
}  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, 1e-6), (ml_dtypes.bfloat16, 1e-2), (np.float16, 2e-3)]
)
def test_functions(dtype, tolerance, rng):
    x = (np.abs(rng.standard_normal((64, 64))) + 0.1).astype(dtype)
    done = 0
    for name, want in FUNCTIONS.items():
        if not hasattr(mgpu.FragmentedArray, name):
            continue
        for options in ({}, {"approx": True}):
            out = emitted(lambda v, n=name, o=options: getattr(v, n)(**o), [x], dtype, L.WGMMA)
            if out is None:
                continue
            expected = want(x.astype(np.float64))
            np.testing.assert_allclose(
                out.astype(np.float64),
                expected.astype(dtype).astype(np.float64),
                rtol=3 * tolerance,
                atol=3 * tolerance,
                err_msg=f"{name} {options}",
            )
            done += 1
    assert done >= 10


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor,
    operator.lshift, operator.rshift, operator.floordiv, operator.lt, operator.ge, operator.eq,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16])
def test_integer_operators(dtype, rng):
    low = 0 if dtype == np.uint32 else -50
    x = rng.integers(low, 50, (64, 64)).astype(dtype)
    y = rng.integers(1, 9, (64, 64)).astype(dtype)
    done = 0
    for function in OPERATORS:
        returned = np.bool_ if function.__name__ in ("lt", "ge", "eq") else dtype
        out = emitted(function, [x, y], returned, L.WGMMA)
        if out is not None:
            np.testing.assert_array_equal(out, function(x, y), err_msg=function.__name__)
            done += 1
    assert done >= 8


@pytest.mark.parametrize("dtype", [np.float32, np.int32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("op", "want"), [("add", np.sum), ("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_reductions(dtype, op, want, axis, rng):
    """Shuffles within a warp, shared memory and barriers across warps."""
    whole = isinstance(axis, tuple)
    layout = L.WG_SPLAT if whole else L.WGMMA.reduce(axis)
    shape = () if whole else (64,)
    x = rng.integers(-8, 9, (64, 64)).astype(dtype)

    def body(x_ref, o_ref, scratch):
        returned = plgpu.ShapeDtypeStruct(shape, dtype, layout)

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), L.WGMMA), return_type=returned)
        def reduce(_, scratch, x):
            return x.reduce(op, axis, scratch)

        value = reduce(scratch, x_ref[...])
        o_ref[...] = jnp.full((64,), value) if whole else value

    k = kernel(body, SDS((64,), dtype), [plgpu.SMEM((1024,), dtype)])
    out = unless_jax_refuses(lambda: call(k, jnp.asarray(x), target="b200"))
    if out is None:
        pytest.skip("JAX has no code for it")
    out = np.asarray(out).astype(np.float32)
    expected = want(x.astype(np.float32), axis=axis).astype(dtype).astype(np.float32)
    tolerance = 0.05 if dtype == ml_dtypes.bfloat16 else 0
    np.testing.assert_allclose(
        out, np.broadcast_to(expected, (64,)), rtol=tolerance, atol=0.5 * tolerance
    )


RELAYOUTS = [
    (L.WGMMA_UPCAST_2X, L.WGMMA, ml_dtypes.bfloat16),
    (L.WGMMA_UPCAST_4X, L.WGMMA_UPCAST_2X, np.int8),
    (L.WGMMA_UPCAST_4X, L.WGMMA, np.int8),
    (L.WGMMA, L.WGMMA_TRANSPOSED, ml_dtypes.bfloat16),
    (L.WGMMA_TRANSPOSED, L.WGMMA, ml_dtypes.bfloat16),
    (L.TCGEN05, L.TCGEN05_TMEM_NATIVE, np.float32),
    (L.TCGEN05_TMEM_NATIVE, L.TCGEN05, np.float32),
]


def test_relayouts(rng):
    done = 0
    for source, target, dtype in RELAYOUTS:
        x = rng.integers(-100, 100, (128, 64)).astype(dtype)

        def body(x_ref, o_ref, source=source, target=target, dtype=dtype):
            returned = plgpu.ShapeDtypeStruct((128, 64), dtype, target)

            @plgpu.inline_mgpu(arg_types=(source,), return_type=returned)
            def move(_, array):
                return array.to_layout(target.to_mgpu())

            o_ref[...] = move(x_ref[...])

        k = kernel(body, SDS((128, 64), dtype))
        out = unless_jax_refuses(lambda k=k, x=x: call(k, jnp.asarray(x), target="b200"))
        if out is None:
            continue
        np.testing.assert_array_equal(np.asarray(out), x, err_msg=f"{source} {target}")
        done += 1
    assert done >= 3
