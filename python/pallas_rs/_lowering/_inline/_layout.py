"""Which element of an array each CUDA thread holds in each register."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def describe(layout: Any, shape: Sequence[int], threads: int) -> dict[str, Any] | None:
    """The machine's description of a `FragmentedArray` layout; none for a splat.

    Element `registers[r] + threads[t] + v * step` is component `v` of register `r` of thread `t`.
    """
    name = type(layout).__name__
    shape = tuple(int(n) for n in shape)
    if name == "WGSplatFragLayout" or not shape:
        return None
    thread = np.arange(threads)
    if name == "WGStridedFragLayout":
        vector = int(layout.vec_size)
        count = math.prod(layout.registers_shape(shape))
        registers = np.arange(count) * threads * vector
        return _description(registers, thread * vector, vector, 1)
    row_major = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    strides = layout.tiling.tile_strides(row_major)
    rank = layout.tiled_tiling_rank
    tail, sizes = strides[len(strides) - rank :], layout.tiled_tiling_shape

    def place(index: Any, dims: Sequence[Any]) -> Any:
        # A replicated dimension takes part of the index and moves nothing.
        total = np.zeros_like(index)
        for dim in reversed(dims):
            size = sizes[dim] if isinstance(dim, int) else dim.times
            if isinstance(dim, int):
                total = total + index % size * tail[dim]
            index = index // size
        return total

    lanes = place(thread // 32 % 4, layout.warp_dims) + place(thread % 32, layout.lane_dims)
    firsts = [
        sum(i * s for i, s in zip(index, strides, strict=False))
        for index in np.ndindex(*layout.registers_shape(shape))
    ]
    return _description(firsts, lanes, int(layout.vector_length), int(tail[layout.vector_dim]))


def _description(registers: Any, threads: Any, vector: int, step: int) -> dict[str, Any]:
    return {
        "registers": [int(r) for r in registers],
        "threads": [int(t) for t in threads],
        "vector": vector,
        "step": step,
    }
