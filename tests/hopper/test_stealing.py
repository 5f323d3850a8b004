"""Cluster launch control: clusters that run claim those that have not been launched."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

I32 = jnp.int32
POLICIES = ["never", "first", "round_robin", "random"]
COLLECTIVE = "collective_axes" in inspect.signature(plgpu.try_cluster_cancel).parameters


def kernel_of(body, out, scratch, grid, **kw):
    names = ("i", "j")[: len(grid)]
    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct(*out),
        scratch_types=scratch,
        grid=grid,
        grid_names=names,
        **kw,
    )


def ask(answer, barrier, axes):
    if COLLECTIVE:
        plgpu.try_cluster_cancel(answer, barrier, collective_axes=axes)
    else:
        plgpu.try_cluster_cancel(answer, barrier)


def every_tile(names, tile, axes=(), done=None):
    """A body that does its own tile and then those it is given."""

    def body(o, answer, told, *rest):
        def step(carry):
            at, _ = carry
            ask(answer, told, axes)
            tile(o, at)
            plgpu.barrier_wait(told)
            at, more = plgpu.query_cluster_cancel(answer, names)
            if done is not None:
                done(*rest)
            return at, more

        start = (tuple(lax.axis_index(n) for n in names), jnp.bool_(True))
        lax.while_loop(lambda carry: carry[1], step, start)

    return body


@pytest.mark.parametrize("schedule", ["round_robin", "random"])
@pytest.mark.parametrize("resident", [None, 1, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_tile_is_computed_once(run, policy, resident, schedule):
    def tile(o, at):
        plgpu.atomic_add(o.at[at], jnp.ones((128,), I32))

    scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier()]
    kernel = kernel_of(every_tile(("i", "j"), tile), ((3, 4, 128), I32), scratch, (3, 4))
    aliased = pallas_rs.Params(
        work_stealing=policy,
        resident_clusters=resident,
        schedule=schedule,
        uninitialized_memory="zero",
    )
    with pallas_rs.simulate("b200", params=aliased):
        got = jax.jit(lambda: kernel())()
    np.testing.assert_array_equal(got, np.ones((3, 4, 128)))


@pytest.mark.parametrize(
    ("policy", "own"), [("never", [0, 1, 2, 3, 4, 5]), ("first", [0] * 6), ("round_robin", None)]
)
def test_who_computes_what(run, policy, own):
    def body(o, answer, told):
        me = lax.axis_index("i")

        def step(carry):
            (at,), _ = carry
            ask(answer, told, ())
            o[at] = me
            plgpu.barrier_wait(told)
            return plgpu.query_cluster_cancel(answer, ("i",))

        lax.while_loop(lambda carry: carry[1], step, ((me,), jnp.bool_(True)))

    scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier()]
    got = run(kernel_of(body, ((6,), I32), scratch, (6,)), work_stealing=policy)
    if own is None:
        assert 1 < len(set(got.tolist())) < 6
    else:
        np.testing.assert_array_equal(got, own)


@pytest.mark.parametrize("completion", ["late", "eager", "random"])
@pytest.mark.parametrize("policy", POLICIES)
def test_blocks_and_threads_of_a_cluster_are_given_the_same(run, policy, completion):
    def both(barrier):
        plgpu.barrier_arrive(barrier)
        plgpu.barrier_wait(barrier)

    def tile(o, at):
        c, w = lax.axis_index("c"), lax.axis_index("w")
        o[(*at, c, w)] = 100 * at[0] + 10 * c + w

    body = every_tile(("i",), tile, ("c", "w"), both)
    scratch = [
        plgpu.TryClusterCancelResult(),
        plgpu.Barrier(num_arrivals=2),
        plgpu.ClusterBarrier(collective_axes=("c",), num_arrivals=2, num_barriers=(1,)),
    ]
    kernel = kernel_of(
        lambda o, answer, told, done: body(o, answer, told, done.at[0]),
        ((5, 2, 2), I32),
        scratch,
        (5,),
        cluster=(2,),
        cluster_names=("c",),
        num_threads=2,
        thread_name="w",
    )
    got = run(kernel, work_stealing=policy, async_completion=completion)
    i, c, w = np.indices((5, 2, 2))
    np.testing.assert_array_equal(got, 100 * i + 10 * c + w)


def test_the_answer_is_written_asynchronously(fails):
    def body(o, answer, told):
        ask(answer, told, ())
        (at,), more = plgpu.query_cluster_cancel(answer, ("i",))
        plgpu.barrier_wait(told)
        o[at] = more.astype(I32)

    scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier()]
    kernel = kernel_of(body, ((2,), I32), scratch, (2,))
    assert "PRS-C1" in fails(pallas_rs.RaceError, kernel, detect_races=True)


def test_replay_names_the_policy(fails):
    def body(o, answer, told):
        ask(answer, told, ())
        plgpu.barrier_wait(told)
        plgpu.barrier_wait(told)

    scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier()]
    kernel = kernel_of(body, ((2,), I32), scratch, (2,))
    text = fails(pallas_rs.DeadlockError, kernel, work_stealing="never")
    assert 'work_stealing="never"' in text


def loop_kernel(grid, cluster, threads):
    """Adds one to every tile, and leaves behind who did it."""
    names, blocks = ("i", "j")[: len(grid)], ("c", "d")[: len(cluster)]
    options = {"thread_axis": "w"} if threads else {}
    if "cluster_axes" in inspect.signature(plgpu.dynamic_scheduling_loop).parameters:
        options["cluster_axes"] = blocks

    def body(count, who):
        me = lax.axis_index(names)
        place = tuple(lax.axis_index(n) for n in (*blocks, *(("w",) if threads else ())))

        @plgpu.dynamic_scheduling_loop(names, **options)
        def _tile(info):
            plgpu.atomic_add(count.at[(*info.index, *place)], jnp.ones((128,), I32))
            who[(*info.index, *place)] = me

    shape = (*grid, *cluster, *((threads,) if threads else ()))
    kernel = plgpu.kernel(
        body,
        out_type=[jax.ShapeDtypeStruct((*shape, 128), I32), jax.ShapeDtypeStruct(shape, I32)],
        grid=grid,
        grid_names=names,
        cluster=cluster,
        cluster_names=blocks,
        **({"num_threads": threads, "thread_name": "w"} if threads else {}),
    )
    return kernel, shape


@pytest.mark.parametrize("schedule", ["round_robin", "random"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("grid", "cluster", "threads"),
    [((9,), (), None), ((3, 4), (), 2), ((6,), (2,), None), ((2, 3), (2, 1), 2)],
)
def test_a_loop_does_every_tile_once(grid, cluster, threads, policy, schedule):
    kernel, shape = loop_kernel(grid, cluster, threads)
    params = pallas_rs.Params(
        work_stealing=policy,
        resident_clusters=3,
        schedule=schedule,
        uninitialized_memory="zero",
    )
    with pallas_rs.simulate("b200", params=params):
        count, who = jax.jit(lambda: kernel())()
    np.testing.assert_array_equal(count, np.ones((*shape, 128)))
    # Blocks and threads of a cluster are given the same tiles.
    by_tile = np.asarray(who).reshape(*grid, -1)
    assert (by_tile == by_tile[..., :1]).all()
    own = np.arange(np.prod(grid)).reshape(grid)
    assert (by_tile[..., 0] == own).all() == (policy == "never")
