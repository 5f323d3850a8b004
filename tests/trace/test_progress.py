"""The line that says how far a long run is."""

import os
import pty
import select
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
import pallas_rs

def slow_kernel(x_ref, o_ref):
    grown = jax.lax.fori_loop(0, 200_000_000, lambda i, x: x * 1.0001, x_ref[0, 0])
    o_ref[...] = grown + x_ref[...]

block = pl.BlockSpec((1, 128), lambda i: (i, 0))
pl.pallas_call(
    slow_kernel, grid=(8,), in_specs=[block], out_specs=block,
    out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
    interpret=pallas_rs.Params(progress=sys.argv[1] == "on", num_workers=1),
)(jnp.ones((8, 128))).block_until_ready()
"""


def on_a_terminal(argument):
    """What a process writes to standard error, which is a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, argument], stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    said = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 100)
        try:
            chunk = os.read(ours, 4096) if ready else b""
        except OSError:
            chunk = b""
        if not chunk:
            break
        said += chunk
    os.close(ours)
    assert child.wait() == 0, said
    return said.decode()


@pytest.mark.slow
def test_a_long_run_tells_a_terminal_how_far_it_is():
    said = on_a_terminal("on")
    assert "slow_kernel: " in said
    assert " of 8 blocks, " in said
    assert "s left" in said
    assert said.endswith("\r\x1b[2K")


@pytest.mark.slow
def test_the_line_can_be_turned_off():
    assert on_a_terminal("off") == ""


@pytest.mark.slow
def test_a_log_gets_no_line():
    done = subprocess.run([sys.executable, "-c", SCRIPT, "on"], capture_output=True, check=True)
    assert done.stderr == b""
