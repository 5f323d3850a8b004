"""What the tests of derivatives share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture
def rand():
    """`rand(*shape)`: float32 numbers in [-1, 1), other ones at each call."""
    rng = np.random.default_rng(0)
    return lambda *shape: jnp.asarray(rng.uniform(-1, 1, shape), jnp.float32)


def close(actual, expected, tolerance=1e-5):
    jax.tree.map(
        lambda a, e: np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance),
        actual,
        expected,
    )


@pytest.fixture(name="close")
def _close():
    return close


@pytest.fixture
def check_jvp():
    """`check_jvp(f, twin, primals, tangents)`: `f`, with kernels, has `twin`'s derivative.

    Primal values are those without differentiation to the last bit; tangents are those of
    `jax.jvp` of the twin, and of finite differences of `f` itself.
    """

    def check(f, twin, primals, tangents, differences=True):
        outs, out_tangents = jax.jit(lambda p, t: jax.jvp(f, p, t))(primals, tangents)
        alone = jax.jit(f)(*primals)
        jax.tree.map(np.testing.assert_array_equal, outs, alone)
        twin_outs, twin_tangents = jax.jvp(twin, primals, tangents)
        close(outs, twin_outs)
        close(out_tangents, twin_tangents)
        if differences:
            step = 1e-2
            forth = f(*(p + step * t for p, t in zip(primals, tangents, strict=True)))
            back = f(*(p - step * t for p, t in zip(primals, tangents, strict=True)))
            slope = jax.tree.map(lambda a, b: (a - b) / (2 * step), forth, back)
            close(out_tangents, slope, tolerance=2e-2)

    return check
