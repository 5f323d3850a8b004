"""Clusters: barriers across blocks, collective copies, each other's shared memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

F32, I32 = jnp.float32, jnp.int32
COMPLETION = ["late", "eager", "random"]


def kernel_of(body, out, scratch, cluster=(2,), names=("c",), **kw):
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(*out),
        scratch_types=scratch,
        cluster=cluster,
        cluster_names=names,
        **kw,
    )


def both(barrier):
    plgpu.barrier_arrive(barrier)
    plgpu.barrier_wait(barrier)


def all_of(*axes):
    return plgpu.ClusterBarrier(collective_axes=axes, num_barriers=(1,))


# ---- cluster barriers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "axes", "reached"),
    [
        ((4,), ("a",), 4),
        ((2, 3), ("a",), 2),
        ((2, 3), ("b",), 3),
        ((2, 3), ("a", "b"), 4),
        ((2, 3), (("a", "b"),), 6),
        ((2, 2, 4), (("a", "b", "c"),), 16),
        ((2, 2, 4), (("a", "b"), "c"), 7),
    ],
)
def test_a_cluster_barrier_takes_the_cross_of_its_axes(run, cluster, axes, reached):
    """Each block counts whose arrivals have made its barrier complete."""
    names = ("a", "b", "c")[: len(cluster)]

    def body(o, arrived):
        here = tuple(lax.axis_index(n) for n in names)
        o[here] = 1
        both(arrived)
        o[here] = 2

    kernel = kernel_of(body, (cluster, I32), [all_of(*axes)], cluster, names)
    np.testing.assert_array_equal(run(kernel, seeds=3), np.full(cluster, 2))

    def too_few(o, arrived):
        @pl.when(sum(lax.axis_index(n) for n in names) > 0)
        def _():
            plgpu.barrier_arrive(arrived)

        plgpu.barrier_wait(arrived)
        o[...] = jnp.zeros(cluster, I32)

    kernel = kernel_of(too_few, (cluster, I32), [all_of(*axes)], cluster, names)
    with pytest.raises(pallas_rs.DeadlockError) as caught, pallas_rs.typed_errors():
        run(kernel)
    assert f"of {reached} arrivals" in str(caught.value)


def test_only_the_leader_of_a_tracked_barrier_is_arrived_on(run, fails):
    def kernel(waits):
        def body(o, s, arrived, go):
            c = lax.axis_index("c")
            s[...] = jnp.full((128,), c + 1, I32)
            both(go)
            plgpu.barrier_arrive(arrived)

            @pl.when(waits(c))
            def _():
                plgpu.barrier_wait(arrived)
                o[...] = jnp.full((128,), 7, I32)

            both(go)

        tracked = plgpu.ClusterBarrier(collective_axes=("c",), leader_tracked=True)
        scratch = [plgpu.SMEM((128,), I32), tracked, all_of("c")]
        return kernel_of(body, ((128,), I32), scratch)

    np.testing.assert_array_equal(run(kernel(lambda c: c == 0)), np.full(128, 7))
    text = fails(pallas_rs.BarrierError, kernel(lambda c: c == 1))
    assert "PRS-D6" in text


def test_a_barrier_may_be_left_to_the_leader(run, fails):
    """Both blocks' barriers complete phase after phase, and only one block looks at its own."""

    def kernel(late):
        def body(o, arrived, go):
            c = lax.axis_index("c")
            for _ in range(3):
                plgpu.barrier_arrive(arrived)

                @pl.when(c == 0)
                def _():
                    plgpu.barrier_wait(arrived)

                both(go)

            @pl.when((c == 1) & late)
            def _():
                plgpu.barrier_wait(arrived)

            o[c] = jnp.ones((128,), I32)

        return kernel_of(body, ((2, 128), I32), [all_of("c"), all_of("c")])

    np.testing.assert_array_equal(run(kernel(False), detect_races=True), np.ones((2, 128)))
    assert "PRS-D3" in fails(pallas_rs.BarrierError, kernel(True))


# ---- collective copies -------------------------------------------------------------------------


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize(
    ("cluster", "axes"), [((16,), ("a",)), ((2, 2), ("b",)), ((2, 4), ("a", "b"))]
)
def test_multicast_gives_every_block_everything(run, rand, cluster, axes, completion):
    names = ("a", "b")[: len(cluster)]

    def body(x, o, s, loaded):
        plgpu.copy_gmem_to_smem(x, s, loaded, collective_axes=axes)
        plgpu.barrier_wait(loaded)
        plgpu.copy_smem_to_gmem(s, o.at[tuple(lax.axis_index(n) for n in names)])
        plgpu.wait_smem_to_gmem(0)

    x = rand((16, 128))
    kernel = kernel_of(
        body,
        ((*cluster, *x.shape), F32),
        [plgpu.SMEM(x.shape, F32), plgpu.Barrier()],
        cluster,
        names,
    )
    got = run(kernel, x, async_completion=completion, detect_races=True)
    np.testing.assert_array_equal(got, np.broadcast_to(x, (*cluster, *x.shape)))


def tracked_copy(partition, mine, waits=lambda c: c == 0, tells=True):
    """The leader waits for both blocks' parts and tells the other one."""

    def body(x, o, s, loaded, told):
        c = lax.axis_index("c")
        plgpu.copy_gmem_to_smem(x, s, loaded, collective_axes="c", leader_tracked=partition)

        @pl.when(waits(c))
        def _():
            plgpu.barrier_wait(loaded)

        if tells:
            both(told)
        o[c] = s[...]
        if not tells:
            both(told)

    scratch = [plgpu.SMEM(mine, F32), plgpu.Barrier(), all_of("c")]
    return kernel_of(body, ((2, *mine), F32), scratch)


@pytest.mark.parametrize("completion", COMPLETION)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_partitioned_copy_arrives_once_at_the_leader(run, fails, rand, axis, completion):
    x = rand((32, 64))
    mine = (16, 64) if axis == 0 else (32, 32)
    partition = plgpu.CopyPartition.PARTITIONED(axis)
    kernel = tracked_copy(partition, mine)
    got = run(kernel, x, async_completion=completion, detect_races=True, seeds=4)
    np.testing.assert_array_equal(got, np.stack(np.split(np.asarray(x), 2, axis)))
    text = fails(pallas_rs.DeadlockError, tracked_copy(partition, mine, lambda c: c >= 0), x)
    assert "0 of 1 arrivals" in text


def test_a_replicated_copy_arrives_once_at_the_leader(run, fails, rand):
    x = rand((32, 64))
    kernel = tracked_copy(plgpu.CopyPartition.REPLICATED, x.shape)
    got = run(kernel, x, detect_races=True)
    np.testing.assert_array_equal(got, np.broadcast_to(x, (2, *x.shape)))
    kernel = tracked_copy(plgpu.CopyPartition.REPLICATED, x.shape, lambda c: c == 1)
    assert "0 of 1 arrivals" in fails(pallas_rs.DeadlockError, kernel, x)


@pytest.mark.parametrize("schedule", ["round_robin", "random", "pct"])
def test_only_the_leader_knows_that_a_tracked_copy_is_complete(fails, rand, schedule):
    partition = plgpu.CopyPartition.PARTITIONED(0)
    kernel = tracked_copy(partition, (16, 64), tells=False)
    params = {"schedule": schedule, "async_completion": "eager", "detect_races": True}
    text = fails(pallas_rs.RaceError, kernel, rand((32, 64)), **params)
    assert "PRS-C1" in text
    assert "barrier_wait on `loaded" in text


def test_multicast_overwrites_what_a_peer_still_reads(run, fails):
    """The refill of one block reaches the other, which must have said that it is done."""

    def kernel(waits):
        def body(x, o, s, loaded, done):
            c = lax.axis_index("c")
            for i in range(2):
                plgpu.copy_gmem_to_smem(x.at[i], s, loaded, collective_axes="c")
                plgpu.barrier_wait(loaded)
                o[c, i] = s[...]
                plgpu.commit_smem()
                if waits:
                    both(done)

        scratch = [plgpu.SMEM((128,), F32), plgpu.Barrier(), all_of("c")]
        return kernel_of(body, ((2, 2, 128), F32), scratch)

    x = jnp.arange(256, dtype=F32).reshape(2, 128)
    got = run(kernel(True), x, detect_races=True)
    np.testing.assert_array_equal(got, np.stack([x, x]))
    text = fails(pallas_rs.RaceError, kernel(False), x, detect_races=True)
    assert "PRS-C2" in text


# ---- each other's shared memory ----------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["round_robin", "random"])
def test_reads_and_writes_of_a_peer(run, schedule):
    def body(o, s, t, ready):
        a, b = lax.axis_index("a"), lax.axis_index("b")
        s[...] = jnp.full((128,), 10 * a + b, I32)
        both(ready)
        t[...] = plgpu.cluster_ref(s, {"a": 1 - a})[...] * 2
        both(ready)
        plgpu.cluster_ref(t, {"a": 1 - a, "b": 2 - b})[pl.ds(64, 64)] = jnp.full((64,), a, I32)
        both(ready)
        o[a, b] = t[...]

    scratch = [plgpu.SMEM((128,), I32), plgpu.SMEM((128,), I32), all_of(("a", "b"))]
    kernel = kernel_of(body, ((2, 3, 128), I32), scratch, (2, 3), ("a", "b"))
    got = run(kernel, schedule=schedule, detect_races=True)
    want = np.zeros((2, 3, 128), np.int32)
    for a in range(2):
        for b in range(3):
            want[a, b, :64] = 2 * (10 * (1 - a) + b)
            want[a, b, 64:] = 1 - a
    np.testing.assert_array_equal(got, want)


def test_a_peer_read_too_early_is_a_race(fails):
    def body(o, s, ready):
        c = lax.axis_index("c")
        s[...] = jnp.full((128,), c, I32)
        o[c] = plgpu.cluster_ref(s, {"c": 1 - c})[...]
        both(ready)

    scratch = [plgpu.SMEM((128,), I32), all_of("c")]
    kernel = kernel_of(body, ((2, 128), I32), scratch)
    assert "PRS-A2" in fails(pallas_rs.RaceError, kernel, detect_races=True)


def test_a_block_that_exits_early_is_seen_by_its_peers(fails):
    """Block 1 does not wait for the others to be done with its memory."""

    def body(o, s, ready):
        c = lax.axis_index("c")
        s[...] = jnp.full((128,), c, I32)
        both(ready)

        @pl.when(c == 0)
        def _():
            def step(i, carry):
                return carry + plgpu.cluster_ref(s, {"c": 1})[...]

            o[...] = lax.fori_loop(0, 200, step, jnp.zeros((128,), I32))

    scratch = [plgpu.SMEM((128,), I32), all_of("c")]
    text = fails(
        pallas_rs.RaceError, kernel_of(body, ((128,), I32), scratch), schedule="random", seed=1
    )
    assert "PRS-F1" in text
    assert "`s` of block 1" in text


def test_a_peer_that_does_not_exist(fails):
    def call(i):
        def body(o, s):
            o[...] = plgpu.cluster_ref(s, {"c": i})[...]

        return kernel_of(body, ((128,), I32), [plgpu.SMEM((128,), I32)])()

    assert "block 2 along `c`" in fails(pallas_rs.OutOfBoundsError, call, I32(2))


TILED = (plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128))


@pytest.mark.parametrize("completion", COMPLETION)
def test_async_store_to_a_peer(run, rand, completion):
    def body(x, o, s, stored):
        c = lax.axis_index("c")
        plgpu.async_store_smem(x[c], s, stored, cluster_idx=1 - c, cluster_dim="c")
        plgpu.barrier_wait(stored)
        o[c] = s[...]

    x = rand((2, 64, 32))
    scratch = [plgpu.SMEM(x.shape[1:], F32, transforms=TILED), plgpu.Barrier()]
    got = run(kernel_of(body, (x.shape, F32), scratch), x, async_completion=completion)
    np.testing.assert_array_equal(got, x[::-1])


@pytest.mark.parametrize(
    ("op", "combine"),
    [
        ("add", np.add),
        ("max", np.maximum),
        ("min", np.minimum),
        ("and", np.bitwise_and),
        ("or", np.bitwise_or),
        ("xor", np.bitwise_xor),
    ],
)
def test_atomic_async_stores_of_all_blocks_to_one(run, rand, op, combine):
    def body(x, o, s, stored, ready):
        c = lax.axis_index("c")
        s[...] = jnp.full((64, 32), 5, I32)
        both(ready)
        plgpu.async_store_smem(x[c], s, stored, cluster_idx=0, cluster_dim="c", atomic=op)

        @pl.when(c == 0)
        def _():
            plgpu.barrier_wait(stored)
            o[...] = s[...]

    x = rand((4, 64, 32), I32)
    scratch = [
        plgpu.SMEM((64, 32), I32, transforms=TILED),
        plgpu.Barrier(num_arrivals=4),
        all_of("c"),
    ]
    kernel = kernel_of(body, ((64, 32), I32), scratch, cluster=(4,))
    want = combine.reduce(np.concatenate([np.full((1, 64, 32), 5), x]))
    np.testing.assert_array_equal(run(kernel, x, seeds=2), want)
    np.testing.assert_array_equal(run(kernel, x, detect_races=True), want)
