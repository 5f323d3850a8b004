"""Every mistake is found and told in its own words; without it the same kernel is clean.

Where a change of words is meant, delete the file in `golden/` and run this again: it is written
anew, and the diff is for the reviewer.
"""

from __future__ import annotations

import pathlib
import re

import jax
import pallas_rs
import pytest

from . import completion, memory, protocol, races, sharing  # noqa: F401
from .cases import CASES

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "golden"


def report(name: str, wrong: bool) -> pallas_rs.Report:
    case = CASES[name]
    run = case.build(wrong)
    with pallas_rs.simulate(case.target, params=pallas_rs.Params(**case.params)):
        try:
            with pallas_rs.typed_errors():
                # A function of its own, so that no other parameters' trace is found.
                jax.block_until_ready(jax.jit(lambda: run())())
        except pallas_rs.KernelError as error:
            return error.report
    return pallas_rs.last_report()


def same_everywhere(text: str) -> str:
    """A text without the index of a barrier that has only one: JAX before 0.11 writes it out."""
    return re.sub(r"`(\w+)\[0\]`", r"`\1`", text)


@pytest.mark.parametrize("name", CASES)
def test_the_mistake_is_told(name):
    case = CASES[name]
    found = report(name, wrong=True)
    first = next(f for f in found.findings if f.code == case.code)
    assert first.severity == case.severity
    text = first.text.replace(f"{HERE}/", "")
    path = GOLDEN / f"{name}.txt"
    if not path.exists():
        path.write_text(text + "\n")
        pytest.fail(f"wrote {path.name}; read it, then run this again")
    assert same_everywhere(text + "\n") == same_everywhere(path.read_text())


@pytest.mark.parametrize("name", CASES)
def test_without_it_the_kernel_is_clean(name):
    found = report(name, wrong=False)
    assert [f.text for f in found.findings] == []


def test_goldens_have_cases():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)
