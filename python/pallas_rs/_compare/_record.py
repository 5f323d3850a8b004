"""Comparisons as files: values in an ``.npz``, the rest in a JSON beside it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from pallas_rs._compare._comparison import Comparison

_FORMAT = 1
# Elements of an output that a record keeps: files stay small, and every tile is met.
_KEPT = 1 << 16


def kept_elements(size: int, kept: int) -> Any:
    """Which elements a record of ``kept`` out of ``size`` has: evenly spread."""
    if kept == size:
        return slice(None)
    return np.linspace(0, size - 1, kept, dtype=np.int64)


def save(comparison: Comparison, path: Path) -> None:
    """Writes ``path.npz`` and ``path.json``."""
    arrays = {}
    for i, value in enumerate(comparison.values):
        kept = kept_elements(value.native.size, min(value.native.size, _KEPT))
        for side in ("interpreted", "native"):
            arrays[f"{side}_{i}"] = _as_bytes(getattr(value, side)[kept])
    np.savez_compressed(path.with_suffix(".npz"), allow_pickle=False, **arrays)
    head = {
        "format": _FORMAT,
        "name": comparison.name,
        "environment": dataclasses.asdict(comparison.environment),
        "interpreted_seconds": comparison.interpreted_seconds,
        "native_seconds": comparison.native_seconds,
        "inputs": comparison.inputs,
        "outputs": [dataclasses.asdict(output) for output in comparison.outputs],
    }
    text = json.dumps(head, indent=1, default=_plain)
    path.with_suffix(".json").write_text(text + "\n")


def load_comparison(path: str | Path) -> Comparison:
    """Reads a comparison that `Comparison.save` has written.

    Args:
        path: As given to ``save``; ``.npz`` or ``.json`` may follow.
    """
    from pallas_rs._compare._comparison import Comparison, Environment, Values
    from pallas_rs._compare._measure import Difference, OutputComparison
    from pallas_rs._compare._tolerance import Tolerance

    path = Path(path)
    head = json.loads(path.with_suffix(".json").read_text())
    if head["format"] != _FORMAT:
        raise ValueError(
            f"{path}: format {head['format']}, and this pallas_rs reads format {_FORMAT};"
            " record it again"
        )
    outputs, values = [], []
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        for i, data in enumerate(head["outputs"]):
            shape = tuple(data["shape"])
            dtype = jnp.dtype(data["dtype"])
            sides = [arrays[f"{side}_{i}"].view(dtype) for side in ("interpreted", "native")]
            values.append(Values(shape, *sides))
            first = data["first"] and Difference(
                **{key: _tuples(value) for key, value in data["first"].items()}
            )
            outputs.append(
                OutputComparison(
                    **{
                        **data,
                        "shape": shape,
                        "histogram": tuple(data["histogram"]),
                        "tolerance": Tolerance(**data["tolerance"]),
                        "first": first,
                    }
                )
            )
    return Comparison(
        name=head["name"],
        outputs=tuple(outputs),
        environment=Environment(**head["environment"]),
        interpreted_seconds=head["interpreted_seconds"],
        native_seconds=head["native_seconds"],
        inputs=head["inputs"],
        values=tuple(values),
    )


def _as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """NumPy's own types as they are; it cannot write others, such as bfloat16."""
    return np.ascontiguousarray(array).view(np.uint8) if array.dtype.kind == "V" else array


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, complex ones as text."""
    return value.item() if isinstance(value, np.generic) else str(value)
