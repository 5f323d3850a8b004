"""What a comparison found."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_rs._compare import _plot, _record, _text
from pallas_rs._compare._measure import Array, OutputComparison

if TYPE_CHECKING:
    import matplotlib.figure


@dataclasses.dataclass(frozen=True)
class Environment:
    """Where a comparison was made.

    Attributes:
        device: Name of the device that ran natively.
        stand_in: Whether that was no GPU but JAX's interpreter.
        versions: Versions of pallas_rs, jax, jaxlib, and of what the device depends on.
        recorded: Whether the native outputs come from a record.
    """

    device: str
    stand_in: bool
    versions: Mapping[str, str]
    recorded: bool = False


@dataclasses.dataclass(frozen=True)
class Values:
    """The elements of an output that were compared.

    Attributes:
        shape: Shape of the output.
        interpreted: Flat, from the interpreted run.
        native: Flat, from the native run.
    """

    shape: tuple[int, ...]
    interpreted: Array
    native: Array


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A kernel's interpreted run beside its native run.

    Attributes:
        name: Name of the function.
        outputs: How far each output is apart.
        environment: Device and versions.
        interpreted_seconds: Time of one interpreted call.
        native_seconds: Time of one native call.
        inputs: Fingerprint of the inputs: a record serves no others.
        values: The elements compared, output by output.
    """

    name: str
    outputs: tuple[OutputComparison, ...]
    environment: Environment
    interpreted_seconds: float
    native_seconds: float
    inputs: str
    values: tuple[Values, ...] = dataclasses.field(repr=False)

    @functools.cached_property
    def agrees(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(output.agrees for output in self.outputs)

    def save(self, path: str | Path) -> None:
        """Keeps it as ``path.npz`` (values) and ``path.json`` (everything else).

        Of an output with more than 65536 elements a sample, the same for every run, is kept.
        """
        _record.save(self, Path(path))

    def plot(self) -> matplotlib.figure.Figure:
        """Draws the error over each output, and how often which error occurs.

        Raises:
            ImportError: matplotlib is not installed (``pip install pallas-rs[plot]``).
        """
        return _plot.plot(self)

    def __str__(self) -> str:
        return _text.text(self)

    def __bool__(self) -> bool:
        return self.agrees
