"""Shorthands for bodies that emit MLIR themselves."""

from jax.experimental.mosaic import gpu as mgpu
from jax.experimental.mosaic.gpu import utils
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, gpu, llvm, math, memref, nvvm, scf, vector

__all__ = [
    "arith", "array", "at", "c", "gpu", "i32", "index", "ir", "llvm", "math", "memref", "mgpu",
    "nvvm", "ptx", "scf", "to_index", "utils", "vector",
]  # fmt: skip


def i32():
    return ir.IntegerType.get_signless(32)


def index():
    return ir.IndexType.get()


def c(value, ty=None):
    """A constant, of 32 bits unless told."""
    return utils.c(value, i32() if ty is None else ty)


def at(v, i):
    """Element `i` of a vector."""
    return vector.extract(v, dynamic_position=[], static_position=ir.DenseI64ArrayAttr.get([i]))


def to_index(v):
    return arith.index_cast(index(), v)


def array(like, registers, signed=None):
    """An array of `like`'s layout."""
    return mgpu.FragmentedArray(_registers=registers, _layout=like.layout, _is_signed=signed)


def ptx(text, operands=(), result=None, constraints=""):
    """Inline assembly."""
    result = ir.Type.parse("!llvm.void") if result is None else result
    return llvm.inline_asm(result, list(operands), text, constraints, has_side_effects=True)
