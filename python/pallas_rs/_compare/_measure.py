"""How far two arrays are apart."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from pallas_rs._compare._tolerance import Tolerance

Array = np.ndarray[Any, Any]

# Upper ends of the histogram's bins, in units in the last place; one more bin holds the rest.
ULP_BINS = (0, 1, 2, 4, 8, 16, 64, 256, 1024)


@dataclasses.dataclass(frozen=True)
class Difference:
    """One element that differs.

    Attributes:
        index: Where in the output it is.
        interpreted: Its value in the interpreted run.
        native: Its value in the native run.
        tile: Which block of the output it lies in, and that block's shape, if the output
            has blocks.
        grid_point: The grid point that wrote the block, if the index map says which.
    """

    index: tuple[int, ...]
    interpreted: Any
    native: Any
    tile: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    grid_point: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class OutputComparison:
    """How far one output of two runs is apart.

    Attributes:
        name: Its path in the function's result.
        dtype: Its element type.
        shape: Its shape.
        compared: Number of elements compared; a record keeps a sample of a large output.
        different: Number of elements that are not the same.
        beyond: Number of elements beyond the tolerance.
        max_abs: Largest absolute error.
        max_rel: Largest relative error, where the native value is not 0.
        max_ulp: Largest error in units in the last place; None for integers.
        histogram: Number of elements by error in units in the last place: at most 0, 1, 2,
            4, 8, 16, 64, 256, 1024, more. Empty for integers.
        tolerance: What is allowed.
        first: The first element beyond the tolerance, or, if there is none, the first
            that differs.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    compared: int
    different: int
    beyond: int
    max_abs: float
    max_rel: float
    max_ulp: float | None
    histogram: tuple[int, ...]
    tolerance: Tolerance
    first: Difference | None

    @property
    def agrees(self) -> bool:
        """Whether every element is within the tolerance."""
        return self.beyond == 0


def measure(
    name: str, shape: tuple[int, ...], interpreted: Array, native: Array, tolerance: Tolerance
) -> OutputComparison:
    """Compares two flat arrays of an output.

    ``first.index`` holds the flat position: the caller knows which elements these are.
    """
    errors = Errors(interpreted, native)
    beyond = errors.beyond(tolerance)
    different = errors.different
    where = np.flatnonzero(beyond if beyond.any() else different)
    first = None
    if where.size:
        at = int(where[0])
        first = Difference((at,), interpreted[at].item(), native[at].item())
    ulps = errors.ulps
    return OutputComparison(
        name=name,
        dtype=interpreted.dtype.name,
        shape=shape,
        compared=interpreted.size,
        different=int(different.sum()),
        beyond=int(beyond.sum()),
        max_abs=_largest(errors.absolute),
        max_rel=_largest(errors.relative),
        max_ulp=None if ulps is None else _largest(ulps),
        histogram=() if ulps is None else _histogram(ulps),
        tolerance=tolerance,
        first=first,
    )


class Errors:
    """Element-wise errors of two arrays; a NaN equals a NaN."""

    def __init__(self, interpreted: Array, native: Array) -> None:
        self._inexact = jnp.issubdtype(native.dtype, jnp.inexact)
        self._a, self._b = interpreted, native
        wide = _wide(native.dtype)
        with np.errstate(all="ignore"):
            a, b = interpreted.astype(wide), native.astype(wide)
            both_nan = (a != a) & (b != b)
            self.different = (a != b) & ~both_nan
            distance = np.where(a > b, a - b, b - a) if wide != np.complex128 else abs(a - b)
            # Where one value is not finite there is no distance to speak of.
            self.absolute = np.where(
                self.different,
                np.nan_to_num(distance.astype(np.float64), nan=np.inf, posinf=np.inf),
                0.0,
            )
            self._size: Array = abs(
                b.astype(np.complex128 if wide == np.complex128 else np.float64)
            )
            self.relative = np.where(
                self.absolute == 0,
                0.0,
                np.where(self._size > 0, self.absolute / self._size, 0.0),
            )

    def beyond(self, tolerance: Tolerance) -> Array:
        """Which elements are further apart than allowed."""
        with np.errstate(all="ignore"):
            allowed = tolerance.atol + tolerance.rtol * self._size
            finite = np.isfinite(self._size)
            beyond: Array = self.different & ~((self.absolute <= allowed) & finite)
        return beyond

    @property
    def ulps(self) -> Array | None:
        """Errors in units in the last place: how many floats lie between the two."""
        if not self._inexact or jnp.issubdtype(self._b.dtype, jnp.complexfloating):
            return None
        # Two positions of 64 bits may be further apart than an int64 can say.
        steps = _rank(self._a).astype(np.longdouble) - _rank(self._b).astype(np.longdouble)
        unordered = self.different & ~np.isfinite(self.absolute)
        return np.where(self.different, np.where(unordered, np.inf, abs(steps)), 0.0).astype(float)


def _wide(dtype: Any) -> Any:
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.complex128
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.float64
    # A difference of two integers of 64 bits needs one more.
    return np.longdouble if np.dtype(dtype).itemsize == 8 else np.int64


def _rank(array: Array) -> Array:
    """A float's position among all floats of its type."""
    width = array.dtype.itemsize * 8
    bits = array.view(f"int{width}").astype(np.int64)
    magnitude = bits & np.int64((1 << (width - 1)) - 1)
    return np.where(bits < 0, -magnitude, magnitude)


def _largest(errors: Array) -> float:
    return float(errors.max()) if errors.size else 0.0


def _histogram(ulps: Array) -> tuple[int, ...]:
    bins = np.searchsorted(np.array(ULP_BINS, np.float64), ulps.ravel(), side="left")
    return tuple(int(n) for n in np.bincount(bins, minlength=len(ULP_BINS) + 1))
