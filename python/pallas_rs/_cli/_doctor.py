"""``pallas-rs doctor``: what this installation is, and what is known to go wrong with it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import jax

from pallas_rs import _core, _hook
from pallas_rs import _jax_internals as jax_internals

# What the machine's fast paths look for.
_CPU_FEATURES = ("avx2", "fma", "f16c", "avx512f", "amx_tile")


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that is known to go wrong.

    Attributes:
        here: Whether it can happen in this installation.
        what: One sentence.
        remedy: What to do.
    """

    here: Callable[[], bool]
    what: str
    remedy: str


def _jaxlib() -> tuple[int, ...]:
    version = importlib.metadata.version("jaxlib").split(".")
    return tuple(int(part) for part in version if part.isdigit())


def _few_threads_for_devices() -> bool:
    devices = jax.local_device_count("cpu")
    threads = int(os.environ.get("NPROC", "0") or 0)
    return _jaxlib() < (0, 12) and devices > 1 and threads < 2 * devices


PROBLEMS = (
    Problem(
        lambda: not _hook.is_installed(),
        "another package has replaced JAX's lowering of pallas_call, and interpret=Params() is"
        " not seen",
        "import pallas_rs after that package",
    ),
    Problem(
        lambda: jax_internals.JAX_VERSION >= (0, 13),
        f"jax {jax.__version__} is newer than any that pallas_rs was tested with",
        "install jax below 0.13, or a newer pallas-rs",
    ),
    Problem(
        _few_threads_for_devices,
        "jaxlib before 0.12 can dead-lock with many programs in flight on several CPU devices",
        "set NPROC to twice the number of devices before JAX starts, or install jaxlib 0.12",
    ),
    Problem(
        lambda: jax.default_backend() != "cpu",
        "JAX's default device is no CPU: every interpreted kernel copies its arrays to the host"
        " and back",
        "set JAX_PLATFORMS=cpu where nothing else needs the device",
    ),
    Problem(
        lambda: platform.machine() == "x86_64" and "avx2" not in cpu_features(),
        "this CPU has no AVX2, and kernels run several times slower",
        "use a newer machine for large kernels",
    ),
)


def add_to(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "doctor",
        help="versions, CPU, hooks, and known problems of this installation",
        description="Says what this installation is and what is known to go wrong with it.",
    )
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace, out: TextIO) -> int:
    """Looks; 1 if there is a problem."""
    del options
    for name, value in _facts():
        out.write(f"{name:<12} {value}\n")
    problems = [problem for problem in PROBLEMS if problem.here()]
    for problem in problems:
        out.write(f"\nproblem: {problem.what}\n  remedy: {problem.remedy}\n")
    if not problems:
        out.write("\nno known problem\n")
    return 1 if problems else 0


def _facts() -> Iterator[tuple[str, str]]:
    yield "pallas-rs", _core.__version__
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    yield "jax", f"{jax.__version__}, jaxlib {importlib.metadata.version('jaxlib')}"
    devices = ", ".join(sorted({device.device_kind for device in jax.devices()}))
    yield "devices", f"{jax.device_count()} of {jax.default_backend()} ({devices})"
    features = [name for name in _CPU_FEATURES if name in cpu_features()]
    yield "cpu", f"{len(os.sched_getaffinity(0))} cores, {' '.join(features) or 'no fast paths'}"
    yield "hook", "in place" if _hook.is_installed() else "replaced"


def cpu_features() -> set[str]:
    """What the CPU can do, as Linux names it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return set(line.partition(":")[2].split())
    return set()
