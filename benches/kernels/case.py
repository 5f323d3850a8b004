"""What every benchmark kernel is made of."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import mosaic_gpu as plgpu


@dataclasses.dataclass
class Case:
    fn: Callable[[Any], Callable]
    inputs: tuple
    native: Callable | None
    work: dict
    rtol: float = 1e-5
    atol: float = 1e-5


def hopper():
    """Abstract H100, so that emit_pipeline can infer the architecture on CPU."""
    dev = jax.sharding.AbstractDevice(
        device_kind="NVIDIA H100 80GB HBM3", platform="gpu", num_cores=8
    )
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=dev))


def blackwell(num_cores=148):
    dev = jax.sharding.AbstractDevice(
        device_kind="NVIDIA B200", platform="gpu", num_cores=num_cores
    )
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=dev))


def uniform(shape, dtype=jnp.float32, seed=0):
    r = np.random.default_rng(seed)
    return jnp.asarray(r.uniform(-1, 1, shape).astype(np.float32)).astype(dtype)


def mma_transforms(cols, dtype):
    sw = plgpu.find_swizzle(cols * jnp.dtype(dtype).itemsize * 8)
    return (plgpu.TilingTransform((8, sw // jnp.dtype(dtype).itemsize)), plgpu.SwizzleTransform(sw))


def mha_native(q, k, v):
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
    p = jax.nn.softmax(s, axis=-1).astype(q.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", p, v, preferred_element_type=jnp.float32).astype(q.dtype)


def plgpu_force(params):
    from jax._src.pallas.mosaic_gpu.interpret.params import force_gpu_interpret_mode

    return force_gpu_interpret_mode(params) if params is not None else contextlib.nullcontext()
