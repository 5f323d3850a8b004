"""Transformations of kernels with bodies, and programs that outlive their Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

from .conftest import kernel

L = plgpu.Layout
SDS = jax.ShapeDtypeStruct


def double(x_ref, o_ref):
    returned = plgpu.ShapeDtypeStruct((64, 32), jnp.float32, L.WGMMA)

    @plgpu.inline_mgpu(arg_types=(L.WGMMA,), return_type=returned)
    def twice(_, x):
        return x + x

    o_ref[...] = twice(x_ref[...])


@pytest.fixture
def doubled():
    with pallas_rs.simulate("h100"), pallas_rs.typed_errors():
        yield kernel(double, SDS((64, 32), jnp.float32))


def test_a_derivative_ends_in_an_error_that_names_the_body(doubled):
    x = jnp.ones((64, 32))
    with pytest.raises(pallas_rs.UnsupportedError, match=r"double\.<locals>\.twice.*derivative"):
        jax.jvp(doubled, (x,), (x,))


def test_vmap(doubled):
    x = np.random.default_rng(0).standard_normal((3, 64, 32)).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(jax.vmap(doubled))(x), x + x)


def test_an_export_runs_without_the_body(doubled):
    x = np.ones((64, 32), np.float32)
    checks = pallas_rs.disabled_safety_checks()
    exported = jax.export.export(jax.jit(doubled), platforms=["cpu"], disabled_checks=checks)(x)
    restored = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(restored.call(x), x + x)
