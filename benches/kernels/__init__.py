"""Benchmark kernels for interpreters of Pallas Mosaic GPU kernels.

Every entry of BENCHES is a function `make(**sizes) -> Case`. A Case has
  fn(interpret)  -> python callable on the inputs, the Pallas kernel
  inputs         -> tuple of jax arrays
  native         -> the same maths as one jnp function (to be jitted)
  work           -> dict of what one call does: blocks, threads, flops, bytes,
                    and how many interpreter-visible operations it executes
  rtol/atol      -> how closely kernel and native must agree
They run on JAX 0.10.2 and newer.
"""

from .attention import flash, flash_upstream
from .blocks import add_direct, add_grid, empty_grid
from .case import Case, blackwell, hopper
from .elementwise import layernorm, pipe_axpb, softmax, ws_pipe
from .micro import micro
from .synchronisation import cluster_exchange, pingpong
from .tcgen05 import tcgen05_simple, tcgen05_upstream
from .wgmma import hopper_upstream, wgmma_matmul, ws_matmul

__all__ = ["BENCHES", "Case", "blackwell", "hopper"]

BENCHES = {
    f.__name__: f
    for f in (
        add_grid,
        add_direct,
        pipe_axpb,
        wgmma_matmul,
        ws_pipe,
        ws_matmul,
        flash,
        flash_upstream,
        softmax,
        layernorm,
        pingpong,
        cluster_exchange,
        tcgen05_upstream,
        tcgen05_simple,
        hopper_upstream,
        micro,
        empty_grid,
    )
}
