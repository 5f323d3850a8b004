"""`interpret=Params()` reaches the machine, from every entry point, and nothing else does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from pallas_rs import _hook, _jax_internals, _report

X = jnp.arange(128, dtype=jnp.float32)


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


def through_pallas_call(x, interpret=False):
    return pl.pallas_call(add_one, out_shape=x, interpret=interpret)(x)


def through_kernel(x, interpret=False):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    kernel = plgpu.kernel(
        add_one, out_type=shape, grid=(1,), grid_names=("i",), interpret=interpret
    )
    return kernel(x)


ENTRIES = [through_pallas_call, through_kernel]


def runs_of(function, *args) -> int:
    """How many runs of the machine a call makes."""
    before = _report.last_run_id()
    jax.block_until_ready(function(*args))
    _report.settle()
    return _report.last_run_id() - before


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_point_reaches_the_machine(entry):
    function = functools.partial(entry, interpret=pallas_rs.Params())
    for f in (function, jax.jit(function)):
        np.testing.assert_array_equal(f(X), X + 1)
        assert runs_of(f, X) == 1


@pytest.mark.parametrize("entry", ENTRIES)
def test_forcing_overrides_interpret(entry):
    with pallas_rs.force_interpret_mode(pallas_rs.Params(seed=1)):
        np.testing.assert_array_equal(jax.jit(entry)(X), X + 1)
    with pallas_rs.force_interpret_mode(), pallas_rs.simulate("a100"):
        np.testing.assert_array_equal(jax.jit(entry)(X), X + 1)


def test_forcing_ends_with_its_block():
    function = jax.jit(through_pallas_call)
    with pallas_rs.force_interpret_mode():
        function(X)
    with pytest.raises(ValueError, match="interpret"):
        function(X)


def test_other_interpreters_are_left_alone():
    assert runs_of(functools.partial(through_pallas_call, interpret=True), X) == 0
    with pytest.raises(ValueError, match="interpret"):
        through_pallas_call(X, interpret=False)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_call_has_no_jax_effect(entry):
    function = functools.partial(entry, interpret=pallas_rs.Params())
    assert not jax.make_jaxpr(function)(X).effects

    def branches(x, n):
        return lax.cond(n > 1, function, lambda x: x, x)

    np.testing.assert_array_equal(jax.jit(branches)(X, 2), X + 1)
    np.testing.assert_array_equal(jax.jit(branches)(X, 0), X)
    np.testing.assert_array_equal(
        jax.jit(lambda x: lax.fori_loop(0, 5, lambda _, x: function(x), x))(X), X + 5
    )
    np.testing.assert_array_equal(jax.jit(jax.vmap(function))(X.reshape(2, 64)).ravel(), X + 1)
    np.testing.assert_array_equal(jax.jit(jax.checkpoint(function))(X), X + 1)


def test_a_call_whose_results_are_not_used_is_dropped():
    def unused(x):
        through_pallas_call(x, pallas_rs.Params())
        return x

    assert runs_of(jax.jit(unused), X) == 0


def test_installing_again_changes_nothing():
    rule = _jax_internals.pallas_call_lowering()
    _hook.install()
    assert _jax_internals.pallas_call_lowering() is rule


def test_installing_sees_through_other_wrappers():
    rule = _jax_internals.pallas_call_lowering()
    other = functools.wraps(rule)(lambda *args, **params: rule(*args, **params))
    _jax_internals.replace_pallas_call_lowering(other)
    try:
        _hook.install()
        assert _jax_internals.pallas_call_lowering() is other
        assert runs_of(functools.partial(through_kernel, interpret=pallas_rs.Params()), X) == 1
    finally:
        _jax_internals.replace_pallas_call_lowering(rule)


def test_an_old_jax_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(_jax_internals, "JAX_VERSION", (0, 10, 1))
    with pytest.raises(ImportError, match=r"needs jax 0\.10\.2 or newer"):
        _jax_internals.check_jax()


def test_a_jax_that_moved_things_is_refused_with_their_names(monkeypatch):
    monkeypatch.delattr(_jax_internals.pallas_call_lib, "_pallas_call_lowering")
    with pytest.raises(ImportError, match=r"pallas_call\._pallas_call_lowering"):
        _jax_internals.check_jax()
