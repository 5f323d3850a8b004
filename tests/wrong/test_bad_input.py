"""What cannot be run says so: what was given, the rule, what to do."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .cases import F32, VECTOR, N, kernel, ones, smem, vector


def write_ones(o, *_):
    o[...] = ones()


def run(call, *args, **params):
    with pallas_rs.simulate("h100", params=pallas_rs.Params(**params)), pallas_rs.typed_errors():
        return jax.block_until_ready(jax.jit(lambda *a: call(*a))(*args))


def message(call, *args, kind=pallas_rs.KernelError, **params):
    with pytest.raises(kind) as caught:
        run(call, *args, **params)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "options"),
    [
        ("on_race", "explode", "'raise', 'warn'"),
        ("out_of_bounds_reads", "x", "'raise', 'uninitialized'"),
        ("uninitialized_memory", "x", "'nan', 'zero'"),
        ("inline_mgpu", "x", "'error', 'ignore'"),
        ("uninitialized_reads", "x", "'ignore', 'warn', 'raise'"),
        ("limits", "x", "'check', 'ignore'"),
        ("suppress", ("B2",), "PRS-B2"),
    ],
)
def test_an_option_that_does_not_exist(field, value, options):
    with pytest.raises(ValueError, match=field) as caught:
        pallas_rs.Params(**{field: value})
    assert options in str(caught.value)


def test_jax_spellings_of_options_are_accepted():
    assert pallas_rs.Params(out_of_bounds_reads="uninitialized").out_of_bounds_reads


@pytest.mark.parametrize("threads", [9, 16])
def test_too_many_threads(threads):
    text = message(kernel(write_ones, [], threads=threads))
    assert f"needs {threads * 128} of the threads of a block" in text
    assert "has 1024" in text


def test_an_empty_grid_runs_nothing_and_says_so():
    run(kernel(write_ones, [], grid=(0,), grid_names=("g",)), uninitialized_reads="warn")
    [finding] = pallas_rs.last_report().findings
    assert finding.code == "PRS-G3"
    assert f"{N} of the {N} elements of output `o`" in finding.message


def test_a_negative_run_time_bound():
    call = pl.pallas_call(
        write_ones,
        grid=(jnp.int32(-3),),
        out_shape=VECTOR,
        interpret=pallas_rs.Params(),
    )
    with pytest.raises(pallas_rs.InvalidGridError, match="-3"), pallas_rs.typed_errors():
        jax.block_until_ready(call())


def test_tensor_cores_of_another_device():
    tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def body(o, a, b):
        def scope(acc):
            plgpu.wgmma(acc, a, b)
            return acc[...]

        o[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    scratch = [plgpu.SMEM((64, 64), jnp.float16, transforms=tiled)] * 2
    call = kernel(body, scratch, out=jax.ShapeDtypeStruct((64, 64), F32))
    params = pallas_rs.Params(target="b200")
    with (
        pallas_rs.simulate("b200", params=params),
        pytest.raises(pallas_rs.ResourceError, match="wgmma needs h100 or h200") as caught,
        pallas_rs.typed_errors(),
    ):
        jax.block_until_ready(jax.jit(lambda: call())())
    assert "b200" in str(caught.value)


def test_limits_can_be_ignored():
    def body(o, s):
        s[...] = jnp.ones((1024, 1024), F32)
        o[...] = s[0, :N]

    call = kernel(body, [smem((1024, 1024))])
    assert "PRS-I1" in message(call)
    np.testing.assert_array_equal(run(call, limits="ignore"), np.ones(N))


def test_all_that_is_beyond_the_limits_is_told_at_once():
    call = kernel(write_ones, [smem((1024, 1024)), plgpu.Barrier(num_barriers=40)], threads=9)
    message(call)
    codes = [f.code for f in pallas_rs.last_report().findings]
    assert codes == ["PRS-I6", "PRS-I1", "PRS-I5"]


def test_a_run_leaves_nothing_behind():
    """After a failure the next kernel runs as if nothing had been."""

    def waits(o, ready):
        plgpu.barrier_wait(ready)

    assert "PRS-E1" in message(kernel(waits, [plgpu.Barrier()]))
    np.testing.assert_array_equal(run(kernel(write_ones, [])), np.ones(N))
    assert pallas_rs.last_report().findings == ()


def test_two_kernels_at_once():
    def body(x, o, s, ready):
        plgpu.copy_gmem_to_smem(x, s, ready)
        plgpu.barrier_wait(ready)
        o[...] = s[...] * 2

    call = kernel(body, [smem(), plgpu.Barrier()])
    with pallas_rs.simulate("h100"):
        compiled = jax.jit(lambda x: call(x)).lower(vector()).compile()
    results = {}

    def work(i):
        results[i] = np.asarray(compiled(vector() + i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for i in range(4):
        np.testing.assert_array_equal(results[i], (np.arange(N) + i) * 2)


def test_a_loop_without_rounds_is_no_error():
    def body(n, o):
        o[...] = lax.fori_loop(0, n[0], lambda i, x: x + 1, ones())

    call = kernel(body, [])
    np.testing.assert_array_equal(run(call, jnp.full((1,), -5, jnp.int32)), np.ones(N))


def test_suppressed_findings_are_counted():
    def body(x, o, s):
        s[...] = x[...]
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)

    call = kernel(body, [smem()])
    assert "PRS-B1" in message(call, vector(), detect_races=True)
    [finding] = pallas_rs.last_report().findings
    line = finding.details["source"]["line"]
    entry = f"PRS-B1 at test_bad_input.py:{line}"
    run(call, vector(), detect_races=True, suppress=(entry,))
    report = pallas_rs.last_report()
    assert report.findings == ()
    assert [s["count"] for s in report.suppressed] == [1]
    assert "1 suppressed" in str(report)
    assert report.schedules == "one"


def test_a_clean_run_of_barriers_covers_all_schedules():
    def body(o, s, ready):
        s[...] = ones()
        plgpu.barrier_arrive(ready)
        plgpu.barrier_wait(ready)
        o[...] = s[...]

    run(kernel(body, [smem(), plgpu.Barrier()]), detect_races=True)
    assert pallas_rs.last_report().schedules == "all"
    run(kernel(body, [smem(), plgpu.Barrier()]))
    assert pallas_rs.last_report().schedules == "one"


def test_points_of_a_sequential_dimension_are_in_order():
    def body(o):
        o[...] += 1.0

    def call(semantics):
        return pl.pallas_call(
            body,
            grid=(3,),
            out_specs=pl.BlockSpec((N,), lambda i: (0,)),
            out_shape=VECTOR,
            compiler_params=plgpu.CompilerParams(dimension_semantics=(semantics,)),
            interpret=pallas_rs.Params(detect_races=True, uninitialized_memory="zero"),
        )

    np.testing.assert_array_equal(jax.jit(call("sequential"))(), np.full(N, 3.0))
    with pytest.raises(pallas_rs.RaceError, match="PRS-A5"), pallas_rs.typed_errors():
        jax.block_until_ready(jax.jit(call("parallel"))())


@pytest.mark.parametrize("limits", ["check", "ignore"])
def test_a_value_that_no_computer_holds(limits):
    def body(x, o):
        o[...] = jnp.sum(lax.broadcasted_iota(F32, (1 << 20, 1 << 20), 0)) + x[...]

    call = pl.pallas_call(body, out_shape=VECTOR, interpret=pallas_rs.Params(limits=limits))
    text = message(call, jnp.ones(N), kind=pallas_rs.ResourceError, limits=limits)
    assert "PRS-MEMORY" in text
    assert "float32[1048576, 1048576]" in text
    assert "test_bad_input.py" in text
