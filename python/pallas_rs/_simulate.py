"""A GPU to ask questions of, on a machine without one."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import threading
import types
from collections.abc import Iterator
from typing import Any

import jax

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._hook import force_interpret_mode
from pallas_rs._params import TARGETS, Params


@dataclasses.dataclass(frozen=True)
class _Device(jax.sharding.AbstractDevice):  # type: ignore[misc]
    """An abstract device that also knows its compute capability."""

    compute_capability: str

    @property
    def core_count(self) -> int | None:
        return self.num_cores  # type: ignore[no-any-return]


# Kind, number of SMs, compute capability.
_DEVICES = {
    "a100": ("NVIDIA A100-SXM4-80GB", 108, "8.0"),
    "h100": ("NVIDIA H100 80GB HBM3", 132, "9.0"),
    "h200": ("NVIDIA H200", 132, "9.0"),
    "b200": ("NVIDIA B200", 148, "10.0"),
    "b300": ("NVIDIA B300 SXM6 AC", 148, "10.3"),
}

# Any CUDA without the miscompilations that JAX's kernels refuse.
_CUDA_VERSION = 13000
_CUDA = types.SimpleNamespace(
    cuda_runtime_get_version=lambda: _CUDA_VERSION,
    cuda_driver_get_version=lambda: _CUDA_VERSION,
    cuda_device_count=lambda: 1,
)

_current: contextvars.ContextVar[_Device | None] = contextvars.ContextVar(
    "pallas_rs_simulated_device", default=None
)


@contextlib.contextmanager
def simulate(
    target: str = "h100", cores: int | None = None, params: Params | None = None
) -> Iterator[None]:
    """Runs kernels traced inside in pallas_rs, on a virtual device.

    Kernels that ask for the compute capability, the number of cores, the kind or platform
    of the device or the version of CUDA are answered as by the target.

    Args:
        target: ``"a100"``, ``"h100"``, ``"h200"``, ``"b200"`` or ``"b300"``.
        cores: Number of SMs, or None for the target's. A small one makes persistent
            kernels loop.
        params: How to run; its target must be None or ``target``.
    """
    if target not in _DEVICES:
        raise ValueError(f"target={target!r}: must be one of {', '.join(map(repr, TARGETS))}")
    if cores is not None and (type(cores) is not int or cores < 1):
        hint = "; was params=... meant?" if isinstance(cores, Params) else ""
        raise ValueError(f"cores={cores!r}: must be an integer >= 1, or None{hint}")
    params = Params() if params is None else params
    if params.target not in (None, target):
        raise ValueError(f"params.target={params.target!r} on a simulated {target!r}")
    kind, sms, capability = _DEVICES[target]
    device = _Device(
        device_kind=kind,
        num_cores=sms if cores is None else cores,
        platform="gpu",
        compute_capability=capability,
    )
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    token = _current.set(device)
    try:
        with (
            _answers.while_used(),
            force_interpret_mode(dataclasses.replace(params, target=target)),
            jax.sharding.use_abstract_mesh(mesh),
        ):
            yield
    finally:
        _current.reset(token)


class _Answers:
    """Lets the CPU's own device objects answer as the simulated device.

    The class of JAX's devices is shared by all threads, so its attributes look up what
    the asking thread simulates; they are there while any thread simulates.
    """

    _NAMES = ("core_count", "compute_capability", "device_kind", "platform")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._undo = contextlib.ExitStack()

    @contextlib.contextmanager
    def while_used(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._install()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._undo.close()

    def _install(self) -> None:
        self._undo.enter_context(jax_internals.cuda_versions(_CUDA))
        cls = jax_internals.device_class()
        for name in self._NAMES:
            original = cls.__dict__.get(name)
            setattr(cls, name, property(_answer(name, original)))
            if original is None:
                self._undo.callback(delattr, cls, name)
            else:
                self._undo.callback(setattr, cls, name, original)


def _answer(name: str, original: Any) -> Any:
    def get(device: Any) -> Any:
        simulated = _current.get()
        if simulated is not None and device.client.platform == "cpu":
            return getattr(simulated, name)
        if original is None:
            raise AttributeError(name)
        return original.__get__(device, type(device))

    return get


_answers = _Answers()
