"""Bodies of each kind that real kernels have."""

import functools
import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pallas_rs
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

from .conftest import call, kernel, mapped
from .emit import (
    arith,
    array,
    at,
    c,
    i32,
    index,
    ir,
    llvm,
    memref,
    mgpu,
    nvvm,
    ptx,
    scf,
    to_index,
    utils,
    vector,
)
from .emit import math as mlir_math

L = plgpu.Layout
SDS = jax.ShapeDtypeStruct
F32 = jnp.float32


def test_fences_and_the_warpgroups_barrier():
    def body(o):
        @plgpu.inline_mgpu()
        def fences(_):
            nvvm.fence_proxy(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
            ptx("fence.proxy.async.global;")
            utils.warpgroup_barrier()

        fences()
        o[...] = jnp.ones((128,), F32)

    np.testing.assert_array_equal(call(kernel(body, SDS((128,), F32))), np.ones(128))


@pytest.mark.parametrize("layout", [L.WGMMA, L.WG_STRIDED((64, 64), vec_size=4)])
def test_arithmetic_of_arrays(rng, layout):
    x, y = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    out = mapped(lambda a, b: (a > b).select(a * b, b - a), [x, y], F32, layout)
    np.testing.assert_allclose(out, np.where(x > y, x * y, y - x), rtol=1e-6)


def test_broadcast_of_a_row(rng):
    def body(x_ref, r_ref, o_ref):
        @plgpu.inline_mgpu(
            arg_types=(L.WGMMA, L.WGMMA.reduce(1)),
            return_type=plgpu.ShapeDtypeStruct((64, 32), F32, L.WGMMA),
        )
        def scale(_, x, r):
            return x * r.broadcast_in_dim((64, 32), [0], layout=x.layout)

        o_ref[...] = scale(x_ref[...], r_ref[...])

    x, r = rng.standard_normal((64, 32)), rng.standard_normal(64)
    x, r = x.astype(np.float32), r.astype(np.float32)
    out = call(kernel(body, SDS((64, 32), F32)), x, r)
    np.testing.assert_allclose(out, x * r[:, None], rtol=1e-6)


def test_row_scale_from_shared_memory(rng):
    layout = L.WGMMA

    def body(s_ref, w_ref, o_ref, s_smem):
        s_smem[...] = s_ref[...]
        returned = plgpu.ShapeDtypeStruct((64, 64), jnp.bfloat16, layout)

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), layout), return_type=returned)
        def scale(_, s, w):
            utils.warpgroup_barrier()
            return w.foreach(lambda v, i: arith.mulf(v, memref.load(s, [i[0]])), create_array=True)

        o_ref[...] = scale(s_smem, w_ref[...])

    w = rng.standard_normal((64, 64)).astype(ml_dtypes.bfloat16)
    s = rng.standard_normal(64).astype(ml_dtypes.bfloat16)
    scratch = [plgpu.SMEM((64,), jnp.bfloat16)]
    out = call(kernel(body, SDS((64, 64), jnp.bfloat16), scratch), s, w)
    np.testing.assert_array_equal(np.asarray(out), w * s[:, None])


def test_reencoding_with_ptx(rng):
    """Swaps the bytes of each pair (prmt), flips sign bits (lop3)."""

    def reencode(x):
        out = np.empty_like(x.registers)
        to = ir.VectorType.get((4,), ir.Float8E4M3FNType.get())
        text = (
            "{ .reg .b32 m, s; mov.b32 m, 0x80808080; prmt.b32 s, $1, $1, 0x2301;"
            " lop3.b32 $0, s, m, s, 0x3c; }"
        )
        for i, r in np.ndenumerate(x.registers):
            word = llvm.inline_asm(i32(), [utils.bitcast(r, i32())], text, "=r,r")
            out[i] = utils.bitcast(word, to)
        return array(x, out)

    x = rng.integers(0, 256, 2048, dtype=np.uint8)
    out = mapped(reencode, [x], jnp.float8_e4m3fn, L.WG_STRIDED((2048,), vec_size=4))
    want = x.reshape(-1, 2)[:, ::-1].reshape(-1) ^ 0x80
    np.testing.assert_array_equal(out.view(np.uint8), want)


def test_assembly_with_two_results_and_packing(rng):
    def split(x):
        out = np.empty_like(x.registers)
        pair = ir.Type.parse("!llvm.struct<(i32, i32)>")
        text = "{ .reg .b16 a, b; mov.b32 {a, b}, $2; mov.b32 $0, {b, a}; and.b32 $1, $2, 0xff; }"
        for i, r in np.ndenumerate(x.registers):
            found = llvm.inline_asm(pair, [at(r, 0)], text, "=r,=r,r")
            parts = [
                llvm.extractvalue(i32(), found, ir.DenseI64ArrayAttr.get([k])) for k in range(2)
            ]
            out[i] = vector.broadcast(r.type, arith.xori(*parts))
        return array(x, out, signed=False)

    x = rng.integers(0, 2**32, 128, dtype=np.uint32)
    out = mapped(split, [x], jnp.uint32, L.WG_STRIDED((128,), vec_size=1))
    np.testing.assert_array_equal(out, (x << 16 | x >> 16) ^ (x & 255))


def test_nibbles_become_bytes(rng):
    layout = L.WG_STRIDED((1024,), vec_size=8)

    def unpack(x):
        out = np.empty_like(x.registers)
        i8 = ir.IntegerType.get_signless(8)
        for i, r in np.ndenumerate(x.registers):
            word = utils.bitcast(r, i32())
            parts = [
                arith.trunci(i8, arith.shrsi(arith.shli(word, c(28 - 4 * k)), c(28)))
                for k in range(8)
            ]
            out[i] = vector.from_elements(ir.VectorType.get((8,), i8), parts)
        return array(x, out, signed=True)

    def body(x_ref, o_ref):
        @plgpu.inline_mgpu(
            arg_types=(layout,), return_type=plgpu.ShapeDtypeStruct((1024,), jnp.int8, layout)
        )
        def widen(_, x):
            return unpack(x)

        o_ref[...] = widen(x_ref[...])

    x = rng.integers(-8, 8, 1024).astype(ml_dtypes.int4)
    out = call(kernel(body, SDS((1024,), jnp.int8)), jnp.asarray(x))
    np.testing.assert_array_equal(out, x.astype(np.int8))


def scatter(keep_shape=(64, 16), size=2048):
    """Each thread stores the elements it holds to rows that the data says, where a flag is set."""

    def body(keep_ref, to_ref, x_ref, o_ref):
        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), L.WGMMA, L.WGMMA, L.WGMMA))
        def store(_, o, keep, to, x):
            for i in np.ndindex(keep.registers.shape):
                for e in range(2):
                    k, t, v = (at(a.registers[i], e) for a in (keep, to, x))
                    with utils.when(arith.cmpi(arith.CmpIPredicate.sgt, k, c(0))):
                        memref.store(v, o, [to_index(t)])

        o_ref[...] = jnp.zeros((size,), F32)
        store(o_ref, keep_ref[...], to_ref[...], x_ref[...])

    return kernel(body, SDS((size,), F32))


def scatter_operands(rng):
    keep = rng.integers(-2, 2, (64, 16), dtype=np.int32)
    to = rng.permutation(2048)[:1024].reshape(64, 16).astype(np.int32)
    return keep, to, rng.standard_normal((64, 16)).astype(np.float32)


def test_scatter_to_rows_that_the_data_says(rng):
    keep, to, x = scatter_operands(rng)
    want = np.zeros(2048, np.float32)
    want[to[keep > 0]] = x[keep > 0]
    np.testing.assert_array_equal(call(scatter(), keep, to, x), want)


def test_a_scatter_past_the_end(rng, fails):
    keep, to, x = scatter_operands(rng)
    keep[1, 1], to[1, 1] = 1, 4096
    text = fails(pallas_rs.OutOfBoundsError, scatter(), keep, to, x)
    for part in ("`o_ref`", "[4096]", "CUDA thread 4 ", "test_bodies.py"):
        assert part in text, text


def solver(n, barrier):
    """The inverse of a unit lower triangle: thread c solves column c, top down."""

    def body(t_gmem, o_ref, t_ref, x_ref):
        returned = plgpu.ShapeDtypeStruct((n, n), F32, L.WGMMA)

        @plgpu.inline_mgpu(
            arg_types=(plgpu.RefType(), plgpu.RefType(), L.WGMMA), return_type=returned
        )
        def solve(_, t_ref, x_ref, t):
            f32 = ir.F32Type.get()
            t.store_untiled(t_ref, optimized=False)
            if barrier:
                utils.warpgroup_barrier()
            thread = arith.remui(utils.thread_idx(), c(128))
            with utils.when(arith.cmpi(arith.CmpIPredicate.ult, thread, c(n))):
                column = to_index(thread)
                zero, one, end = (c(k, index()) for k in (0, 1, n))
                rows = scf.ForOp(zero, end, one)
                with ir.InsertionPoint(rows.body):
                    i = rows.induction_variable
                    on_diagonal = arith.cmpi(arith.CmpIPredicate.eq, i, column)
                    start = arith.select(on_diagonal, c(1.0, f32), c(0.0, f32))
                    dot = scf.ForOp(zero, i, one, [start])
                    with ir.InsertionPoint(dot.body):
                        k, acc = dot.induction_variable, dot.inner_iter_args[0]
                        p = arith.negf(memref.load(t_ref, [i, k]))
                        scf.yield_([mlir_math.fma(p, memref.load(x_ref, [k, column]), acc)])
                    memref.store(dot.results[0], x_ref, [i, column])
                    scf.yield_([])
            utils.warpgroup_barrier()
            return mgpu.FragmentedArray.load_untiled(
                x_ref, layout=mgpu.WGMMA_LAYOUT, optimized=False
            )

        o_ref[...] = solve(t_ref, x_ref, t_gmem[...])

    return kernel(body, SDS((n, n), F32), [plgpu.SMEM((n, n), F32)] * 2)


def triangle(rng, n):
    t = np.tril(rng.standard_normal((n, n)) / math.sqrt(n), -1) + np.eye(n)
    return t.astype(np.float32)


def test_a_solver_in_shared_memory(rng):
    t = triangle(rng, 64)
    out = call(solver(64, barrier=True), t)
    np.testing.assert_allclose(out, np.linalg.inv(t.astype(np.float64)), atol=1e-4)


def test_a_butterfly_sum(rng):
    def total(x):
        (r,) = x.registers
        s = functools.reduce(arith.addf, [at(r, i) for i in range(4)])
        for d in (1, 2, 4):
            s = arith.addf(s, utils.shfl_bfly(s, d))
        return array(x, np.array([vector.broadcast(r.type, s)], object))

    x = rng.standard_normal(512).astype(np.float32)
    out = mapped(total, [x], F32, L.WG_STRIDED((512,), vec_size=4))
    np.testing.assert_allclose(out, np.repeat(x.reshape(-1, 32).sum(1), 32), rtol=1e-5)


def steps(v, n=0):
    return n if v <= 1 else steps(3 * v + 1 if v & 1 else v >> 1, n + 1)


def test_a_loop_with_a_trip_count_per_thread():
    """Collatz steps."""

    def collatz(x):
        w = scf.WhileOp([i32(), i32()], [at(x.registers[0], 0), c(0)])
        with ir.InsertionPoint(w.before.blocks.append(i32(), i32())):
            v, n = w.before.blocks[0].arguments
            scf.condition(arith.cmpi(arith.CmpIPredicate.sgt, v, c(1)), [v, n])
        with ir.InsertionPoint(w.after.blocks.append(i32(), i32())):
            v, n = w.after.blocks[0].arguments
            odd = arith.cmpi(arith.CmpIPredicate.eq, arith.andi(v, c(1)), c(1))
            odd_next = arith.addi(arith.muli(v, c(3)), c(1))
            following = arith.select(odd, odd_next, arith.shrui(v, c(1)))
            scf.yield_([following, arith.addi(n, c(1))])
        out = vector.broadcast(x.registers[0].type, w.results[1])
        return array(x, np.array([out], object), signed=True)

    x = np.arange(1, 129, dtype=np.int32)
    out = mapped(collatz, [x], jnp.int32, L.WG_STRIDED((128,), vec_size=1))
    np.testing.assert_array_equal(out, [steps(int(v)) for v in x])


@pytest.mark.parametrize(
    ("dtype", "swizzle"),
    [(jnp.bfloat16, 128), (F32, 128), (jnp.bfloat16, 64), (jnp.bfloat16, 32)],
)
def test_a_tiled_swizzled_view(dtype, swizzle):
    """Loads in the WGMMA layout, adds one, stores back through the same transforms."""
    size = jnp.dtype(dtype).itemsize
    transforms = (plgpu.TilingTransform((8, swizzle // size)), plgpu.SwizzleTransform(swizzle))

    def body(x_ref, o_ref, smem):
        smem[...] = x_ref[...]

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(transforms),))
        def add_one(_, ref):
            utils.warpgroup_barrier()
            x = mgpu.FragmentedArray.load_tiled(ref, swizzle=swizzle)
            utils.warpgroup_barrier()
            one = mgpu.FragmentedArray.splat(c(1.0, x.mlir_dtype), x.shape, layout=x.layout)
            (x + one).store_tiled(ref, swizzle=swizzle)
            utils.warpgroup_barrier()

        add_one(smem)
        o_ref[...] = smem[...]

    x = np.arange(64 * 128, dtype=np.float32).reshape(64, 128) % 256
    x = jnp.asarray(x, dtype)
    scratch = [plgpu.SMEM((64, 128), dtype, transforms=transforms)]
    out = call(kernel(body, SDS((64, 128), dtype), scratch), x)
    np.testing.assert_array_equal(out, x + 1)


def test_a_view_that_the_body_slices(rng):
    layout = L.WG_STRIDED((256,), vec_size=2)

    def body(src, k_ref, o):
        returned = plgpu.ShapeDtypeStruct((256,), F32, layout)

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), L.WG_SPLAT), return_type=returned)
        def row(_, src, k):
            part = mgpu.utils.memref_slice(src, (to_index(k.registers.item()),))
            return mgpu.FragmentedArray.load_strided(part, vec_size=2)

        o[...] = row(src, k_ref[0])

    src = rng.standard_normal((4, 256)).astype(np.float32)
    for k in range(4):
        out = call(kernel(body, SDS((256,), F32)), src, np.array([k], np.int32))
        np.testing.assert_array_equal(out, src[k])


def test_one_elected_thread(rng):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(),))
        def add(_, o):
            with utils.single_thread():
                place = [c(3, index())]
                two = c(2.0, ir.F32Type.get())
                memref.store(arith.addf(memref.load(o, place), two), o, place)

        add(o_ref)

    out = call(kernel(body, SDS((128,), F32)), np.ones(128, np.float32))
    np.testing.assert_array_equal(out, np.where(np.arange(128) == 3, 3, 1))


def test_a_copy_through_the_launch_context(rng):
    transforms = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def body(x_ref, o_ref, smem):
        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), plgpu.RefType(transforms), L.WGMMA))
        def store(ctx, dst, smem, x):
            x.store_tiled(smem, swizzle=128)
            mgpu.commit_shared()
            ctx.async_copy(
                src_ref=smem,
                dst_ref=dst,
                swizzle=128,
                gmem_transform=mgpu.TileTransform((8, 64)),
                gmem_slice=(mgpu.ds(64, 64),),
            )
            ctx.await_async_copy(0)

        store(o_ref, smem, x_ref[...])

    x = rng.standard_normal((64, 128)).astype(ml_dtypes.bfloat16)
    scratch = [plgpu.SMEM((64, 128), jnp.bfloat16, transforms=transforms)]
    out = call(kernel(body, SDS((128, 128), jnp.bfloat16), scratch), jnp.asarray(x))
    np.testing.assert_array_equal(np.asarray(out)[64:], x)
