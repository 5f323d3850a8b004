"""A GPU test-suite as people write it: no word of pallas_rs but a marker."""

import jax
import jax.numpy as jnp
import kernels
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not str(getattr(jax.devices()[0], "compute_capability", "")).startswith("9"),
    reason="needs a Hopper GPU",
)


@pytest.fixture
def x():
    return jnp.arange(128 * 64, dtype=jnp.float32).reshape(128, 64)


def test_scale(x):
    np.testing.assert_array_equal(kernels.scale(x), 2 * x)


def test_scale_under_jit(x):
    np.testing.assert_array_equal(jax.jit(kernels.scale)(x), 2 * x)


def test_device():
    assert kernels.num_sms() == 132


def test_order():
    np.testing.assert_array_equal(kernels.ordered(jnp.ones(8)), jnp.ones(8))
