"""Programs that small kernels become, as text.

Where a change of a program is meant, delete its file in `golden/` and run this again: it is
written anew, and the diff is for the reviewer.
"""

from __future__ import annotations

import pathlib
from unittest import mock

import jax
import pallas_rs
import pytest
from pallas_rs import _core, _ffi

from .kernels import KERNELS

GOLDEN = pathlib.Path(__file__).parent / "golden"


def program_text(function, operands) -> str:
    """The one program that a function lowers to."""
    wires = []
    call = _ffi.call

    def spy(wire, *args, **kwargs):
        wires.append(wire)
        return call(wire, *args, **kwargs)

    with mock.patch.object(_ffi, "call", spy):
        jax.jit(function).lower(*operands)
    [wire] = wires
    here = f"{pathlib.Path(__file__).parent}/"
    return _core.disassemble(wire).replace(here, "")


@pytest.mark.parametrize("name", KERNELS)
def test_program(name):
    text = program_text(*KERNELS[name]())
    path = GOLDEN / f"{name}.plir"
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"wrote {path.name}; read it, then run this again")
    assert text == path.read_text()


def test_goldens_have_kernels():
    assert {path.stem for path in GOLDEN.glob("*.plir")} == set(KERNELS)


def test_lowering_is_deterministic():
    texts = {program_text(*KERNELS["softmax"]()) for _ in range(3)}
    assert len(texts) == 1


def test_params_travel_in_the_program():
    def with_params(params):
        def run(x):
            with pallas_rs.force_interpret_mode(params):
                return KERNELS["add"]()[0](x, x)

        return run

    _, (x, _) = KERNELS["add"]()
    plain = program_text(with_params(pallas_rs.Params()), (x,))
    seeded = program_text(with_params(pallas_rs.Params(seed=7)), (x,))
    assert set(seeded.splitlines()) - set(plain.splitlines()) == {'options {"seed":7}'}
