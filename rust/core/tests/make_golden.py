"""Records what XLA on a CPU, and ml_dtypes, make of every operation: `python make_golden.py`.

Writes `data/formats.json` (hashes of narrow float conversions) and `data/ops.json` (operations on a
few dozen values of each type). Needs jax 0.12. The Rust tests read both.
"""

import json
import os
import pathlib

os.environ["JAX_ENABLE_X64"] = "1"

import contextlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

DATA = pathlib.Path(__file__).parent / "data"
INTS = ["int2", "int4", "int8", "int16", "int32", "int64",
        "uint2", "uint4", "uint8", "uint16", "uint32", "uint64"]  # fmt: skip
EIGHT_BITS = ["float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
              "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]  # fmt: skip
FLOATS = ["float16", "bfloat16", "float32", "float64"]
MASK = (1 << 64) - 1


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def fnv1a(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return f"{value:016x}"


def split_mix(seed, count):
    out = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out.append(z ^ (z >> 31))
    return out


def stored(x) -> bytes:
    """The bytes the machine keeps: sub-byte integers extended, one quiet NaN, no subnormals.

    XLA flushes subnormals of the wide formats, which the machine need not.
    """
    x = np.asarray(x)
    name = x.dtype.name
    if name in ("int2", "int4"):
        return x.astype(np.int8).tobytes()
    if name in ("uint2", "uint4"):
        return x.astype(np.uint8).tobytes()
    if name in ("float32", "float64", "bfloat16"):
        tiny = np.abs(x.astype(np.float64)) < float(jnp.finfo(x.dtype).tiny)
        x = np.where(tiny, np.copysign(np.zeros_like(x), x), x).astype(x.dtype)
        x = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    elif name == "float16":
        x = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    elif name == "float8_e5m2":
        x = x.view(np.uint8)
        x = np.where((x & 0x7F) > 0x7C, 0x7E, x).astype(np.uint8)
    elif name.startswith("float8") and not name.endswith(("fnuz", "fnu")):
        nan = np.isnan(x.astype(np.float32))
        x = np.where(nan, np.array(np.nan, x.dtype).view(np.uint8) & 0x7F, x.view(np.uint8))
        x = x.astype(np.uint8)
    return x.tobytes()


def formats():
    out = {}
    f16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bf16 = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    random = np.array([z & 0xFFFFFFFF for z in split_mix(1, 1 << 18)], np.uint32).view(np.float32)
    for name in [*EIGHT_BITS, "float16", "bfloat16"]:
        row = out[name] = {}
        count = 1 << (16 if "16" in name else 8)
        codes = np.arange(count).astype(np.uint16 if count > 256 else np.uint8)
        if name == "float4_e2m1fn":
            codes &= 15
        value = codes.view(dtype(name)).astype(np.float32)
        value = np.where(np.isnan(value), np.float32(np.nan), value)
        row["decode"] = fnv1a(value.tobytes())
        for key, x in ("float16", f16), ("bfloat16", bf16), ("random", random):
            with np.errstate(all="ignore"):
                code = x.astype(dtype(name))
            if name == "float4_e2m1fn":
                # XLA does not keep the sign of a NaN.
                code = np.where(np.isnan(x), np.uint8(8), code.view(np.uint8))
            elif count > 256:
                code = np.where(np.isnan(x), np.array(np.nan, code.dtype), code)
            else:
                code = code.view(np.uint8)
            row["encode_" + key] = fnv1a(code.tobytes())
    return out


def values(name):
    d = dtype(name)
    if name == "bool":
        return np.array([False, True, True, False])
    if name in INTS:
        bits = int(name.strip("uint"))
        lo, hi = (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        if bits <= 4:
            return np.arange(lo, hi + 1).astype(d)
        near = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, -1, -2, -3, -7, -31]
        near += [lo, lo + 1, hi, hi - 1, hi // 3, lo // 3, hi // 257 * 129]
        return np.array(sorted({v for v in near if lo <= v <= hi}), dtype=object).astype(d)
    if name in EIGHT_BITS:
        codes = np.arange(16 if name.startswith("float4") else 256, dtype=np.uint8)
        return codes.view(d)
    small = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.1, 0.7, 0.99, 1.01, 7.3, 12.75, 33.0, 100.4, 250.6,
             1e-3, 300.0, 1000.5, 30000.0, np.inf, np.nan]  # fmt: skip
    if name != "float16":
        small += [1e5, 3e9, 1e10, 2e19, 1e30, 1e-10, 1e-30]
    if name == "float64":
        small += [1e100, 1e-100, 1e300]
    with np.errstate(all="ignore"):
        return np.array(small + [-v for v in small]).astype(d)


def exact(family, kind, name, out):
    return {"family": family, "kind": kind, "dtype": name, "hash": fnv1a(stored(out))}


def close(family, kind, name, out, ulp):
    return {"family": family, "kind": kind, "dtype": name, "ulp": ulp, "out": stored(out).hex()}


# kind -> lax function
UNARY = {
    "neg": lax.neg, "abs": lax.abs, "sign": lax.sign, "not": lax.bitwise_not, "exp": lax.exp,
    "exp2": lax.exp2, "expm1": lax.expm1, "log": lax.log, "log2": lax.log2, "log1p": lax.log1p,
    "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "sin": lax.sin, "cos": lax.cos,
    "tan": lax.tan, "asin": lax.asin, "acos": lax.acos, "atan": lax.atan, "sinh": lax.sinh,
    "cosh": lax.cosh, "tanh": lax.tanh, "asinh": lax.asinh, "acosh": lax.acosh,
    "atanh": lax.atanh, "logistic": lax.logistic, "erf": lax.erf, "erfc": lax.erfc,
    "erf_inv": lax.erf_inv, "lgamma": lax.lgamma, "digamma": lax.digamma, "floor": lax.floor,
    "ceil": lax.ceil, "round_half_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round_half_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "is_finite": lax.is_finite, "square": lax.square, "population_count": lax.population_count,
    "clz": lax.clz,
}  # fmt: skip
UNARY_EXACT = {"neg", "abs", "sign", "not", "sqrt", "floor", "ceil", "round_half_even",
               "round_half_away", "is_finite", "square", "population_count", "clz"}  # fmt: skip
# XLA's own error in units in the last place where it is large.
LOOSE = {"lgamma": 2000, "digamma": 200, "erf_inv": 20, "erfc": 30, "tan": 6, "sinh": 20,
         "cosh": 20, "acosh": 8, "asinh": 8, "logistic": 6, "erf": 6, "cbrt": 4, "exp2": 120}  # fmt: skip
BINARY = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "max": lax.max,
    "min": lax.min, "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
    "shl": lax.shift_left, "shr_arithmetic": lax.shift_right_arithmetic,
    "shr_logical": lax.shift_right_logical, "pow": lax.pow, "atan2": lax.atan2,
    "nextafter": lax.nextafter,
}  # fmt: skip
COMPARE = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}


def ops():
    names = ["bool", *INTS, *EIGHT_BITS, *FLOATS]
    rows = [{"family": "values", "kind": "", "dtype": n, "out": stored_input(values(n)).hex()}
            for n in names]  # fmt: skip

    def attempt(make):
        with contextlib.suppress(TypeError, ValueError, NotImplementedError):
            rows.append(make())

    for name in ["bool", *INTS, *FLOATS]:
        x = jnp.asarray(values(name))
        a, b = jnp.repeat(x, len(x)), jnp.tile(x, len(x))
        wide = name in FLOATS
        for kind, f in UNARY.items():
            if kind in UNARY_EXACT:
                attempt(lambda: exact("unary", kind, name, f(x)))
            else:
                attempt(lambda: close("unary", kind, name, f(x), LOOSE.get(kind, 3)))
        for kind, f in BINARY.items():
            if kind in ("pow", "atan2"):
                n = 576
                attempt(lambda: close("binary", kind, name, f(a[:n], b[:n]), 3))
            elif not (wide and kind == "nextafter" and name != "float64"):
                attempt(lambda: exact("binary", kind, name, f(a, b)))
        for kind, f in COMPARE.items():
            attempt(lambda: exact("compare", kind, name, f(a, b)))
        for n in (2, 3, 7, -2):
            attempt(lambda: exact("integer_pow", str(n), name, lax.integer_pow(x, n)))
        attempt(lambda: exact("clamp", "", name, lax.clamp(x[1], x, x[2])))
        if wide:
            for e, m in (5, 10), (8, 7), (4, 3), (5, 2):
                attempt(lambda: exact("reduce_precision", f"{e} {m}", name,
                                      lax.reduce_precision(x, e, m)))  # fmt: skip
    for name in EIGHT_BITS:
        x = jnp.asarray(values(name))
        for kind in ("neg", "abs", "floor", "is_finite", "square"):
            attempt(lambda: exact("unary", kind, name, UNARY[kind](x)))
    for source in names:
        x = jnp.asarray(values(source))
        for target in names:
            attempt(lambda: exact("convert", target, source, lax.convert_element_type(x, target)))
    return rows


def stored_input(x):
    x = np.asarray(x)
    if x.dtype.name in ("int2", "int4"):
        return x.astype(np.int8).tobytes()
    if x.dtype.name in ("uint2", "uint4"):
        return x.astype(np.uint8).tobytes()
    return x.tobytes()


def dump(path, rows):
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    table = [{"dtype": name} | row for name, row in formats().items()]
    dump(DATA / "formats.json", table)
    dump(DATA / "ops.json", ops())
    print("recorded with jax", jax.__version__, "ml_dtypes", ml_dtypes.__version__)
