"""One `pallas_call` to one program and one custom call.

`plgpu.kernel`, `core_map` and `mpmd_map` arrive here as a `pallas_call` with a mesh.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pallas_rs import _core, _ffi
from pallas_rs import _jax_internals as jax_internals
from pallas_rs._errors import InvalidGridError, UnsupportedError
from pallas_rs._lowering import _allocation, _grid, _mesh, _source_info, _window
from pallas_rs._lowering._builder import Ref, Shape, Value
from pallas_rs._lowering._context import Kernel, RuleContext, dtype_of, shape_of
from pallas_rs._params import Params


@dataclasses.dataclass(frozen=True, slots=True)
class Lowered:
    """A program and what the custom call needs to know beside it."""

    wire: bytes
    name: str
    # Results after the call's own: scratch that lives as long as the grid.
    extra_avals: tuple[Any, ...]
    aliases: dict[int, int]
    has_side_effect: bool


def interpret_call(
    *operands: Any,
    interpret: Params,
    jaxpr: Any,
    grid_mapping: Any,
    mesh: Any = None,
    input_output_aliases: Sequence[tuple[int, int]] = (),
    compiler_params: Any = None,
    out_avals: Sequence[Any],
    name: str | None = None,
    **_: Any,
) -> list[Any]:
    """Runs a kernel on traced operands: dynamic grid bounds, scalar prefetch, inputs.

    Raises:
        UnsupportedError: The kernel uses a primitive that is not supported.
        InvalidGridError: A dynamic bound is not an integer.
    """
    lowered = lower(
        [jax_internals.aval_of(x) for x in operands],
        interpret=interpret,
        jaxpr=jaxpr,
        grid_mapping=grid_mapping,
        mesh=mesh,
        input_output_aliases=input_output_aliases,
        compiler_params=compiler_params,
        out_avals=out_avals,
        name=name,
    )
    results = _ffi.call(
        lowered.wire,
        operands,
        (*out_avals, *lowered.extra_avals),
        lowered.aliases,
        lowered.name,
        has_side_effect=lowered.has_side_effect,
    )
    return results[: len(out_avals)]


# Compute capability of each target.
_ARCH = {"a100": (8, 0), "h100": (9, 0), "h200": (9, 0), "b200": (10, 0), "b300": (10, 3)}


def lower(
    operand_avals: Sequence[Any],
    *,
    interpret: Params,
    jaxpr: Any,
    grid_mapping: Any,
    mesh: Any,
    input_output_aliases: Sequence[tuple[int, int]],
    compiler_params: Any,
    out_avals: Sequence[Any],
    name: str | None,
) -> Lowered:
    """Lowers a kernel to wire bytes."""
    name = _source_info.kernel_name(name, jaxpr.debug_info)
    check_shapes(name, [*operand_avals, *out_avals])
    kernel: Kernel
    if mesh is None:
        kernel = _PallasCallKernel(grid_mapping, operand_avals, compiler_params)
    else:
        kernel = _mesh.MeshKernel(mesh)
    kernel.arch = _ARCH.get(interpret.target or "h100", kernel.arch)
    kernel.leave_out_bodies = interpret.inline_mgpu == "ignore"
    arguments = _Arguments(
        kernel, jaxpr, grid_mapping, operand_avals, out_avals, input_output_aliases
    )
    with kernel.builder.at(_source_info.span_of_kernel(jaxpr)):
        windows = _window.windows(kernel, grid_mapping, arguments.index_refs, arguments.arrays)
        _lower_body(kernel, jaxpr, arguments, windows, grid_mapping, compiler_params)
    text, blobs = kernel.builder.finish(
        name=name,
        **kernel.header(),
        args=arguments.args,
        options={**interpret.to_options(name), "left_out": kernel.left_out},
    )
    return Lowered(
        wire=_core.assemble(text, blobs),
        name=name,
        extra_avals=tuple(arguments.extra_avals),
        aliases=arguments.aliases,
        has_side_effect=kernel.has_side_effect,
    )


def check_shapes(name: str, avals: Sequence[Any]) -> None:
    """Refuses arrays of which a size is not known when the kernel is lowered.

    Raises:
        UnsupportedError: A size is a symbol of a shape-polymorphic export.
    """
    for aval in avals:
        if not all(map(jax_internals.is_constant_dim, aval.shape)):
            raise UnsupportedError(
                f"kernel {name} has an array of shape {tuple(aval.shape)}, and a program is made"
                " for sizes that are known.\n"
                "  help: export for a shape without symbols, or one whose symbols stand for"
                " dimensions that jax.vmap maps over"
            )


class _PallasCallKernel(Kernel):
    """The lowering of a `pl.pallas_call`: the grid's points run in order, one thread each."""

    def __init__(
        self, grid_mapping: Any, operand_avals: Sequence[Any], compiler_params: Any
    ) -> None:
        self._sequential = _allocation.sequential_dims(compiler_params)
        self._grid: list[dict[str, int]] = []
        sizes: list[int | None] = []
        num_dynamic = 0
        for axis, size in enumerate(grid_mapping.grid):
            if isinstance(size, (int, np.integer)):
                _grid.check_size(f"grid dimension {axis}", int(size), 0)
                self._grid.append({"static": int(size)})
                sizes.append(int(size))
                continue
            _check_bound(axis, operand_avals[num_dynamic])
            self._grid.append({"operand": num_dynamic})
            sizes.append(None)
            num_dynamic += 1
        own_axes = [d for d in range(len(sizes)) if d not in grid_mapping.vmapped_dims]
        super().__init__(own_axes, sizes)
        self._grid_names = tuple(grid_mapping.grid_names or ())
        for dim, name in enumerate(self._grid_names):
            self.axes[name] = functools.partial(self.grid_index, dim)

    def header(self) -> dict[str, Any]:
        return {
            "grid": self._grid,
            "grid_names": [str(name) for name in self._grid_names],
            "in_order": True,
            "sequential": [d for d in self._sequential if d < len(self._grid)],
            "cluster": [],
            "cluster_names": [],
            "num_threads": 1,
        }


def _check_bound(axis: int, aval: Any) -> None:
    if aval.shape != () or not np.issubdtype(aval.dtype, np.integer):
        raise InvalidGridError(
            f"the bound of grid dimension {axis} is a {aval.dtype.name} of shape {aval.shape};"
            " a dynamic grid bound must be an integer scalar"
        )


class _Arguments:
    """The program's arguments, and the ref or value that each of them is in the body.

    An input that shares its memory with an output is one argument for both.
    """

    def __init__(
        self,
        kernel: Kernel,
        jaxpr: Any,
        grid_mapping: Any,
        operand_avals: Sequence[Any],
        out_avals: Sequence[Any],
        input_output_aliases: Sequence[tuple[int, int]],
    ) -> None:
        self.args: list[dict[str, Any]] = []
        self.extra_avals: list[Any] = []
        self._kernel = kernel
        kernel.global_semaphores = self.add_semaphores
        self._num_results = len(out_avals)
        num_index = grid_mapping.num_index_operands
        self._num_bounds = len(operand_avals) - num_index - grid_mapping.num_inputs
        inputs = operand_avals[self._num_bounds :]
        # JAX counts the input from the first prefetch operand, XLA from the first operand.
        self.aliases = {self._num_bounds + i: int(out) for i, out in input_output_aliases}
        self.names = _names(kernel, jaxpr, grid_mapping, num_index)

        refs: list[Value] = []
        by_result: dict[int, Value] = {}
        for i, aval in enumerate(inputs):
            operand = self._num_bounds + i
            result = self.aliases.get(operand)
            by_value = not jax_internals.is_ref_aval(jaxpr.invars[i].aval)
            if result is None:
                refs.append(self._add(self.names[i], aval, {"operand": operand}, by_value))
                continue
            binding = {"aliased": {"operand": operand, "result": result}}
            shared = self._add(self._shared_name(i, len(inputs) + result), aval, binding)
            refs.append(shared)
            by_result[result] = shared
        for j, aval in enumerate(out_avals):
            if j not in by_result:
                by_result[j] = self._add(self.names[len(inputs) + j], aval, {"result": j})
        self.index_refs = refs[:num_index]
        self.arrays = refs[num_index:] + [by_result[j] for j in range(len(out_avals))]

    def add_semaphores(self, name: str, shape: Shape) -> Ref:
        """Semaphores of the whole grid, zero at first."""
        builder = self._kernel.builder
        ref = builder.ref("gmem", "semaphore", shape)
        builder.body_param(ref)
        self.args.append(
            {
                "name": name,
                "dtype": "int32",
                "shape": list(shape),
                "binding": "zeroed",
                "by_value": False,
                "semaphores": True,
            }
        )
        return ref

    def _shared_name(self, i: int, j: int) -> str:
        first, second = self.names[i], self.names[j]
        return first if first == second else f"{first}/{second}"

    def _add(
        self,
        name: str,
        aval: Any,
        binding: dict[str, Any],
        by_value: bool = False,
        scratch: bool = False,
    ) -> Value:
        builder = self._kernel.builder
        semaphores = jax_internals.is_semaphore_aval(aval)
        dtype, shape = "int32" if semaphores else dtype_of(aval), shape_of(aval)
        elem = "semaphore" if semaphores else dtype
        value: Value
        value = builder.val(dtype, shape) if by_value else builder.ref("gmem", elem, shape)
        builder.body_param(value)
        self.args.append(
            {
                "name": name,
                "dtype": dtype,
                "shape": list(shape),
                "binding": binding,
                "by_value": by_value,
                "semaphores": semaphores,
                **({"scratch": True} if scratch else {}),
            }
        )
        return value

    def add_result(self, name: str, aval: Any) -> Value:
        """Memory that lives as long as the grid: one more result, which the caller drops."""
        result = self._num_results + len(self.extra_avals)
        self.extra_avals.append(aval)
        return self._add(name, aval, {"result": result}, scratch=True)


def _names(kernel: Kernel, jaxpr: Any, grid_mapping: Any, num_index: int) -> list[str]:
    """Names of the kernel's refs: prefetch operands, inputs, outputs, scratch."""
    inputs, outputs = (
        grid_mapping.block_mappings[: grid_mapping.num_inputs],
        grid_mapping.block_mappings[grid_mapping.num_inputs :],
    )
    origins = [f"scalar_prefetch[{i}]" for i in range(num_index)]
    origins += [str(bm.origin) or f"args[{i}]" for i, bm in enumerate(inputs)]
    origins += [_output_origin(str(bm.origin), j) for j, bm in enumerate(outputs)]
    origins += [f"scratch[{i}]" for i in range(len(grid_mapping.scratch_avals))]
    if kernel.mesh is not None:
        return _mesh.argument_names(jaxpr, origins)
    return _source_info.argument_names(jaxpr.debug_info, origins)


def _output_origin(origin: str, position: int) -> str:
    return origin if "[" in origin else f"outputs[{position}]"


def _lower_body(
    kernel: Kernel,
    jaxpr: Any,
    arguments: _Arguments,
    windows: Sequence[Value],
    grid_mapping: Any,
    compiler_params: Any,
) -> None:
    """The kernel's own equations, inside the scope of its scratch."""
    builder = kernel.builder
    scratch = [jax_internals.split_transformed(a) for a in grid_mapping.scratch_avals]
    names = arguments.names[len(arguments.names) - len(scratch) :]
    # Parameters of the body come first, so memory that outlives a grid point is made first.
    lasting = {
        i: arguments.add_result(names[i], jax_internals.array_aval(aval))
        for i, (aval, _) in enumerate(scratch)
        if _allocation.outlives_grid_point(aval, compiler_params)
    }
    local = [i for i in range(len(scratch)) if i not in lasting]
    ctx = RuleContext(kernel, "pallas_call", None, [], [], [])
    allocs, allocated = _allocation.plan(
        ctx,
        [scratch[i][0] for i in local],
        [scratch[i][1] for i in local],
        [names[i] for i in local],
    )
    refs: dict[int, Any] = {**lasting, **dict(zip(local, allocated.args, strict=True))}
    body_args = [
        *arguments.index_refs,
        *windows,
        *(refs[i] for i in range(len(scratch))),
    ]
    if not allocs:
        kernel.lower_jaxpr(jaxpr, body_args)
        return
    with builder.region(allocated.params) as region:
        kernel.lower_jaxpr(jaxpr, body_args)
    builder.emit("scope", [], [], [region], allocs=allocs, collective=False)
