"""`emit_pipeline`, `emit_pipeline_warp_specialized` and `nd_loop`, bounds at run time included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F32, I32 = jnp.float32, jnp.int32
COMPLETION = ["late", "eager", "random"]


def doubling_pipeline(steps, columns, concurrent):
    def step(_, x_s, o_s):
        o_s[...] = x_s[...] * 2 + 1

    spec = plgpu.BlockSpec((8, 16), lambda i, j: (i, j))
    return plgpu.emit_pipeline(
        step,
        grid=(steps, columns),
        in_specs=[spec],
        out_specs=[spec],
        max_concurrent_steps=concurrent,
    )


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("concurrent", [1, 2, 3, 20])
def test_inputs_and_outputs(run, rand, concurrent, completion):
    def body(x, o):
        doubling_pipeline(4, 2, concurrent)(x, o)

    x = rand((32, 32))
    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(x.shape, F32))
    np.testing.assert_array_equal(run(kernel, x, async_completion=completion), x * 2 + 1)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("concurrent", [1, 2, 4])
def test_a_bound_known_at_run_time(run, rand, steps, concurrent):
    def body(n, x, o):
        o[...] = jnp.zeros((32, 32), F32)
        doubling_pipeline(n[0], 2, concurrent)(x, o)

    x = rand((32, 32))
    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(x.shape, F32))
    want = np.where(np.arange(32)[:, None] < steps * 8, x * 2 + 1, 0)
    np.testing.assert_array_equal(run(kernel, jnp.asarray([steps], I32), x), want)


def test_a_carry(run, rand):
    def body(x, o):
        def step(_, x_s, carry):
            return carry + x_s[...]

        total = plgpu.emit_pipeline(
            step,
            grid=(4,),
            in_specs=[plgpu.BlockSpec((8, 16), lambda i: (i, 0))],
            max_concurrent_steps=2,
            init_carry=jnp.zeros((8, 16), F32),
        )(x)
        o[...] = total

    x = rand((32, 16))
    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((8, 16), F32))
    np.testing.assert_allclose(run(kernel, x), x.reshape(4, 8, 16).sum(0), rtol=1e-6)


def test_an_index_map_that_reads_a_table(run, rand):
    def body(table, x, o):
        def step(idx, x_s, o_s):
            o_s[...] = x_s[...]

        plgpu.emit_pipeline(
            step,
            grid=(4,),
            in_specs=[plgpu.BlockSpec((8, 16), lambda i: (table[i], 0))],
            out_specs=[plgpu.BlockSpec((8, 16), lambda i: (i, 0))],
            max_concurrent_steps=2,
        )(x, o)

    x, table = rand((32, 16)), jnp.asarray([3, 1, 1, 0], I32)
    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((32, 16), F32))
    want = np.asarray(x).reshape(4, 8, 16)[np.asarray(table)].reshape(32, 16)
    np.testing.assert_array_equal(run(kernel, table, x), want)


def specialized_kernel(steps, concurrent):
    """Doubles 16-row tiles: a memory thread loads, two others compute and store halves."""

    def body(n, x, o, s):
        w = lax.axis_index("wg")
        half = pl.ds(w * 8, 8)

        def step(idx, x_s):
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            s[half] = x_s[half] * 2 + 1
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(s.at[half], o.at[pl.ds(idx[0] * 16 + w * 8, 8)])

        plgpu.emit_pipeline_warp_specialized(
            step,
            grid=(n[0] if steps is None else steps,),
            in_specs=[plgpu.BlockSpec((16, 16), lambda i: (i, 0))],
            memory_registers=40,
            max_concurrent_steps=concurrent,
            wg_axis="wg",
            num_compute_wgs=2,
        )(x)
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((64, 16), F32),
        scratch_types=[plgpu.SMEM((16, 16), F32)],
        num_threads=3,
        thread_name="wg",
    )


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("concurrent", [2, 3])
def test_warp_specialized(run, rand, concurrent, completion):
    x = rand((64, 16))
    kernel = specialized_kernel(4, concurrent)
    got = run(kernel, jnp.zeros((1,), I32), x, async_completion=completion)
    np.testing.assert_array_equal(got, x * 2 + 1)


@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_warp_specialized_with_a_bound_known_at_run_time(run, rand, steps):
    x = rand((64, 16))
    kernel = specialized_kernel(None, 2)
    got = run(kernel, jnp.asarray([steps], I32), x, uninitialized_memory="zero")
    want = np.where(np.arange(64)[:, None] < steps * 16, x * 2 + 1, 0)
    np.testing.assert_array_equal(got, want)


def test_warp_specialized_stores(run, rand):
    """With one computing thread the pipeline itself may store."""

    def body(x, o):
        def step(_, x_s, o_s):
            o_s[...] = x_s[...] * 2 + 1

        spec = plgpu.BlockSpec((16, 16), lambda i: (i, 0))
        plgpu.emit_pipeline_warp_specialized(
            step,
            grid=(4,),
            in_specs=[spec],
            out_specs=[spec],
            memory_registers=40,
            max_concurrent_steps=2,
            wg_axis="wg",
            num_compute_wgs=1,
        )(x, o)

    x = rand((64, 16))
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((64, 16), F32),
        num_threads=2,
        thread_name="wg",
    )
    np.testing.assert_array_equal(run(kernel, x), x * 2 + 1)


def test_warp_specialized_with_a_carry_and_its_own_barriers(run, rand):
    def body(x, o):
        w = lax.axis_index("wg")

        def step(_, x_s, consumed, carry):
            value = carry + x_s[pl.ds(w * 8, 8)]
            plgpu.barrier_arrive(consumed)
            return value

        def compute(pipeline):
            o[pl.ds(w * 8, 8)] = pipeline(jnp.zeros((8, 16), F32))

        plgpu.emit_pipeline_warp_specialized(
            step,
            grid=(4,),
            in_specs=[plgpu.BlockSpec((16, 16), lambda i: (i, 0))],
            memory_registers=40,
            max_concurrent_steps=2,
            wg_axis="wg",
            num_compute_wgs=2,
            manual_consumed_barriers=True,
            compute_context=compute,
        )(x)

    x = rand((64, 16))
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((16, 16), F32),
        num_threads=3,
        thread_name="wg",
    )
    np.testing.assert_allclose(run(kernel, x), x.reshape(4, 16, 16).sum(0), rtol=1e-6)


@pytest.mark.parametrize("grid", [1, 3, 8])
@pytest.mark.parametrize("bounds", [(5, 3), (0, 3), (1, 1)])
def test_nd_loop(run, grid, bounds):
    """Every index is visited once, whatever the number of blocks that share the loop."""

    def call(n, m):
        def body(o):
            @plgpu.nd_loop((n, m), collective_axes="i")
            def _(info):
                i, j = info.index
                o[i, j] = i * 10 + j

        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((5, 3), I32),
            grid=(grid,),
            grid_names=("i",),
        )()

    n, m = bounds
    got = run(call, I32(n), I32(m), uninitialized_memory="zero")
    i, j = np.indices((5, 3))
    np.testing.assert_array_equal(got, np.where((i < n) & (j < m), i * 10 + j, 0))


def test_nd_loop_with_a_carry(run):
    def body(o):
        @plgpu.nd_loop((7,), collective_axes="i", init_carry=I32(0))
        def total(info, carry):
            return carry + info.index[0]

        o[lax.axis_index("i")] = total

    kernel = plgpu.kernel(
        body, out_type=jax.ShapeDtypeStruct((2,), I32), grid=(2,), grid_names=("i",)
    )
    np.testing.assert_array_equal(run(kernel), [0 + 2 + 4 + 6, 1 + 3 + 5])
