"""The command `pallas-rs`."""

import json
import subprocess
import sys

import pallas_rs
import pytest
from pallas_rs import _cli, _core, _hook
from pallas_rs._cli import _doctor

SCRIPT = """
import sys
import jax, jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu

def copy(x_gmem, o_gmem, smem, barrier):
    plgpu.copy_gmem_to_smem(x_gmem, smem, barrier)
    {wait}
    o_gmem[...] = smem[...]

def run(n=128):
    return plgpu.kernel(
        copy,
        out_type=jax.ShapeDtypeStruct((n,), jnp.float32),
        scratch_types=[plgpu.SMEM((n,), jnp.float32), plgpu.Barrier()],
    )(jnp.ones(n))

def needs(x):
    return x

if __name__ == "__main__":
    print("cores", jax.devices()[0].core_count, sys.argv[1:])
    print("sum", run().sum())
"""


@pytest.fixture
def script(tmp_path):
    def script(wait="plgpu.barrier_wait(barrier)"):
        path = tmp_path / "copies.py"
        path.write_text(SCRIPT.format(wait=wait))
        return path

    return script


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "pallas_rs._cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_a_script_runs_with_its_kernels_interpreted(script):
    done = command("run", "--cores", "3", script(), "one", "two")
    assert done.returncode == 0, done.stderr
    assert "cores 3 ['one', 'two']" in done.stdout
    assert "sum 128" in done.stdout
    assert "copy: clean, 1 blocks" in done.stdout


def test_a_function_of_a_script_runs(script, capsys):
    assert _cli.main(["run", f"{script()}::run", "--races", "--seeds", "3"]) == 0
    assert "copy: clean" in capsys.readouterr().out


def test_a_failure_is_told_without_a_traceback(script, capsys, tmp_path):
    trace = tmp_path / "of_copy.json"
    pattern = str(tmp_path / "of_{kernel}.json")
    arguments = ["run", f"{script(wait='')}::run", "--races", "--trace", pattern]
    assert _cli.main(arguments) == 1
    said = capsys.readouterr().out
    assert "copy: failed" in said
    assert "pallas_rs.RaceError[PRS-C1]" in said
    assert "replay: " in said
    assert json.loads(trace.read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("missing.py", "no such file"),
        ("{script}::nothing", "no function nothing"),
        ("{script}::needs", "needs needs x"),
    ],
)
def test_what_cannot_be_run_is_explained(script, capsys, what, said):
    assert _cli.main(["run", what.format(script=script())]) == 2
    assert said in capsys.readouterr().out


def test_a_wrong_option_is_explained(script, capsys):
    assert _cli.main(["run", str(script()), "--schedule", "sometimes"]) == 2
    assert "round_robin" in capsys.readouterr().out


@pytest.mark.parametrize("code", ["PRS-C3", "c3"])
def test_explain(capsys, code):
    assert _cli.main(["explain", code]) == 0
    said = capsys.readouterr().out
    rule = next(r for r in json.loads(_core.rules()) if r["code"] == "PRS-C3")
    assert rule["title"] in said
    assert rule["source"] in said
    assert "Wrong:" in said
    assert "Right:" in said


def test_every_rule_can_be_explained(capsys):
    assert _cli.main(["explain"]) == 0
    codes = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert codes == [rule["code"] for rule in json.loads(_core.rules())]
    for code in codes:
        assert _cli.main(["explain", code]) == 0
        assert getattr(pallas_rs, capsys.readouterr().out.split("pallas_rs.")[1].split()[0])


def test_an_unknown_code_names_its_neighbours(capsys):
    assert _cli.main(["explain", "PRS-C33"]) == 2
    assert "did you mean PRS-C3" in capsys.readouterr().out


def test_doctor_says_what_is_here(capsys):
    _cli.main(["doctor"])
    said = capsys.readouterr().out
    assert pallas_rs.__version__ in said
    assert "hook         in place" in said


def test_doctor_sees_a_hook_that_was_replaced(monkeypatch, capsys):
    monkeypatch.setattr(_hook, "is_installed", lambda: False)
    assert _cli.main(["doctor"]) == 1
    assert "import pallas_rs after that package" in capsys.readouterr().out


def test_doctor_warns_of_an_old_jaxlib_with_many_devices(monkeypatch):
    monkeypatch.setattr(_doctor, "_jaxlib", lambda: (0, 10, 2))
    monkeypatch.delenv("NPROC", raising=False)
    assert _doctor._few_threads_for_devices()
    monkeypatch.setenv("NPROC", "64")
    assert not _doctor._few_threads_for_devices()
