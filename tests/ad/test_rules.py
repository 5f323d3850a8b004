"""Rules for primitives that the machine does not run, or whose way of working matters.

Some are run on JAX's own interpreter, whose calls are declared ours for the test. Of the
others the differentiated kernel is looked at.
"""

import collections

import jax
import jax.numpy as jnp
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from pallas_rs._ad import _calls

F16, F32, I32 = jnp.float16, jnp.float32, jnp.int32
NEW_JAX = jax.__version_info__ >= (0, 11)
needs_new_jax = pytest.mark.skipif(not NEW_JAX, reason="needs jax 0.11")


@pytest.fixture
def jax_interpreter(monkeypatch):
    """Parameters of JAX's interpreter, whose calls the rules take for ours."""
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

    monkeypatch.setattr(_calls, "is_ours", lambda i: isinstance(i, InterpretGPUParams))
    monkeypatch.setattr(_calls, "quiet", lambda i: i)
    return InterpretGPUParams()


def kernel_of(body, out, scratch=(), **kwargs):
    kwargs.setdefault("interpret", pallas_rs.Params())
    return plgpu.kernel(
        body, out_type=jax.ShapeDtypeStruct(*out), scratch_types=list(scratch), **kwargs
    )


def tiled(shape):
    return plgpu.SMEM(
        shape,
        F16,
        transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)),
    )


def dot(a, b):
    return jnp.dot(a, b, preferred_element_type=F32)


@needs_new_jax
def test_tensor_memory(check_jvp, rand, jax_interpreter):
    def body(x, o, t):
        plgpu.async_store_tmem(t, jnp.sin(x[...]))
        plgpu.commit_tmem()
        o[...] = plgpu.async_load_tmem(t) * 2
        plgpu.wait_load_tmem()

    f = kernel_of(body, ((128, 64), F32), [plgpu.TMEM((128, 64), F32)], interpret=jax_interpreter)
    check_jvp(f, lambda x: jnp.sin(x) * 2, (rand(128, 64),), (rand(128, 64),))


@needs_new_jax
@pytest.mark.parametrize("by_commit", [False, True])
def test_tcgen05(rand, close, jax_interpreter, by_commit):
    def body(a, b, o, a_s, b_s, acc, done):
        a_s[...] = a[...]
        b_s[...] = b[...]
        plgpu.commit_smem()
        plgpu.tcgen05_mma(acc, a_s, b_s, accumulate=False)
        plgpu.tcgen05_mma(acc, a_s, b_s, None if by_commit else done)
        if by_commit:
            plgpu.tcgen05_commit_arrive(done)
        plgpu.barrier_wait(done)
        o[...] = plgpu.async_load_tmem(acc)

    f = kernel_of(
        body,
        ((128, 128), F32),
        [
            tiled((128, 64)),
            tiled((64, 128)),
            plgpu.TMEM((128, 128), F32),
            plgpu.Barrier(orders_tensor_core=True),
        ],
        interpret=jax_interpreter,
    )
    a, s = (rand(128, 64).astype(F16) for _ in range(2))
    b, t = (rand(64, 128).astype(F16) for _ in range(2))
    close(
        jax.jit(lambda: jax.jvp(f, (a, b), (s, t)))(),
        jax.jvp(lambda a, b: 2 * dot(a, b), (a, b), (s, t)),
        tolerance=1e-3,
    )


def warp_map(body):
    """Runs `body` on each warp."""
    mesh = plgpu.WarpMesh(axis_name="warp")
    if NEW_JAX:
        pl.kernel(body, mesh=mesh, out_type=())()
    else:
        pl.core_map(mesh)(body)


def test_warps(rand):
    def body(x, o):
        def warp():
            w = lax.axis_index("warp")
            o[w] = x[w] ** 2

        warp_map(warp)

    counts = primitives_of_tangent_kernel(kernel_of(body, ((4,), F32)), rand(4))
    assert counts["mpmd_map" if NEW_JAX else "core_map"] == 1
    # One load and one store for the primal, and the same for the tangent.
    assert counts["get"] == counts["swap"] == 2


def primitives_of_tangent_kernel(f, *args):
    """How often the second kernel of `jax.jvp(f)` names each primitive."""
    jaxpr = jax.make_jaxpr(lambda *args: jax.jvp(f, args, args))(*args)
    launches = []

    def visit(jaxpr, found):
        for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
            found[eqn.primitive.name.removesuffix("_p")] += 1
            if eqn.primitive.name == "mpmd_map" and found is outside:
                launches.append(eqn.params["jaxprs"][0])
                continue
            for value in eqn.params.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    if hasattr(inner, "eqns"):
                        visit(inner, found)
        return found

    outside = collections.Counter()
    visit(jaxpr, outside)
    primal, tangent = launches
    del primal
    return visit(tangent, collections.Counter())


def test_semaphores_are_signalled_and_waited_for_once(rand):
    def body(x, o):
        i = lax.axis_index("i")
        turn = pl.get_global(plgpu.SemaphoreType.REGULAR)

        @pl.when(i == 0)
        def _():
            o[0] = jnp.sin(x[0])
            pl.semaphore_signal(turn, 1)

        @pl.when(i == 1)
        def _():
            pl.semaphore_wait(turn, 1)
            o[1] = o[0] * x[1]

    f = kernel_of(body, ((2, 8), F32), grid=(2,), grid_names=("i",))
    counts = primitives_of_tangent_kernel(f, rand(2, 8))
    assert counts["get_global"] == 1
    assert counts["semaphore_signal"] == counts["semaphore_wait"] == 1


def test_a_copy_and_its_tangent_are_one_operation_with_one_arrival(rand):
    def body(x, n, o, s, n_s, done, handed):
        plgpu.copy_gmem_to_smem(x, s, done)
        plgpu.copy_gmem_to_smem(n, n_s, done)
        plgpu.barrier_wait(done)
        plgpu.barrier_arrive(handed)
        plgpu.barrier_wait(handed)
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)

    kernel = kernel_of(
        body,
        ((8,), F32),
        [
            plgpu.SMEM((8,), F32),
            plgpu.SMEM((8,), I32),
            plgpu.Barrier(num_arrivals=2),
            plgpu.Barrier(),
        ],
    )
    n = jnp.arange(8)
    counts = primitives_of_tangent_kernel(lambda x: kernel(x, n), rand(8))
    # The load and the store with a tangent; integers have none.
    assert counts["together"] == 2
    assert counts["copy_gmem_to_smem"] == 1
    assert counts["copy_smem_to_gmem"] == 0
    assert counts["barrier_arrive"] == 1
    assert counts["barrier_wait"] == 2
    assert counts["wait_smem_to_gmem"] == 1


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda o, x: plgpu.atomic_max(o, x), "atomic max"),
        (lambda o, x: o.__setitem__(..., bit_trick(x)), "body"),
    ],
)
def test_what_has_no_derivative_is_named(rand, what, says):
    def body(x, o):
        what(o, x[...])

    if says == "atomic max" and not hasattr(plgpu, "atomic_max"):
        pytest.skip("this JAX has no atomics")
    x = rand(8)
    f = kernel_of(body, ((8,), F32))
    with pytest.raises(pallas_rs.UnsupportedError, match=says):
        jax.make_jaxpr(lambda x: jax.jvp(f, (x,), (x,)))(x)


@jax.custom_vjp
def bit_trick(x):
    """A function that JAX itself cannot differentiate forwards."""
    return x


bit_trick.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
