"""`inline_mgpu="ignore"`: bodies are left out, and nobody can take the run for a whole one."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

from .conftest import call, kernel
from .emit import ptx

L = plgpu.Layout
SDS = jax.ShapeDtypeStruct


def doubled(x_ref, o_ref):
    returned = plgpu.ShapeDtypeStruct((64, 32), jnp.float32, L.WGMMA)

    @plgpu.inline_mgpu(arg_types=(L.WGMMA,), return_type=returned)
    def twice(_, x):
        return x + x

    o_ref[...] = twice(x_ref[...])


def stopped(x_ref, o_ref):
    """A body without results that no machine but a GPU can run."""

    @plgpu.inline_mgpu()
    def stop(_):
        ptx("brkpt;")

    stop()
    o_ref[...] = x_ref[...]


X = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)


@pytest.mark.parametrize("mode", ["error", "_hack_model_inline_mgpu_tokamax"])
def test_a_body_runs_unless_it_is_to_be_ignored(mode):
    out = call(kernel(doubled, SDS(X.shape, X.dtype)), X, inline_mgpu=mode)
    np.testing.assert_array_equal(out, X + X)
    assert pallas_rs.last_report().verdict == "clean"


def test_what_an_ignored_body_returns_is_unwritten():
    out = call(kernel(doubled, SDS(X.shape, X.dtype)), X, inline_mgpu="ignore")
    assert np.isnan(out).all()
    report = pallas_rs.last_report()
    assert report.verdict == "incomplete"
    (finding,) = report.findings
    assert finding.code == "PRS-L4"
    assert "doubled.<locals>.twice" in finding.message
    line = doubled.__code__.co_firstlineno + 7
    assert f"test_ignored.py:{line}" in finding.text
    assert 'inline_mgpu="ignore"' in finding.text


def test_zeros_where_unwritten_memory_is_zero():
    k = kernel(doubled, SDS(X.shape, X.dtype))
    out = call(k, X, inline_mgpu="ignore", uninitialized_memory="zero")
    assert not np.asarray(out).any()


def test_a_use_of_what_an_ignored_body_returns_is_found(fails):
    k = kernel(doubled, SDS(X.shape, X.dtype))
    text = fails(pallas_rs.KernelError, k, X, inline_mgpu="ignore", uninitialized_reads="raise")
    assert "twice" in text, text


def test_a_body_outside_the_table_can_be_ignored(fails):
    k = kernel(stopped, SDS(X.shape, X.dtype))
    fails(pallas_rs.UnsupportedError, k, X)
    np.testing.assert_array_equal(call(k, X, inline_mgpu="ignore"), X)
    report = pallas_rs.last_report()
    assert report.verdict == "incomplete"
    assert "stop" in report.findings[0].message


def test_a_finding_that_is_suppressed_leaves_the_verdict():
    call(kernel(stopped, SDS(X.shape, X.dtype)), X, inline_mgpu="ignore", suppress=("PRS-L4",))
    report = pallas_rs.last_report()
    assert (report.verdict, report.findings) == ("incomplete", ())


def test_vmap_of_an_ignored_body():
    with pallas_rs.simulate("h100", params=pallas_rs.Params(inline_mgpu="ignore")):
        k = kernel(stopped, SDS(X.shape, X.dtype))
        xs = np.stack([X, X + 1])
        np.testing.assert_array_equal(jax.jit(jax.vmap(k))(xs), xs)
    assert pallas_rs.last_report().verdict == "incomplete"
