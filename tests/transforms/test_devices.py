"""Kernels on several devices: independent ones, and one that fails.

In processes of their own, because the number of devices is fixed once JAX has started.
"""

import os
import subprocess
import sys
import textwrap

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


def test_one_failing_device_gives_its_error_within_a_second_and_the_next_call_runs():
    in_new_process(
        """
        def kernel(n_ref, x_ref, o_ref):
            o_ref[0] = x_ref[n_ref[0]]

        def f(n, x):
            out = jax.ShapeDtypeStruct((1,), x.dtype)
            return pl.pallas_call(kernel, out_shape=out, interpret=pallas_rs.Params())(n, x)

        g, x = on_devices(f, 2), jnp.arange(32.0)
        good, bad = jnp.array([0, 1, 2, 3]), jnp.array([0, 100, 2, 3])
        jax.block_until_ready(g(good, x))
        start = time.monotonic()
        try:
            with pallas_rs.typed_errors():
                jax.block_until_ready(g(bad, x))
        except pallas_rs.OutOfBoundsError as error:
            assert "100" in str(error)
        else:
            raise AssertionError("no error")
        assert time.monotonic() - start < 1
        np.testing.assert_array_equal(g(good, x), [0, 9, 18, 27])
        """
    )
