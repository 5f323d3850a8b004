"""Every example runs; the demo has `make demo`."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = sorted(p for p in EXAMPLES.glob("*.py") if p.name != "demo.py")


@pytest.mark.parametrize("example", SHORT, ids=lambda path: path.stem)
def test_an_example_runs(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
