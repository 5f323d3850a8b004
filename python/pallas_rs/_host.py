"""Services the machine asks of Python while a kernel runs.

Called by ``_core`` with the GIL held, on the thread that runs the block. Arrays cross as
``(dtype name, shape, bytes)``, row-major, one byte an element of a sub-byte type.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from pallas_rs import _jax_internals as jax_internals

Triple = tuple[str, tuple[int, ...], bytes]

_log = logging.getLogger("pallas_rs")

_compiled: dict[bytes, Callable[[Sequence[np.ndarray]], list[Any]]] = {}
_compiling = threading.Lock()

_callbacks: dict[int, Callable[..., Any]] = {}
_callback_ids = itertools.count(1)


def xla_call(name: str, module: bytes, args: Sequence[Triple]) -> list[Triple]:
    """Runs a StableHLO module; compiles it when its content is seen for the first time."""
    del name  # the machine puts it into the report
    run = _compiled.get(module)
    if run is None:
        with _compiling:
            run = _compiled.get(module)
            if run is None:
                run = _compiled[module] = jax_internals.compile_stablehlo(module)
    return [_to_triple(result) for result in run([_from_triple(a) for a in args])]


def print_line(prefix: str, fmt: str, args: Sequence[Triple]) -> None:
    """Prints a line of ``debug_print`` as one write, so that lines never interleave."""
    values = [_scalar_or_array(_from_triple(arg)) for arg in args]
    sys.stdout.write(f"{prefix}{fmt.format(*values)}\n")
    sys.stdout.flush()


def log_lines(lines: Sequence[str]) -> None:
    """Logs what `Params.logging_mode` asked for, at level INFO."""
    for line in lines:
        _log.info("%s", line)


def register_callback(function: Callable[..., Any]) -> int:
    """Keeps a function for `callback` as long as the process lives; returns its number."""
    number = next(_callback_ids)
    _callbacks[number] = function
    return number


def callback(number: int, args: Sequence[Triple]) -> list[Triple]:
    """Calls a function kept by `register_callback`."""
    function = _callbacks.get(number)
    if function is None:
        raise LookupError(
            f"callback {number} belongs to the process that lowered the kernel; a kernel"
            " with callbacks cannot be exported or cached"
        )
    results = function(*(_from_triple(arg) for arg in args))
    if results is None:
        return []
    return [_to_triple(np.asarray(result)) for result in results]


def _from_triple(triple: Triple) -> np.ndarray:
    name, shape, data = triple
    return np.frombuffer(data, jnp.dtype(name)).reshape(shape)


def _to_triple(array: np.ndarray) -> Triple:
    name = array.dtype.name
    if name in ("int2", "int4"):
        # The machine keeps them sign-extended, ml_dtypes does not.
        array = array.astype(np.int8)
    return name, array.shape, np.ascontiguousarray(array).tobytes()


def _scalar_or_array(array: np.ndarray) -> Any:
    return array[()] if array.ndim == 0 else array
