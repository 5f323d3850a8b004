"""What the `pl.pallas_call` tests share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl

PARAMS = pallas_rs.Params()


def pallas_call(kernel, out_shape, *, params=PARAMS, **kwargs):
    """`pl.pallas_call` in our hands; `out_shape` may be an array-like to imitate."""
    like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), out_shape)
    return pl.pallas_call(kernel, out_shape=like, interpret=params, **kwargs)


def arange(*shape, dtype=jnp.float32):
    return jnp.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.fixture
def fails():
    """`fails(kind, function, *args)`: the text of the error that the run raises."""

    def fails(kind, function, *args):
        with pytest.raises(kind) as caught, pallas_rs.typed_errors():
            jax.block_until_ready(function(*args))
        return str(caught.value)

    return fails
