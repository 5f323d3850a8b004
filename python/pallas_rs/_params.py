"""How a kernel is to be run: what is watched, how strictly, and under which schedule."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
from typing import Any, Literal, Self

TARGETS = ("a100", "h100", "h200", "b200", "b300")

_CHOICES: dict[str, tuple[Any, ...]] = {
    "on_race": ("raise", "warn"),
    "out_of_bounds_reads": ("raise", "uninitialized"),
    "uninitialized_memory": ("nan", "zero"),
    "inline_mgpu": ("error", "ignore", "_hack_model_inline_mgpu_tokamax"),
    "target": (None, *TARGETS),
    "async_completion": ("late", "eager", "random"),
    "work_stealing": ("first", "round_robin", "random", "never"),
    "uninitialized_reads": ("ignore", "warn", "raise"),
    "limits": ("check", "ignore"),
}

_BOOLEANS = (
    "detect_races",
    "skip_floating_point_ops",
    "strict_proxy",
    "explain_nan",
    "progress",
    "lints",
)

# Field, least value, whether None is allowed.
_INTEGERS = (
    ("num_cores_or_threads", 1, False),
    ("num_tma_threads_per_device", 0, False),
    ("vector_clock_size", 1, True),
    ("seed", 0, False),
    ("seeds", 1, False),
    ("num_workers", 1, True),
    ("resident_clusters", 1, True),
    ("max_steps", 1, True),
)

_SUPPRESSION = re.compile(r"(?P<code>PRS-[A-Z]+\d*)(?: at (?P<file>\S.*):(?P<line>\d+))?")

# A replay is a list of turns: a thread, perhaps where it gave way, perhaps how often.
_TURN = r"\s*\d+(?::\d+)?(?:\*\d+)?\s*"
_SCHEDULE = re.compile(
    rf"round_robin|random|pct(?::(?P<depth>[1-9]\d*))?|replay:{_TURN}(?:,{_TURN})*"
)

# Priority change points of `pct` where no depth is given: three ordering constraints
# cover nearly all known concurrency bugs.
_PCT_DEPTH = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params:
    """Makes ``interpret=`` run a kernel in pallas_rs.

    Every field of JAX's ``InterpretGPUParams`` is accepted with the same meaning.
    Instances are hashable, and a different one is a different jit key.

    Attributes:
        detect_races: Look for races.
        on_race: What a race does: ``"raise"``, or ``"warn"`` and go on.
        out_of_bounds_reads: What a read outside its array gives: an error
            (``"raise"``), or unwritten memory (``"uninitialized"``).
        skip_floating_point_ops: Ops with only floating-point results are not done;
            their results are infinity.
        uninitialized_memory: What memory holds before it is written: ``"nan"`` (for
            integers their largest value) or ``"zero"``.
        num_cores_or_threads: Accepted and checked; the kernel says how many threads a
            block has.
        vector_clock_size: Accepted and checked; clocks grow as needed.
        logging_mode: JAX's ``LoggingMode`` or None: what a run logs, with
            ``logging.getLogger("pallas_rs")`` at level INFO when it ends: ``BARRIER``
            (allocations, arrivals, waits), ``SEMAPHORE`` (signals, waits), ``SHARED_MEMORY``
            (allocations and accesses of memory other than registers, copies and products).
        num_tma_threads_per_device: Accepted and checked; every copy has its own clock.
        inline_mgpu: With ``"ignore"`` inline Mosaic GPU bodies are left out: what they return
            is unwritten memory, and the report says ``incomplete``. With anything else they
            run, and one that pallas_rs cannot run is an error.
        target: The device: ``"a100"``, ``"h100"``, ``"h200"``, ``"b200"``, ``"b300"``,
            or None for what the kernel's ops ask for.
        seed: Seed of everything that is drawn.
        schedule: Who runs next: ``"round_robin"``, ``"random"``, ``"pct"`` or
            ``"pct:<depth>"`` (probabilistic concurrency testing), or
            ``"replay:<schedule>"`` as a report gives it.
        async_completion: When an asynchronous operation completes: as ``"late"`` as a
            wait allows, ``"eager"``, or at a ``"random"`` moment.
        work_stealing: Which clusters are given one that is not launched yet when they ask
            for it (``try_cluster_cancel``): whoever comes ``"first"``, in turns
            (``"round_robin"``), by a draw (``"random"``), or ``"never"``.
        uninitialized_reads: Reads of memory that nothing has written: ``"ignore"``,
            ``"warn"`` or ``"raise"``.
        strict_proxy: Accesses of different proxies without a fence are errors, not
            warnings.
        suppress: Findings to count and not to report: codes (``"PRS-B2"``), or codes at
            a line (``"PRS-B2 at my_kernel.py:41"``; either side of a race may be named).
        explain_nan: If a result is infinite or NaN, say which op made the first such
            number.
        lints: Report lints too.
        limits: ``"check"`` the kernel against the limits of the target, or
            ``"ignore"`` them.
        seeds: Number of schedules to run in one call, with seeds from ``seed`` on.
        num_workers: OS threads to use, or None: pallas_rs chooses. Results do not
            depend on it.
        resident_clusters: Clusters that run at the same time, or None: as many as the
            target holds.
        max_steps: Turns of threads after which a run is given up, or None: 100 million.
        trace: File to write a timeline to, or None. ``{kernel}`` in it stands for the kernel's
            name; a later run writes over what an earlier one left.
        progress: Whether a run of more than some seconds says on a terminal how far it is.
    """

    detect_races: bool = False
    on_race: Literal["raise", "warn"] = "raise"
    out_of_bounds_reads: Literal["raise", "uninitialized"] = "raise"
    skip_floating_point_ops: bool = False
    uninitialized_memory: Literal["nan", "zero"] = "nan"
    num_cores_or_threads: int = 1
    vector_clock_size: int | None = None
    logging_mode: Any = None
    num_tma_threads_per_device: int = 1
    inline_mgpu: str = "error"

    target: str | None = None
    seed: int = 0
    schedule: str = "round_robin"
    async_completion: Literal["late", "eager", "random"] = "late"
    work_stealing: Literal["first", "round_robin", "random", "never"] = "first"
    uninitialized_reads: Literal["ignore", "warn", "raise"] = "ignore"
    strict_proxy: bool = False
    suppress: tuple[str, ...] = ()
    explain_nan: bool = False
    lints: bool = False
    limits: Literal["check", "ignore"] = "check"
    seeds: int = 1
    num_workers: int | None = None
    resident_clusters: int | None = None
    max_steps: int | None = None
    trace: str | os.PathLike[str] | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            _check_choice(name, getattr(self, name), choices)
        for name in _BOOLEANS:
            _check_choice(name, getattr(self, name), (False, True))
        for name, least, optional in _INTEGERS:
            _check_integer(name, getattr(self, name), least, optional)
        if self.logging_mode is not None and not isinstance(self.logging_mode, enum.Flag):
            raise ValueError(
                f"logging_mode={self.logging_mode!r}: must be a `LoggingMode` of JAX, or None"
            )
        if not isinstance(self.schedule, str) or not _SCHEDULE.fullmatch(self.schedule):
            raise ValueError(
                f"schedule={self.schedule!r}: must be one of 'round_robin', 'random',"
                " 'pct', 'pct:<depth>', 'replay:<schedule>', where a schedule is one that a"
                " report gave: 'replay:0,1:3,0*2'"
            )
        if self.trace is not None and not isinstance(self.trace, str | os.PathLike):
            raise ValueError(f"trace={self.trace!r}: must be the path of a file, or None")
        # Params are hashed.
        object.__setattr__(self, "suppress", tuple(self.suppress))
        for entry in self.suppress:
            _suppression_option(entry)

    def __bool__(self) -> bool:
        """True: JAX asks ``if interpret``."""
        return True

    @classmethod
    def strict(cls, **fields: Any) -> Self:
        """Everything that watches is on, and what it finds is an error."""
        watching = {
            "detect_races": True,
            "on_race": "raise",
            "out_of_bounds_reads": "raise",
            "uninitialized_memory": "nan",
            "uninitialized_reads": "raise",
            "strict_proxy": True,
            "limits": "check",
        }
        return cls(**{**watching, **fields})

    def to_options(self, kernel: str = "") -> dict[str, Any]:
        """The options of a program, as the machine reads them."""
        return {
            "detect_races": self.detect_races,
            "on_race": self.on_race,
            "out_of_bounds_reads": self.out_of_bounds_reads,
            "uninitialized_memory": self.uninitialized_memory,
            "uninitialized_reads": self.uninitialized_reads,
            "strict_proxy": self.strict_proxy,
            "suppress": [_suppression_option(entry) for entry in self.suppress],
            "explain_nan": self.explain_nan,
            "lints": self.lints,
            "check_limits": self.limits == "check",
            "target": self.target,
            "async_completion": self.async_completion,
            "work_stealing": self.work_stealing,
            "schedule": _schedule_option(self.schedule),
            "seed": self.seed,
            "seeds": self.seeds,
            "num_workers": self.num_workers,
            "resident_clusters": self.resident_clusters,
            "max_steps": self.max_steps,
            "skip_floating_point_ops": self.skip_floating_point_ops,
            "logging": _logging_option(self.logging_mode),
            "trace": _trace_option(self.trace, kernel),
            "progress": self.progress,
        }


def _check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    # `1 == True`, yet 1 is not what was asked for.
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        shown = ", ".join(repr(c) for c in choices if not str(c).startswith("_"))
        raise ValueError(f"{name}={value!r}: must be one of {shown}")


def _check_integer(name: str, value: Any, least: int, optional: bool) -> None:
    if value is None and optional:
        return
    if type(value) is not int or not least <= value < 2**63:
        alternative = ", or None" if optional else ""
        raise ValueError(f"{name}={value!r}: must be an integer >= {least}{alternative}")


def _suppression_option(entry: Any) -> dict[str, Any]:
    found = _SUPPRESSION.fullmatch(entry) if isinstance(entry, str) else None
    if found is None:
        raise ValueError(
            f"suppress={entry!r}: must be a code ('PRS-B2') or a code at a line"
            " ('PRS-B2 at my_kernel.py:41')"
        )
    at = None if found["file"] is None else [found["file"], int(found["line"])]
    return {"code": found["code"], "at": at}


def _schedule_option(schedule: str) -> str | dict[str, Any]:
    kind, _, argument = schedule.partition(":")
    if kind == "pct":
        return {"pct": int(argument) if argument else _PCT_DEPTH}
    return {"replay": argument} if kind == "replay" else kind


def _trace_option(trace: str | os.PathLike[str] | None, kernel: str) -> str | None:
    if trace is None:
        return None
    # A name is any text: it must not lead to another folder.
    return os.fspath(trace).replace("{kernel}", kernel.replace(os.sep, "_"))


def _logging_option(mode: Any) -> list[str]:
    return [] if mode is None else [flag.name.lower() for flag in type(mode) if flag in mode]
