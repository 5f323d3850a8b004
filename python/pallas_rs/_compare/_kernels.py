"""What the jaxpr of a function says about the kernels in it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._lowering import _source_info

# A grid with more points than this is not searched for the one that wrote an element.
_SEARCHED_POINTS = 1 << 20

_REDUCTIONS = ("reduce_sum", "reduce_prod", "cumsum", "cumprod", "cumlogsumexp")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel call: the parameters of its equation."""

    params: dict[str, Any]

    @property
    def name(self) -> str:
        return _source_info.kernel_name(self.params["name"], self.params["jaxpr"].debug_info)

    @property
    def is_mosaic_gpu(self) -> bool:
        """Whether it is a `plgpu.kernel`: threads, barriers and no block specs."""
        return self.params.get("mesh") is not None

    @property
    def has_run_time_bounds(self) -> bool:
        if self.is_mosaic_gpu:
            return False
        return not all(isinstance(size, (int, np.integer)) for size in self._mapping.grid)

    @property
    def visits(self) -> int:
        """How many grid points write to the same block of an output, at most."""
        if self.is_mosaic_gpu or self.has_run_time_bounds:
            return 1
        points = math.prod(self._mapping.grid)
        visits = 1
        for mapping in self._mapping.block_mappings[self._mapping.num_inputs :]:
            sizes = [_block_size(dim) for dim in mapping.block_shape]
            blocks = math.prod(
                -(-n // size)
                for n, size in zip(mapping.array_aval.shape, sizes, strict=True)
                if size
            )
            visits = max(visits, points // max(1, blocks))
        return visits

    @property
    def _mapping(self) -> Any:
        return self.params["grid_mapping"]

    def tile_of(self, output: int, element: tuple[int, ...]) -> Tile | None:
        """The block of an output that an element lies in, and the grid point that writes it."""
        if self.is_mosaic_gpu:
            return None
        mapping = self._mapping.block_mappings[self._mapping.num_inputs + output]
        sizes = [_block_size(dim) for dim in mapping.block_shape]
        if mapping.has_trivial_window() or None in sizes:
            return None
        indices = tuple(i // size for i, size in zip(element, sizes, strict=True) if size)
        return Tile(indices, tuple(size for size in sizes if size), self._writer(mapping, indices))

    def _writer(self, mapping: Any, indices: tuple[int, ...]) -> tuple[int, ...] | None:
        grid = self._mapping.grid
        if self.has_run_time_bounds or self._mapping.num_index_operands:
            return None
        if not 0 < math.prod(grid) <= _SEARCHED_POINTS:
            return None
        points = np.indices(grid, np.int32).reshape(len(grid), -1)
        index_map = jax_internals.as_function(mapping.index_map_jaxpr)
        blocks = jax.vmap(lambda *point: index_map(*point), axis_size=points.shape[1])(*points)
        same = np.all([np.asarray(b) == i for b, i in zip(blocks, indices, strict=True)], axis=0)
        found = np.flatnonzero(same)
        return tuple(int(i) for i in points[:, found[-1]]) if found.size else None


@dataclasses.dataclass(frozen=True)
class Tile:
    """A block of an output."""

    indices: tuple[int, ...]
    shape: tuple[int, ...]
    # The last grid point that writes it, where the index map says which.
    grid_point: tuple[int, ...] | None


def _block_size(dim: Any) -> int | None:
    family = type(dim).__name__
    if family == "Squeezed":
        return 1
    return int(dim.block_size) if family == "Blocked" else None


class Kernels:
    """The kernels of a function."""

    def __init__(self, closed_jaxpr: Any) -> None:
        self._jaxpr = jax_internals.bare_jaxpr(closed_jaxpr)
        self.all = tuple(_kernels(self._jaxpr))

    def of_output(self, output: int) -> tuple[Kernel, int] | None:
        """The kernel that makes an output of the function, and which of its outputs it is."""
        return _producer(self._jaxpr, output)

    def longest_sum(self) -> int:
        """Terms of the longest sum that a value goes through, tensor cores left out."""
        sums = (_sums(kernel.params["jaxpr"], kernel.visits) for kernel in self.all)
        return max((terms for terms in itertools.chain(*sums)), default=1)

    def may_use_tf32(self) -> bool:
        """Whether tensor cores may multiply float32 matrices."""
        jaxprs = [kernel.params["jaxpr"] for kernel in self.all]
        operands = [np.dtype(var.aval.dtype) for var in self._jaxpr.invars]
        return np.dtype(np.float32) in operands and any(
            _uses(jaxpr, ("dot_general", "wgmma", "tcgen05")) for jaxpr in jaxprs
        )

    def compute_capability(self) -> int | None:
        """The major version that the kernels' own instructions ask for."""
        jaxprs = [kernel.params["jaxpr"] for kernel in self.all]
        if any(_uses(jaxpr, ("tcgen05",)) for jaxpr in jaxprs):
            return 10
        return 9 if any(_uses(jaxpr, ("wgmma",)) for jaxpr in jaxprs) else None


def _kernels(jaxpr: Any) -> Iterator[Kernel]:
    for eqn in jaxpr.eqns:
        inner = list(jax_internals.sub_jaxprs(eqn.params))
        if eqn.primitive is jax_internals.pallas_call_p:
            yield Kernel(eqn.params)
        elif eqn.primitive is jax_internals.mpmd_map_p:
            for body in inner:
                yield Kernel({"jaxpr": body, "mesh": True, "name": eqn.params["name"]})
        else:
            for each in inner:
                yield from _kernels(each)


def _producer(jaxpr: Any, output: int) -> tuple[Kernel, int] | None:
    var = jaxpr.outvars[output]
    for eqn in jaxpr.eqns:
        if any(out is var for out in eqn.outvars):
            position = next(i for i, out in enumerate(eqn.outvars) if out is var)
            if eqn.primitive is jax_internals.pallas_call_p:
                return Kernel(eqn.params), position
            if eqn.primitive.name in ("jit", "pjit"):
                (inner,) = jax_internals.sub_jaxprs(eqn.params)
                return _producer(inner, position)
    return None


def _sums(jaxpr: Any, repeated: int) -> Iterator[int]:
    """Lengths of a kernel's sums; one in a loop goes on for as many rounds as the loop has."""
    for eqn in jaxpr.eqns:
        terms = _terms(eqn)
        if terms:
            yield terms * repeated
        rounds = int(eqn.params["length"]) if eqn.primitive.name == "scan" else 1
        for inner in jax_internals.sub_jaxprs(eqn.params):
            yield from _sums(inner, repeated * rounds)


def _terms(eqn: Any) -> int:
    """Terms that an equation adds up for each element of its result; 0: it adds nothing."""
    name = eqn.primitive.name
    if name == "dot_general":
        ((contracted, _), _) = eqn.params["dimension_numbers"]
        return math.prod(eqn.invars[0].aval.shape[d] for d in contracted)
    if name in _REDUCTIONS:
        axes = eqn.params.get("axes", (eqn.params.get("axis", 0),))
        return math.prod(eqn.invars[0].aval.shape[d] for d in axes)
    return 0


def _uses(jaxpr: Any, prefixes: tuple[str, ...]) -> bool:
    return any(
        eqn.primitive.name.startswith(prefixes)
        or any(_uses(inner, prefixes) for inner in jax_internals.sub_jaxprs(eqn.params))
        for eqn in jaxpr.eqns
    )
