"""The programs of the mutation tests (`rust/vm/tests/mutation`) are those of the kernels.

Where a change is meant, delete the file in `programs/` and run this again.
"""

from __future__ import annotations

import pathlib
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from pallas_rs import _core, _ffi

from .kernels import KERNELS, SAMPLED, TARGETS

HERE = pathlib.Path(__file__).parent
PROGRAMS = HERE / "programs"
NEW_JAX = jax.__version_info__ >= (0, 11)


def target(name: str) -> str:
    return TARGETS.get(name, "h100")


def program_text(name: str) -> str:
    function, operands = KERNELS[name]
    wires = []
    call = _ffi.call

    def spy(wire, *args, **kwargs):
        wires.append(wire)
        return call(wire, *args, **kwargs)

    with mock.patch.object(_ffi, "call", spy), pallas_rs.simulate(target(name)):
        jax.jit(lambda *args: function(*args)).lower(*operands)
    [wire] = wires
    return _core.disassemble(wire).replace(f"{HERE}/", "")


@pytest.mark.skipif(not NEW_JAX, reason="older versions of JAX trace to other equations")
@pytest.mark.parametrize("name", KERNELS)
def test_program(name):
    text = program_text(name)
    path = PROGRAMS / f"{name}.plir"
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"wrote {path.name}; read it, then run this again")
    assert text == path.read_text()


def operand(aval, seed):
    rng = np.random.default_rng(seed)
    if aval.dtype == jnp.int32:
        return jnp.asarray([64, 64, 256], jnp.int32)
    return jnp.asarray(rng.uniform(-1, 1, aval.shape), aval.dtype)


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_is_clean_in_all_schedules(name):
    function, avals = KERNELS[name]
    operands = [operand(aval, i) for i, aval in enumerate(avals)]
    params = pallas_rs.Params(detect_races=True, uninitialized_reads="raise", seeds=3)
    with pallas_rs.simulate(target(name), params=params), pallas_rs.typed_errors():
        jax.block_until_ready(jax.jit(lambda *args: function(*args))(*operands))
    report = pallas_rs.last_report()
    assert [f.text for f in report.findings if f.code != "PRS-B2"] == []
    if not report.findings:
        assert report.schedules == ("sampled" if name in SAMPLED else "all")
