"""Loads the cases and the script that records them: neither is a test module."""

import importlib.util
import sys
from pathlib import Path

import pytest


def load(name):
    path = Path(__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"native_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cases():
    return load("cases")


@pytest.fixture(scope="session")
def record():
    return load("record")


def pytest_generate_tests(metafunc):
    if "recorded" in metafunc.fixturenames:
        goldens = sorted(p.stem for p in (Path(__file__).parent / "golden").glob("*.json"))
        metafunc.parametrize("recorded", goldens)
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", list(load("cases").CASES))
