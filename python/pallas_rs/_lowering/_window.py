"""Block specs as code: index maps are lowered like the kernel, and one op makes the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from . import _source_info
from ._builder import Ref, Span, Val, Value
from ._context import Kernel, unsupported


def windows(
    kernel: Kernel, grid_mapping: Any, index_refs: Sequence[Value], arrays: Sequence[Value]
) -> list[Value]:
    """What the kernel's refs to inputs and outputs are: a window of each array."""
    return [
        _window(kernel, grid_mapping, mapping, index_refs, array)
        for mapping, array in zip(grid_mapping.block_mappings, arrays, strict=True)
    ]


def _window(
    kernel: Kernel, grid_mapping: Any, mapping: Any, index_refs: Sequence[Value], array: Value
) -> Value:
    if isinstance(array, Val) or mapping.has_trivial_window():
        return array
    with kernel.builder.at(_line_of_index_map(kernel, mapping)):
        return _emit_window(kernel, grid_mapping, mapping, index_refs, array)


def _line_of_index_map(kernel: Kernel, mapping: Any) -> Span:
    jaxpr, _ = jax_internals.open_jaxpr(mapping.index_map_jaxpr)
    span = _source_info.span_of_function(jaxpr.debug_info)
    return span if _source_info.is_kernel_file(span.file) else kernel.builder.span


def _emit_window(
    kernel: Kernel, grid_mapping: Any, mapping: Any, index_refs: Sequence[Value], array: Ref
) -> Ref:
    grid = [kernel.grid_index(d) for d in range(len(grid_mapping.grid))]
    results = kernel.lower_jaxpr(mapping.index_map_jaxpr, [*grid, *index_refs])
    starts = mapping.index_map_out_tree.unflatten(results)
    dims: list[Any] = []
    indices: list[Val] = []
    shape: list[int] = []
    for dim, start in zip(mapping.block_shape, starts, strict=True):
        dims.append(_block_dim(kernel, mapping, dim, shape))
        indices.append(kernel.value(getattr(start, "start", start)))
    window = kernel.builder.ref("gmem", array.elem, shape)
    kernel.builder.emit("block_window", [array, *indices], [window], dims=dims)
    return window


def _block_dim(kernel: Kernel, mapping: Any, dim: Any, shape: list[int]) -> Any:
    """`BlockDim`; appends to `shape` what the dimension leaves of itself."""
    family = type(dim).__name__
    if family == "Squeezed":
        return "squeezed"
    if family == "Blocked":
        shape.append(int(dim.block_size))
        return {"blocked": int(dim.block_size)}
    if family == "Element":
        lo, hi = dim.padding
        shape.append(int(dim.block_size))
        return {"element": {"size": int(dim.block_size), "lo": int(lo), "hi": int(hi)}}
    if family == "BoundedSlice" and not str(mapping.origin).startswith("output"):
        # Elements past the slice's length are unspecified, so the bound can stand for the length.
        shape.append(int(dim.block_size))
        return {"element": {"size": int(dim.block_size), "lo": 0, "hi": 0}}
    raise unsupported(
        "pallas_call",
        f"the block spec of {mapping.origin} has a dimension of kind {family}",
        kernel.builder.span,
    )
