"""Forward mode of `plgpu.kernel`: copies, barriers, threads, pipelines, tensor cores."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F16, F32, I32 = jnp.float16, jnp.float32, jnp.int32
COMPLETION = ["late", "eager", "random"]


def kernel_of(body, out, scratch=(), **kwargs):
    kwargs.setdefault("interpret", pallas_rs.Params())
    return plgpu.kernel(
        body, out_type=jax.ShapeDtypeStruct(*out), scratch_types=list(scratch), **kwargs
    )


def test_a_grid_and_scratch(check_jvp, rand):
    def body(x, y, o, s):
        rows = pl.ds(lax.axis_index("i") * 8, 8)
        s[...] = jnp.sin(x[rows])
        o[rows] = s[...] * y[rows]

    f = kernel_of(body, ((32,), F32), [plgpu.SMEM((8,), F32)], grid=(4,), grid_names=("i",))
    args, tangents = (rand(32), rand(32)), (rand(32), rand(32))
    check_jvp(f, lambda x, y: jnp.sin(x) * y, args, tangents)
    y = args[1]
    check_jvp(lambda x: f(x, y), lambda x: jnp.sin(x) * y, args[:1], tangents[:1])


@pytest.mark.parametrize("completion", COMPLETION)
def test_copies_on_a_barrier(check_jvp, rand, completion):
    def body(x, scale, o, x_s, scale_s, o_s, done):
        i = lax.axis_index("i")

        def step(j, carry):
            rows = pl.ds((i * 2 + j) * 8, 8)
            plgpu.copy_gmem_to_smem(x.at[rows], x_s, done)
            plgpu.copy_gmem_to_smem(scale.at[rows], scale_s, done)
            plgpu.barrier_wait(done)
            carry = carry + jnp.sin(x_s[...]) * scale_s[...].astype(F32)
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            o_s[...] = carry
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_s, o.at[rows])
            return carry

        lax.fori_loop(0, 2, step, jnp.zeros((8,), F32))
        plgpu.wait_smem_to_gmem(0)

    # The second operand is of integers: its copy arrives on the same barrier.
    scale = jnp.arange(32, dtype=I32) % 3
    kernel = kernel_of(
        body,
        ((32,), F32),
        [
            plgpu.SMEM((8,), F32),
            plgpu.SMEM((8,), I32),
            plgpu.SMEM((8,), F32),
            plgpu.Barrier(num_arrivals=2),
        ],
        grid=(2,),
        grid_names=("i",),
        interpret=pallas_rs.Params(async_completion=completion),
    )

    def twin(x):
        return jnp.cumsum((jnp.sin(x) * scale).reshape(2, 2, 8), 1).reshape(32)

    check_jvp(lambda x: kernel(x, scale), twin, (rand(32),), (rand(32),))


def test_a_constant_copied_beside_an_operand_with_a_tangent(check_jvp, rand):
    def body(x, y, o, x_s, y_s, done):
        plgpu.copy_gmem_to_smem(x, x_s, done)
        plgpu.copy_gmem_to_smem(y, y_s, done)
        plgpu.barrier_wait(done)
        o[...] = x_s[...] * y_s[...]

    f = kernel_of(
        body,
        ((16,), F32),
        [plgpu.SMEM((16,), F32)] * 2 + [plgpu.Barrier(num_arrivals=2)],
    )
    y = rand(16)
    check_jvp(lambda x: f(x, y), lambda x: x * y, (rand(16),), (rand(16),))


@pytest.mark.parametrize("completion", COMPLETION)
def test_commit_groups(check_jvp, rand, completion):
    def body(x, o, s):
        for i in range(4):
            s[i] = x[i] ** 2
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(s.at[i], o.at[i], commit_group=i % 2 == 1)
            plgpu.wait_smem_to_gmem(1)
        plgpu.wait_smem_to_gmem(0)

    f = kernel_of(
        body,
        ((4, 8), F32),
        [plgpu.SMEM((4, 8), F32)],
        interpret=pallas_rs.Params(async_completion=completion),
    )
    check_jvp(f, lambda x: x**2, (rand(4, 8),), (rand(4, 8),))


@pytest.mark.skipif(jax.__version_info__ < (0, 11), reason="needs jax 0.11")
@pytest.mark.parametrize("completion", COMPLETION)
def test_copies_without_a_barrier(check_jvp, rand, completion):
    def body(x, o, s):
        for i in range(4):
            plgpu.copy_gmem_to_smem(x.at[i], s.at[i])
        for i in range(4):
            # Of this many copies, each with its tangent, the oldest is complete.
            plgpu.wait_gmem_to_smem(3 - i)
            o[i] = jnp.sin(s[i])

    f = kernel_of(
        body,
        ((4, 128), F32),
        [plgpu.SMEM((4, 128), F32)],
        interpret=pallas_rs.Params(async_completion=completion),
    )
    check_jvp(f, jnp.sin, (rand(4, 128),), (rand(4, 128),))


def test_second_derivatives_of_copies_and_products(rand, close):
    def body(a, b, o, a_s, b_s, o_s, done):
        plgpu.copy_gmem_to_smem(a, a_s, done)
        plgpu.copy_gmem_to_smem(b, b_s, done)
        plgpu.barrier_wait(done)

        def multiply(acc):
            plgpu.wgmma(acc, a_s, b_s)
            plgpu.wgmma_wait(0)
            return acc[...]

        o_s[...] = pl.run_scoped(multiply, plgpu.ACC((64, 64), F32))
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_s, o)
        plgpu.wait_smem_to_gmem(0)

    scratch = [tiled((64, 64)), tiled((64, 64)), plgpu.SMEM((64, 64), F32)]
    f = kernel_of(body, ((64, 64), F32), [*scratch, plgpu.Barrier(num_arrivals=2)])
    a, b, s, t = (rand(64, 64).astype(F16) for _ in range(4))

    def twice(f):
        def once(a, b):
            return jax.jvp(f, (a, b), (s, t))

        return lambda a, b: jax.jvp(once, (a, b), (t, s))

    close(jax.jit(twice(f))(a, b), twice(dot)(a, b), tolerance=1e-2)


@pytest.mark.filterwarnings("ignore:.*core_map is deprecated")
def test_a_mesh_that_closes_over_refs(check_jvp, rand):
    def f(x):
        def body(refs):
            x, o = refs

            @pl.core_map(plgpu.Mesh(grid=(4,), grid_names=("i",)), interpret=pallas_rs.Params())
            def _():
                i = lax.axis_index("i")
                o[i] = jnp.sin(x[i]) * 2 + o[i]
                x[i] = x[i] * 3

        return pl.run_state(body)((x, x**2))

    def twin(x):
        return x * 3, jnp.sin(x) * 2 + x**2

    check_jvp(f, twin, (rand(4, 8),), (rand(4, 8),))


def test_a_store_that_adds(check_jvp, rand):
    def body(x, o, s):
        @pl.when(lax.axis_index("i") == 0)
        def _():
            s[...] = jnp.zeros((8,), F32)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(s, o)
            plgpu.wait_smem_to_gmem(0)

        s[...] = x[lax.axis_index("i")] ** 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o, reduction_op="add")
        plgpu.wait_smem_to_gmem(0)

    f = kernel_of(
        body,
        ((8,), F32),
        [plgpu.SMEM((8,), F32)],
        grid=(1,),
        grid_names=("i",),
    )
    check_jvp(f, lambda x: x[0] ** 2, (rand(4, 8),), (rand(4, 8),))


def test_threads_that_wait_for_each_other(check_jvp, rand):
    def body(x, o, s, ready, taken):
        w = lax.axis_index("w")

        def step(i, carry):
            @pl.when(w == 0)
            def _():
                s[...] = jnp.sin(x[i])
                plgpu.barrier_arrive(ready)
                plgpu.barrier_wait(taken)

            @pl.when(w == 1)
            def _():
                plgpu.barrier_wait(ready)
                o[i] = s[...] * x[i]
                plgpu.barrier_arrive(taken)

            return carry

        lax.fori_loop(0, 4, step, 0)

    f = kernel_of(
        body,
        ((4, 8), F32),
        [plgpu.SMEM((8,), F32), plgpu.Barrier(), plgpu.Barrier()],
        num_threads=2,
        thread_name="w",
    )
    check_jvp(f, lambda x: jnp.sin(x) * x, (rand(4, 8),), (rand(4, 8),))


def test_a_cluster(check_jvp, rand):
    def body(x, o, s, done):
        c = lax.axis_index("c")
        s[...] = jnp.sin(x[c])
        plgpu.barrier_arrive(done)
        plgpu.barrier_wait(done)
        o[c] = s[...] * x[1 - c]

    f = kernel_of(
        body,
        ((2, 8), F32),
        [plgpu.SMEM((8,), F32), plgpu.ClusterBarrier(collective_axes=("c",))],
        cluster=(2,),
        cluster_names=("c",),
    )

    check_jvp(f, lambda x: jnp.sin(x) * x[::-1], (rand(2, 8),), (rand(2, 8),))


@pytest.mark.parametrize("completion", COMPLETION)
def test_a_pipeline(check_jvp, rand, completion):
    def body(x, o):
        def step(_, x_s, o_s):
            o_s[...] = jnp.sin(x_s[...]) + 1

        spec = plgpu.BlockSpec((8, 16), lambda i, j: (i, j))
        plgpu.emit_pipeline(
            step,
            grid=(4, 2),
            in_specs=[spec],
            out_specs=[spec],
            max_concurrent_steps=2,
        )(x, o)

    f = kernel_of(
        body,
        ((32, 32), F32),
        interpret=pallas_rs.Params(async_completion=completion),
    )
    check_jvp(f, lambda x: jnp.sin(x) + 1, (rand(32, 32),), (rand(32, 32),))


def test_a_warp_specialized_pipeline(check_jvp, rand):
    def body(x, o, s):
        w = lax.axis_index("wg")
        half = pl.ds(w * 8, 8)

        def step(idx, x_s):
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            s[half] = jnp.sin(x_s[half])
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(s.at[half], o.at[pl.ds(idx[0] * 16 + w * 8, 8)])

        plgpu.emit_pipeline_warp_specialized(
            step,
            grid=(4,),
            in_specs=[plgpu.BlockSpec((16, 16), lambda i: (i, 0))],
            memory_registers=40,
            max_concurrent_steps=2,
            wg_axis="wg",
            num_compute_wgs=2,
        )(x)
        plgpu.wait_smem_to_gmem(0)

    f = kernel_of(
        body,
        ((64, 16), F32),
        [plgpu.SMEM((16, 16), F32)],
        num_threads=3,
        thread_name="wg",
    )
    check_jvp(f, jnp.sin, (rand(64, 16),), (rand(64, 16),))


def tiled(shape, dtype=F16):
    return plgpu.SMEM(
        shape,
        dtype,
        transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)),
    )


def dot(a, b):
    return jnp.dot(a, b, preferred_element_type=F32)


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("in_registers", [False, True])
def test_wgmma(rand, close, completion, in_registers):
    def body(a, b, o, a_s, b_s, done):
        plgpu.copy_gmem_to_smem(a, a_s, done)
        plgpu.copy_gmem_to_smem(b, b_s, done)
        plgpu.barrier_wait(done)

        def multiply(acc):
            plgpu.wgmma(acc, a_s[...] * 2 if in_registers else a_s, b_s)
            plgpu.wgmma(acc, a_s, b_s)
            plgpu.wgmma_wait(1)
            return acc[...]

        o[...] = pl.run_scoped(multiply, plgpu.ACC((64, 64), F32))

    f = kernel_of(
        body,
        ((64, 64), F32),
        [tiled((64, 64)), tiled((64, 64)), plgpu.Barrier(num_arrivals=2)],
        interpret=pallas_rs.Params(async_completion=completion),
    )

    def twin(a, b):
        return dot(a, b) * (3 if in_registers else 2)

    a, b, s, t = (rand(64, 64).astype(F16) for _ in range(4))
    actual = jax.jit(lambda: jax.jvp(f, (a, b), (s, t)))()
    np.testing.assert_array_equal(actual[0], f(a, b))
    close(actual, jax.jvp(twin, (a, b), (s, t)), tolerance=1e-3)
    close(
        jax.jvp(lambda b: f(a, b), (b,), (t,)),
        jax.jvp(lambda b: twin(a, b), (b,), (t,)),
        tolerance=1e-3,
    )


def test_an_accumulator_with_an_initial_value(rand, close):
    def body(a, b, c, o, a_s, b_s, done):
        plgpu.copy_gmem_to_smem(a, a_s, done)
        plgpu.copy_gmem_to_smem(b, b_s, done)
        plgpu.barrier_wait(done)

        def multiply(acc):
            plgpu.wgmma(acc, a_s, b_s)

        o[...] = pl.run_state(multiply)(plgpu.ACC.init(c[...] ** 2))

    f = kernel_of(
        body,
        ((64, 64), F32),
        [tiled((64, 64)), tiled((64, 64)), plgpu.Barrier(num_arrivals=2)],
    )

    def twin(a, b, c):
        return c**2 + dot(a, b)

    args = *(rand(64, 64).astype(F16) for _ in range(2)), rand(64, 64)
    tangents = *(rand(64, 64).astype(F16) for _ in range(2)), rand(64, 64)
    close(
        jax.jit(lambda: jax.jvp(f, args, tangents))(),
        jax.jvp(twin, args, tangents),
        tolerance=1e-3,
    )


def test_a_union_of_refs(check_jvp, rand):
    def body(x, n, o, union):
        floats, integers = union
        integers[...] = n[...] + 1
        count = integers[...]
        floats[...] = jnp.sin(x[...])
        o[...] = floats[...] * count

    f = kernel_of(
        body,
        ((8,), F32),
        [plgpu.RefUnion(plgpu.SMEM((8,), F32), plgpu.SMEM((8,), I32))],
    )
    n = jnp.arange(8, dtype=I32)
    check_jvp(lambda x: f(x, n), lambda x: jnp.sin(x) * (n + 1), (rand(8),), (rand(8),))


def test_prints_come_from_the_primal_call_alone(rand, capfd):
    def body(x, o):
        pl.debug_print("block {}", lax.axis_index("i"))
        o[...] = x[...] ** 2

    f = kernel_of(body, ((8,), F32), grid=(2,), grid_names=("i",))
    x = rand(8)
    jax.block_until_ready(jax.jvp(f, (x,), (x,)))
    jax.block_until_ready(jax.vmap(lambda t: jax.jvp(f, (x,), (t,)))(jnp.stack([x, x])))
    jax.effects_barrier()
    assert capfd.readouterr().out.count("block") == 4


def test_findings_come_from_the_primal_call_alone(rand):
    def body(x, o):
        o[0] = x[lax.axis_index("i")]

    f = kernel_of(
        body,
        ((1,), F32),
        grid=(2,),
        grid_names=("i",),
        interpret=pallas_rs.Params(detect_races=True, on_race="warn"),
    )
    x = rand(2)
    jax.block_until_ready(jax.jit(f)(x))
    alone = [f.code for f in pallas_rs.last_report().findings]
    before = pallas_rs.last_report().run_id
    jax.block_until_ready(jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x))
    pallas_rs.last_report()
    runs = [r for r in pallas_rs.reports() if r.run_id > before]
    assert len(runs) == 2
    assert alone
    assert [f.code for r in runs for f in r.findings] == alone


def test_an_operand_that_is_a_ref(rand, close):
    def body(x, state, o):
        rows = pl.ds(lax.axis_index("i") * 8, 8)
        o[rows] = x[rows] * state[rows]
        state[rows] = state[rows] + jnp.sin(x[rows])

    kernel = kernel_of(body, ((16,), F32), grid=(2,), grid_names=("i",))

    def f(x):
        state = jax.new_ref(2 * x)
        return kernel(x, state), jax.freeze(state)

    def twin(x):
        return x * 2 * x, 2 * x + jnp.sin(x)

    x, t = rand(16), rand(16)
    close(jvp(f, x, t), jvp(twin, x, t))
    if jax.__version_info__ >= (0, 11):  # JAX 0.10 takes no such operand under jit
        close(jax.jit(lambda x, t: jvp(f, x, t))(x, t), jvp(twin, x, t))
        np.testing.assert_array_equal(jax.jit(lambda x: jvp(f, x, t)[0])(x), jax.jit(f)(x))


def product(x, y):
    def body(x, y, o, s):
        rows = pl.ds(lax.axis_index("i") * 8, 8)
        s[...] = jnp.sin(x[rows])
        o[rows] = s[...] * y[rows]

    return kernel_of(body, ((16,), F32), [plgpu.SMEM((8,), F32)], grid=(2,), grid_names=("i",))(
        x, y
    )


def product_twin(x, y):
    return jnp.sin(x) * y


def jvp(function, x, t):
    return jax.jvp(function, (x,), (t,))


COMPOSITIONS = {
    "linearize": lambda f, x, y, t: [
        out if i == 0 else out(t) for i, out in enumerate(jax.linearize(lambda x: f(x, y), x))
    ],
    "jacfwd over a scalar": lambda f, x, y, t: jax.jacfwd(lambda s: f(s * x, y))(1.3),
    "jacfwd over a vector": lambda f, x, y, t: jax.jacfwd(lambda x: f(x, y))(x),
    "jacfwd of jacfwd": lambda f, x, y, t: jax.jacfwd(jax.jacfwd(lambda s: f(s * x, y).sum()))(1.3),
    "jvp of jvp": lambda f, x, y, t: jvp(lambda x: jvp(lambda x: f(x, y), x, t), x, 2 * t),
    "vmap of jvp": lambda f, x, y, t: jax.vmap(lambda x, t: jvp(lambda x: f(x, y), x, t))(
        jnp.stack([x, t]), jnp.stack([t, x])
    ),
    "vmap of jvp over tangents": lambda f, x, y, t: jax.vmap(
        lambda t: jvp(lambda x: f(x, y), x, t)
    )(jnp.stack([x, t])),
    "vmap of jvp over the other operand": lambda f, x, y, t: jax.vmap(
        lambda y: jvp(lambda x: f(x, y), x, t)
    )(jnp.stack([x, y])),
    "vmap of vmap of jvp": lambda f, x, y, t: jax.vmap(
        jax.vmap(lambda x, t: jvp(lambda x: f(x, y), x, t), (0, None)), (None, 0)
    )(jnp.stack([x, t]), jnp.stack([t, x])),
    "jvp of vmap": lambda f, x, y, t: jvp(
        jax.vmap(lambda x: f(x, y)), jnp.stack([x, t]), jnp.stack([t, x])
    ),
    "jvp of scan": lambda f, x, y, t: jvp(
        lambda x: lax.scan(lambda c, _: (f(c, y), c), x, None, length=3), x, t
    ),
    "linearize of checkpoint": lambda f, x, y, t: jax.linearize(
        jax.checkpoint(lambda x: f(x, y)), x
    )[1](t),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_composition(name, rand, close):
    compose = COMPOSITIONS[name]
    x, y, t = rand(16), rand(16), rand(16)
    actual = jax.jit(lambda x, y, t: compose(product, x, y, t))(x, y, t)
    close(actual, compose(product_twin, x, y, t))
