"""A copy in, a computation, a copy out: each missing synchronisation has its own name."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

SHAPE = jax.ShapeDtypeStruct((128,), jnp.float32)


def run(wait=True, fence=True, drain=True, **params):
    def body(x_gmem, o_gmem, x_smem, o_smem, ready):
        plgpu.copy_gmem_to_smem(x_gmem, x_smem, ready)
        if wait:
            plgpu.barrier_wait(ready)
        o_smem[...] = x_smem[...] * 2
        if fence:
            plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem)
        if drain:
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        o_smem[...] = jnp.zeros((128,), jnp.float32)

    kernel = plgpu.kernel(
        body,
        out_type=SHAPE,
        scratch_types=[plgpu.SMEM((128,), jnp.float32)] * 2 + [plgpu.Barrier()],
        interpret=pallas_rs.Params(detect_races=True, **params),
    )
    return np.asarray(jax.jit(kernel)(jnp.arange(128, dtype=jnp.float32)))


def test_the_right_kernel_is_clean():
    np.testing.assert_array_equal(run(), np.arange(128) * 2)
    assert pallas_rs.last_report().findings == ()


@pytest.mark.parametrize(
    ("missing", "code", "advice"),
    [
        ("wait", "PRS-C1", "barrier_wait on `ready"),
        ("fence", "PRS-B1", "commit_smem()"),
        ("drain", "PRS-C3", "wait_smem_to_gmem(0, wait_read_only=True)"),
    ],
)
def test_what_is_missing_is_named(missing, code, advice):
    with pytest.raises(pallas_rs.RaceError) as caught, pallas_rs.typed_errors():
        run(**{missing: False})
    text = str(caught.value)
    assert code in text.splitlines()[0]
    assert advice in text
    assert "test_races.py" in text


def test_a_race_may_be_a_warning():
    run(fence=False, on_race="warn")
    assert [f.code for f in pallas_rs.last_report().findings] == ["PRS-B1"]
