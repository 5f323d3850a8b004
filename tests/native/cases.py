"""Kernels that are compared with the GPU: those that ship with JAX, and those of the benchmarks.

Inputs come from fixed seeds, so that a recorded run serves everywhere.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
from jax.experimental import pallas as pl

_BENCHES = Path(__file__).parents[2] / "benches" / "kernels" / "__init__.py"


@dataclasses.dataclass(frozen=True)
class Case:
    """A function with a kernel, and its operands.

    Attributes:
        make: Makes both; the function's kernels run in whatever mode it is given.
        target: The device the kernel is for, as `pallas_rs.simulate` calls it.
        stand_in: Whether JAX's interpreters, of every JAX served, can run it.
    """

    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    target: str = "h100"
    stand_in: bool = True


def _benchmark(name: str, **sizes: int) -> Callable[[], tuple[Callable[..., Any], Any]]:
    def make() -> tuple[Callable[..., Any], Any]:
        spec = importlib.util.spec_from_file_location("benchmark_kernels", _BENCHES)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        case = module.BENCHES[name](**sizes)
        return case.fn(pallas_rs.Params()), case.inputs

    return make


def _random(shape: tuple[int, ...], seed: int, dtype: Any = jnp.float16) -> Any:
    return jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, shape), dtype)


def _hopper_matmul() -> tuple[Callable[..., Any], Any]:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as shipped

    config = shipped.TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)

    def matmul(a: Any, b: Any) -> Any:
        return shipped.matmul(a, b, config=config)

    return matmul, (_random((128, 128), 1), _random((128, 128), 2))


def _attention() -> tuple[Callable[..., Any], Any]:
    from jax.experimental.pallas.ops.gpu import attention_mgpu as shipped

    config = shipped.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2)
    q, k, v = (_random((1, 128, 1, 64), seed) for seed in (1, 2, 3))
    return lambda q, k, v: shipped.attention(q, k, v, config), (q, k, v)


def _some_rows() -> tuple[Callable[..., Any], Any]:
    """A grid whose bound is an operand."""
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))

    def kernel(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...].astype(jnp.float32)
        e = jnp.exp(x - x.max(axis=1, keepdims=True))
        o_ref[...] = (e / e.sum(axis=1, keepdims=True)).astype(o_ref.dtype)

    def softmax_of_some_rows(x: Any, n: Any) -> Any:
        call = pl.pallas_call(
            kernel,
            grid=(n,),
            in_specs=[rows],
            out_specs=rows,
            out_shape=x,
            input_output_aliases={0: 0},
        )
        return call(x)

    return softmax_of_some_rows, (_random((64, 128), 7), jnp.int32(5))


CASES = {
    "add_grid": Case(_benchmark("add_grid", nblocks=4)),
    "add_direct": Case(_benchmark("add_direct", nblocks=8)),
    "pipe_axpb": Case(_benchmark("pipe_axpb", rows=128, cols=128, grid=2)),
    "wgmma_matmul": Case(_benchmark("wgmma_matmul", m=128, n=128, k=128)),
    "ws_matmul": Case(_benchmark("ws_matmul", m=128, n=128, k=128)),
    "flash": Case(_benchmark("flash", seq=128), stand_in=False),
    "softmax": Case(_benchmark("softmax", rows=32, cols=256)),
    "layernorm": Case(_benchmark("layernorm", rows=32, cols=256)),
    "softmax_of_some_rows": Case(_some_rows),
    "shipped_hopper_matmul": Case(_hopper_matmul, stand_in=False),
    "shipped_attention": Case(_attention, stand_in=False),
}


def compare(name: str, native: Any, **options: Any) -> pallas_rs.Comparison:
    """Compares a case."""
    case = CASES[name]
    function, operands = case.make()
    jax.block_until_ready(operands)
    params = pallas_rs.Params(target=case.target)
    return pallas_rs.compare(function, *operands, native=native, params=params, **options)
