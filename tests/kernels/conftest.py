"""What the tests of JAX's own kernels share."""

import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest


@pytest.fixture(params=["late", "eager", "random"])
def completion(request):
    return request.param


@pytest.fixture
def h100():
    """`h100(**params)`: a small simulated H100, on which persistent kernels have to loop."""

    def h100(cores=4, **params):
        return pallas_rs.simulate("h100", cores=cores, params=pallas_rs.Params(**params))

    return h100


@pytest.fixture
def rand():
    def rand(shape, dtype=jnp.float16, seed=0):
        rng = np.random.default_rng(seed)
        return jnp.asarray(rng.uniform(-1, 1, shape), dtype)

    return rand


@pytest.fixture
def close():
    """Compares with what a result of that dtype can hold."""

    def close(got, want, scale=1.0):
        unit = float(jnp.finfo(got.dtype).eps) if got.dtype != jnp.float32 else 1e-3
        np.testing.assert_allclose(
            np.asarray(got, np.float64),
            np.asarray(want, np.float64),
            rtol=4 * unit,
            atol=4 * unit * scale,
        )

    return close
