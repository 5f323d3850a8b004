"""Unions of refs in SMEM."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


def test_a_union_in_smem_takes_no_tensor_memory():
    """Its second member begins at an offset, which an H100 without TMEM must not count there."""

    def kernel(x, out):
        def body(union):
            [_, ref], _ = union
            ref[...] = x[...]
            out[...] = ref[...] + 1

        a = plgpu.SMEM((128,), jnp.int32)
        pl.run_scoped(body, plgpu.RefUnion([a, a], [plgpu.SMEM((256,), jnp.int32)]))

    x = jnp.arange(128, dtype=jnp.int32)
    with pallas_rs.simulate("h100"):
        call = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))
        np.testing.assert_array_equal(jax.jit(call)(x), np.arange(128) + 1)
