"""Where in the user's code an op comes from, and what the user calls the kernel's arguments."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from ._builder import UNKNOWN_SPAN, Span

# Kernels that ship with JAX are kernels, not helpers: their lines are what a reader wants.
_SHIPPED_KERNELS = os.sep + os.path.join("pallas", "ops") + os.sep

# JAX's code that makes ops on the user's behalf; the text names it beside the user's line.
_HELPERS = {
    os.path.join("mosaic_gpu", "pipeline.py"): "emit_pipeline",
    os.path.join("mosaic_gpu", "helpers.py"): "nd_loop",
}


@functools.lru_cache(maxsize=4096)
def is_kernel_file(filename: str) -> bool:
    """Whether lines of this file are the kernel writer's."""
    return _SHIPPED_KERNELS in filename or jax_internals.is_user_file(filename)


def span_of(source_info: Any) -> Span | None:
    """The innermost line of the user's code, or nothing where the traceback holds none."""
    via = None
    for filename, line_and_function in jax_internals.frames(source_info):
        if is_kernel_file(filename):
            line, function = line_and_function()
            return Span(filename, line, function, via)
        if via is None:
            via = next((name for tail, name in _HELPERS.items() if filename.endswith(tail)), None)
    return None


def span_of_function(debug_info: Any) -> Span:
    """The line where a traced function begins."""
    # `func_src_info` reads `name at file:line`; it is all that survives of the function.
    name, _, place = (getattr(debug_info, "func_src_info", None) or "").partition(" at ")
    file, _, line = place.rpartition(":")
    if not file or not line.isdigit():
        return UNKNOWN_SPAN
    return Span(file, int(line), name)


def span_of_kernel(jaxpr: Any) -> Span:
    """The line where a kernel begins; its first line where JAX has wrapped the function."""
    span = span_of_function(jaxpr.debug_info)
    if is_kernel_file(span.file):
        return span
    return _first_line(jaxpr) or Span(UNKNOWN_SPAN.file, UNKNOWN_SPAN.line, span.function)


def _first_line(jaxpr: Any) -> Span | None:
    for eqn in jaxpr.eqns:
        span = span_of(eqn.source_info)
        inner = (getattr(p, "jaxpr", p) for p in eqn.params.values())
        spans = (_first_line(p) for p in inner if hasattr(p, "eqns"))
        span = span or next((s for s in spans if s is not None), None)
        if span is not None:
            return span
    return None


def is_helper(debug_info: Any) -> bool:
    """Whether a traced function is JAX's own, so that its caller's line says more."""
    file = span_of_function(debug_info).file
    return file == UNKNOWN_SPAN.file or not is_kernel_file(file)


def argument_names(debug_info: Any, origins: Sequence[str]) -> list[str]:
    """The user's names of a kernel's arguments; where JAX lost one, its origin.

    JAX names the arguments of a function with `*refs` `refs[0]`, `refs[1]`, ...; such a name says
    less than `args[0]` or `outputs[1]` do.
    """
    names = list(getattr(debug_info, "arg_names", None) or ())
    out = []
    for i, origin in enumerate(origins):
        name = names[i] if i < len(names) else None
        out.append(name if name and not _is_starred(name) else origin)
    return out


def _is_starred(name: str) -> bool:
    return name.startswith(("refs[", "args[", "<")) or not name.isprintable()


def kernel_name(name: str | None, debug_info: Any) -> str:
    """The name given to the call, else the kernel function's."""
    return name or span_of_function(debug_info).function or "kernel"
