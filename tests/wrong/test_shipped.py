"""Kernels that JAX ships and those of the benchmarks, with everything watched: only what stands.

`expected_findings.toml` lists them with their reasons. A new finding is looked into by hand before
it may be added.
"""

from __future__ import annotations

import importlib.util
import inspect
import pathlib
import sys
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas.ops.gpu import attention_mgpu as attention
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper
from jax.experimental.pallas.ops.gpu import hopper_mixed_type_matmul_mgpu as mixed
from jax.experimental.pallas.ops.gpu import ragged_dot_mgpu as ragged
from jax.experimental.pallas.ops.gpu import transposed_ragged_dot_mgpu as transposed

HERE = pathlib.Path(__file__).parent
_spec = importlib.util.spec_from_file_location(
    "benchmark_kernels", HERE.parents[1] / "benches/kernels/__init__.py"
)
benchmark_kernels = importlib.util.module_from_spec(_spec)
sys.modules["benchmark_kernels"] = benchmark_kernels
_spec.loader.exec_module(benchmark_kernels)

PARAMS = pallas_rs.Params(detect_races=True, on_race="warn", uninitialized_reads="warn")
EXPECTED = tomllib.loads((HERE / "expected_findings.toml").read_text())

F16 = jnp.float16


def rand(shape, dtype=F16, seed=0):
    rng = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(rng.integers(-8, 8, shape), dtype)
    return jnp.asarray(rng.uniform(-1, 1, shape), dtype)


def config(module, **fields):
    small = {"tile_m": 64, "tile_n": 64, "tile_k": 64, "max_concurrent_steps": 2}
    return module.TuningConfig(**small | fields)


def hopper_matmul(m, n, k, **fields):
    def run():
        more = (None,) if "c" in inspect.signature(hopper.matmul).parameters else ()
        return hopper.matmul(rand((m, k)), rand((k, n)), *more, config(hopper, **fields))

    return run


def mixed_matmul(m, n, k):
    def run():
        a, b = rand((m, k), jnp.int8), rand((k, n))
        return mixed.mixed_matmul_kernel(a, b, out_dtype=jnp.float32, config=config(mixed))

    return run


def attention_forward(form, q_len, kv_len, **fields):
    def run():
        config = attention.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2, **fields)
        q, k = rand((1, q_len, 2, 64), seed=1), rand((1, kv_len, 2, 64), seed=2)
        return getattr(attention, form)(q, k, rand(k.shape, seed=3), config)

    return run


OPTIONS = {"block_m": 64, "block_n": 64, "block_k": 64, "grid_block_n": 1}


def ragged_dot(*groups):
    def run():
        sizes = jnp.asarray(groups, jnp.int32)
        lhs, rhs = rand((sum(groups), 192)), rand((len(groups), 192, 128))
        return ragged.ragged_dot(
            lhs, rhs, group_sizes=sizes, max_concurrent_steps=2, transpose_rhs=False, **OPTIONS
        )

    return run


def transposed_ragged_dot(*groups):
    def run():
        sizes = jnp.asarray(groups, jnp.int32)
        lhs, rhs = rand((sum(groups), 64)), rand((sum(groups), 128))
        return transposed.transposed_ragged_dot(
            lhs, rhs, group_sizes=sizes, max_concurrent_steps=2, **OPTIONS
        )

    return run


RUNS = {
    "hopper_matmul": hopper_matmul(256, 256, 256),
    "hopper_matmul, one step": hopper_matmul(128, 128, 64),
    "hopper_matmul, deep pipeline": hopper_matmul(256, 256, 192, max_concurrent_steps=3),
    "hopper_matmul, cluster": hopper_matmul(
        256, 256, 256, cluster_dimension=hopper.MatmulDimension.M
    ),
    "mixed_matmul": mixed_matmul(256, 256, 192),
    "attention": attention_forward("attention", 256, 256),
    "attention, causal": attention_forward("attention", 256, 256, causal=True),
    "attention, emit_pipeline": attention_forward("attention_with_pipeline_emitter", 256, 128),
    "ragged_dot": ragged_dot(37, 91, 100, 28),
    "ragged_dot, empty group": ragged_dot(100, 0, 156),
    "transposed_ragged_dot": transposed_ragged_dot(37, 91, 100, 28),
}


def benchmark(name, **sizes):
    def run():
        case = getattr(benchmark_kernels, name)(**sizes)
        with benchmark_kernels.hopper():
            return case.fn(PARAMS)(*case.inputs)

    return run


RUNS |= {
    f"benchmark {name}": benchmark(name, **sizes)
    for name, sizes in {
        "add_grid": {"nblocks": 4},
        "add_direct": {"nblocks": 4},
        "pipe_axpb": {"rows": 256, "cols": 256},
        "wgmma_matmul": {"m": 128, "n": 128, "k": 128},
        "ws_pipe": {"rows": 256, "cols": 256},
        "ws_matmul": {"m": 128, "n": 128, "k": 128},
        "flash": {"seq": 128},
        "softmax": {"rows": 64, "cols": 128},
        "layernorm": {"rows": 64, "cols": 128},
        "pingpong": {"n": 20},
    }.items()
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", RUNS)
def test_only_what_stands_is_found(name):
    run = RUNS[name]
    with pallas_rs.simulate("h100", cores=4, params=PARAMS), pallas_rs.typed_errors():
        jax.block_until_ready(jax.jit(lambda: run())())
    report = pallas_rs.last_report()
    expected = {entry["code"] for entry in EXPECTED.get(name, [])}
    assert {f.code for f in report.findings} == expected, report
