"""The XLA custom call that runs a program."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from pallas_rs import _core, _report
from pallas_rs import _jax_internals as jax_internals

# XLA keeps one handler per name for good. Builds that differ get different names, so that
# a program in a compilation cache never meets a machine that reads it otherwise.
TARGET_NAME = f"pallas_rs.run.w{_core.WIRE_VERSION}.{_core.BUILD_HASH}"


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
    return rule(ctx, *operands, program=program, kernel=name)


def _lower_elsewhere(ctx: Any, *operands: Any, name: str, **_: Any) -> Any:
    raise NotImplementedError(f"kernel {name} on a platform other than cpu")


_call_p = jax_internals.define_call_primitive("pallas_rs_call", _lower_on_cpu, _lower_elsewhere)
