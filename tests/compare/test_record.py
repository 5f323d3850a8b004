"""Comparisons as files."""

import sys

import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl


def scale(x, factor=2):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * x_ref.dtype.type(factor)

    return pl.pallas_call(kernel, out_shape=x)(x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int8", "bool"])
def test_a_record_comes_back_as_it_was(tmp_path, dtype):
    x = jnp.arange(96).reshape(4, 24).astype(dtype)

    def copy(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...]

        return pl.pallas_call(kernel, out_shape=x)(x)

    found = pallas_rs.compare(copy, x, native="jax")
    found.save(tmp_path / "copy")
    assert {p.name for p in tmp_path.iterdir()} == {"copy.npz", "copy.json"}
    loaded = pallas_rs.load_comparison(tmp_path / "copy")
    assert str(loaded) == str(found)
    assert loaded.outputs == found.outputs
    assert loaded.values[0].native.dtype == jnp.dtype(dtype)
    again = pallas_rs.compare(copy, x, native=tmp_path / "copy")
    assert again
    assert again.environment.recorded
    assert ", recorded" in str(again)


def test_a_record_tells_a_changed_kernel(tmp_path):
    x = jnp.linspace(1, 2, 64)
    pallas_rs.compare(scale, x, native="jax").save(tmp_path / "scale")
    found = pallas_rs.compare(lambda x: scale(x, 2.001), x, native=tmp_path / "scale.npz")
    assert not found
    assert found.outputs[0].beyond == 64


def test_a_record_serves_no_other_inputs(tmp_path):
    x = jnp.ones(64)
    pallas_rs.compare(scale, x, native="jax").save(tmp_path / "scale")
    with pytest.raises(ValueError, match="other inputs"):
        pallas_rs.compare(scale, 2 * x, native=tmp_path / "scale")


def test_a_large_output_is_recorded_as_a_sample(tmp_path):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(600, 512)), jnp.float32)
    pallas_rs.compare(scale, x, native="jax").save(tmp_path / "large")
    assert (tmp_path / "large.npz").stat().st_size < 1 << 20
    found = pallas_rs.compare(scale, x, native=tmp_path / "large")
    assert found
    assert found.outputs[0].compared == 1 << 16
    wrong = pallas_rs.compare(lambda x: scale(x).at[599].set(0), x, native=tmp_path / "large")
    assert wrong.outputs[0].first.index[0] == 599
    wrong.save(tmp_path / "again")
    assert str(pallas_rs.load_comparison(tmp_path / "again")) == str(wrong)


def test_another_format_is_refused(tmp_path):
    pallas_rs.compare(scale, jnp.ones(8), native="jax").save(tmp_path / "scale")
    head = tmp_path / "scale.json"
    head.write_text(head.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(ValueError, match="format 99"):
        pallas_rs.load_comparison(tmp_path / "scale")


def test_a_picture_has_a_row_for_each_output():
    found = pallas_rs.compare(lambda x: (scale(x), scale(x[0], 3)), jnp.ones((8, 8)), native="jax")
    figure = found.plot()
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == [
        "out[0]: float32[8, 8]",
        "out[1]: float32[8]",
    ]


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = pallas_rs.compare(scale, jnp.ones(8), native="jax")
    with pytest.raises(ImportError, match=r"pallas-rs\[plot\]"):
        found.plot()
