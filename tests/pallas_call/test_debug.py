"""Prints, checks, callbacks; and what a kernel may not use."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from .conftest import arange, pallas_call


def test_prints_come_in_order_with_their_grid_point(capfd):
    def kernel(x_ref, o_ref):
        i, j = pl.program_id(0), pl.program_id(1)
        pl.debug_print("at {} {}", i, j)
        o_ref[i, j] = x_ref[i, j]

    x = arange(2, 3)
    jax.block_until_ready(pallas_call(kernel, x, grid=(2, 3))(x))
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 6
    for line, (i, j) in zip(lines, [(a, b) for a in range(2) for b in range(3)], strict=True):
        assert line.endswith(f"at {i} {j}")
        assert f"({i}, {j})" in line.removesuffix(f"at {i} {j}")


def test_formats(capfd):
    def kernel(x_ref, o_ref):
        pl.debug_print("plain")
        jax.debug.print("braces {{}} {}", x_ref[1])
        jax.debug.print("named {a:.2f} {b}", a=x_ref[2], b=x_ref[...].astype(jnp.int32))
        jax.debug.print("tuple {}", (x_ref[0], "text"))
        o_ref[...] = x_ref[...]

    x = arange(3)
    jax.block_until_ready(pallas_call(kernel, x)(x))
    out = capfd.readouterr().out
    assert "plain\n" in out
    assert "braces {} 1.0" in out
    assert "named 2.00 [0 1 2]" in out
    assert "tuple (0.0, text)" in out


def test_callbacks():
    seen = []

    def kernel(x_ref, o_ref):
        jax.debug.callback(lambda i, x: seen.append((int(i), float(x))), pl.program_id(0), x_ref[1])
        o_ref[...] = x_ref[...]

    x = arange(3)
    jax.block_until_ready(pallas_call(kernel, x, grid=(2,))(x))
    assert seen == [(0, 1.0), (1, 1.0)]


def test_pure_callbacks():
    def kernel(x_ref, o_ref, n_ref):
        shapes = (jax.ShapeDtypeStruct((4,), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32))
        o_ref[...], n_ref[0] = jax.pure_callback(lambda x: (np.sqrt(x), x.size), shapes, x_ref[...])

    def run(x):
        out = (jax.ShapeDtypeStruct((4,), jnp.float32), jax.ShapeDtypeStruct((1,), jnp.int32))
        return pl.pallas_call(kernel, out_shape=out, interpret=pallas_rs.Params())(x)

    for function in (run, jax.jit(run)):
        roots, count = function(jnp.arange(4.0) ** 2)
        np.testing.assert_array_equal(roots, np.arange(4.0))
        assert count == 4


def test_checks_fire(fails):
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        pl.debug_check(x_ref[i] < 3, "too large")
        o_ref[i] = x_ref[i]

    def run(x):
        with pl.enable_debug_checks(True):
            return pallas_call(kernel, x, grid=(4,))(x)

    assert "too large" in fails(pallas_rs.KernelError, run, arange(4))
    jax.block_until_ready(run(arange(4) - 1))


def test_checks_are_off_unless_enabled():
    def kernel(x_ref, o_ref):
        pl.debug_check(x_ref[0] < 0, "never")
        o_ref[...] = x_ref[...]

    jax.block_until_ready(pallas_call(kernel, arange(4))(arange(4)))


def test_inline_assembly_is_refused_with_the_users_line():
    def kernel(x_ref, o_ref):
        [y] = plt.elementwise_inline_asm(
            "add.f32 $0, $1, $1;",
            args=[x_ref[...]],
            constraints="=r,r",
            pack=1,
            result_shape_dtypes=[jax.ShapeDtypeStruct((4,), jnp.float32)],
        )
        o_ref[...] = y

    with pytest.raises(pallas_rs.UnsupportedError) as caught:
        pallas_call(kernel, arange(4))(arange(4))
    text = str(caught.value)
    assert isinstance(caught.value, NotImplementedError)
    assert "elementwise_inline_asm" in text
    assert "add.f32" in text
    assert "test_debug.py" in text


def test_a_tpu_primitive_is_refused():
    pltpu = pytest.importorskip("jax.experimental.pallas.tpu")

    def kernel(x_ref, o_ref):
        o_ref[...] = pltpu.roll(x_ref[...], 1, 0)

    with pytest.raises(pallas_rs.UnsupportedError, match="TPU"):
        pallas_call(kernel, arange(8, 128))(arange(8, 128))
