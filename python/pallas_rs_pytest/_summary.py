"""Counts over all tests, and how they read at the end of a session."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pallas_rs

_SLOWEST = 5


class Summary:
    """What kernels did; plain data, so that xdist can carry it."""

    def __init__(self) -> None:
        self._kernels: collections.Counter[str] = collections.Counter()
        self._seconds: dict[str, float] = {}
        self._findings: collections.Counter[str] = collections.Counter()
        self._fallbacks: collections.Counter[str] = collections.Counter()
        self._runs = 0
        self._blocks = 0
        self._unseen = 0

    def add(self, reports: Sequence[pallas_rs.Report], runs: int) -> None:
        """Counts the runs of a test; of very many, the first ones' reports are gone."""
        self._runs += runs
        self._unseen += runs - len(reports)
        for report in reports:
            self._kernels[report.kernel] += 1
            self._took(report.kernel, report.seconds)
            self._blocks += int(report.stats.get("blocks", 0))
            self._fallbacks.update(report.stats.get("fallback_calls", {}))
            for finding in report.findings:
                self._findings[f"{finding.code} {finding.severity}"] += finding.count

    def _took(self, kernel: str, seconds: float) -> None:
        self._seconds[kernel] = self._seconds.get(kernel, 0.0) + seconds

    def to_data(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return {
            name: dict(value) if isinstance(value, collections.Counter) else value
            for name, value in vars(self).items()
        }

    def merge(self, data: Mapping[str, Any]) -> None:
        """Adds what a worker counted."""
        for name, value in data.items():
            own = getattr(self, name)
            if isinstance(own, collections.Counter):
                own.update(value)
            elif isinstance(own, dict):
                for kernel, seconds in value.items():
                    self._took(kernel, seconds)
            else:
                setattr(self, name, own + value)

    def lines(self, how: object) -> Iterator[str]:
        """A few lines for the terminal."""
        yield (
            f"{self._runs} runs of {len(self._kernels)} kernels ({self._blocks} blocks) on {how}"
        )
        if self._unseen:
            yield f"reports not kept: {self._unseen} (a test keeps those of its last 64 runs)"
        if self._findings:
            counts = (f"{code} x{n}" for code, n in sorted(self._findings.items()))
            yield f"findings: {', '.join(counts)}"
        else:
            yield "findings: none"
        if self._fallbacks:
            counts = (f"{op} x{n}" for op, n in self._fallbacks.most_common())
            yield f"ops left to XLA: {', '.join(counts)}"
        slowest = sorted(self._seconds.items(), key=lambda item: -item[1])[:_SLOWEST]
        if slowest:
            times = (f"{kernel} {seconds:.3g} s" for kernel, seconds in slowest)
            yield f"slowest kernels: {', '.join(times)}"
