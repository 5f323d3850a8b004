"""What the tests of inline bodies share: a simulated device, and one body as a kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu


def call(kernel, *arrays, target="h100", **params):
    """A kernel, traced and run on a simulated device."""
    with (
        pallas_rs.simulate(target, params=pallas_rs.Params(**params)),
        pallas_rs.typed_errors(),
    ):
        return jax.block_until_ready(jax.jit(lambda *a: kernel(*a))(*arrays))


def kernel(body, out, scratch=(), **kwargs):
    """`plgpu.kernel` of a body whose refs are inputs, outputs and scratch in this order."""
    return plgpu.kernel(body, out_type=out, scratch_types=list(scratch), **kwargs)


def mapped(function, xs, dtype, layout, shape=None, **kwargs):
    """What a body that returns `function(*arrays)` makes of arrays `xs`, all in one layout."""
    shape = xs[0].shape if shape is None else shape

    def run(*refs):
        *ins, out = refs
        returned = plgpu.ShapeDtypeStruct(shape, dtype, layout)

        @plgpu.inline_mgpu(arg_types=(layout,) * len(ins), return_type=returned)
        def body(_, *arrays):
            return function(*arrays)

        out[...] = body(*(ref[...] for ref in ins))

    result = call(kernel(run, jax.ShapeDtypeStruct(shape, dtype)), *map(jnp.asarray, xs), **kwargs)
    return np.asarray(result)


@pytest.fixture
def fails():
    """`fails(kind, kernel, *arrays)`: the text of the error that the run raises."""

    def fails(kind, kernel, *arrays, **params):
        with pytest.raises(kind) as caught:
            call(kernel, *arrays, **params)
        return str(caught.value)

    return fails


@pytest.fixture
def rng():
    return np.random.default_rng(0)
