"""`blackwell_matmul_mgpu` and `blackwell_ragged_dot_mgpu`, by one block and by pairs of blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu as blackwell
from jax.experimental.pallas.ops.gpu import blackwell_ragged_dot_mgpu as ragged

M, N = blackwell.MatmulDimension.M, blackwell.MatmulDimension.N
TILES = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "max_concurrent_steps": 2}
POLICIES = ["never", "first", "round_robin", "random"]


@pytest.fixture
def b200():
    """`b200(**params)`: a small simulated B200, on which persistent kernels have to loop."""

    def b200(cores=4, **params):
        return pallas_rs.simulate("b200", cores=cores, params=pallas_rs.Params(**params))

    return b200


def matmul(a, b, **options):
    config = blackwell.TuningConfig(**TILES | {"collective": False} | options)
    return jax.jit(lambda a, b: blackwell.matmul_kernel(a, b, config))(a, b)


def product(a, b):
    return np.asarray(a, np.float64) @ np.asarray(b, np.float64)


@pytest.mark.parametrize("collective", [False, True])
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("shape", [(256, 256, 64), (512, 256, 192), (256, 768, 320)])
def test_matmul(b200, rand, close, shape, dtype, collective):
    m, n, k = shape
    a, b = rand((m, k), dtype, 1), rand((k, n), dtype, 2)
    with b200():
        got = matmul(a, b, collective=collective)
    close(got, product(a, b), scale=4)


@pytest.mark.parametrize(
    "options",
    [
        {"grid_minor_dim": M, "grid_tile_width": 2},
        {"epilogue_tile_n": 32, "max_concurrent_steps": 4},
        {"tile_n": 64, "tile_k": 128},
        {"collective": True, "grid_minor_dim": M, "epilogue_tile_n": 128},
        {"collective": True, "tile_n": 64, "max_concurrent_steps": 3},
    ],
)
def test_matmul_configurations(b200, rand, close, options):
    a, b = rand((512, 256), seed=1), rand((256, 512), seed=2)
    with b200():
        got = matmul(a, b, **options)
    close(got, product(a, b), scale=4)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("collective", [False, True])
def test_matmul_under_every_policy(b200, rand, close, collective, policy, completion):
    """A tile that nobody computes is NaN; the clusters' order is drawn from the seeds."""
    a, b = rand((768, 128), seed=1), rand((128, 512), seed=2)
    with b200(work_stealing=policy, async_completion=completion, schedule="random", seeds=2):
        got = matmul(a, b, collective=collective)
    close(got, product(a, b), scale=4)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("groups", [(256,), (100, 156), (0, 300, 12, 200), (1, 63, 192)])
@pytest.mark.parametrize("minor", [M, N])
def test_ragged_dot(b200, rand, close, groups, minor, dtype):
    """The kernel asks for its place along `x` in any case, which only a pair of blocks has."""
    m, k, n = sum(groups), 192, 256
    lhs, rhs = rand((m, k), dtype, 1), rand((len(groups), k, n), dtype, 2)
    config = ragged.TuningConfig(collective=True, grid_tile_width=1, grid_minor_dim=minor, **TILES)
    with b200():
        call = jax.jit(lambda lhs, rhs, sizes: ragged.ragged_dot_kernel(lhs, rhs, sizes, config))
        got = call(lhs, rhs, jnp.asarray(groups, jnp.int32))
    ends = np.cumsum(groups)
    want = np.zeros((m, n))
    for i, (size, end) in enumerate(zip(groups, ends, strict=True)):
        want[end - size : end] = product(lhs[end - size : end], rhs[i])
    close(got, want, scale=4)
