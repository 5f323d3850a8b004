"""Timelines: `Params(trace=...)`, and the picture of one block."""

import itertools
import json
import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


def pipeline(x_gmem, o_gmem, smem, loaded, consumed):
    """One warpgroup loads two tiles into one slot, the other one consumes them."""
    block, wg = lax.axis_index("block"), lax.axis_index("wg")
    rows = pl.ds(block * 2, 1)

    @pl.when(wg == 0)
    def _():
        plgpu.copy_gmem_to_smem(x_gmem.at[rows], smem, loaded)
        plgpu.barrier_wait(consumed)
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(block * 2 + 1, 1)], smem, loaded)

    @pl.when(wg == 1)
    def _():
        @pl.loop(0, 2)
        def _(i):
            plgpu.barrier_wait(loaded)
            o_gmem[pl.ds(block * 2 + i, 1)] = smem[...]

            @pl.when(i == 0)
            def _():
                plgpu.barrier_arrive(consumed)


def call(kernel, blocks, **params):
    shape = (2 * blocks, 128)
    run = plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(shape, jnp.float32),
        grid=(blocks,),
        grid_names=("block",),
        num_threads=2,
        thread_name="wg",
        scratch_types=[plgpu.SMEM((1, 128), jnp.float32), plgpu.Barrier(), plgpu.Barrier()],
        interpret=pallas_rs.Params(**params),
    )
    return jax.block_until_ready(run(jnp.ones(shape, jnp.float32)))


@pytest.fixture
def traced(tmp_path):
    def traced(kernel=pipeline, blocks=3, **params):
        path = tmp_path / "run.json"
        call(kernel, blocks, trace=str(path), **params)
        return json.loads(path.read_text())

    return traced


def lanes(data, block=0):
    return {
        e["tid"]: e["args"]["name"]
        for e in data["traceEvents"]
        if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == block
    }


def slices(data, name=None, block=0):
    found = [e for e in data["traceEvents"] if e["ph"] == "X" and e["pid"] == block]
    return [e for e in found if name in (None, e["name"])]


def test_a_block_is_a_process_with_a_lane_for_each_agent(traced):
    data = traced()
    processes = [e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"]
    assert processes == ["block (0)", "block (1)", "block (2)"]
    assert list(lanes(data).values()) == ["warpgroup 0", "warpgroup 1", "TMA"]
    assert data["otherData"]["kernel"] == "pipeline"
    assert "logical" in data["otherData"]["time"]


def test_slices_name_lines_of_the_users_file(traced):
    data = traced()
    first = pipeline.__code__.co_firstlineno
    lines = {e["args"]["line"] for e in slices(data)}
    assert all(line.startswith(__file__ + ":") for line in lines)
    numbers = {int(line.rpartition(":")[2]) for line in lines}
    assert all(first < number < first + 25 for number in numbers)


def test_slices_of_a_lane_do_not_overlap(traced):
    data = traced()
    for tid in lanes(data):
        mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices(data) if e["tid"] == tid)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(mine))


def test_an_arrow_leads_from_what_arrived_to_the_wait_it_released(traced):
    data = traced()
    starts = {e["id"]: e for e in data["traceEvents"] if e["ph"] == "s" and e["pid"] == 0}
    ends = [e for e in data["traceEvents"] if e["ph"] == "f" and e["pid"] == 0]

    def holder(event):
        return next(
            e["name"]
            for e in slices(data)
            if e["tid"] == event["tid"] and e["ts"] <= event["ts"] < e["ts"] + e["dur"]
        )

    pairs = sorted((holder(starts[end["id"]]), holder(end)) for end in ends)
    assert pairs == [
        ("TMA load", "wait"),
        ("TMA load", "wait"),
        ("arrive", "wait"),
        ("issue", "TMA load"),
        ("issue", "TMA load"),
    ]


def test_counters_rise_and_fall(traced):
    data = traced()
    counters = {"SMEM in use": [], "bytes in flight": []}
    for e in data["traceEvents"]:
        if e["ph"] == "C" and e["pid"] == 0:
            counters[e["name"]].append(e["args"]["bytes"])
    assert max(counters["SMEM in use"]) == 512
    assert counters["bytes in flight"] == [512, 0, 512, 0]
    assert counters["SMEM in use"][-1] == 0


def test_the_same_run_writes_the_same_trace(traced):
    assert traced() == traced()


def test_races_are_found_while_tracing(traced):
    with pytest.raises(Exception, match="PRS-B"):
        traced(detect_races=True, strict_proxy=True)


def test_a_long_run_is_cut_and_says_so(traced):
    def ping(x_gmem, o_gmem, smem, a, b):
        wg = lax.axis_index("wg")

        @pl.loop(0, 60_000)
        def _(i):
            @pl.when(wg == 0)
            def _():
                plgpu.barrier_arrive(a)
                plgpu.barrier_wait(b)

            @pl.when(wg == 1)
            def _():
                plgpu.barrier_wait(a)
                plgpu.barrier_arrive(b)

    data = traced(ping, blocks=1)
    assert "the run had more" in data["otherData"]["note"]
    assert len(data["traceEvents"]) < 500_000


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(Exception, match="cannot write"):
        call(pipeline, 1, trace=str(tmp_path / "missing" / "run.json"))


def stuck(x_gmem, o_gmem, smem, loaded, consumed):
    wg = lax.axis_index("wg")

    @pl.when(wg == 0)
    def _():
        plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(0, 1)], smem, loaded)
        plgpu.barrier_wait(consumed)

    @pl.when(wg == 1)
    def _():
        plgpu.barrier_wait(loaded)
        plgpu.barrier_wait(loaded)


def test_the_picture_of_a_deadlock_shows_who_waits_for_what(tmp_path):
    path = tmp_path / "stuck.json"
    with pytest.raises(pallas_rs.DeadlockError) as caught, pallas_rs.typed_errors():
        call(stuck, 2, trace=str(path))
    picture = pallas_rs.timeline(caught.value.report)
    root = ElementTree.fromstring(picture.svg)
    assert root.tag.endswith("svg")
    text = "\n".join(root.itertext())
    for word in ("stuck, block (0)", "warpgroup 0", "warpgroup 1", "TMA", "waits for ever"):
        assert word in text
    assert "`consumed" in text
    assert "`loaded" in text
    assert picture._repr_svg_() == picture.svg
    assert pallas_rs.timeline(path, block=1).svg != picture.svg
    picture.save(tmp_path / "stuck.svg")
    assert (tmp_path / "stuck.svg").read_text() == picture.svg


def test_arrows_are_drawn(traced, tmp_path):
    traced()
    svg = pallas_rs.timeline(tmp_path / "run.json").svg
    assert svg.count("marker-end") == 5


def test_what_cannot_be_drawn_is_explained(tmp_path, traced):
    call(pipeline, 1)
    with pytest.raises(ValueError, match=r"not traced: run it with Params\(trace="):
        pallas_rs.timeline(pallas_rs.last_report())
    traced(blocks=2)
    with pytest.raises(ValueError, match="blocks 0 to 1"):
        pallas_rs.timeline(tmp_path / "run.json", block=7)
