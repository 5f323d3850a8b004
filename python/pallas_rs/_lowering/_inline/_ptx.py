"""Inline assembly: the PTX that bodies and JAX's own helpers write.

Operands travel as the bits of registers of 16, 32 or 64 bits. An instruction outside the table is
refused by name; so is one with a predicate.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from ._body import WORD, Lane, bits_of
from ._emit import NotModelled
from ._machine import barrier
from ._translate import Translator, rule

# Pairs packed in one register, and their element type.
_PACKED = {
    "f16x2": "float16",
    "bf16x2": "bfloat16",
    "s16x2": "int16",
    "u16x2": "uint16",
    "e4m3x2": "float8_e4m3fn",
    "e5m2x2": "float8_e5m2",
    "e2m1x2": "float4_e2m1fn",
    "ue8m0x2": "float8_e8m0fnu",
}
_SCALAR = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"} | {
    f"{p}{n}": f"{name}{n}"
    for p, name in (("s", "int"), ("u", "uint"), ("b", "uint"))
    for n in (8, 16, 32, 64)
}
_UNARY = {
    "ex2": "exp2",
    "lg2": "log2",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "abs": "abs",
    "neg": "neg",
    "not": "not",
    "popc": "population_count",
    "clz": "clz",
}
_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "rem": "rem",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shl": "shl",
}
_COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_COMPARE |= {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_FENCES = (
    ("fence.proxy.async::generic.acquire", "async_proxy_acquire"),
    ("fence.proxy.async::generic.release", "async_proxy_release"),
    ("fence.proxy.async", "async_proxy"),
    ("fence.mbarrier_init", "generic"),
    ("fence.acq_rel", "generic"),
    ("fence.sc", "generic"),
    ("membar", "generic"),
    ("griddepcontrol", "generic"),
    ("tcgen05.wait::ld", "tmem_loads"),
    ("tcgen05.wait::st", "tmem_stores"),
    ("tcgen05.fence::before_thread_sync", "tensor_core_before"),
    ("tcgen05.fence::after_thread_sync", "tensor_core_after"),
)


def instructions(text: str) -> list[tuple[str, list[str]]]:
    """The instructions of a text with their operands; scopes and declarations are left away."""
    found = []
    for statement in re.sub(r"//[^\n]*", "", text).split(";"):
        # Braces at the start of a statement open and close scopes.
        statement = re.sub(r"^[\s{}]+", "", statement).strip()
        if not statement or statement.startswith(".reg"):
            continue
        name, _, rest = statement.partition(" ")
        operands = [x.strip() for x in re.findall(r"\{[^}]*\}|[^,{}]+", rest) if x.strip()]
        found.append((name, operands))
    return found


def constant_expression(text: str) -> int | None:
    """The value of an integer, or of an expression of integers as a `lop3` table is written."""
    if not re.fullmatch(r"[0-9a-fA-FxXuU&|^~()+\-* ]+", text) or text[0] not in "(~-0123456789":
        return None

    def value(node: ast.AST) -> int:
        match node:
            case ast.Expression(body=inner):
                return value(inner)
            case ast.Constant(value=int(number)):
                return number
            case ast.UnaryOp(op=ast.Invert(), operand=x):
                return ~value(x)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -value(x)
            case ast.BinOp(left=a, op=op, right=b):
                functions: dict[type, Callable[[int, int], int]] = {
                    ast.BitAnd: int.__and__,
                    ast.BitOr: int.__or__,
                    ast.BitXor: int.__xor__,
                    ast.Add: int.__add__,
                    ast.Sub: int.__sub__,
                    ast.Mult: int.__mul__,
                }
                if type(op) in functions:
                    return functions[type(op)](value(a), value(b))
        raise NotModelled(f"its PTX has the constant `{text}`")

    return value(ast.parse(re.sub(r"(?<=[0-9a-fA-F])[uU]\b", "", text), mode="eval"))


class Assembly:
    """The registers of one piece of inline assembly."""

    def __init__(self, t: Translator, registers: dict[str, Lane]) -> None:
        self.t = t
        self.b = t.b
        self.registers = registers

    def read(self, name: str, dtype: str) -> Lane:
        """A register or constant as one or more elements of a type."""
        number = constant_expression(name)
        if number is not None:
            unsigned = dtype if dtype.startswith("uint") else f"uint{bits_of(dtype)}"
            bits = bits_of(unsigned)
            return self.b.bitcast(self.b.constant(number % (1 << bits), unsigned), dtype)
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", name):
            return self.b.bitcast(self.b.constant(int(name[2:], 16), WORD), dtype)
        found = self.registers.get(name)
        if found is None:
            raise NotModelled(f"its PTX reads `{name}`, which nothing has set")
        if dtype == "bool" or found.dtype == "bool":
            return found
        have, want = bits_of(found.dtype) * found.len, bits_of(dtype)
        if have < want:
            return self.b.bitcast(self.b.convert(found, f"uint{want}"), dtype)
        if have % want:
            raise NotModelled(f"its PTX reads `{name}` of {have} bits as {want} bits")
        return self.b.bitcast(found, dtype)

    def write(self, name: str, x: Lane) -> None:
        if name == "_":
            return
        if x.dtype != "bool":
            x = self.b.bitcast(x, f"uint{bits_of(x.dtype) * x.len}")
        self.registers[name] = x

    def instruction(self, name: str, operands: list[str]) -> None:
        if name.startswith("@"):
            raise NotModelled("its PTX has an instruction with a predicate")
        fence = next((kind for prefix, kind in _FENCES if name.startswith(prefix)), None)
        if fence is not None:
            self.b.emit("fence", kind=fence)
            return
        parts = name.split(".")
        handler = _INSTRUCTIONS.get(parts[0])
        if handler is None:
            raise NotModelled(f"its PTX has the instruction `{name}`")
        handler(self, name, parts[1:], operands)

    def typed(self, name: str, suffix: str) -> tuple[str, int]:
        """Element type and count of a type suffix."""
        if suffix in _PACKED:
            return _PACKED[suffix], 2
        if suffix in _SCALAR:
            return _SCALAR[suffix], 1
        raise NotModelled(f"its PTX has the instruction `{name}`")


_Instruction = Callable[[Assembly, str, list[str], list[str]], None]
_INSTRUCTIONS: dict[str, _Instruction] = {}


def _instruction(*names: str) -> Callable[[_Instruction], _Instruction]:
    def register(function: _Instruction) -> _Instruction:
        _INSTRUCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


@_instruction("mov")
def _move(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    dtype, _ = a.typed(name, suffixes[-1])
    target, source = ([x.strip() for x in o.strip("{} ").split(",")] for o in operands)
    if len(source) > 1:
        part = f"uint{bits_of(dtype) // len(source)}"
        parts = [a.read(x, part) for x in source]
        a.write(target[0], a.b.elements(parts, range(len(parts))))
    elif len(target) > 1:
        part = f"uint{bits_of(dtype) // len(target)}"
        whole = a.read(source[0], part)
        for i, x in enumerate(target):
            a.write(x, a.b.elements([whole], [i]))
    else:
        a.write(target[0], a.read(source[0], dtype))


@_instruction(*_UNARY)
def _unary(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    dtype, _ = a.typed(name, suffixes[-1])
    a.write(operands[0], a.b.unary(_UNARY[name.split(".")[0]], a.read(operands[1], dtype)))


@_instruction(*_BINARY)
def _binary(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    kind = name.split(".")[0]
    dtype, _ = a.typed(name, suffixes[-1])
    x = a.read(operands[1], dtype)
    y = a.read(operands[2], WORD if kind == "shl" else dtype)
    if kind == "shl":
        y = a.b.convert(y, dtype)
    if kind == "mul" and "wide" in suffixes:
        wide = dtype.rstrip("0123456789") + str(2 * bits_of(dtype))
        x, y = a.b.convert(x, wide), a.b.convert(y, wide)
    if kind == "mul" and "hi" in suffixes:
        a.write(operands[0], a.b.op("multiply_high", [x, y], dtype, x.len))
        return
    a.write(operands[0], a.b.binary(_BINARY[kind], x, y))


@_instruction("shr")
def _shift_right(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    dtype, _ = a.typed(name, suffixes[-1])
    x = a.read(operands[1], dtype)
    amount = a.b.convert(a.read(operands[2], WORD), dtype)
    kind = "shr_arithmetic" if dtype.startswith("int") else "shr_logical"
    a.write(operands[0], a.b.binary(kind, x, amount))


@_instruction("max", "min")
def _extremum(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    kind = name.split(".")[0]
    dtype, _ = a.typed(name, suffixes[-1])
    x, y = (a.read(o, dtype) for o in operands[1:3])
    if "float" in dtype and "NaN" not in suffixes:
        a.write(operands[0], a.b.op("extremum", [x, y], dtype, x.len, max=kind == "max"))
    else:
        a.write(operands[0], a.b.binary(kind, x, y))


@_instruction("fma", "mad")
def _multiply_add(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    dtype, _ = a.typed(name, suffixes[-1])
    x, y, z = (a.read(o, dtype) for o in operands[1:4])
    if "float" in dtype:
        a.write(operands[0], a.b.op("fused_multiply_add", [x, y, z], dtype, x.len))
    elif "lo" in suffixes:
        a.write(operands[0], a.b.binary("add", a.b.binary("mul", x, y), z))
    else:
        raise NotModelled(f"its PTX has the instruction `{name}`")


@_instruction("prmt")
def _permute(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    if suffixes != ["b32"]:
        raise NotModelled(f"its PTX has the instruction `{name}`")
    a.write(operands[0], a.b.op("byte_permute", [a.read(o, WORD) for o in operands[1:4]], WORD))


@_instruction("lop3")
def _logic(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    table = constant_expression(operands[4])
    if suffixes != ["b32"] or table is None:
        raise NotModelled(f"its PTX has the instruction `{name}`")
    words = [a.read(o, WORD) for o in operands[1:4]]
    a.write(operands[0], a.b.op("lop3", words, WORD, table=table & 255))


@_instruction("setp")
def _compare(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    kind = _COMPARE.get(suffixes[0])
    if kind is None or len(suffixes) != 2 or "|" in operands[0]:
        raise NotModelled(f"its PTX has the instruction `{name}`")
    dtype, _ = a.typed(name, suffixes[-1])
    a.write(operands[0], a.b.compare(kind, *(a.read(o, dtype) for o in operands[1:3])))


@_instruction("selp")
def _select(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    dtype, _ = a.typed(name, suffixes[-1])
    which = a.read(operands[3], "bool")
    a.write(operands[0], a.b.select(which, *(a.read(o, dtype) for o in operands[1:3])))


@_instruction("cvt")
def _convert(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    *modifiers, to, source = suffixes
    (target, count), (from_, _) = a.typed(name, to), a.typed(name, source)
    if count == 2 and source == "f32":
        # The first operand becomes the upper half.
        high, low = (a.read(o, "float32") for o in operands[1:3])
        x = a.b.elements([low, high], [0, 1])
    else:
        x = a.read(operands[1], from_)
    if count == 2 and source != "f32":
        x = a.b.convert(x, "float32")
    a.write(operands[0], _narrow(a, x, target, modifiers))


def _narrow(a: Assembly, x: Lane, dtype: str, modifiers: Sequence[str]) -> Lane:
    if dtype == "float8_e8m0fnu":
        return a.b.op("round_up_to_scale", [x], dtype, x.len)
    if "float" in dtype and "satfinite" in modifiers:
        largest = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float4_e2m1fn": 6.0}.get(dtype)
        largest = largest or {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}[dtype]
        bounds = [a.b.constant(sign * largest, x.dtype, x.len) for sign in (-1.0, 1.0)]
        # A NaN stays one.
        x = a.b.binary("min", a.b.binary("max", x, bounds[0]), bounds[1])
    if "relu" in modifiers:
        x = a.b.binary("max", x, a.b.constant(0.0, x.dtype, x.len))
    if "int" in dtype and "float" in x.dtype and not {"rzi"} & set(modifiers):
        kinds = {"rni": "round_half_even", "rmi": "floor", "rpi": "ceil"}
        kind = next((kinds[m] for m in modifiers if m in kinds), None)
        x = x if kind is None else a.b.unary(kind, x)
    return a.b.convert(x, dtype)


@_instruction("bar", "barrier")
def _barrier(a: Assembly, name: str, suffixes: list[str], operands: list[str]) -> None:
    what = [s for s in suffixes if s not in ("cta", "aligned")]
    if what == ["warp", "sync"]:
        a.t.whole_warp(a.read(operands[0], WORD), name)
        a.b.emit("fence", kind="warp")
        return
    if what not in (["sync"], ["arrive"]):
        raise NotModelled(f"its PTX has the instruction `{name}`")
    count = None
    if len(operands) > 1:
        threads = a.read(operands[1], WORD)
        if threads.known is None:
            raise NotModelled(f"its PTX has `{name}` with a count known only at run time")
        count = int(threads.known)
    barrier(a.t, a.read(operands[0], WORD), count, arrive=what == ["arrive"])


@rule("llvm.inline_asm")
def _inline_assembly(t: Translator, op: Any, *operands: Lane) -> Any:
    text = str(t.ir.StringAttr(op.attributes["asm_string"]).value)
    constraints = str(t.ir.StringAttr(op.attributes["constraints"]).value).split(",")
    outputs = sum(c.strip().startswith("=") for c in constraints)
    registers = {}
    for i, x in enumerate(operands):
        if x.dtype != "bool":
            bits = bits_of(x.dtype) * x.len
            known = x.known if isinstance(x.known, int) and x.len == 1 else None
            x = t.b.bitcast(x, f"uint{bits}")
            x = Lane(x.id, x.dtype, x.len, known)
        registers[f"${outputs + i}"] = x
    assembly = Assembly(t, registers)
    for name, arguments in instructions(text.replace("$$", "%%")):
        assembly.instruction(name, arguments)
    if not outputs:
        return None
    kinds = [op.results[0].type]
    struct = re.search(r"llvm\.struct<\((.*)\)>", str(kinds[0]))
    if struct:
        kinds = [t.ir.Type.parse(text.strip()) for text in struct[1].split(",")]
    results = tuple(_result(assembly, f"${i}", *t.type_of(kind)) for i, kind in enumerate(kinds))
    return results if struct else results[0]


def _result(a: Assembly, name: str, dtype: str, length: int) -> Lane:
    found = a.registers.get(name)
    if found is None:
        raise NotModelled(f"its PTX does not set `{name}`")
    if found.dtype == "bool" or dtype == "bool":
        return found
    bits = bits_of(dtype) * length
    found = a.b.convert(found, f"uint{bits}")
    return a.b.bitcast(found, dtype, length)
