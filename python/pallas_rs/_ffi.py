"""The XLA custom call that runs a program."""

from __future__ import annotations

import atexit
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.experimental
import numpy as np

from pallas_rs import _core, _report
from pallas_rs import _jax_internals as jax_internals

_log = logging.getLogger("pallas_rs")

# XLA keeps one handler per name for good. The number changes with what the call's operands and
# attributes are; what the bytes of a program mean, they say themselves.
TARGET_NAME = "pallas_rs.run.v1"


def register() -> None:
    """Tells XLA of the handlers; harmless when repeated."""
    jax.ffi.register_ffi_type(f"{TARGET_NAME}.state", _core.state_type(), platform="cpu")
    jax.ffi.register_ffi_target(TARGET_NAME, _core.handlers(), platform="cpu")
    # After JAX has registered its own hooks, so that ours is called before them.
    atexit.unregister(_close)
    atexit.register(_close)


def _close() -> None:
    """Lets work end that may still want Python, which is gone after this."""
    try:
        _report.settle()
    finally:
        _core.close()


def disabled_safety_checks() -> list[jax.export.DisabledSafetyCheck]:
    """What ``jax.export.export(..., disabled_checks=...)`` needs to be told."""
    return [jax.export.DisabledSafetyCheck.custom_call(TARGET_NAME)]


def call(
    wire: bytes,
    operands: Sequence[Any],
    out_avals: Sequence[Any],
    aliases: Mapping[int, int],
    name: str,
    *,
    has_side_effect: bool = False,
) -> list[Any]:
    """Runs a program on traced operands.

    Args:
        wire: The program's bytes.
        operands: Dynamic grid bounds, scalar prefetch, inputs.
        out_avals: Abstract values of the results.
        aliases: Operand index to the index of the result that shares its memory.
        name: The kernel's name, for reports.
        has_side_effect: Whether XLA must keep the call even if no result is used.

    Returns:
        The results.
    """
    results: list[Any] = _call_p.bind(
        *operands,
        wire=wire,
        out_avals=tuple(out_avals),
        aliases=tuple(sorted(aliases.items())),
        name=name,
        has_side_effect=has_side_effect,
    )
    return results


def _lower_on_cpu(
    ctx: Any,
    *operands: Any,
    wire: bytes,
    aliases: tuple[tuple[int, int], ...],
    name: str,
    has_side_effect: bool,
    **_: Any,
) -> Any:
    rule = jax.ffi.ffi_lowering(
        TARGET_NAME,
        operand_output_aliases=dict(aliases),
        has_side_effect=has_side_effect,
    )
    program = np.frombuffer(wire, np.uint8)
    devices = np.int32(jax_internals.devices_of(ctx))
    return rule(ctx, *operands, program=program, kernel=name, devices=devices)


def _lower_elsewhere(ctx: Any, *operands: Any, **params: Any) -> Any:
    """On a GPU or TPU the kernel runs on the host: operands go there, results come back.

    An export for a platform that is not here gets the custom call, of which only the CPU
    has a handler: JAX exports no callbacks.
    """
    if not jax_internals.compiles_for_one_present_platform(ctx):
        return _lower_on_cpu(ctx, *operands, **params)
    _tell_once(ctx, params["name"])
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in params["out_avals"]]
    # The device's own aliasing ends at the callback; there, results are new arrays.
    on_host = functools.partial(_run_on_host, **params)
    callback = jax.experimental.io_callback if params["has_side_effect"] else jax.pure_callback
    return jax_internals.lower_as_jax(
        lambda *args: callback(on_host, shapes, *args), ctx, *operands
    )


def _run_on_host(*arrays: Any, **params: Any) -> list[np.ndarray]:
    cpu = jax.local_devices(backend="cpu")[0]
    operands = [jax.device_put(np.asarray(array), cpu) for array in arrays]
    with jax.default_device(cpu):
        return [np.asarray(result) for result in _call_p.bind(*operands, **params)]


_told: set[str] = set()


def _tell_once(ctx: Any, name: str) -> None:
    platforms = ", ".join(ctx.platforms or ctx.module_context.platforms)
    if platforms not in _told:
        _told.add(platforms)
        _log.warning(
            "kernel %s is compiled for %s, and pallas_rs runs kernels on the host: every call"
            " copies its arrays there and back",
            name,
            platforms,
        )


_call_p = jax_internals.define_call_primitive("pallas_rs_call", _lower_on_cpu, _lower_elsewhere)
