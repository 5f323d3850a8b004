"""Reports of runs, as the machine left them in this process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

import jax

from pallas_rs import _core


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a kernel.

    Attributes:
        code: Which kind of mistake it is, as in the documentation (``PRS-C3``).
        severity: ``error``, ``warning`` or ``lint``.
        message: One sentence.
        text: All there is to say, for a person.
        replay: The parameters under which it is seen again.
        count: How often it occurred.
        seeds: Seeds of the schedules in which it occurred.
        details: Everything as data: who, where, which part of which array.
    """

    code: str
    severity: str
    message: str
    text: str
    replay: str
    count: int
    seeds: tuple[int, ...]
    details: Mapping[str, Any] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text


def _finding(data: Mapping[str, Any]) -> Finding:
    return Finding(
        code=data["code"],
        severity=data["severity"],
        message=data["message"],
        text=data["text"],
        replay=data["replay"],
        count=data["count"],
        seeds=tuple(data["seeds"]),
        details=data,
    )


@dataclasses.dataclass(frozen=True)
class Report:
    """What is known of one run of a kernel.

    Attributes:
        run_id: Number of the run in this process; later runs have greater ones.
        kernel: Name of the kernel.
        failure: Text of the failure, or None if the run went through.
        seconds: How long the run took.
    """

    run_id: int
    kernel: str
    failure: str | None
    _json: str = dataclasses.field(repr=False)
    seconds: float = dataclasses.field(default=0.0, compare=False)

    @functools.cached_property
    def _data(self) -> Mapping[str, Any]:
        data: Mapping[str, Any] = json.loads(self._json)
        return data

    @functools.cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All distinct findings, errors first."""
        return tuple(_finding(data) for data in self._data.get("findings", ()))

    @property
    def suppressed(self) -> tuple[Mapping[str, Any], ...]:
        """What was found and asked not to be reported: code, source, count."""
        return tuple(self._data.get("suppressed", ()))

    @property
    def verdict(self) -> str:
        """``clean``, ``findings``, ``failed`` or ``incomplete``."""
        default = "clean" if self.failure is None else "failed"
        return str(self._data.get("verdict", default))

    @property
    def schedules(self) -> str:
        """What the verdict covers: ``all`` schedules, ``one``, or ``sampled`` ones."""
        return str(self._data.get("schedules", "one"))

    @property
    def stats(self) -> Mapping[str, Any]:
        """Counts: blocks, ops, calls left to XLA, bytes moved, floating-point ops."""
        stats: Mapping[str, Any] = self._data.get("stats", {})
        return stats

    @property
    def trace(self) -> str | None:
        """The file that holds the run's timeline, if it was traced."""
        trace: str | None = self._data.get("trace")
        return trace

    def to_json(self) -> str:
        """The whole report as JSON."""
        head = {"run_id": self.run_id, "kernel": self.kernel, "failure": self.failure}
        return json.dumps({**head, **self._data})

    def __str__(self) -> str:
        if self.failure is not None:
            return self.failure
        hidden = sum(s["count"] for s in self.suppressed)
        also = f", {hidden} suppressed" if hidden else ""
        head = f"{self.kernel}: {self.verdict}, schedules: {self.schedules}{also}"
        return "\n\n".join([head, *map(str, self.findings)])


def reports() -> list[Report]:
    """Reports of the last 64 runs in this process, oldest first."""
    return [Report(*ended) for ended in _core.reports()]


def last_report() -> Report | None:
    """Report of the run that ended last; waits for runs in flight."""
    settle()
    all_reports = reports()
    return all_reports[-1] if all_reports else None


def last_run_id() -> int:
    """Number of the run that began last, 0 before the first."""
    return _core.last_run_id()


def report_of_failure(text: str) -> Report | None:
    """Report of the latest run whose failure ``text`` tells."""
    told = (r for r in reversed(reports()) if r.failure and r.failure in text)
    return next(told, None)


def settle() -> None:
    """Waits for the work that XLA was given and for the runs in flight.

    A run may not have begun when the jitted function that contains it has returned;
    its results are arrays already. A callback of a run waits for nothing.
    """
    if _core.inside_callback():
        return
    for array in jax.live_arrays("cpu"):
        # Failures are in the reports; arrays may be deleted by other threads.
        with contextlib.suppress(RuntimeError, ValueError):
            array.block_until_ready()
    _core.wait_idle()
