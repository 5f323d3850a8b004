"""The two runs that are compared: where each of them runs, and how."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from pallas_rs import _hook, _report, _simulate
from pallas_rs import _jax_internals as jax_internals
from pallas_rs._compare._kernels import Kernels
from pallas_rs._errors import UnsupportedError
from pallas_rs._params import Params

_CALLS = 2
_TARGETS = {"8.0": "a100", "9.0": "h100", "10.0": "b200", "10.3": "b300"}


@dataclasses.dataclass(frozen=True)
class Run:
    """What one side gave."""

    outputs: list[np.ndarray[Any, Any]]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Interpreted:
    """The interpreted run, and what it taught about the function."""

    run: Run
    kernels: Kernels
    # Tree of the outputs.
    tree: Any
    # Multiplications and additions that tensor cores made in one call.
    flops: float


class Native(Protocol):
    """A second way to run kernels."""

    @property
    def device(self) -> str:
        """Name of what runs them."""

    @property
    def versions(self) -> dict[str, str]:
        """What it depends on, by name."""

    @property
    def target(self) -> str | None:
        """The target of `Params` that it is."""

    def check(self, kernels: Kernels) -> None:
        """Refuses kernels that it cannot run."""

    def context(self, kernels: Kernels) -> contextlib.AbstractContextManager[Any]:
        """Inside, a function is traced, lowered and run by it."""


class Gpu:
    """The first CUDA device of JAX, with kernels compiled by Mosaic GPU."""

    def __init__(self, device: Any) -> None:
        self._device = device

    @property
    def device(self) -> str:
        return str(self._device.device_kind)

    @property
    def versions(self) -> dict[str, str]:
        driver = Path("/proc/driver/nvidia/version")
        found = {"platform": str(self._device.client.platform_version).replace("\n", " ")}
        with contextlib.suppress(OSError):
            found["driver"] = driver.read_text().split("  ")[1].strip()
        return found

    @property
    def target(self) -> str | None:
        return _TARGETS.get(str(self._device.compute_capability))

    def check(self, kernels: Kernels) -> None:
        own, needed = str(self._device.compute_capability), kernels.compute_capability()
        if needed is not None and int(own.split(".", maxsplit=1)[0]) != needed:
            raise UnsupportedError(
                f"the kernel needs a device of compute capability {needed}.x, and {self.device}"
                f" has {own}"
            )

    @contextlib.contextmanager
    def context(self, kernels: Kernels) -> Iterator[None]:
        del kernels
        # Interpret mode that is forced around the call is for the other side.
        with (
            jax_internals.interpret_mode(None),
            jax.default_device(self._device),
            _hook.lowered_with(lambda _interpret, _mesh: False),
        ):
            yield


class JaxInterpreter:
    """JAX's own interpreters on the CPU: a second opinion where no GPU is at hand."""

    device = "JAX's interpreter on the CPU, standing in for a GPU"
    target = None

    @property
    def versions(self) -> dict[str, str]:
        return {}

    def check(self, kernels: Kernels) -> None:
        """Takes what it is given."""

    @contextlib.contextmanager
    def context(self, kernels: Kernels) -> Iterator[None]:
        of_gpu = jax_internals.gpu_interpreter()

        def choose(_interpret: Any, mesh: Any) -> Any:
            return True if mesh is None else of_gpu

        # JAX's interpreter of Mosaic GPU has effects, which are a matter of tracing.
        mode = of_gpu if any(kernel.is_mosaic_gpu for kernel in kernels.all) else True
        with (
            jax_internals.interpret_mode(mode),
            jax.default_device(_cpu()),
            _hook.lowered_with(choose),
        ):
            yield


def find_gpu() -> Any:
    """JAX's first CUDA device, or None."""
    with contextlib.suppress(RuntimeError):
        return jax.local_devices(backend="cuda")[0]
    return None


def _cpu() -> Any:
    return jax.local_devices(backend="cpu")[0]


def run_interpreted(
    function: Callable[..., Any], args: Sequence[Any], params: Params, target: str | None
) -> Interpreted:
    """Runs the kernels here."""
    params = dataclasses.replace(params, target=params.target or target)
    mode = (
        _hook.force_interpret_mode(params)
        if params.target is None
        else _simulate.simulate(params.target, params=params)
    )
    # A call that was made outside has read the mode already.
    chosen = _hook.lowered_with(lambda _interpret, _mesh: params)
    with mode, chosen, jax.default_device(_cpu()):
        traced = jax.jit(_fresh(function)).trace(*args)
        before = _report.last_run_id()
        run = _timed(traced.lower().compile(), args)
        _report.settle()
    reports = [r for r in _report.reports() if r.run_id > before]
    flops = sum(r.stats.get("tensor_core_flops", 0) for r in reports) / _CALLS
    return Interpreted(run, Kernels(traced.jaxpr), jax.tree.structure(traced.out_info), flops)


def run_native(
    function: Callable[..., Any], args: Sequence[Any], kernels: Kernels, native: Native
) -> Run:
    """Runs the kernels elsewhere; run-time bounds of grids become the numbers they are."""
    native.check(kernels)
    with native.context(kernels):
        if not any(kernel.has_run_time_bounds for kernel in kernels.all):
            return _timed(jax.jit(_fresh(function)).lower(*args).compile(), args)
        with jax.disable_jit(), jax_internals.kernels_called_with(_bind_bounds):
            return _timed(function, args)


def _fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which JAX has not traced yet."""
    return lambda *args: function(*args)


def _timed(function: Callable[..., Any], args: Sequence[Any]) -> Run:
    """The second of two calls: the first one compiles what is left to compile."""
    for _ in range(_CALLS):
        start = time.perf_counter()
        result = jax.block_until_ready(function(*args))
        seconds = time.perf_counter() - start
    return Run([np.asarray(leaf) for leaf in jax.tree.leaves(result)], seconds)


def _bind_bounds(evaluate: Callable[..., Any], *operands: Any, **params: Any) -> Any:
    """A kernel call whose grid is known: no backend of a GPU takes bounds as operands."""
    mapping = params["grid_mapping"]
    count = mapping.num_dynamic_grid_bounds
    bounds = iter([int(bound) for bound in operands[:count]])
    grid = tuple(
        size if isinstance(size, (int, np.integer)) else next(bounds) for size in mapping.grid
    )
    return evaluate(*operands[count:], **{**params, "grid_mapping": mapping.replace(grid=grid)})
