"""A deadlock, its report, and a picture of it."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import pallas_rs
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


def handshake(x_gmem, o_gmem, smem, loaded, consumed):
    """The producer fills the slot twice; the consumer forgets to give it back."""
    wg = lax.axis_index("wg")

    @pl.when(wg == 0)
    def _():
        plgpu.copy_gmem_to_smem(x_gmem, smem, loaded)
        plgpu.barrier_wait(consumed)
        plgpu.copy_gmem_to_smem(x_gmem, smem, loaded)

    @pl.when(wg == 1)
    def _():
        plgpu.barrier_wait(loaded)
        o_gmem[...] = smem[...]
        plgpu.barrier_wait(loaded)


def main(folder=None):
    folder = Path(folder or tempfile.mkdtemp())
    trace = folder / "handshake.json"
    kernel = plgpu.kernel(
        handshake,
        out_type=jax.ShapeDtypeStruct((128,), jnp.float32),
        num_threads=2,
        thread_name="wg",
        scratch_types=[plgpu.SMEM((128,), jnp.float32), plgpu.Barrier(), plgpu.Barrier()],
        interpret=pallas_rs.Params(trace=str(trace)),
    )
    try:
        with pallas_rs.typed_errors():
            kernel(jnp.ones(128))
    except pallas_rs.DeadlockError as error:
        print(error)
        pallas_rs.timeline(error.report).save(folder / "handshake.svg")
        print(f"\ntimeline: {trace}\npicture:  {folder / 'handshake.svg'}")
    else:
        raise AssertionError("the consumer never arrives, and nobody noticed")


if __name__ == "__main__":
    main()
