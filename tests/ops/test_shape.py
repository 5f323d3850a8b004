from __future__ import annotations

import jax.numpy as jnp
import pytest
from jax import lax

from .conftest import assert_same, in_kernel, sample

DTYPES = ("float32", "bfloat16", "float64", "int8", "int4", "bool", "float8_e5m2")

FUNCTIONS = {
    "transpose": lambda x: jnp.transpose(x, (2, 0, 1)),
    "transpose_back": lambda x: jnp.swapaxes(x, -1, -2),
    "reshape": lambda x: x.reshape(6, 20),
    "reshape_flat": lambda x: x.reshape(-1),
    "squeeze": lambda x: jnp.squeeze(x[:1], 0),
    "expand_dims": lambda x: x[:, None],
    "broadcast_leading": lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    "broadcast_in_dim": lambda x: lax.broadcast_in_dim(x, (3, 7, 4, 10), (0, 2, 3)),
    "broadcast_size_one": lambda x: jnp.broadcast_to(x[:, :1], x.shape),
    "slice": lambda x: lax.slice(x, (1, 0, 2), (3, 4, 9)),
    "slice_strided": lambda x: lax.slice(x, (0, 1, 0), (3, 4, 10), (2, 1, 3)),
    "rev": lambda x: lax.rev(x, (0, 2)),
    "pad": lambda x: lax.pad(x, x[0, 0, 0], ((1, 0, 0), (0, 2, 1), (-1, -2, 0))),
    "pad_interior": lambda x: lax.pad(x, x[0, 0, 0], ((0, 0, 2), (0, 0, 0), (2, -3, 1))),
    "concatenate": lambda x: lax.concatenate([x, x[:, :, :3], x], 2),
    "stack": lambda x: jnp.stack([x, x], 1),
    "split": lambda x: tuple(jnp.split(x, [1, 5], axis=2)),
    "tile": lambda x: jnp.tile(x, (1, 2, 1)),
    "repeat": lambda x: jnp.repeat(x, 3, axis=1),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (1, 2, 3), (2, 2, 4)),
    "dynamic_slice_clamped": lambda x: lax.dynamic_slice(x, (9, -5, 3), (2, 2, 9)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:1, :2, :3], (1, 1, 4)),
    "dynamic_update_clamped": lambda x: lax.dynamic_update_slice(x, x[:1, :2], (7, -1, 0)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_shape(name, dtype):
    x = sample(dtype, (3, 4, 10))
    function = FUNCTIONS[name]
    assert_same(in_kernel(function, x), function(x))


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8", "bfloat16", "int64"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_iota(dtype, dimension):
    def function(x):
        return x + lax.broadcasted_iota(dtype, x.shape, dimension)

    x = sample(dtype, (5, 9))
    assert_same(in_kernel(function, x), function(x))


def test_negative_padding_that_leaves_nothing():
    x = sample("float32", (3, 4))

    def function(x):
        return lax.pad(x, jnp.float32(1), ((-2, -1, 0), (1, 1, 0)))

    assert_same(in_kernel(function, x), function(x))
