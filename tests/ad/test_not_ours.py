"""Calls that do not run in pallas_rs keep JAX's rules and JAX's errors.

What JAX does is asked of a process that has not imported pallas_rs.
"""

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import sys
    if sys.argv[1] == "with":
        import pallas_rs
    import jax, jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu
    from jax.experimental.pallas import mosaic_gpu as plgpu

    x = jnp.linspace(-1, 1, 32).reshape(4, 8)
    spec = pl.BlockSpec((1, 8), lambda i: (i, 0))

    def plain(x_ref, o_ref): o_ref[...] = jnp.sin(x_ref[...])
    def asks(x_ref, o_ref): o_ref[...] = x_ref[...] * pl.program_id(0)
    def with_scratch(x_ref, o_ref, s_ref):
        s_ref[...] = x_ref[...]
        o_ref[...] = s_ref[...]
    def call(kernel, grid=(4,), **kwargs):
        return lambda x: pl.pallas_call(kernel, grid=grid, in_specs=[spec],
            out_specs=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            interpret=True, **kwargs)(x)
    def kernel(x):
        return plgpu.kernel(plain, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
                            interpret=True)(x)
    def jvp(f): return lambda: jax.jvp(f, (x,), (x,))[1]

    cases = {
        "plain": jvp(call(plain)),
        "vmap": jvp(lambda x: jax.vmap(call(plain))(jnp.stack([x, x]))),
        "program_id": jvp(call(asks)),
        "bound": lambda: jax.jit(lambda n: jvp(call(plain, (n,)))())(3),
        "alias": jvp(call(plain, input_output_aliases={0: 0})),
        "scratch": jvp(call(with_scratch, scratch_shapes=[pltpu.VMEM((1, 8), jnp.float32)])),
        "kernel": jvp(kernel),
        "grad": lambda: jax.grad(lambda x: call(plain)(x).sum())(x),
        "transpose": lambda: jax.linear_transpose(call(plain), x)(x),
        "kernel grad": lambda: jax.grad(lambda x: kernel(x).sum())(x),
    }
    for name, case in cases.items():
        try:
            out = float(jnp.nansum(case()[0]))
        except BaseException as error:
            out = type(error).__name__ + ": " + str(error).split("\\n")[0]
        print(name, "->", out)
    """
)


def run(which):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, which],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.splitlines()


def test_jax_own_errors_and_values_are_unchanged():
    ours, jax_alone = run("with"), run("without")
    assert len(jax_alone) == 10
    assert any("Error" in line for line in jax_alone)
    assert ours == jax_alone
