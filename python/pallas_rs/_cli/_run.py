"""``pallas-rs run``: a script whose kernels are interpreted without editing it."""

from __future__ import annotations

import argparse
import inspect
import runpy
import sys
from pathlib import Path
from typing import Any, TextIO

import jax

from pallas_rs import _errors, _report, _simulate
from pallas_rs._params import TARGETS, Params


def add_to(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "run",
        help="run a script, or a function of it, with its kernels interpreted",
        description="Runs a script, or one function of it, with every Pallas kernel interpreted.",
    )
    parser.add_argument("what", metavar="FILE[::FUNCTION]", help="a function without arguments")
    parser.add_argument(
        "args", nargs="*", help="what the script finds in sys.argv; put -- before options of its"
    )
    parser.add_argument("--target", choices=TARGETS, default="h100", help="the simulated device")
    parser.add_argument("--cores", type=int, help="its cores")
    parser.add_argument("--races", action="store_true", help="look for races")
    parser.add_argument("--strict", action="store_true", help="watch everything")
    parser.add_argument("--seeds", type=int, metavar="N", help="N random schedules of each kernel")
    parser.add_argument("--schedule", help="round_robin, random, pct or pct:<depth>")
    parser.add_argument(
        "--trace", metavar="FILE", help="write the timeline of each {kernel}, of its last run"
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, out: TextIO) -> int:
    """Runs it; 1 if a kernel failed, 2 if there is nothing to run."""
    path, _, function = options.what.partition("::")
    if not Path(path).is_file():
        out.write(f"pallas-rs: {path}: no such file\n")
        return 2
    try:
        params = _params(options)
    except ValueError as error:
        out.write(f"pallas-rs: {error}\n")
        return 2
    # Interpreted kernels run on the CPU: the rest of the script had better be there as well.
    jax.config.update("jax_platforms", "cpu")
    before = _report.last_run_id()
    failure = None
    argv, sys.argv = sys.argv, [path, *options.args]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        with _simulate.simulate(options.target, cores=options.cores, params=params):
            names = runpy.run_path(path, run_name="__main__" if not function else "kernels")
            if function:
                problem = _call(names, function)
                if problem is not None:
                    out.write(f"pallas-rs: {path}: {problem}\n")
                    return 2
    except Exception as raised:
        failure = _errors.error_from_text(str(raised))
        if failure is None:
            raise
    finally:
        sys.argv = argv
        sys.path.pop(0)
        _report.settle()
    return _tell(before, failure, out)


def _params(options: argparse.Namespace) -> Params:
    fields: dict[str, Any] = {"trace": options.trace}
    if options.races:
        fields["detect_races"] = True
    if options.seeds is not None:
        fields |= {"seeds": options.seeds, "schedule": "random", "async_completion": "random"}
    if options.schedule is not None:
        fields["schedule"] = options.schedule
    return Params.strict(**fields) if options.strict else Params(**fields)


def _call(names: dict[str, Any], function: str) -> str | None:
    """Calls a function of a script; what is wrong with the wish, if anything."""
    called = names.get(function)
    if not callable(called):
        return f"no function {function}"
    needed = [
        name
        for name, parameter in inspect.signature(called).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if needed:
        return (
            f"{function} needs {', '.join(needed)}: name a function without arguments that"
            " makes inputs and calls it"
        )
    jax.block_until_ready(called())
    return None


def _tell(before: int, failure: Exception | None, out: TextIO) -> int:
    reports = [report for report in _report.reports() if report.run_id > before]
    for report in reports:
        blocks = report.stats.get("blocks", 0)
        out.write(f"{report.kernel}: {report.verdict}, {blocks} blocks, {report.seconds:.3g} s\n")
        for finding in report.findings:
            out.write(f"\n{finding.text}\n\n")
    runs = _report.last_run_id() - before
    if runs > len(reports):
        out.write(f"and {runs - len(reports)} runs before these\n")
    if not runs and failure is None:
        out.write("no Pallas kernel was run\n")
    told = any(report.failure for report in reports)
    if failure is not None and not told:
        out.write(f"{failure}\n")
    return 1 if failure is not None or told else 0
