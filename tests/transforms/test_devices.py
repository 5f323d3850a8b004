"""Kernels on several devices: independent ones, and one that fails.

In processes of their own, because the number of devices is fixed once JAX has started.
"""

import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = textwrap.dedent(
    """
    import time
    import jax, jax.numpy as jnp, numpy as np, pallas_rs
    from jax.experimental import pallas as pl
    from jax.sharding import PartitionSpec as Spec

    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    def on_devices(f, count):
        return jax.jit(jax.shard_map(
            f, mesh=mesh, in_specs=(Spec("d"),) * count, out_specs=Spec("d"),
            check_vma=False,
        ))
    """
)


def in_new_process(code):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_device_has_a_bound_of_its_own():
    in_new_process(
        """
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * (pl.program_id(0) + 1)

        def f(n, x):
            spec = pl.BlockSpec((1, 8), lambda i: (i, 0))
            return pl.pallas_call(
                kernel, grid=(n[0],), in_specs=[spec], out_specs=spec,
                out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                input_output_aliases={0: 0}, interpret=pallas_rs.Params(),
            )(x)

        x = jnp.ones((16, 8), jnp.float32)
        g = on_devices(f, 2)
        for bounds in ([0, 1, 2, 4], [4, 4, 0, 3]):
            rows = np.concatenate(
                [np.where(np.arange(4) < n, np.arange(1, 5), 1) for n in bounds]
            )
            out = g(jnp.array(bounds, jnp.int32), x)
            np.testing.assert_array_equal(out, rows[:, None] * np.ones((1, 8)))
        _, tangent = jax.jvp(lambda x: g(jnp.array(bounds, jnp.int32), x), (x,), (x,))
        np.testing.assert_array_equal(tangent, rows[:, None] * np.ones((1, 8)))
        """
    )


def test_devices_of_a_collective_between_two_kernels():
    in_new_process(
        """
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] ** 2

        def square(x):
            return pl.pallas_call(kernel, out_shape=x, interpret=pallas_rs.Params())(x)

        g = on_devices(lambda x: square(square(x) + jax.lax.psum(square(x), "d")), 1)
        x = jnp.arange(4.0)
        for _ in range(20):
            np.testing.assert_allclose(g(x), (x**2 + (x**2).sum()) ** 2)
        """
    )


PICK = """
def kernel(n_ref, x_ref, o_ref):
    o_ref[0] = x_ref[n_ref[0]]

def pick(n, x):
    out = jax.ShapeDtypeStruct((1,), x.dtype)
    return pl.pallas_call(kernel, out_shape=out, interpret=pallas_rs.Params())(n, x)

def total(n, x):
    return jax.lax.psum(pick(n, x), "d")

x = jnp.arange(32.0)
good, bad = jnp.array([0, 1, 2, 3]), jnp.array([0, 1, 2, 100])

def expect_error(f, *args):
    start = time.monotonic()
    try:
        with pallas_rs.typed_errors():
            jax.block_until_ready(f(*args))
    except pallas_rs.OutOfBoundsError as error:
        assert "100" in str(error)
    else:
        raise AssertionError("no error")
    return time.monotonic() - start
"""

COMPUTATIONS = {
    "independent": "pick",
    "before a collective": "total",
    "between collectives": "lambda n, x: total(n, x + 0 * total(0 * n, x))",
    "several before a collective": "lambda n, x: total(n, x) + total(n, 2 * x) + pick(n, x)",
    "in a scan": """lambda n, x: jax.lax.scan(
        lambda c, i: (c + total(jnp.where(i > 5, n, 0 * n), x), None),
        jnp.zeros(1), jnp.arange(10))[0]""",
    "of a jvp": "lambda n, x: jax.jvp(lambda x: total(n, x), (x,), (x,))[1]",
    "of a vmap": "lambda n, x: jax.vmap(total, (None, 0))(n, jnp.stack([x, x])).sum(0)",
}


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_one_failing_device_gives_its_error_within_a_second_and_the_next_call_runs(name):
    in_new_process(
        PICK
        + f"""
g = on_devices({COMPUTATIONS[name]}, 2)
values = np.asarray(g(good, x))
for _ in range(3):
    assert expect_error(g, bad, x) < 1
    np.testing.assert_array_equal(g(good, x), values)
"""
    )


def test_a_failing_device_far_behind_the_others():
    in_new_process(
        PICK
        + """
def late(n, x):
    # The device that fails is at work for longer than an idle process would be waited for.
    steps = 1 + 20 * jax.lax.axis_index("d")
    y = jax.lax.fori_loop(0, steps, lambda i, c: c @ c * 1e-3, jnp.ones((600, 600)))
    return total(n, x + 0 * y[0, 0])

g = on_devices(late, 2)
jax.block_until_ready(g(good, x))
expect_error(g, bad, x)
jax.block_until_ready(g(good, x))
"""
    )


def test_a_kernel_that_not_every_device_runs_is_not_waited_for():
    in_new_process(
        PICK
        + """
def some(n, x):
    y = jax.lax.cond(n[0] == 0, lambda: pick(n, x), lambda: x[:1])
    return y + jax.lax.psum(y, "d")

g = on_devices(some, 2)
jax.block_until_ready(g(good, x))
start = time.monotonic()
for _ in range(20):
    np.testing.assert_array_equal(g(good, x), [48, 56, 64, 72])
assert time.monotonic() - start < 2
"""
    )


def test_many_calls_in_flight():
    in_new_process(
        PICK
        + """
g = on_devices(total, 2)
g(good, x)
for out in [g(good, x) for _ in range(40)]:
    np.testing.assert_array_equal(out, [54] * 4)
"""
    )
