"""`plgpu.kernel`: grid, threads, arguments, scratch."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

I32 = jnp.int32


def test_every_point_of_grid_and_threads_runs_once(run):
    def body(o):
        i, j, w = (lax.axis_index(a) for a in ("i", "j", "w"))
        o[i, j, w] = i * 100 + j * 10 + w

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((2, 3, 4), I32),
        grid=(2, 3),
        grid_names=("i", "j"),
        num_threads=4,
        thread_name="w",
    )
    i, j, w = np.indices((2, 3, 4))
    np.testing.assert_array_equal(run(kernel), i * 100 + j * 10 + w)


def test_program_id_counts_grid_then_threads(run):
    def body(o):
        ids = [pl.program_id(a) for a in range(3)]
        o[ids[0], ids[1], ids[2]] = ids[0] * 100 + ids[1] * 10 + ids[2]
        assert [pl.num_programs(a) for a in range(3)] == [2, 3, 2]

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((2, 3, 2), I32),
        grid=(2, 3),
        grid_names=("i", "j"),
        num_threads=2,
        thread_name="w",
    )
    i, j, w = np.indices((2, 3, 2))
    np.testing.assert_array_equal(run(kernel), i * 100 + j * 10 + w)


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
def test_threads_share_one_allocation(run, threads):
    def body(o, shared, done):
        w = lax.axis_index("w")
        shared[w] = jnp.full((8,), w, I32)
        plgpu.barrier_arrive(done)
        plgpu.barrier_wait(done)
        o[w] = shared[lax.rem(w + 1, I32(threads))]

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((threads, 8), I32),
        num_threads=threads,
        thread_name="w",
        scratch_types=[
            plgpu.SMEM((threads, 8), I32),
            plgpu.Barrier(num_arrivals=threads),
        ],
    )
    want = np.roll(np.arange(threads), -1)[:, None] * np.ones((1, 8), int)
    np.testing.assert_array_equal(run(kernel), want)


def test_no_grid_and_no_threads(run, rand):
    def body(x, o):
        o[...] = x[...] + 1

    x = rand((16, 8))
    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))
    np.testing.assert_array_equal(run(kernel, x), x + 1)


def test_scratch_may_be_a_dict(run, rand):
    def body(x, o, *, buffers, done):
        plgpu.copy_gmem_to_smem(x, buffers, done)
        plgpu.barrier_wait(done)
        o[...] = buffers[...]

    x = rand((16, 8))
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_types={"buffers": plgpu.SMEM((16, 8), jnp.float32), "done": plgpu.Barrier()},
    )
    np.testing.assert_array_equal(run(kernel, x), x)


def test_a_scope_in_a_loop_is_new_memory_each_time(run):
    def body(o):
        def step(i, total):
            def inner(s):
                first = s[...]
                s[...] = jnp.full((4,), i, jnp.float32)
                return total + jnp.isnan(first).astype(jnp.float32)

            return pl.run_scoped(inner, plgpu.SMEM((4,), jnp.float32))

        o[...] = lax.fori_loop(0, 5, step, jnp.zeros((4,), jnp.float32))

    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((4,), jnp.float32))
    np.testing.assert_array_equal(run(kernel), np.full(4, 5.0))


def test_collective_scope(run):
    def body(o):
        w = lax.axis_index("w")

        def inner(s, done):
            s[w] = jnp.full((4,), w, I32)
            plgpu.barrier_arrive(done)
            plgpu.barrier_wait(done)
            o[w] = s[1 - w]

        pl.run_scoped(
            inner,
            plgpu.SMEM((2, 4), I32),
            plgpu.Barrier(num_arrivals=2),
            collective_axes="w",
        )

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((2, 4), I32),
        num_threads=2,
        thread_name="w",
    )
    np.testing.assert_array_equal(run(kernel), [[1] * 4, [0] * 4])


def test_a_thread_cannot_have_shared_memory_of_its_own(run):
    def body(o):
        pl.run_scoped(lambda s: None, plgpu.SMEM((8,), I32))

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8,), I32),
        num_threads=2,
        thread_name="w",
    )
    with pytest.raises(pallas_rs.UnsupportedError, match="collective_axes='w'"):
        run(kernel)


def test_accumulator_memory_and_barrier_in_one_list(run, rand):
    def body(a, b, o, acc, a_s, b_s, done):
        plgpu.copy_gmem_to_smem(a, a_s, done)
        plgpu.copy_gmem_to_smem(b, b_s, done)
        plgpu.barrier_wait(done)
        plgpu.wgmma(acc, a_s, b_s)
        o[...] = acc[...]

    a, b = rand((64, 64), jnp.float16, 1), rand((64, 64), jnp.float16, 2)
    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((64, 64), jnp.float32),
        scratch_types=[
            plgpu.ACC((64, 64), jnp.float32),
            plgpu.SMEM((64, 64), jnp.float16, transforms=tiled),
            plgpu.SMEM((64, 64), jnp.float16, transforms=tiled),
            plgpu.Barrier(num_arrivals=2),
        ],
    )
    want = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    np.testing.assert_allclose(run(kernel, a, b), want, atol=1e-3)


def test_members_of_a_union(run, rand):
    def body(x, o, union, done):
        f32, (i32,) = union
        plgpu.copy_gmem_to_smem(x, f32, done)
        plgpu.barrier_wait(done)
        value = f32[...]
        i32[...] = value.astype(I32)
        o[...] = i32[...]

    x = rand((64, 64)) * 100
    tiled = (plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128))
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((64, 64), I32),
        scratch_types=[
            plgpu.RefUnion(
                plgpu.SMEM((64, 64), jnp.float32, transforms=tiled),
                [plgpu.SMEM((64, 64), I32)],
            ),
            plgpu.Barrier(),
        ],
    )
    np.testing.assert_array_equal(run(kernel, x), x.astype(I32))


@pytest.mark.parametrize("dtype", [I32, jnp.float32, jnp.uint8, jnp.bool_])
def test_a_traced_scalar_may_be_closed_over(run, dtype):
    def call(scale, x):
        def body(x, o):
            o[...] = x[...] * scale.astype(jnp.float32)

        return plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((8,), jnp.float32))(x)

    x = jnp.arange(8, dtype=jnp.float32)
    np.testing.assert_array_equal(run(call, jnp.asarray(1, dtype), x), x)


def test_refs_may_be_arguments(run):
    if jax.__version_info__ < (0, 11):
        pytest.skip("JAX before 0.11 cannot pass a ref into a kernel under jit")

    def call(x, y):
        ref = jax.new_ref(x)

        def body(ref, y, o):
            o[...] = ref[...] + y[...]
            ref[...] = y[...]

        kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((8,), jnp.float32))
        return kernel(ref, y), ref[...]

    x, y = jnp.arange(8.0), jnp.ones(8)
    total, after = run(call, x, y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(after, y)


@pytest.mark.parametrize("levels", [1, 2])
def test_vmap(run, rand, levels):
    def body(x, y, o, s, done):
        plgpu.copy_gmem_to_smem(x.at[pl.ds(lax.axis_index("i") * 8, 8)], s, done)
        plgpu.barrier_wait(done)
        s[...] = s[...] + y[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o.at[pl.ds(lax.axis_index("i") * 8, 8)])
        plgpu.wait_smem_to_gmem(0)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((32,), jnp.float32),
        grid=(4,),
        grid_names=("i",),
        scratch_types=[plgpu.SMEM((8,), jnp.float32), plgpu.Barrier()],
    )
    call = kernel
    for _ in range(levels):
        call = jax.vmap(call, in_axes=(0, None))
    x, y = rand((*(3, 2)[:levels], 32)), rand((8,), seed=1)
    np.testing.assert_array_equal(run(call, x, y), x + jnp.tile(y, 4))


def test_loads_stores_and_hints(run, rand):
    def body(x, o, s):
        plgpu.set_max_registers(40, action="decrease")
        s[...] = x[...]
        if jax.__version_info__ < (0, 11):
            value = plgpu.load(s, (), layout=plgpu.Layout.WG_STRIDED((16, 8), vec_size=1))
        else:
            value = plgpu.load(s, layout=plgpu.Layout.WG_STRIDED((16, 8), vec_size=1))
        value = plgpu.layout_cast(value, plgpu.Layout.WG_STRIDED((16, 8), vec_size=1))
        if hasattr(plgpu, "store"):
            plgpu.store(s, value * 2)
        else:
            s[...] = value * 2
        o[...] = s[...]

    x = rand((16, 8))
    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_types=[plgpu.SMEM((16, 8), jnp.float32)],
    )
    np.testing.assert_array_equal(run(kernel, x), x * 2)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_reductions_of_plgpu(run, rand, name):
    if not hasattr(plgpu, name):
        pytest.skip("this JAX has no plgpu reductions")
    reduce = getattr(plgpu, name)

    def body(x, o):
        o[...] = reduce(x[...], axis=1)

    x = rand((4, 8))
    kernel = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((4,), jnp.float32))
    np.testing.assert_allclose(run(kernel, x), getattr(np, name)(x, axis=1), rtol=1e-5)


def test_prints_are_in_order_per_thread(run, capfd):
    def body(o):
        w = lax.axis_index("w")

        def step(i, carry):
            pl.debug_print("thread {} step {}", w, i)
            return carry

        lax.fori_loop(0, 5, step, 0)
        o[w] = w

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((3,), I32),
        num_threads=3,
        thread_name="w",
    )
    run(kernel)
    jax.effects_barrier()
    lines = [line for line in capfd.readouterr().out.splitlines() if "step" in line]
    for w in range(3):
        mine = [line for line in lines if f"thread {w} step" in line]
        assert [int(line.split()[-1]) for line in mine] == list(range(5))


def test_memory_is_poisoned_until_written(run):
    def body(o, s):
        o[...] = s[...]

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8,), jnp.float32),
        scratch_types=[plgpu.SMEM((8,), jnp.float32)],
    )
    assert np.isnan(run(kernel)).all()
    np.testing.assert_array_equal(run(kernel, uninitialized_memory="zero"), np.zeros(8))


def divided(x, n):
    def body(x, o):
        o[...] = x[...] // n

    return plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((8,), I32))(x)


def guarded(x, n):
    def body(x, o):
        o[...] = jnp.where(n == 0, 7, lax.div(x[...], jnp.full((8,), n)))
        o[0] = jnp.where(n == 0, 8, x[0] // n)

    return plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((8,), I32))(x)


def test_a_division_by_zero_is_an_error(fails):
    fails(pallas_rs.ArithmeticFaultError, divided, jnp.arange(8), I32(0))


def test_a_division_by_zero_that_is_discarded_is_none(run):
    x = jnp.arange(8)
    np.testing.assert_array_equal(run(guarded, x, I32(0)), [8] + [7] * 7)
    np.testing.assert_array_equal(run(guarded, x, I32(2)), x // 2)


def test_what_is_left_to_later_says_so(run):
    def body(o, s):
        pl.semaphore_signal(s, device_id=0)
        o[...] = jnp.zeros((8,), jnp.float32)

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8,), jnp.float32),
        scratch_types=[plgpu.SemaphoreType.REGULAR],
    )
    with pytest.raises(pallas_rs.UnsupportedError, match=r"semaphore_signal.*\n.*test_kernel\.py"):
        run(kernel)


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ({"grid": (-1,), "grid_names": ("x",)}, "grid dimension 0 is -1"),
        ({"cluster": (0,), "cluster_names": ("c",)}, "cluster dimension 0 is 0"),
        ({"num_threads": 0, "thread_name": "t"}, "num_threads is 0"),
        ({"grid": (2, 2), "grid_names": ("g", "g")}, "two axes .* 'g'"),
    ],
)
def test_a_mesh_that_no_launch_has_is_refused(mesh, said):
    kernel = plgpu.kernel(
        lambda o: None,
        out_type=jax.ShapeDtypeStruct((8,), jnp.float32),
        interpret=pallas_rs.Params(),
        **mesh,
    )
    with pytest.raises(pallas_rs.InvalidGridError, match=said):
        kernel()
