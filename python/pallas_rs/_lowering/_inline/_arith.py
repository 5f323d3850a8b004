"""Operations of `arith`, `math` and the arithmetic of `llvm`."""

from __future__ import annotations

from typing import Any

from pallas_rs._lowering._builder import scalar_bits

from ._body import Lane, bits_of, is_float
from ._emit import NotModelled
from ._translate import Translator, rule

# MLIR's name -> the machine's, and whether operands are taken as unsigned.
_BINARY = {
    "arith.addi": ("add", False),
    "arith.subi": ("sub", False),
    "arith.muli": ("mul", False),
    "arith.andi": ("and", False),
    "arith.ori": ("or", False),
    "arith.xori": ("xor", False),
    "arith.shli": ("shl", True),
    "arith.shrui": ("shr_logical", True),
    "arith.shrsi": ("shr_arithmetic", False),
    "arith.divsi": ("div", False),
    "arith.remsi": ("rem", False),
    "arith.divui": ("div", True),
    "arith.remui": ("rem", True),
    "arith.maxsi": ("max", False),
    "arith.minsi": ("min", False),
    "arith.maxui": ("max", True),
    "arith.minui": ("min", True),
    "arith.addf": ("add", False),
    "arith.subf": ("sub", False),
    "arith.mulf": ("mul", False),
    "arith.divf": ("div", False),
    "arith.remf": ("rem", False),
    "arith.maximumf": ("max", False),
    "arith.minimumf": ("min", False),
    "math.powf": ("pow", False),
    "math.atan2": ("atan2", False),
    "math.copysign": ("copy_sign", False),
    "llvm.add": ("add", False),
    "llvm.sub": ("sub", False),
    "llvm.mul": ("mul", False),
    "llvm.and": ("and", False),
    "llvm.or": ("or", False),
    "llvm.xor": ("xor", False),
    "llvm.shl": ("shl", True),
    "llvm.lshr": ("shr_logical", True),
    "llvm.ashr": ("shr_arithmetic", False),
    "llvm.sdiv": ("div", False),
    "llvm.srem": ("rem", False),
    "llvm.udiv": ("div", True),
    "llvm.urem": ("rem", True),
    "llvm.fadd": ("add", False),
    "llvm.fsub": ("sub", False),
    "llvm.fmul": ("mul", False),
    "llvm.fdiv": ("div", False),
}
# A single bit: the sum of two is their exclusive or.
_OF_BITS = {"add": "xor", "sub": "xor", "mul": "and"}
_UNARY = {
    "arith.negf": "neg",
    "llvm.fneg": "neg",
    "math.absf": "abs",
    "math.absi": "abs",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.expm1": "expm1",
    "math.log": "log",
    "math.log2": "log2",
    "math.log1p": "log1p",
    "math.sqrt": "sqrt",
    "math.rsqrt": "rsqrt",
    "math.cbrt": "cbrt",
    "math.sin": "sin",
    "math.cos": "cos",
    "math.tan": "tan",
    "math.tanh": "tanh",
    "math.atan": "atan",
    "math.erf": "erf",
    "math.floor": "floor",
    "math.ceil": "ceil",
    "math.round": "round_half_away",
    "math.roundeven": "round_half_even",
    "math.ctpop": "population_count",
    "math.ctlz": "clz",
}
_CMPI = ("eq", "ne", "lt", "le", "gt", "ge", "lt", "le", "gt", "ge")
_ORDERED = {1: "eq", 2: "gt", 3: "ge", 4: "lt", 5: "le"}
# True where unordered: the opposite of an ordered comparison.
_UNORDERED = {9: "le", 10: "lt", 11: "ge", 12: "gt"}


@rule(*_BINARY)
def _binary(t: Translator, op: Any, a: Lane, b: Lane) -> Lane:
    kind, unsigned = _BINARY[op.name]
    if a.dtype == "bool":
        return t.b.binary(_OF_BITS.get(kind, kind), a, b)
    if unsigned:
        return t.b.signed(t.b.binary(kind, t.b.unsigned(a), t.b.unsigned(b)))
    return t.b.binary(kind, a, b)


@rule("arith.maxnumf", "arith.minnumf")
def _extremum(t: Translator, op: Any, a: Lane, b: Lane) -> Lane:
    return t.b.op("extremum", [a, b], a.dtype, a.len, max=op.name == "arith.maxnumf")


@rule("arith.floordivsi", "arith.ceildivsi")
def _rounded_division(t: Translator, op: Any, a: Lane, b: Lane) -> Lane:
    """The truncated quotient, less (or plus) one where it was rounded the other way."""
    m = t.b
    zero, one = (m.constant(n, a.dtype, a.len) for n in (0, 1))
    quotient, rest = m.binary("div", a, b), m.binary("rem", a, b)
    inexact = m.compare("ne", rest, zero)
    signs = m.compare("lt", m.binary("xor", a, b), zero)
    if op.name == "arith.floordivsi":
        return m.select(m.binary("and", inexact, signs), m.binary("sub", quotient, one), quotient)
    same = m.unary("not", signs)
    return m.select(m.binary("and", inexact, same), m.binary("add", quotient, one), quotient)


@rule("arith.mulsi_extended", "arith.mului_extended")
def _wide_product(t: Translator, op: Any, a: Lane, b: Lane) -> tuple[Lane, Lane]:
    low = t.b.binary("mul", a, b)
    if op.name == "arith.mului_extended":
        a, b = t.b.unsigned(a), t.b.unsigned(b)
    return low, t.b.signed(t.b.op("multiply_high", [a, b], a.dtype, a.len))


@rule(*_UNARY)
def _unary(t: Translator, op: Any, x: Lane, *_: Lane) -> Lane:
    return t.b.unary(_UNARY[op.name], x)


@rule("math.fma", "llvm.intr.fma")
def _fma(t: Translator, op: Any, a: Lane, b: Lane, c: Lane) -> Lane:
    return t.b.op("fused_multiply_add", [a, b, c], a.dtype, a.len)


@rule("arith.cmpi", "llvm.icmp")
def _compare_integers(t: Translator, op: Any, a: Lane, b: Lane) -> Lane:
    predicate = t.integer(op, "predicate")
    if predicate >= 6:
        a, b = t.b.unsigned(a), t.b.unsigned(b)
    elif predicate >= 2 and a.dtype == "bool":
        # A set bit is minus one.
        a, b = b, a
    return t.b.compare(_CMPI[predicate], a, b)


@rule("arith.cmpf", "llvm.fcmp")
def _compare_floats(t: Translator, op: Any, a: Lane, b: Lane) -> Lane:
    m = t.b
    predicate = t.integer(op, "predicate")
    if predicate in _ORDERED:
        return m.compare(_ORDERED[predicate], a, b)
    if predicate in _UNORDERED:
        return m.unary("not", m.compare(_UNORDERED[predicate], a, b))
    if predicate in (0, 15):
        return m.constant(predicate == 15, "bool", a.len)
    if predicate == 13:
        return m.compare("ne", a, b)
    if predicate in (6, 8):
        differ = m.binary("or", m.compare("lt", a, b), m.compare("gt", a, b))
        return differ if predicate == 6 else m.unary("not", differ)
    ordered = m.binary("and", m.compare("eq", a, a), m.compare("eq", b, b))
    return ordered if predicate == 7 else m.unary("not", ordered)


@rule("arith.select", "llvm.select")
def _select(t: Translator, op: Any, which: Lane, a: Lane, b: Lane) -> Lane:
    return t.b.select(which, a, b)


# ---- constants ---------------------------------------------------------------------------------


@rule("arith.constant", "llvm.mlir.constant")
def _constant(t: Translator, op: Any) -> Lane:
    dtype, length = t.result(op)
    ir = t.ir
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        dense = ir.DenseElementsAttr(attribute)
        kind = ir.DenseFPElementsAttr if is_float(dtype) else ir.DenseIntElementsAttr
        if dense.is_splat:
            return t.b.constant(_number(kind(attribute)[0], dtype), dtype, length)
        bits = [scalar_bits(_number(x, dtype), dtype) for x in kind(attribute)]
        return t.b.op("constant_vector", [], dtype, length, bits=bits)
    if isinstance(attribute, ir.BoolAttr):
        value: Any = bool(ir.BoolAttr(attribute).value)
    elif is_float(dtype):
        value = float(ir.FloatAttr(attribute).value)
    else:
        value = int(ir.IntegerAttr(attribute).value)
    return t.b.constant(_number(value, dtype), dtype, length)


def _number(value: Any, dtype: str) -> Any:
    """An integer attribute in the range of its signed type, whichever way it was written."""
    if is_float(dtype):
        return float(value)
    if dtype == "bool":
        return bool(value)
    bits = bits_of(dtype)
    return (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


@rule("llvm.mlir.undef", "llvm.mlir.poison", "ub.poison", "llvm.mlir.zero")
def _undefined(t: Translator, op: Any) -> Lane:
    dtype, length = t.result(op)
    return t.b.constant(0, dtype, length)


# ---- conversions -------------------------------------------------------------------------------


@rule("arith.index_cast", "arith.extsi", "llvm.sext")
def _sign_extend(t: Translator, op: Any, x: Lane) -> Lane:
    dtype, _ = t.result(op)
    if x.dtype == "bool":
        return t.b.unary("neg", t.b.convert(x, dtype))
    return _truncate_to(t, x, dtype)


@rule("arith.index_castui", "arith.extui", "llvm.zext")
def _zero_extend(t: Translator, op: Any, x: Lane) -> Lane:
    dtype, _ = t.result(op)
    if dtype == "bool":
        return _truncate_to(t, x, dtype)
    if x.dtype == "bool":
        return t.b.convert(x, dtype)
    return t.b.signed(t.b.convert(t.b.unsigned(x), "u" + dtype))


@rule("arith.trunci", "llvm.trunc")
def _truncate(t: Translator, op: Any, x: Lane) -> Lane:
    return _truncate_to(t, x, t.result(op)[0])


def _truncate_to(t: Translator, x: Lane, dtype: str) -> Lane:
    if dtype != "bool":
        known = x.known
        result = t.b.convert(x, dtype)
        if known is not None and result is not x:
            return Lane(result.id, dtype, result.len, _number(known, dtype))
        return result
    one = t.b.constant(1, x.dtype, x.len)
    return t.b.compare("eq", t.b.binary("and", x, one), one)


@rule("arith.sitofp", "llvm.sitofp")
def _signed_to_float(t: Translator, op: Any, x: Lane) -> Lane:
    dtype, _ = t.result(op)
    if x.dtype == "bool":
        return t.b.unary("neg", t.b.convert(x, dtype))
    return t.b.convert(x, dtype)


@rule("arith.uitofp", "llvm.uitofp")
def _unsigned_to_float(t: Translator, op: Any, x: Lane) -> Lane:
    return t.b.convert(t.b.unsigned(x), t.result(op)[0])


@rule("arith.fptosi", "llvm.fptosi")
def _float_to_signed(t: Translator, op: Any, x: Lane) -> Lane:
    return t.b.convert(x, t.result(op)[0])


@rule("arith.fptoui", "llvm.fptoui")
def _float_to_unsigned(t: Translator, op: Any, x: Lane) -> Lane:
    dtype, _ = t.result(op)
    return t.b.convert(x, dtype) if dtype == "bool" else t.b.signed(t.b.convert(x, "u" + dtype))


@rule("arith.extf", "arith.truncf", "llvm.fpext", "llvm.fptrunc")
def _float_to_float(t: Translator, op: Any, x: Lane) -> Lane:
    return t.b.convert(x, t.result(op)[0])


@rule("arith.bitcast", "vector.bitcast", "llvm.bitcast")
def _bitcast(t: Translator, op: Any, x: Lane) -> Lane:
    dtype, length = t.result(op)
    if bits_of(x.dtype) * x.len != bits_of(dtype) * length:
        raise NotModelled(f"{op.name} changes the number of bits")
    return t.b.bitcast(x, dtype, length)
