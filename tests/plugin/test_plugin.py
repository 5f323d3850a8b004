"""`pytest --pallas-rs`, on a suite that knows nothing of it."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

SUITE = Path(__file__).parent / "suite"

WRONG = """
import jax.numpy as jnp, kernels, pytest

X = jnp.ones((64, 64), jnp.float32)

def test_stuck():
    kernels.stuck(X).block_until_ready()

def test_no_wait():
    kernels.scale(X, wait=False).block_until_ready()
"""


@pytest.fixture
def suite(pytester):
    """The suite in a directory of its own; `suite(*options, **files)` runs it with more files."""
    for file in SUITE.glob("*.py"):
        (pytester.path / file.name).write_text(file.read_text())
    (pytester.path / "conftest.py").write_text("import os\nos.environ['JAX_PLATFORMS'] = 'cpu'\n")

    def run(*options, tests="test_kernels.py", **files):
        for name, text in files.items():
            (pytester.path / f"{name}.py").write_text(text)
        plugin = () if "-p" in options else ("-p", "pallas_rs_pytest")
        return pytester.runpytest_subprocess(*plugin, tests, *options, timeout=110)

    return run


def test_a_gpu_suite_runs_on_a_cpu(suite):
    result = suite("--pallas-rs")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "pallas-rs: h100",
            "*= pallas-rs * =*",
            "3 runs of 2 kernels (5 blocks) on h100",
            "findings: none",
            "ops left to XLA: sort x1",
            "slowest kernels: *scale_kernel* s*",
        ]
    )


def test_without_the_option_nothing_changes(suite):
    result = suite()
    result.assert_outcomes(skipped=4)
    # An installed plugin is in pytest's own list of plugins.
    said = [line for line in result.outlines if not line.startswith("plugins: ")]
    assert not any("pallas-rs" in line for line in said)


def test_the_target_is_what_the_suite_sees(suite):
    suite("--pallas-rs=b200").assert_outcomes(skipped=4)


def test_a_deadlock_fails_with_its_report(suite, pytester):
    result = suite("--pallas-rs", "--junit-xml=out.xml", tests="test_wrong.py", test_wrong=WRONG)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "pallas_rs.DeadlockError[[]PRS-E1]: *",
            "*thread*waits on `barrier*kernels.py:* in stuck_kernel",
            "replay: *",
            "raised in test_wrong.py::test_stuck, at *test_wrong.py:7",
            "findings: PRS-E1 error x1",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    root = ElementTree.parse(pytester.path / "out.xml").getroot()
    (failure,) = root.iter("failure")
    assert failure.text.startswith("pallas_rs.DeadlockError[PRS-E1]: ")
    assert "replay: " in failure.text


def test_races_are_looked_for_when_asked(suite):
    result = suite("--pallas-rs", "--pallas-rs-races", tests="test_wrong.py", test_wrong=WRONG)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["pallas_rs.RaceError[[]PRS-C1]: *"])


def test_markers_say_what_a_test_is_about(suite):
    marked = WRONG.replace(
        "def test_stuck", '@pytest.mark.pallas_rs(expect="PRS-E1")\ndef test_stuck'
    ).replace(
        "def test_no_wait",
        '@pytest.mark.pallas_rs(detect_races=True, expect=["PRS-C1", "PRS-C14"])\ndef test_no_wait',
    )
    marked += """
@pytest.mark.pallas_rs(expect="PRS-A1")
def test_nothing_found():
    kernels.scale(X)

@pytest.mark.pallas_rs(cores=3)
def test_few_cores():
    assert kernels.num_sms() == 3

@pytest.mark.pallas_rs(interpret=False)
def test_as_it_is():
    with pytest.raises(Exception, match="(?i)interpret"):
        kernels.ordered(X)
"""
    result = suite("--pallas-rs", tests="test_marked.py", test_marked=marked)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["expected PRS-A1, and found nothing"])


def test_a_misspelt_marker_stops_the_session(suite):
    marked = WRONG.replace(
        "def test_stuck", "@pytest.mark.pallas_rs(detect_race=True)\ndef test_stuck"
    )
    result = suite("--pallas-rs", tests="test_marked.py", test_marked=marked)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_stuck: *pallas_rs has no 'detect_race'*detect_races*"])


def test_a_finding_that_a_test_swallows_still_fails_it(suite):
    swallowed = (
        WRONG
        + """
def test_swallowed():
    with pytest.raises(Exception):
        kernels.stuck(X).block_until_ready()
"""
    )
    result = suite("--pallas-rs", "-k", "swallowed", tests="test_s.py", test_s=swallowed)
    result.assert_outcomes(failed=1, deselected=2)


def test_seeds_run_schedules(suite):
    result = suite("--pallas-rs", "--pallas-rs-seeds", "8", "-k", "scale")
    result.assert_outcomes(passed=2, deselected=2)
    result.stdout.fnmatch_lines(["pallas-rs: h100, *seeds=8*"])
    result.stdout.fnmatch_lines(["2 runs of 1 kernels (32 blocks) on h100, *"])


def test_workers_of_xdist_are_added_up(suite):
    result = suite("--pallas-rs", "-n", "2")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["3 runs of 2 kernels (5 blocks) on h100"])


def test_a_path_after_the_option_is_explained(suite):
    result = suite("--pallas-rs", "test_kernels.py", tests="--verbose")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*'test_kernels.py' is no target*--pallas-rs=h100*"])
