"""What the Blackwell tests share: a simulated B200."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest


@pytest.fixture
def run():
    """`run(kernel, *arrays, **params)`: the kernel, traced and run on a simulated B200."""

    def run(kernel, *arrays, **params):
        # Small shapes show the same as those of real kernels.
        params = pallas_rs.Params(**{"limits": "ignore"} | params)
        with pallas_rs.simulate("b200", params=params):
            # A function of its own, so that no other parameters' trace is found.
            return jax.block_until_ready(jax.jit(lambda *a: kernel(*a))(*arrays))

    return run


@pytest.fixture
def fails(run):
    """`fails(kind, kernel, *arrays)`: the text of the error that the run raises."""

    def fails(kind, kernel, *arrays, **params):
        with pytest.raises(kind) as caught, pallas_rs.typed_errors():
            run(kernel, *arrays, **params)
        return str(caught.value)

    return fails


@pytest.fixture
def rand():
    """`rand(shape, dtype, seed)`: numbers in [-1, 1), or small integers."""

    def rand(shape, dtype=jnp.float32, seed=0):
        rng = np.random.default_rng(seed)
        if jnp.issubdtype(dtype, jnp.integer):
            return jnp.asarray(rng.integers(-8, 8, shape), dtype)
        return jnp.asarray(rng.uniform(-1, 1, shape), dtype)

    return rand


@pytest.fixture
def races(run):
    """`races(kernel, *arrays)`: the codes of what the detector finds, without the prefix."""

    def races(kernel, *arrays, **params):
        run(kernel, *arrays, detect_races=True, on_race="warn", **params)
        return [f.code.removeprefix("PRS-") for f in pallas_rs.last_report().findings]

    return races
