"""The rule of the primitive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._lowering._builder import Ref, Val, Value, np_dtype
from pallas_rs._lowering._context import RuleContext
from pallas_rs._lowering._indexing import plain_view
from pallas_rs._lowering._registry import rule as primitive_rule

from . import _layout
from ._emit import Emitted, NotModelled, Parameter, emit
from ._translate import MemRef, Translator

# Transforms at the head of every access that undo a layout; a body sees the layout itself.
_LAYOUT = ("UntilingTransform", "UnswizzleRef")
WARPGROUP, WARP = 128, 32


@primitive_rule("inline_mgpu")
def _inline_mgpu(
    ctx: RuleContext,
    *operands: Any,
    mgpu_fn: Any,
    flat_arg_types: Sequence[Any],
    flat_ret_ty: Sequence[Any],
    pytree_args: Any,
    pytree_ref_transforms: Any,
    pytree_ret_ty: Any,
    **_: Any,
) -> Sequence[Value]:
    name = f"{mgpu_fn.__module__}.{mgpu_fn.__qualname__}"
    if ctx.kernel.leave_out_bodies:
        return _leave_out(ctx, name)
    count = pytree_args.num_leaves
    transforms = pytree_ref_transforms.unflatten(list(operands[count:]))
    values: list[Value] = []
    parameters: list[Parameter] = []
    for value, aval, kind, chain in zip(
        operands[:count], ctx.avals_in, flat_arg_types, transforms, strict=False
    ):
        if isinstance(value, Ref):
            view = plain_view(ctx, value, chain or ())
            parameters.append(_ref_parameter(ctx, value, view, aval, kind, chain or ()))
            values.append(view)
        else:
            parameters.append(_array_parameter(value, aval, kind))
            values.append(value)
    try:
        body = _body(ctx, name, mgpu_fn, parameters, flat_ret_ty, pytree_args)
    except NotModelled as reason:
        raise ctx.unsupported(f"of its body `{name}`: {reason}") from None
    results = ctx.fresh_results()
    ctx.builder.emit("inline_mgpu", values, results, body=body)
    return results


def _leave_out(ctx: RuleContext, name: str) -> Sequence[Value]:
    """Unwritten memory in place of what the body returns."""
    b = ctx.builder
    left_out = {"what": f"the inline body `{name}`", "span": b.span_number(b.span)}
    if left_out not in ctx.kernel.left_out:
        ctx.kernel.left_out.append(left_out)
    results = ctx.fresh_results()
    if not results:
        return ()
    refs = [b.ref("gmem", v.dtype, v.shape) for v in results]
    allocs = [
        {
            "name": f"result {i} of `{name}`",
            "space": "gmem",
            "shape": list(v.shape),
            "kind": {"data": {"dtype": v.dtype, "zeroed": False, "layout": []}},
        }
        for i, v in enumerate(results)
    ]
    with b.region(refs) as region:
        region.yields = [b.op("load", [ref], ref.elem, ref.shape).id for ref in refs]
    b.emit("scope", [], results, [region], allocs=allocs, collective=False)
    return results


def _ref_parameter(
    ctx: RuleContext, ref: Ref, view: Ref, aval: Any, kind: Any, chain: Sequence[Any]
) -> Parameter:
    if view.elem in ("barrier", "semaphore") or view.space not in ("gmem", "smem"):
        raise ctx.unsupported(f"a body cannot take a ref to {view.elem} in {view.space}")
    layout = tuple(getattr(kind, "transforms", ()))
    for transform in layout:
        if not (hasattr(transform, "tiling") or hasattr(transform, "swizzle")):
            raise ctx.unsupported(f"a body cannot take a ref with a {type(transform).__name__}")
    return Parameter(
        view.shape,
        np_dtype(view.elem),
        transforms=layout,
        strides=_strides(aval, chain, layout),
        in_smem=view.space == "smem",
    )


def _strides(aval: Any, chain: Sequence[Any], layout: Sequence[Any]) -> tuple[int, ...] | None:
    """Strides of the view as the body sees it; none where they are those of its shape."""
    base = tuple(int(n) for n in aval.shape)
    rank = sum(len(t.tiling) for t in layout if hasattr(t, "tiling"))
    strides = [math.prod(base[i + 1 :]) for i in range(len(base))]
    lead = len(strides) - 2 * rank
    if lead < 0:
        return None
    dims = strides[: lead + rank]
    tile = strides[lead + rank :] if rank else []
    for transform in chain:
        if type(transform).__name__ in _LAYOUT:
            continue
        if not hasattr(transform, "indices"):
            return None
        kept = []
        for stride, index in zip(dims, transform.indices, strict=False):
            if hasattr(index, "stride"):
                kept.append(stride * int(index.stride))
            elif getattr(index, "shape", ()) != ():
                return None
        dims = kept
    return (*dims, *tile)


def _array_parameter(value: Val, aval: Any, kind: Any) -> Parameter:
    mgpu = jax_internals.mosaic_gpu_mlir().mgpu
    layout = kind.to_mgpu() if value.shape else mgpu.WGSplatFragLayout(())
    return Parameter(value.shape, aval.dtype, layout)


def _body(
    ctx: RuleContext,
    name: str,
    function: Any,
    parameters: list[Parameter],
    result_types: Sequence[Any],
    arguments_tree: Any,
) -> int:
    """The number of the body in the program."""
    builder = ctx.builder
    threads = WARP if ctx.kernel.in_warp else WARPGROUP
    emitted = emit(function, parameters, result_types, arguments_tree, ctx.kernel.arch)
    translator = Translator(jax_internals.mosaic_gpu_mlir(), builder.span_number, builder.span)
    code = _translate(translator, emitted)
    return builder.lane_body(
        {
            "name": name,
            "threads": threads,
            "params": [_described(p, threads) for p in emitted.parameters],
            "results": [_array(p, threads) for p in emitted.results],
            "code": code,
            "types": translator.b.types,
        }
    )


def _translate(t: Translator, emitted: Emitted) -> dict[str, Any]:
    arguments = iter(emitted.function.entry_block.arguments)
    t.parameters = [p for p in emitted.parameters if p.is_ref]
    params: list[int] = []
    view = 0
    for parameter in emitted.parameters:
        dtype = _dtype_name(parameter)
        if parameter.is_ref:
            shape, strides = parameter.physical, parameter.physical_strides
            t.bind(next(arguments), MemRef(view, t.view_pointer(view), shape, strides, dtype))
            view += 1
            continue
        for _ in range(math.prod(parameter.layout.registers_shape(parameter.shape))):
            argument = next(arguments)
            register = t.b.value(dtype, t.type_of(argument.type)[1])
            params.append(register.id)
            t.bind(argument, t.b.signed(register))
    yields = t.block(emitted.function.entry_block)
    declared = iter(yields)
    out = []
    for result in emitted.results:
        dtype = _dtype_name(result)
        for _ in range(math.prod(result.layout.registers_shape(result.shape))):
            register = next(declared)
            out.append(t.b.bitcast(register, dtype, register.len).id)
    return {"params": params, "insts": t.b.code, "yields": out}


def _dtype_name(parameter: Parameter) -> str:
    return str(np.dtype(parameter.dtype).name)


def _described(parameter: Parameter, threads: int) -> dict[str, Any]:
    if not parameter.is_ref:
        return {"array": _array(parameter, threads)}
    return {
        "view": {
            "dtype": _dtype_name(parameter),
            "shape": list(parameter.shape),
            "tilings": parameter.tilings,
            "strides": list(parameter.physical_strides),
            "swizzle": parameter.swizzle,
        }
    }


def _array(parameter: Parameter, threads: int) -> dict[str, Any]:
    return {
        "dtype": _dtype_name(parameter),
        "shape": list(parameter.shape),
        "layout": _layout.describe(parameter.layout, parameter.shape, threads),
    }
