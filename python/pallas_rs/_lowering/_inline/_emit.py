"""Has JAX emit the MLIR of one body, as a function of its own.

Arguments of the function are, for a ref, one memref of the physical (tiled) shape of its view with
the view's strides, by which JAX chooses its stores; for an array, the registers of its layout.
Results are the registers of the returned arrays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from pallas_rs import _jax_internals as jax_internals

# Frames of JAX's and the user's code between an operation and the body that is recorded with it.
_FRAMES = 24


class NotModelled(Exception):
    """A body asks for something that the machine does not do."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """An operand of a body: a ref with the transforms of its view, or an array with its layout."""

    shape: tuple[int, ...]
    dtype: Any
    layout: Any = None
    transforms: tuple[Any, ...] = ()
    strides: tuple[int, ...] | None = None
    in_smem: bool = False

    @property
    def is_ref(self) -> bool:
        return self.layout is None

    @property
    def tilings(self) -> list[list[int]]:
        return [[int(n) for n in t.tiling] for t in self.transforms if hasattr(t, "tiling")]

    @property
    def swizzle(self) -> int:
        return max((int(t.swizzle) for t in self.transforms if hasattr(t, "swizzle")), default=0)

    @property
    def physical(self) -> tuple[int, ...]:
        """The tiled shape."""
        shape = self.shape
        for tiling in self.tilings:
            lead, rest = shape[: len(shape) - len(tiling)], shape[len(shape) - len(tiling) :]
            shape = (*lead, *(n // t for n, t in zip(rest, tiling, strict=True)), *tiling)
        return shape

    @property
    def physical_strides(self) -> tuple[int, ...]:
        return row_major(self.physical) if self.strides is None else self.strides


@dataclasses.dataclass(frozen=True)
class Emitted:
    """The MLIR of a body. `results` are its returned arrays."""

    module: Any
    function: Any
    parameters: list[Parameter]
    results: list[Parameter]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


class _Context:
    """Stands for the launch context that a body gets.

    What needs the host's side of a launch (descriptors, peers) is refused by name.
    """

    cluster_size = (1, 1, 1)
    profiler = None

    def __init__(self, mgpu: Any) -> None:
        self._mgpu = mgpu

    @contextlib.contextmanager
    def named_region(self, *_: Any, **__: Any) -> Iterator[None]:
        yield

    def async_copy(
        self,
        *,
        src_ref: Any,
        dst_ref: Any,
        gmem_slice: Any = (),
        gmem_transform: Any = (),
        swizzle: int | None = None,
        **options: Any,
    ) -> None:
        """A plain TMA store, as one operation of the machine's instead of a descriptor and PTX."""
        m = self._mgpu
        ir = m.ir
        used = sorted(k for k, v in options.items() if v is not None and k != "arrive")
        if ir.MemRefType(src_ref.type).memory_space is None or used:
            what = f"with {', '.join(used)}" if used else "from global to shared memory"
            raise NotModelled(f"it calls LaunchContext.async_copy {what}")
        if gmem_slice:
            dst_ref = m.mgpu.memref_slice(dst_ref, gmem_slice)
        transforms = (
            gmem_transform if isinstance(gmem_transform, (tuple, list)) else (gmem_transform,)
        )
        tilings = []
        for transform in transforms:
            if not isinstance(transform, m.mgpu.TileTransform):
                kind = type(transform).__name__
                raise NotModelled(f"it calls LaunchContext.async_copy with a {kind}")
            tilings.append(ir.DenseI64ArrayAttr.get(list(transform.tiling)))
        i32 = ir.IntegerType.get_signless(32)
        ir.Operation.create(
            "machine.copy",
            operands=[src_ref, dst_ref],
            attributes={
                "tilings": ir.ArrayAttr.get(tilings),
                "swizzle": ir.IntegerAttr.get(i32, swizzle or 16),
            },
        )

    def await_async_copy(
        self, allow_groups: int, await_read_only: bool = False, **scope: Any
    ) -> None:
        m = self._mgpu
        ir = m.ir
        if any(v is not None for v in scope.values()):
            raise NotModelled("it calls LaunchContext.await_async_copy with a scope")
        ir.Operation.create(
            "machine.wait_copies",
            attributes={
                "groups": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), allow_groups),
                "read_only": ir.BoolAttr.get(await_read_only),
            },
        )
        m.utils.warpgroup_barrier()

    def __getattr__(self, name: str) -> Any:
        raise NotModelled(f"it uses LaunchContext.{name}")


def emit(
    function: Any,
    parameters: Sequence[Parameter],
    result_types: Sequence[Any],
    arguments_tree: Any,
    arch: tuple[int, int],
) -> Emitted:
    """The MLIR that `function` emits for these parameters."""
    m = jax_internals.mosaic_gpu_mlir()
    ir = m.ir
    context = m.new_context()
    with context, ir.Location.unknown(), ir.loc_tracebacks(max_depth=_FRAMES):
        unknown = ir.Location.unknown()
        module = ir.Module.create(unknown)
        i32 = ir.IntegerType.get_signless(32)
        for key, number in zip(("major", "minor"), arch, strict=True):
            module.operation.attributes[f"mosaic_gpu.arch_{key}"] = ir.IntegerAttr.get(i32, number)
        types = [_argument_types(m, p) for p in parameters]
        inputs = [t for group in types for t in group]
        with ir.InsertionPoint(module.body):
            body = m.func.FuncOp("body", (inputs, []), loc=unknown)
            block = body.add_entry_block()
        with ir.InsertionPoint(block):
            arguments = iter(block.arguments)
            leaves = [
                _leaf(m, p, [next(arguments) for _ in group])
                for p, group in zip(parameters, types, strict=True)
            ]
            returned = function(_Context(m), *jax.tree.unflatten(arguments_tree, leaves))
            flat = jax.tree.leaves(
                returned, is_leaf=lambda x: isinstance(x, m.mgpu.FragmentedArray)
            )
            results = [_result(m, t, x) for t, x in zip(result_types, flat, strict=True)]
            outputs = [register for x in flat for register in x.registers.flat]
            m.func.ReturnOp(outputs)
        kind = ir.FunctionType.get(inputs, [v.type for v in outputs])
        body.attributes["function_type"] = ir.TypeAttr.get(kind)
        module.operation.verify()
    return Emitted(module, body, list(parameters), results)


def _argument_types(m: Any, parameter: Parameter) -> list[Any]:
    element = m.utils.dtype_to_ir_type(parameter.dtype)
    if not parameter.is_ref:
        layout = parameter.layout
        count = math.prod(layout.registers_shape(parameter.shape))
        return [layout.registers_element_type(element)] * count
    ir = m.ir
    layout = None
    if parameter.physical_strides != row_major(parameter.physical):
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        layout = ir.StridedLayoutAttr.get(dynamic, list(parameter.physical_strides))
    space = m.utils.smem() if parameter.in_smem else None
    return [ir.MemRefType.get(parameter.physical, element, layout=layout, memory_space=space)]


def _leaf(m: Any, parameter: Parameter, values: Sequence[Any]) -> Any:
    if parameter.is_ref:
        return values[0]
    registers = np.empty(len(values), dtype=object)
    registers[:] = values
    return m.mgpu.FragmentedArray(
        _registers=registers.reshape(parameter.layout.registers_shape(parameter.shape)),
        _layout=parameter.layout,
        _is_signed=m.utils.is_signed(parameter.dtype),
    )


def _result(m: Any, declared: Any, returned: Any) -> Parameter:
    layout = declared.layout.to_mgpu() if declared.shape else m.mgpu.WGSplatFragLayout(())
    shape = tuple(declared.shape)
    element = m.utils.dtype_to_ir_type(declared.dtype)
    if (returned.shape, returned.mlir_dtype, returned.layout) != (shape, element, layout):
        raise TypeError(
            f"inline_mgpu returned an array of shape {returned.shape}, type {returned.mlir_dtype}"
            f" and layout {returned.layout}; its return_type says {declared}"
        )
    return Parameter(shape, declared.dtype, layout)
