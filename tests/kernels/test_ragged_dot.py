"""`ragged_dot_mgpu` and `transposed_ragged_dot_mgpu`: groups of any length, empty ones too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.gpu import ragged_dot_mgpu as ragged
from jax.experimental.pallas.ops.gpu import transposed_ragged_dot_mgpu as transposed

OPTIONS = {"block_m": 64, "block_n": 64, "block_k": 64, "grid_block_n": 1}
GROUPS = [(256,), (64, 128, 64), (100, 0, 156), (0, 1, 255), (37, 91, 100, 28)]


def spans(groups):
    ends = np.cumsum(groups)
    return zip(ends - np.asarray(groups), ends, strict=True)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("transpose", [False, True])
def test_ragged_dot(h100, rand, close, groups, transpose, dtype):
    m, k, n = sum(groups), 320, 128
    lhs = rand((m, k), dtype, 1)
    rhs = rand((len(groups), k, n), dtype, 2)
    given = jnp.swapaxes(rhs, 1, 2) if transpose else rhs

    def call(lhs, rhs, sizes):
        return ragged.ragged_dot(
            lhs,
            rhs,
            group_sizes=sizes,
            max_concurrent_steps=2,
            transpose_rhs=transpose,
            **OPTIONS,
        )

    with h100():
        got = jax.jit(call)(lhs, given, jnp.asarray(groups, jnp.int32))
    want = np.zeros((m, n))
    for i, (start, end) in enumerate(spans(groups)):
        want[start:end] = np.asarray(lhs[start:end], float) @ np.asarray(rhs[i], float)
    close(got, want, scale=4)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("steps", [1, 2])
def test_transposed_ragged_dot(h100, rand, close, groups, steps, dtype):
    k, m, n = sum(groups), 64, 128
    lhs, rhs = rand((k, m), dtype, 1), rand((k, n), dtype, 2)

    def call(lhs, rhs, sizes):
        return transposed.transposed_ragged_dot(
            lhs, rhs, group_sizes=sizes, max_concurrent_steps=steps, **OPTIONS
        )

    with h100():
        got = jax.jit(call)(lhs, rhs, jnp.asarray(groups, jnp.int32))
    want = np.stack(
        [
            np.asarray(lhs[start:end], float).T @ np.asarray(rhs[start:end], float)
            for start, end in spans(groups)
        ]
    )
    close(got, want, scale=4)


def test_completion(h100, rand, close, completion):
    groups = (100, 0, 156)
    lhs, rhs = rand((256, 64), seed=1), rand((3, 64, 64), seed=2)

    def call(lhs, rhs, sizes):
        return ragged.ragged_dot(lhs, rhs, group_sizes=sizes, max_concurrent_steps=2, **OPTIONS)

    with h100(async_completion=completion, schedule="random", seeds=5):
        got = jax.jit(call)(lhs, rhs, jnp.asarray(groups, jnp.int32))
    want = np.zeros((256, 64))
    for i, (start, end) in enumerate(spans(groups)):
        want[start:end] = np.asarray(lhs[start:end], float) @ np.asarray(rhs[i], float)
    close(got, want, scale=4)
