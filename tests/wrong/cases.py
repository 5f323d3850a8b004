"""Kernels with one mistake each, and the same kernels without it.

A case is a function of whether to make the mistake; what it returns runs the kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F32 = jnp.float32
N = 128
VECTOR = jax.ShapeDtypeStruct((N,), F32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A mistake.

    Attributes:
        code: What is found.
        build: `build(wrong)`: a function without arguments that runs the kernel.
        severity: How bad it is.
        target: The device.
        params: How to run it.
    """

    code: str
    build: Callable[[bool], Callable[[], Any]]
    severity: str = "error"
    target: str = "h100"
    params: dict[str, Any] = dataclasses.field(default_factory=dict)


CASES: dict[str, Case] = {}


def case(
    code: str, severity: str = "error", target: str = "h100", **params: Any
) -> Callable[..., Any]:
    """Adds a case under the function's name."""

    def add(build: Callable[[bool], Callable[[], Any]]) -> Callable[[bool], Callable[[], Any]]:
        CASES[build.__name__] = Case(code, build, severity, target, params)
        return build

    return add


def vector() -> jax.Array:
    return jnp.arange(N, dtype=F32)


def smem(shape: tuple[int, ...] = (N,), dtype: Any = F32) -> Any:
    return plgpu.SMEM(shape, dtype)


def kernel(
    body: Callable[..., None], scratch: Any, *, threads: int = 1, out: Any = VECTOR, **mesh: Any
) -> Any:
    """`plgpu.kernel` with an optional thread axis `w`."""
    if threads > 1:
        mesh |= {"num_threads": threads, "thread_name": "w"}
    return plgpu.kernel(body, out_type=out, scratch_types=scratch, **mesh)


def when_thread(index: int) -> Any:
    return pl.when(lax.axis_index("w") == index)


def ones() -> jax.Array:
    return jnp.ones((N,), F32)
