"""Memory that nobody wrote, accesses outside, more than a device has."""

import jax
import jax.numpy as jnp
import pallas_rs
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .cases import F32, VECTOR, N, case, kernel, ones, smem, vector

WRITTEN = {"uninitialized_reads": "raise"}
I32 = jnp.int32


@case("PRS-G1", **WRITTEN)
def garbage_in_an_output(wrong):
    def body(o, s):
        if not wrong:
            s[...] = ones()
        o[...] = s[...] * 2

    return kernel(body, [smem()])


@case("PRS-G1", severity="warning", uninitialized_reads="warn")
def garbage_is_a_warning(wrong):
    return garbage_in_an_output(wrong)


@case("PRS-G1", **WRITTEN)
def garbage_by_way_of_a_store(wrong):
    def body(o, s):
        s[pl.ds(0, 64)] = ones()[:64]
        if not wrong:
            s[pl.ds(64, 64)] = ones()[:64]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)

    return kernel(body, [smem()])


@case("PRS-G1", **WRITTEN)
def garbage_as_an_index(wrong):
    def body(o, s):
        s[0] = jnp.int32(0)
        o[pl.ds(jnp.minimum(s[1 if wrong else 0], 0), N)] = ones()

    return kernel(body, [smem((4,), I32)])


@case("PRS-G1", **WRITTEN)
def garbage_in_a_branch(wrong):
    def body(o, s):
        s[0] = jnp.int32(0)
        o[...] = ones()

        @pl.when(s[1 if wrong else 0] == 3)
        def _():
            o[...] = ones() * 2

    return kernel(body, [smem((4,), I32)])


@case("PRS-G1", **WRITTEN)
def garbage_as_a_bound(wrong):
    def body(o, s):
        s[0] = jnp.int32(1)

        def step(i, x):
            return x + 1.0

        o[...] = lax.fori_loop(0, jnp.minimum(s[1 if wrong else 0], 2), step, ones())

    return kernel(body, [smem((4,), I32)])


@case("PRS-G3", severity="warning", **WRITTEN)
def output_that_is_half_written(wrong):
    def body(o):
        size = N // 2 if wrong else N
        o[pl.ds(0, size)] = ones()[:size]

    return kernel(body, [])


@case("PRS-G1", **WRITTEN)
def block_that_sticks_out(wrong):
    def body(x, o):
        values = x[...]
        if not wrong:
            index = pl.program_id(0) * 64 + lax.broadcasted_iota(I32, (64,), 0)
            values = jnp.where(index < 100, values, 0)
        o[...] = jnp.broadcast_to(jnp.sum(values), (64,))

    call = pl.pallas_call(
        body,
        grid=(2,),
        in_specs=[pl.BlockSpec((64,), lambda i: (i,))],
        out_specs=pl.BlockSpec((64,), lambda i: (i,)),
        out_shape=VECTOR,
        interpret=pallas_rs.Params(**WRITTEN),
    )
    return lambda: call(jnp.ones((100,), F32))


@case("PRS-H1")
def read_outside(wrong):
    def body(i, x, o):
        o[...] = jnp.concatenate([x[pl.ds(i[0], 64)]] * 2)

    call = kernel(body, [])
    return lambda: call(jnp.full((1,), 100 if wrong else 64, I32), vector())


@case("PRS-H5")
def store_before_its_array(wrong):
    def body(i, o, s):
        s[...] = ones()[:64]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(s, o.at[pl.ds(i[0], 64)])
        plgpu.wait_smem_to_gmem(0)

    call = kernel(body, [smem((64,))])
    return lambda: call(jnp.full((1,), -8 if wrong else 0, I32))


@case("PRS-H8")
def index_array_outside(wrong):
    def body(i, x, o):
        o[...] = x[i[...]]

    call = pl.pallas_call(body, out_shape=VECTOR, interpret=pallas_rs.Params())
    index = jnp.arange(N, dtype=I32).at[5].set(N if wrong else 0)
    return lambda: call(index, vector())


@case("PRS-H9")
def index_array_from_the_end(wrong):
    def body(i, x, o):
        o[...] = x[i[...]]

    call = pl.pallas_call(body, out_shape=VECTOR, interpret=pallas_rs.Params())
    index = jnp.arange(N, dtype=I32).at[5].set(-1 if wrong else N - 1)
    return lambda: call(index, vector())


@case("PRS-I1")
def too_much_smem(wrong):
    def body(o, s, small):
        o[...] = ones()

    return kernel(body, [smem((1024 if wrong else 32, 1024)), smem()])


@case("PRS-I3")
def rows_that_tma_cannot_copy(wrong):
    n = 3 if wrong else 16

    def body(x, o, s, ready):
        plgpu.copy_gmem_to_smem(x, s, ready)
        plgpu.barrier_wait(ready)
        o[...] = ones()

    call = kernel(body, [smem((8, n), jnp.int8), plgpu.Barrier()])
    return lambda: call(jnp.zeros((8, n), jnp.int8))


@case("PRS-I4")
def shape_that_wgmma_has_not(wrong):
    m = 32 if wrong else 64

    def body(o, a, b):
        def scope(acc):
            plgpu.wgmma(acc, a, b)
            return acc[...]

        o[...] = pl.run_scoped(scope, plgpu.ACC((m, 64), F32))

    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))
    scratch = [plgpu.SMEM((n, 64), jnp.float16, transforms=tiled) for n in (m, 64)]
    return kernel(body, scratch, out=jax.ShapeDtypeStruct((m, 64), F32))


@case("PRS-I5")
def too_many_barriers(wrong):
    def body(o, bars):
        o[...] = ones()

    return kernel(body, [plgpu.Barrier(num_barriers=33 if wrong else 32)])


@case("PRS-I5")
def too_many_arrivals(wrong):
    def body(o, bars):
        o[...] = ones()

    return kernel(body, [plgpu.Barrier(num_arrivals=10_000 if wrong else 8191)])


@case("PRS-I6")
def too_many_threads(wrong):
    def body(o):
        o[pl.ds(lax.axis_index("w") * 8, 8)] = ones()[:8]

    return kernel(body, [], threads=9 if wrong else 8)


@case("PRS-I7")
def cluster_that_is_too_large(wrong):
    n = 32 if wrong else 16

    def body(o):
        o[pl.ds(lax.axis_index("c") * 4, 4)] = ones()[:4]

    return kernel(body, [], cluster=(n,), cluster_names=("c",))


@case("PRS-J1", severity="warning", explain_nan=True)
def logarithm_of_a_negative_number(wrong):
    def body(x, o):
        y = x[...] - (1.0 if wrong else -1.0)
        o[...] = jnp.log(y) * 2

    call = kernel(body, [])
    return lambda: call(vector() / 2 + 0.5)
