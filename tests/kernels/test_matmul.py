"""`hopper_matmul_mgpu` and `hopper_mixed_type_matmul_mgpu`."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper
from jax.experimental.pallas.ops.gpu import hopper_mixed_type_matmul_mgpu as mixed


def config_of(module, **kw):
    kw = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "max_concurrent_steps": 2} | kw
    return module.TuningConfig(**kw)


def matmul(a, b, config, c=None):
    if "c" in inspect.signature(hopper.matmul).parameters:
        return hopper.matmul(a, b, c, config)
    return hopper.matmul(a, b, config)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("shape", [(128, 128, 64), (256, 256, 256), (512, 128, 192)])
def test_matmul(h100, rand, close, shape, dtype):
    m, n, k = shape
    a, b = rand((m, k), dtype, 1), rand((k, n), dtype, 2)
    with h100():
        got = jax.jit(lambda a, b: matmul(a, b, config_of(hopper)))(a, b)
    want = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    close(got, want, scale=4)


@pytest.mark.parametrize(
    "options",
    [
        {"wg_dimension": hopper.MatmulDimension.M},
        {"grid_minor_dim": hopper.MatmulDimension.M, "grid_tile_width": 2},
        {"tile_m": 128, "tile_n": 128, "max_concurrent_steps": 3},
        {"tile_m": 128, "epi_tile_m": None, "epi_tile_n": None},
    ],
)
def test_matmul_configurations(h100, rand, close, options):
    a, b = rand((256, 192), seed=1), rand((192, 256), seed=2)
    with h100():
        got = jax.jit(lambda a, b: matmul(a, b, config_of(hopper, **options)))(a, b)
    close(got, np.asarray(a, np.float64) @ np.asarray(b, np.float64), scale=4)


def test_matmul_with_an_addend(h100, rand, close):
    if "c" not in inspect.signature(hopper.matmul).parameters:
        pytest.skip("this JAX's kernel takes no addend")
    a, b, c = rand((128, 128), seed=1), rand((128, 128), seed=2), rand((128, 128), seed=3)
    with h100():
        got = jax.jit(lambda a, b, c: matmul(a, b, config_of(hopper), c))(a, b, c)
    want = np.asarray(a, np.float64) @ np.asarray(b, np.float64) + np.asarray(c, np.float64)
    close(got, want, scale=4)


def test_matmul_completion(h100, rand, close, completion):
    a, b = rand((256, 256), seed=1), rand((256, 256), seed=2)
    with h100(async_completion=completion, schedule="random", seeds=10):
        got = jax.jit(lambda a, b: matmul(a, b, config_of(hopper)))(a, b)
    close(got, np.asarray(a, np.float64) @ np.asarray(b, np.float64), scale=4)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("shape", [(128, 128, 64), (256, 256, 192)])
@pytest.mark.parametrize("wg", ["M", "N"])
def test_mixed_types(h100, rand, close, shape, dtype, wg):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a = jnp.asarray(rng.integers(-128, 128, (m, k)), jnp.int8)
    b = rand((k, n), dtype, 2)
    config = config_of(mixed, wg_dimension=getattr(mixed.MatmulDimension, wg))

    def call(a, b):
        return mixed.mixed_matmul_kernel(a, b, out_dtype=jnp.float32, config=config)

    with h100():
        got = jax.jit(call)(a, b)
    close(got, np.asarray(a, np.float64) @ np.asarray(b, np.float64), scale=100)
