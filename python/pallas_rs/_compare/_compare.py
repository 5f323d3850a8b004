"""`compare`."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pallas_rs import _core
from pallas_rs._compare import _measure, _record, _sides
from pallas_rs._compare._comparison import Comparison, Environment, Values
from pallas_rs._compare._kernels import Kernels
from pallas_rs._compare._tolerance import tolerance_for
from pallas_rs._errors import UnsupportedError
from pallas_rs._params import Params


def compare(
    fn: Callable[..., Any],
    *args: Any,
    native: str | Path | Comparison = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    params: Params | None = None,
) -> Comparison:
    """Runs the kernels of a function interpreted and natively on the same inputs.

    The function is not changed: which way its kernels go is decided when they are lowered,
    whatever their ``interpret=`` says. Bounds of grids that are known only at run time are
    known numbers in the native run, since no GPU backend takes them otherwise.

    Args:
        fn: A function of arrays with kernels in it, jitted or not.
        *args: Its arguments.
        native: Where the native outputs come from: ``"auto"``, the CUDA device of JAX;
            ``"jax"``, JAX's own interpreter, as a second opinion where there is no GPU; or a
            comparison saved earlier, or its path.
        rtol: Relative tolerance; None: as the element types allow.
        atol: Absolute tolerance; None: as the types and the length of the longest sum allow.
        params: How to interpret; None: `Params` at its defaults, with the device's target.

    Returns:
        The comparison. It is true if all outputs agree.

    Raises:
        UnsupportedError: There is no GPU and no record, or the GPU is not one that the
            kernel is for.
        ValueError: The record was made with other inputs.
    """
    fingerprint = _fingerprint(args)
    side: _Side
    if native == "auto":
        side = _Live(_sides.Gpu(_present_gpu()))
    elif native == "jax":
        side = _Live(_sides.JaxInterpreter())
    else:
        record = native if isinstance(native, Comparison) else _record.load_comparison(native)
        if record.inputs != fingerprint:
            raise ValueError(
                f"the record was made of {record.name} with other inputs than these: an output"
                " can only be compared for the same inputs"
            )
        side = _Recorded(record)
    interpreted = _sides.run_interpreted(fn, args, params or Params(), side.target)
    run = side.run(fn, args, interpreted.kernels)
    names = _names(interpreted.tree)
    values = tuple(
        side.values(i, output, other)
        for i, (output, other) in enumerate(zip(interpreted.run.outputs, run.outputs, strict=True))
    )
    outputs = tuple(
        _compare_output(interpreted, i, names[i], value, rtol, atol)
        for i, value in enumerate(values)
    )
    return Comparison(
        name=_name(fn, interpreted.kernels),
        outputs=outputs,
        environment=side.environment,
        interpreted_seconds=interpreted.run.seconds,
        native_seconds=run.seconds,
        inputs=fingerprint,
        values=values,
    )


def _present_gpu() -> Any:
    device = _sides.find_gpu()
    if device is None:
        raise UnsupportedError(
            "no GPU to compare with: JAX has no CUDA device here, and no recorded run was"
            " given; pass native=<path of a comparison saved on a machine with a GPU>"
        )
    return device


class _Side:
    """The native outputs, made now or earlier."""

    target: str | None
    environment: Environment

    def run(self, fn: Callable[..., Any], args: Sequence[Any], kernels: Kernels) -> _sides.Run:
        raise NotImplementedError

    def values(self, output: int, interpreted: Any, native: Any) -> Values:
        raise NotImplementedError


class _Live(_Side):
    def __init__(self, native: _sides.Native) -> None:
        self._native = native
        self.target = native.target
        versions = {
            "pallas_rs": _core.__version__,
            "jax": jax.__version__,
            "jaxlib": importlib.metadata.version("jaxlib"),
            **native.versions,
        }
        stand_in = isinstance(native, _sides.JaxInterpreter)
        self.environment = Environment(native.device, stand_in, versions)

    def run(self, fn: Callable[..., Any], args: Sequence[Any], kernels: Kernels) -> _sides.Run:
        return _sides.run_native(fn, args, kernels, self._native)

    def values(self, output: int, interpreted: Any, native: Any) -> Values:
        del output
        return Values(interpreted.shape, interpreted.reshape(-1), native.reshape(-1))


class _Recorded(_Side):
    target = None

    def __init__(self, record: Comparison) -> None:
        self._record = record
        self.environment = dataclasses.replace(record.environment, recorded=True)

    def run(self, fn: Callable[..., Any], args: Sequence[Any], kernels: Kernels) -> _sides.Run:
        del fn, args, kernels
        recorded = [value.native for value in self._record.values]
        return _sides.Run(recorded, self._record.native_seconds)

    def values(self, output: int, interpreted: Any, native: Any) -> Values:
        record = self._record.values[output]
        if (interpreted.shape, interpreted.dtype) != (record.shape, native.dtype):
            raise ValueError(
                f"output {output} is {interpreted.dtype.name}{list(interpreted.shape)} and was"
                f" {native.dtype.name}{list(record.shape)} when it was recorded"
            )
        kept = _record.kept_elements(interpreted.size, native.size)
        return Values(interpreted.shape, interpreted.reshape(-1)[kept], native)


def _compare_output(
    interpreted: _sides.Interpreted,
    output: int,
    name: str,
    value: Values,
    rtol: float | None,
    atol: float | None,
) -> _measure.OutputComparison:
    kernels = interpreted.kernels
    size = sum(other.size for other in interpreted.run.outputs)
    terms = max(kernels.longest_sum(), int(interpreted.flops / max(1, 2 * size)))
    found = _measure.measure(
        name,
        value.shape,
        value.interpreted,
        value.native,
        tolerance_for(value.native, terms, kernels.may_use_tf32(), rtol, atol),
    )
    if found.first is None:
        return found
    kept = _record.kept_elements(math.prod(value.shape), value.native.size)
    flat = int(np.arange(math.prod(value.shape))[kept][found.first.index[0]])
    element = tuple(int(i) for i in np.unravel_index(flat, value.shape)) if value.shape else ()
    maker = kernels.of_output(output)
    tile = maker[0].tile_of(maker[1], element) if maker else None
    first = dataclasses.replace(
        found.first,
        index=element,
        tile=None if tile is None else (tile.indices, tile.shape),
        grid_point=None if tile is None else tile.grid_point,
    )
    return dataclasses.replace(found, first=first)


def _name(fn: Callable[..., Any], kernels: Kernels) -> str:
    """The kernel's name if there is one kernel: functions are often nameless wrappers."""
    if len(kernels.all) == 1:
        return kernels.all[0].name
    return getattr(fn, "__name__", type(fn).__name__)


def _names(tree: Any) -> list[str]:
    leaves = jax.tree.unflatten(tree, range(tree.num_leaves))
    paths = jax.tree_util.tree_flatten_with_path(leaves)[0]
    return [f"out{jax.tree_util.keystr(path)}" for path, _ in paths]


def _fingerprint(args: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(args):
        array = np.asarray(leaf)
        digest.update(f"{array.dtype.name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).tobytes())
    return digest.hexdigest()
