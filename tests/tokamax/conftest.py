"""Kernels of tokamax, from PyPI and unchanged. `pytest -m tokamax`, where it is installed."""

import importlib.util
import pathlib

import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest

HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items):
    missing = importlib.util.find_spec("tokamax") is None
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker("tokamax")
        # What its dependencies warn of when they are imported.
        item.add_marker(pytest.mark.filterwarnings("ignore"))
        if missing:
            item.add_marker(pytest.mark.skip(reason="tokamax is not installed"))


@pytest.fixture
def rand():
    """`rand(shape, seed, dtype, std)`: normally distributed."""

    def rand(shape, seed, dtype=jnp.bfloat16, std=1.0):
        values = np.random.default_rng(seed).normal(0, std, shape)
        return jnp.asarray(values, jnp.float32).astype(dtype)

    return rand


@pytest.fixture
def close():
    """Compares with what a result of two roundings to 16 bits can hold."""

    def close(got, want, roundings=2):
        unit = float(jnp.finfo(jnp.bfloat16).eps) * roundings
        want = np.asarray(want, np.float32)
        np.testing.assert_allclose(
            np.asarray(got, np.float32), want, rtol=unit, atol=unit * np.abs(want).max() / 2
        )

    return close


@pytest.fixture
def ran():
    """`ran(run, *kernels)`: the result of `run`, which ran these kernels and no other."""

    def ran(run, *kernels):
        before = pallas_rs.last_report()
        first = 0 if before is None else before.run_id
        result = run()
        assert pallas_rs.last_report() is not None
        reports = [r for r in pallas_rs.reports() if r.run_id > first]
        assert {r.kernel for r in reports} == set(kernels)
        assert {r.verdict for r in reports} == {"clean"}
        return result

    return ran
