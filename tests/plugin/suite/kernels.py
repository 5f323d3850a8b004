"""Kernels of a package that knows nothing of pallas_rs."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


def num_sms():
    """How many blocks a persistent kernel launches."""
    return jax.devices()[0].core_count


def _scale(x_gmem, o_gmem, x_smem, o_smem, barrier, *, fence=True, wait=True):
    rows = pl.ds(lax.axis_index("block") * 64, 64)
    plgpu.copy_gmem_to_smem(x_gmem.at[rows], x_smem, barrier)
    if wait:
        plgpu.barrier_wait(barrier)
    o_smem[...] = x_smem[...] * 2
    if fence:
        plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows])
    plgpu.wait_smem_to_gmem(0)


def scale(x, **flags):
    """Twice the rows of ``x``, 64 at a time."""

    def scale_kernel(*refs):
        _scale(*refs, **flags)

    return plgpu.kernel(
        scale_kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 64,),
        grid_names=("block",),
        scratch_types=[
            plgpu.SMEM((64, x.shape[1]), x.dtype),
            plgpu.SMEM((64, x.shape[1]), x.dtype),
            plgpu.Barrier(),
        ],
    )(x)


def stuck(x):
    """Waits for a barrier on which nothing arrives."""

    def stuck_kernel(x_gmem, o_gmem, barrier):
        plgpu.barrier_wait(barrier)
        o_gmem[...] = x_gmem[...]

    return plgpu.kernel(
        stuck_kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_types=[plgpu.Barrier()],
    )(x)


def ordered(x):
    """Uses an op that pallas_rs leaves to XLA."""

    def sort_kernel(x_ref, o_ref):
        o_ref[...] = lax.sort(x_ref[...], dimension=0)

    return pl.pallas_call(sort_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32))(x)
