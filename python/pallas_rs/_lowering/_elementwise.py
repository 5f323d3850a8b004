"""Elementwise arithmetic."""

from __future__ import annotations

from typing import Any

from . import _fallback
from ._builder import Val
from ._context import RuleContext
from ._registry import rule

# primitive -> `UnaryKind`
_UNARY = {
    "neg": "neg",
    "abs": "abs",
    "sign": "sign",
    "not": "not",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log2": "log2",
    "log1p": "log1p",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "cbrt": "cbrt",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "logistic": "logistic",
    "erf": "erf",
    "erfc": "erfc",
    "erf_inv": "erf_inv",
    "lgamma": "lgamma",
    "digamma": "digamma",
    "floor": "floor",
    "ceil": "ceil",
    "square": "square",
    "one_minus_square": "one_minus_square",
    "population_count": "population_count",
    "clz": "clz",
}

# primitive -> `BinaryKind`
_BINARY = {
    "add": "add",
    "add_any": "add",
    "sub": "sub",
    "div": "div",
    "rem": "rem",
    "max": "max",
    "min": "min",
    "atan2": "atan2",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shift_left": "shl",
    "shift_right_arithmetic": "shr_arithmetic",
    "shift_right_logical": "shr_logical",
    "nextafter": "nextafter",
    "_copysign": "copy_sign",
}

# primitive -> `CompareKind`
_COMPARE = {
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "eq_to": "eq_to",
    "le_to": "le_to",
    "lt_to": "lt_to",
}


def _any_complex(*operands: Val) -> bool:
    return any(x.dtype.startswith("complex") for x in operands)


def spread(ctx: RuleContext, x: Val, shape: tuple[int, ...]) -> Val:
    """`x` at `shape`: JAX lets a rank-0 operand stand beside an array."""
    return x if x.shape == shape else ctx.builder.broadcast(x, shape)


@rule(*_UNARY)
def _unary(ctx: RuleContext, x: Val, **_: Any) -> Any:
    if _any_complex(x):
        return _fallback.lower(ctx, x)
    return ctx.builder.unary(_UNARY[ctx.primitive], x)


@rule("is_finite")
def _is_finite(ctx: RuleContext, x: Val) -> Any:
    return ctx.builder.unary("is_finite", x, "bool")


@rule("round")
def _round(ctx: RuleContext, x: Val, *, rounding_method: Any) -> Any:
    half_even = int(rounding_method) == 1
    return ctx.builder.unary("round_half_even" if half_even else "round_half_away", x)


@rule("reciprocal")
def _reciprocal(ctx: RuleContext, x: Val, **_: Any) -> Any:
    return ctx.builder.binary("div", ctx.builder.constant(1, x.dtype, x.shape), x)


@rule(*_BINARY)
def _binary(ctx: RuleContext, lhs: Val, rhs: Val, **_: Any) -> Any:
    return _emit_binary(ctx, _BINARY[ctx.primitive], lhs, rhs)


def _emit_binary(ctx: RuleContext, kind: str, lhs: Val, rhs: Val) -> Any:
    if _any_complex(lhs, rhs):
        return _fallback.lower(ctx, lhs, rhs)
    shape = ctx.out_shape
    return ctx.builder.binary(kind, spread(ctx, lhs, shape), spread(ctx, rhs, shape))


@rule("mul")
def _mul(ctx: RuleContext, lhs: Val, rhs: Val, *, out_dtype: Any = None) -> Any:
    if out_dtype is not None and not _any_complex(lhs, rhs):
        lhs, rhs = (ctx.builder.convert(x, ctx.out_dtype) for x in (lhs, rhs))
    return _emit_binary(ctx, "mul", lhs, rhs)


@rule("pow")
def _pow(ctx: RuleContext, lhs: Val, rhs: Val, **_: Any) -> Any:
    if lhs.dtype != rhs.dtype:  # an integer exponent keeps its exactness in XLA
        return _fallback.lower(ctx, lhs, rhs)
    return _emit_binary(ctx, "pow", lhs, rhs)


@rule("integer_pow")
def _integer_pow(ctx: RuleContext, x: Val, *, y: int) -> Any:
    if _any_complex(x):
        return _fallback.lower(ctx, x)
    return ctx.builder.op("integer_pow", [x], x.dtype, x.shape, exponent=int(y))


@rule(*_COMPARE)
def _compare(ctx: RuleContext, lhs: Val, rhs: Val, **_: Any) -> Any:
    if _any_complex(lhs, rhs):
        return _fallback.lower(ctx, lhs, rhs)
    shape = ctx.out_shape
    return ctx.builder.compare(
        _COMPARE[ctx.primitive], spread(ctx, lhs, shape), spread(ctx, rhs, shape)
    )


@rule("select_n")
def _select_n(ctx: RuleContext, which: Val, *cases: Val) -> Any:
    cases = tuple(spread(ctx, case, ctx.out_shape) for case in cases)
    return ctx.builder.op("select_n", [which, *cases], ctx.out_dtype, ctx.out_shape)


@rule("clamp")
def _clamp(ctx: RuleContext, lo: Val, x: Val, hi: Val) -> Any:
    return ctx.builder.op("clamp", [lo, x, hi], x.dtype, x.shape)


@rule("convert_element_type")
def _convert(ctx: RuleContext, x: Val, **_: Any) -> Any:
    if x.dtype != ctx.out_dtype and (_any_complex(x) or ctx.out_dtype.startswith("complex")):
        return _fallback.lower(ctx, x)
    return ctx.builder.convert(x, ctx.out_dtype)


@rule("bitcast_convert_type")
def _bitcast(ctx: RuleContext, x: Val, **_: Any) -> Any:
    if x.dtype == ctx.out_dtype:
        return x
    if x.shape != ctx.out_shape or _any_complex(x) or ctx.out_dtype.startswith("complex"):
        return _fallback.lower(ctx, x)
    return ctx.builder.op("bitcast", [x], ctx.out_dtype, x.shape)


@rule("reduce_precision")
def _reduce_precision(ctx: RuleContext, x: Val, *, exponent_bits: int, mantissa_bits: int) -> Any:
    return ctx.builder.op(
        "reduce_precision",
        [x],
        x.dtype,
        x.shape,
        exponent_bits=int(exponent_bits),
        mantissa_bits=int(mantissa_bits),
    )


@rule("elementwise_inline_asm")
def _inline_asm(ctx: RuleContext, *args: Val, asm: str, **_: Any) -> Any:
    # The one text that JAX itself writes; any other is the user's and is not interpreted.
    if len(args) == 1 and asm.startswith("tanh.approx."):
        return [ctx.builder.unary("tanh", args[0])]
    raise ctx.unsupported(
        f"inline assembly text is not interpreted ({asm!r}); write it with jax.numpy instead"
    )


# ---- hints and annotations, which leave values as they are -------------------------------------

_IDENTITIES = (
    "multiple_of",
    "max_contiguous",
    "layout_cast",
    "stop_gradient",
    "relayout",
    "reshard",
    "copy",
    "sharding_constraint",
    "mesh_cast",
    "pvary",
    "layout_constraint",
    "name",
    "with_memory_space_constraint",
)


@rule(*_IDENTITIES)
def _identity(ctx: RuleContext, x: Any, **_: Any) -> Any:
    return x


@rule("optimization_barrier")
def _optimization_barrier(ctx: RuleContext, *xs: Any, **_: Any) -> Any:
    return list(xs)


@rule("random_wrap")
def _random_wrap(ctx: RuleContext, x: Val, **_: Any) -> Any:
    return x  # a key array is its uint32 array


@rule("random_unwrap")
def _random_unwrap(ctx: RuleContext, x: Val, **_: Any) -> Any:
    return x
