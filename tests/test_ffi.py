"""The custom call: what crosses it, when it runs, and how it fails."""

import gc
import subprocess
import sys
import textwrap
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl
from pallas_rs import _ffi

DTYPES = [
    *("bool", "int2", "int4", "int8", "int16", "int32", "int64"),
    *("uint2", "uint4", "uint8", "uint16", "uint32", "uint64"),
    *("float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float16", "bfloat16"),
    *("float32", "float64"),
]


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


def call(kernel, x, **keywords):
    params = keywords.pop("params", pallas_rs.Params())
    return pl.pallas_call(kernel, out_shape=x, interpret=params, **keywords)(x)


def count_to(n):
    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.fori_loop(0, n, lambda i, x: x + 1, x_ref[...])

    return kernel


def out_of_bounds(x_ref, o_ref):
    n = x_ref[0].astype(jnp.int32)
    o_ref[0] = x_ref[n + 100]


def in_new_process(code: str, *args: str, **keywords) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        **keywords,
    )


PRELUDE = """
import sys, os, signal, threading, time
import jax, jax.numpy as jnp, numpy as np
import pallas_rs
from jax.experimental import pallas as pl

# A shell starts background jobs with the signal ignored, and processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1

def spin(x_ref, o_ref):
    o_ref[...] = jax.lax.while_loop(lambda x: x[0] >= 0, lambda x: x + 1e-9, x_ref[...])

def call(kernel, x):
    return pl.pallas_call(kernel, out_shape=x, interpret=pallas_rs.Params())(x)

x = jnp.arange(8.0)
"""


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_crosses_both_ways(dtype):
    with jax.enable_x64(True):
        x = jnp.asarray(np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1]]), dtype)
        y = jax.jit(lambda x: call(copy, x))(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y, np.float64), np.asarray(x, np.float64))


def test_empty_arrays_cross():
    x = jnp.zeros((0, 3), jnp.float32)
    assert call(copy, x).shape == (0, 3)


@pytest.mark.parametrize("donate", [(), (0,)])
def test_aliased_operand_and_result(donate):
    x = jnp.arange(8.0)
    function = jax.jit(
        lambda x: call(add_one, x, input_output_aliases={0: 0}), donate_argnums=donate
    )
    np.testing.assert_array_equal(function(x + 0), x + 1)
    np.testing.assert_array_equal(x, np.arange(8.0))


def test_several_kernels_in_one_computation():
    x = jnp.arange(8.0)
    function = jax.jit(lambda x: call(add_one, call(count_to(3), x) + call(add_one, x)))
    np.testing.assert_array_equal(function(x), 2 * x + 5)


def test_subnormal_numbers_are_kept():
    x = jnp.full((4,), 1e-40, jnp.float32)

    def half(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 0.5

    assert np.all(np.asarray(jax.jit(lambda x: call(half, x))(x)) > 0)


def test_bytes_that_are_no_program_are_refused_by_name():
    x = jnp.arange(8.0)

    def function(x):
        return _ffi.call(b"junk", [x], [jax.typeof(x)], {}, "attention")

    with pytest.raises(jax.errors.JaxRuntimeError, match="load the program of `attention`"):
        jax.jit(function)(x)
    with pytest.raises(pallas_rs.InternalError), pallas_rs.typed_errors():
        jax.jit(function)(x)


def test_a_failure_is_text_or_typed_and_the_next_kernel_runs():
    x = jnp.arange(8.0)
    function = jax.jit(lambda x: call(out_of_bounds, x))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"pallas_rs\.OutOfBoundsError"):
        jax.block_until_ready(function(x))
    with pytest.raises(pallas_rs.OutOfBoundsError) as caught, pallas_rs.typed_errors():
        function(x)
    report = caught.value.report
    assert report.failure == str(caught.value)
    assert report.kernel == "out_of_bounds"
    assert report.verdict == "failed"
    assert report.findings[0].code == caught.value.code
    assert report.findings[0].severity == "error"
    np.testing.assert_array_equal(call(add_one, x), x + 1)
    assert pallas_rs.last_report().verdict == "clean"


def test_a_failure_nobody_waits_for_is_raised_at_the_end_of_the_block():
    function = jax.jit(lambda x: call(out_of_bounds, x) + (x @ x))
    x = jnp.arange(8.0)
    function.lower(x).compile()
    with pytest.raises(pallas_rs.OutOfBoundsError), pallas_rs.typed_errors():
        function(x)


def test_reports_are_kept_up_to_a_bound():
    x = jnp.arange(8.0)
    function = jax.jit(lambda x: call(add_one, x))
    for _ in range(70):
        function(x)
    pallas_rs.last_report()
    reports = pallas_rs.reports()
    assert len(reports) == 64
    ids = [report.run_id for report in reports]
    assert ids == sorted(ids)
    assert reports[-1].stats["blocks"] == 1


def test_programs_die_with_their_executables():
    x = jnp.arange(8.0)
    function = jax.jit(lambda x: call(add_one, x))
    function(x)
    del function
    jax.clear_caches()
    gc.collect()
    np.testing.assert_array_equal(jax.jit(lambda x: call(add_one, x))(x), x + 1)


def test_memory_stays_flat_over_ten_thousand_calls():
    done = in_new_process(
        """
        import gc
        page = os.sysconf("SC_PAGE_SIZE")
        resident = lambda: int(open("/proc/self/statm").read().split()[1]) * page
        blocks = pl.BlockSpec((8, 128), lambda i: (i, 0))
        function = jax.jit(lambda x, n: pl.pallas_call(
            add_one, out_shape=x, grid=(n,), in_specs=[blocks], out_specs=blocks,
            interpret=pallas_rs.Params())(x))
        x = jnp.zeros((64, 128))
        def run(times):
            for i in range(times):
                function(x, i % 9).block_until_ready()
            gc.collect()
            return resident()
        before = run(1000)
        print((run(10_000) - before) / 2**20)
        """
    )
    assert float(done.stdout) < 4, done.stderr


def test_two_host_threads_run_kernels_at_once():
    x = jnp.zeros((64,), jnp.float32)
    functions = [jax.jit(lambda x, n=n: call(count_to(n), x)) for n in (3000, 5000)]
    for function in functions:
        function.lower(x).compile()
    results = [None, None]

    def work(i):
        for _ in range(5):
            results[i] = np.asarray(functions[i](x))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(results[0], 3000)
    np.testing.assert_array_equal(results[1], 5000)


def test_python_goes_on_while_a_kernel_runs():
    x = jnp.zeros((256,), jnp.float32)
    function = jax.jit(lambda x: call(count_to(300_000), x))
    function.lower(x).compile()
    counted, stop = 0, threading.Event()

    def count():
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began, start = counted, time.perf_counter()
    jax.block_until_ready(function(x))
    seconds, counted_meanwhile = time.perf_counter() - start, counted - began
    stop.set()
    thread.join()
    assert counted_meanwhile > 50 * seconds


def test_one_program_serves_sharded_calls():
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")
    function = jax.shard_map(
        lambda x: call(add_one, x), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    x = jnp.arange(8.0)
    np.testing.assert_array_equal(jax.jit(function)(x), x + 1)


def test_an_export_runs_in_another_process(tmp_path):
    x = jnp.arange(8.0)
    exported = jax.export.export(
        jax.jit(lambda x: call(add_one, x)),
        disabled_checks=pallas_rs.disabled_safety_checks(),
    )(x)
    file = tmp_path / "kernel"
    file.write_bytes(exported.serialize())
    done = in_new_process(
        """
        exported = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
        print(np.asarray(exported.call(x)).tolist())
        """,
        str(file),
    )
    assert done.stdout.strip() == str((np.arange(8.0) + 1).tolist()), done.stderr


def test_a_kernel_can_be_exported_for_several_platforms():
    exported = jax.export.export(
        jax.jit(lambda x: call(add_one, x)),
        platforms=("cpu", "cuda"),
        disabled_checks=pallas_rs.disabled_safety_checks(),
    )(jnp.arange(8.0))
    assert exported.platforms == ("cpu", "cuda")


def test_the_persistent_cache_serves_another_process(tmp_path):
    code = """
    from jax import monitoring
    hits = []
    monitoring.register_event_listener(lambda event, **_: hits.append(event))
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    y = jax.jit(lambda x: call(add_one, x))(x)
    print(np.asarray(y).tolist(), sum("cache_hits" in event for event in hits) > 0)
    """
    runs = [in_new_process(code, str(tmp_path)) for _ in range(2)]
    values = str((np.arange(8.0) + 1).tolist())
    assert runs[0].stdout.strip() == f"{values} False", runs[0].stderr
    assert runs[1].stdout.strip() == f"{values} True", runs[1].stderr


@pytest.mark.parametrize("where", ["on the main thread", "on a thread of XLA"])
def test_an_interrupt_ends_a_kernel_and_the_process_stays_usable(where):
    done = in_new_process(
        """
        if sys.argv[1] == "on the main thread":
            function, arg = jax.jit(lambda x: call(spin, x)), x
        else:
            function = jax.jit(lambda a: (a @ a, call(spin, a[0, :8])))
            arg = jnp.ones((1200, 1200))
        function.lower(arg).compile()
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.perf_counter()
        try:
            try:
                jax.block_until_ready(function(arg))
            except jax.errors.JaxRuntimeError:
                time.sleep(1)  # the KeyboardInterrupt is due
        except KeyboardInterrupt:
            pass
        seconds = time.perf_counter() - start
        print("ended" if 0.9 < seconds < 3.5 else f"after {seconds} s")
        print(np.asarray(call(add_one, x)).tolist())
        """,
        where,
    )
    values = str((np.arange(8.0) + 1).tolist())
    assert done.stdout.split("\n")[:2] == ["ended", values], done.stderr


def test_the_interpreter_may_end_while_a_kernel_prints():
    done = in_new_process(
        """
        def prints(x_ref, o_ref):
            s = jax.lax.fori_loop(0, 20000, lambda i, s: s + 1, 0)
            pl.debug_print("s = {}", s)
            o_ref[...] = x_ref[...]
        function = jax.jit(lambda a: (a @ a, call(prints, a[0, :8])))
        arg = jnp.ones((800, 800))
        function.lower(arg).compile()
        result = function(arg)
        """
    )
    assert done.returncode == 0, done.stderr
    assert "s = 20000" in done.stdout


def test_a_print_may_ask_for_reports(monkeypatch):
    class Curious:
        """Asks for the last report, which would wait for the run that prints."""

        def __init__(self):
            self.lines = []

        def write(self, line):
            pallas_rs.last_report()
            self.lines.append(line)

        def flush(self):
            pass

    def prints(x_ref, o_ref):
        pl.debug_print("x = {}", x_ref[1])
        o_ref[...] = x_ref[...]

    out = Curious()
    monkeypatch.setattr(sys, "stdout", out)
    jax.block_until_ready(jax.jit(lambda x: call(prints, x))(jnp.arange(8.0)))
    assert "x = 1.0" in out.lines[0]
