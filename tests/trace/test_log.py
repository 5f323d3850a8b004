"""`Params(logging_mode=...)`: what a run says as it goes."""

import enum
import logging

import jax
import jax.numpy as jnp
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


class Mode(enum.Flag):
    """As JAX's, which is private."""

    BARRIER = enum.auto()
    SEMAPHORE = enum.auto()
    SHARED_MEMORY = enum.auto()


def load(x_gmem, o_gmem, smem, loaded):
    plgpu.copy_gmem_to_smem(x_gmem, smem, loaded)
    plgpu.barrier_wait(loaded)
    o_gmem[...] = smem[...]


def waits_for_nobody(x_gmem, o_gmem, smem, loaded):
    plgpu.barrier_wait(loaded)


@pytest.fixture
def logged(caplog):
    def logged(kernel, mode):
        caplog.set_level(logging.INFO, logger="pallas_rs")
        run = plgpu.kernel(
            kernel,
            out_type=jax.ShapeDtypeStruct((128,), jnp.float32),
            scratch_types=[plgpu.SMEM((128,), jnp.float32), plgpu.Barrier()],
            interpret=pallas_rs.Params(logging_mode=mode),
        )
        try:
            jax.block_until_ready(run(jnp.ones(128)))
        finally:
            lines = [r.getMessage() for r in caplog.records if r.name == "pallas_rs"]
            # One barrier is an array of one in older JAX.
            told = [line.partition(", at ")[0] for line in lines]
            logged.lines = [line.replace("`loaded[0]`", "`loaded`") for line in told]
            logged.sources = [line.partition(", at ")[2] for line in lines]
        return logged.lines

    return logged


def test_barriers(logged):
    assert logged(load, Mode.BARRIER) == [
        "load: the only thread: barrier `loaded` begins",
        "load: the only thread: completes phase 0 of `loaded`",
        "load: the only thread: has waited for phase 0 of `loaded`",
        "load: the only thread: barrier `loaded` ends",
    ]
    line = load.__code__.co_firstlineno
    assert logged.sources[1] == f"{__file__}:{line + 1} in load"
    assert logged.sources[2] == f"{__file__}:{line + 2} in load"


def test_memory(logged):
    assert logged(load, Mode.SHARED_MEMORY) == [
        "load: the only thread: `smem` of float32[128] in SMEM begins",
        "load: the only thread: issues a TMA load that reads `x_gmem[0:128]`"
        " and writes `smem[0:128]`",
        "load: the only thread: reads `smem[0:128]`",
        "load: the only thread: writes `o_gmem[0:128]`",
        "load: the only thread: `smem` of float32[128] in SMEM ends",
    ]


def test_semaphores(caplog):
    def kernel(o_gmem):
        semaphore = pl.get_global(plgpu.SemaphoreType.REGULAR)
        block = lax.axis_index("block")

        @pl.when(block == 0)
        def _():
            o_gmem[...] = jnp.ones(128, jnp.float32)
            pl.semaphore_signal(semaphore)

        @pl.when(block == 1)
        def _():
            pl.semaphore_wait(semaphore)

    caplog.set_level(logging.INFO, logger="pallas_rs")
    plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((128,), jnp.float32),
        grid=(2,),
        grid_names=("block",),
        interpret=pallas_rs.Params(logging_mode=Mode.SEMAPHORE),
    )()
    jax.effects_barrier()
    lines = [r.getMessage().partition(", at ")[0] for r in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("kernel: grid point (0,): signals semaphore ")
    assert lines[1].startswith("kernel: grid point (1,): has waited for semaphore ")


def test_a_run_that_fails_tells_how_far_it_came(logged):
    with pytest.raises(jax.errors.JaxRuntimeError, match="DeadlockError"):
        logged(waits_for_nobody, Mode.BARRIER)
    assert logged.lines == [
        "waits_for_nobody: the only thread: barrier `loaded` begins",
    ]


@pytest.mark.parametrize("mode", [None, Mode(0)])
def test_nothing_is_logged_unless_asked_for(logged, mode):
    assert logged(load, mode) == []
