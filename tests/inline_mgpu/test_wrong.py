"""Bodies that are wrong, each beside the right one it differs from by a line."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

from .conftest import call, kernel, mapped
from .emit import arith, array, at, c, i32, ir, llvm, mgpu, nvvm, ptx, utils, vector
from .test_bodies import scatter, scatter_operands, solver, triangle

L = plgpu.Layout
SDS = jax.ShapeDtypeStruct
F32 = jnp.float32


def test_a_solver_without_its_barrier_races(rng, fails):
    t = triangle(rng, 64)
    call(solver(64, barrier=True), t, detect_races=True)
    text = fails(pallas_rs.RaceError, solver(64, barrier=False), t, detect_races=True)
    for part in ("CUDA thread", "`t_ref`", "without a barrier", "PRS-N5"):
        assert part in text, text


def test_two_threads_scatter_to_one_element(rng, fails):
    keep, to, x = scatter_operands(rng)
    call(scatter(), keep, to, x, detect_races=True)
    keep[0, 0] = keep[1, 1] = 1
    to[1, 1] = to[0, 0]
    text = fails(pallas_rs.RaceError, scatter(), keep, to, x, detect_races=True)
    assert f"[{to[0, 0]}]" in text, text
    assert "CUDA thread 0" in text, text


def barrier_in(threads):
    """A barrier that the first `threads` threads of the warpgroup reach."""

    def body(o):
        @plgpu.inline_mgpu()
        def wait(_):
            first = arith.cmpi(arith.CmpIPredicate.ult, utils.thread_idx(), c(threads))
            with utils.when(first):
                utils.warpgroup_barrier()

        wait()
        o[...] = jnp.ones((128,), F32)

    return kernel(body, SDS((128,), F32))


def test_a_barrier_that_some_threads_reach(fails):
    call(barrier_in(128))
    text = fails(pallas_rs.BarrierError, barrier_in(40))
    assert "40 of 128" in text, text
    assert "PRS-N3" in text, text


def test_a_barrier_that_some_warps_reach_waits_for_ever(fails):
    text = fails(pallas_rs.DeadlockError, barrier_in(64))
    assert "named barrier 1" in text, text
    assert "64" in text and "128" in text, text  # noqa: PT018


def vote(x):
    layout = L.WG_STRIDED((128,), vec_size=1)

    def body(x_ref, o_ref):
        @plgpu.inline_mgpu(
            arg_types=(layout,), return_type=plgpu.ShapeDtypeStruct((), jnp.bool_, L.WG_SPLAT)
        )
        def any_positive(_, x):
            positive = arith.cmpi(arith.CmpIPredicate.sgt, at(x.registers.flat[0], 0), c(0))
            found = nvvm.vote_sync(c(0xFFFFFFFF), positive, "any")
            return mgpu.FragmentedArray.splat(found, (), is_signed=False)

        o_ref[...] = jnp.full((128,), any_positive(x_ref[...]).astype(jnp.int32))

    return kernel(body, SDS((128,), jnp.int32)), x


def test_a_vote_of_each_warp_returned_as_one_value(fails):
    x = np.zeros(128, np.int32)
    assert not np.asarray(call(*vote(x))).any()
    x[::32] = 1
    assert np.asarray(call(*vote(x))).all()
    x[32:] = 0
    assert "not the same in every CUDA thread" in fails(pallas_rs.KernelError, *vote(x))


def load_from(element):
    def body(x_ref, o_ref, smem):
        smem[...] = x_ref[...]

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), plgpu.RefType()))
        def copy(_, smem, o):
            utils.warpgroup_barrier()
            four = ir.VectorType.get((4,), ir.F32Type.get())
            source = utils.memref_ptr(smem)
            place = llvm.getelementptr(source.type, source, [], [element], four.element_type, 0)
            loaded = llvm.load(four, place)
            llvm.store(loaded, utils.memref_ptr(o))

        copy(smem, o_ref)

    return kernel(body, SDS((4,), F32), [plgpu.SMEM((128,), F32)])


def test_a_vector_access_that_is_not_aligned(fails):
    x = np.arange(128, dtype=np.float32)
    np.testing.assert_array_equal(call(load_from(4), x), x[4:8])
    text = fails(pallas_rs.OutOfBoundsError, load_from(2), x)
    assert "divisible by 16" in text, text
    assert "`smem`" in text, text


def test_a_pointer_past_the_end(fails):
    x = np.arange(128, dtype=np.float32)
    call(load_from(124), x)
    assert "`smem`" in fails(pallas_rs.OutOfBoundsError, load_from(128), x)


def test_an_instruction_outside_the_table_is_refused(fails):
    def body(o):
        @plgpu.inline_mgpu()
        def stop(_):
            ptx("brkpt;")

        stop()
        o[...] = jnp.ones((128,), F32)

    text = fails(pallas_rs.UnsupportedError, kernel(body, SDS((128,), F32)))
    for part in ("`brkpt`", "stop", "test_wrong.py"):
        assert part in text, text


def test_what_needs_the_hosts_side_of_a_launch_is_refused(fails):
    def body(o):
        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(),))
        def prefetch(ctx, o):
            ctx.async_prefetch(gmem_ref=o)

        prefetch(o)

    text = fails(pallas_rs.UnsupportedError, kernel(body, SDS((128,), F32)))
    assert "LaunchContext.async_prefetch" in text, text


def agree(members):
    def any_above(x):
        (r,) = x.registers
        above = arith.cmpi(arith.CmpIPredicate.sgt, at(r, 0), c(40))
        found = nvvm.vote_sync(c(members), above, "any")
        return array(
            x, np.array([vector.broadcast(r.type, arith.extui(i32(), found))], object), True
        )

    return any_above


def test_a_vote_of_a_part_of_a_warp_is_refused():
    x, layout = np.arange(128, dtype=np.int32), L.WG_STRIDED((128,), vec_size=1)
    out = mapped(agree(0xFFFFFFFF), [x], jnp.int32, layout)
    np.testing.assert_array_equal(out, np.repeat([0, 1, 1, 1], 32))
    with pytest.raises(pallas_rs.UnsupportedError, match="whole warp"):
        mapped(agree(0xFFFF), [x], jnp.int32, layout)
