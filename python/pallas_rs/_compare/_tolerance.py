"""How far two correct runs of a kernel may be apart."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

# Elementary functions of the hardware and of ours are a few units apart.
_FUNCTION_ULPS = 4
# Errors of a sum's terms are independent of each other: their sum grows as the square root of
# their number, and this many standard deviations of it are allowed.
_DEVIATIONS = 4
_TF32_EPS = 2.0**-11


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """An element may be ``atol + rtol * abs(native)`` away from the native one.

    Attributes:
        rtol: Relative part.
        atol: Absolute part.
        terms: Length of the longest sum that was taken into account, 0 where the caller
            gave the tolerance.
    """

    rtol: float
    atol: float
    terms: int = 0


def tolerance_for(
    native: np.ndarray[Any, Any],
    terms: int,
    tf32: bool,
    rtol: float | None,
    atol: float | None,
) -> Tolerance:
    """The tolerance of an output, as far as the caller has not given it.

    Results that are rounded once differ by one unit of the output's type. Sums are made in
    float32, in an order of the hardware's choice; their terms may have been rounded to the
    output's type or to TF32 before. Both errors are relative to the largest value, not to
    the element, since terms cancel.

    Args:
        native: The output.
        terms: Length of the longest sum.
        tf32: Whether tensor cores may round operands of products to TF32.
        rtol: The caller's, or None.
        atol: The caller's, or None.
    """
    if not jnp.issubdtype(native.dtype, jnp.inexact):
        return Tolerance(rtol or 0.0, atol or 0.0, 0)
    eps = float(jnp.finfo(native.dtype).eps)
    sums = 0.0
    if terms > 1:
        rounded_terms = max(eps, _TF32_EPS if tf32 else 0.0)
        sums = _DEVIATIONS * math.sqrt(terms) * 2.0**-24 + rounded_terms
    finite: Any = abs(native.astype(np.complex128 if native.dtype.kind == "c" else np.float64))
    finite = finite[np.isfinite(finite)]
    scale = float(finite.max()) if finite.size else 0.0
    return Tolerance(
        rtol=_FUNCTION_ULPS * eps if rtol is None else rtol,
        atol=(sums + eps * 2.0**-10) * scale if atol is None else atol,
        terms=terms if rtol is None or atol is None else 0,
    )
