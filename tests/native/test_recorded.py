"""Kernels against recorded runs.

As long as no GPU has recorded a case, its record is one of JAX's interpreter: it says so.
"""

from pathlib import Path

import pallas_rs
import pytest

GOLDEN = Path(__file__).parent / "golden"


def test_kernels_agree_with_what_was_recorded(cases, recorded):
    found = cases.compare(recorded, GOLDEN / recorded)
    assert found, str(found)
    assert found.environment.recorded
    told = "standing in for a GPU" in found.environment.device
    assert told == found.environment.stand_in


def test_every_case_that_a_stand_in_can_run_is_recorded(cases):
    missing = {name for name, case in cases.CASES.items() if case.stand_in}
    assert missing <= {path.stem for path in GOLDEN.glob("*.json")}


def test_the_script_records(record, tmp_path, capsys):
    assert record.main(["--native", "jax", "--only", "layernorm", "--into", str(tmp_path)]) == 0
    assert "interpreted and native run agree" in capsys.readouterr().out
    assert pallas_rs.load_comparison(tmp_path / "layernorm").environment.stand_in


def test_a_stand_in_never_replaces_a_gpu(record, tmp_path, capsys):
    arguments = ["--native", "jax", "--only", "softmax", "--into", str(tmp_path)]
    record.main(arguments)
    head = tmp_path / "softmax.json"
    head.write_text(head.read_text().replace('"stand_in": true', '"stand_in": false'))
    before = head.read_text()
    record.main(arguments)
    assert head.read_text() == before
    assert "a GPU has recorded it" in capsys.readouterr().out


@pytest.mark.gpu
def test_kernels_agree_with_the_gpu(cases, case):
    found = cases.compare(case, "auto")
    assert found, str(found)
