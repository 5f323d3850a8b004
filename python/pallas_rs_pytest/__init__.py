"""Runs the kernels of a GPU test-suite on a CPU: ``pytest --pallas-rs``.

A package of its own, because pytest imports its plugins before the tests can say how JAX is to
be set up: ``pallas_rs``, and with it JAX, is imported only where the option is given.
"""

from __future__ import annotations

import argparse

import pytest

_TARGETS = ("a100", "h100", "h200", "b200", "b300")
_SESSION = pytest.StashKey[object]()

_MARKER = (
    "pallas_rs(expect=(), interpret=True, cores=None, **params): how --pallas-rs runs the kernels"
    " of this test: fields of pallas_rs.Params, the codes of findings that the test is about, and"
    " whether kernels are interpreted at all"
)


def _target(text: str) -> str:
    if text not in _TARGETS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no target ({', '.join(_TARGETS)}); a path that follows the option needs"
            " it written as --pallas-rs=h100"
        )
    return text


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("pallas-rs", "Pallas GPU kernels on a CPU")
    group.addoption(
        "--pallas-rs",
        nargs="?",
        const="h100",
        type=_target,
        metavar="TARGET",
        help="interpret every Mosaic GPU kernel on a simulated a100, h100 (default), h200, b200"
        " or b300",
    )
    group.addoption(
        "--pallas-rs-races", action="store_true", help="look for races, as detect_races=True does"
    )
    group.addoption(
        "--pallas-rs-strict", action="store_true", help="watch everything, as Params.strict does"
    )
    group.addoption(
        "--pallas-rs-seeds", type=int, metavar="N", help="run each kernel under N random schedules"
    )
    group.addoption(
        "--pallas-rs-schedule", metavar="NAME", help="round_robin, random, pct or pct:<depth>"
    )
    group.addoption(
        "--pallas-rs-cores", type=int, metavar="N", help="cores of the simulated device"
    )
    group.addoption(
        "--pallas-rs-fail-on",
        choices=("error", "warning"),
        default="error",
        help="least severity of a finding that fails a test (default: error)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Sets up the session if it was asked for."""
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("--pallas-rs") is None:
        return
    from pallas_rs_pytest._session import Session

    session = Session(config)
    config.stash[_SESSION] = session
    config.pluginmanager.register(session, "pallas_rs_session")
