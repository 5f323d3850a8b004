"""Gated linear units on Ampere, Hopper and Blackwell."""

import importlib

import jax
import jax.numpy as jnp
import pallas_rs
import pytest

SHAPES = [(128, 128, 128), (256, 192, 384), (384, 64, 128)]


@pytest.fixture(scope="module")
def glu():
    return importlib.import_module("tokamax._src.ops.gated_linear_unit.pallas_mosaic_gpu")


def reference(x, weights, activation):
    x, weights = x.astype(jnp.float32), weights.astype(jnp.float32)
    return activation(x @ weights[:, 0]) * (x @ weights[:, 1])


@pytest.mark.parametrize("activation", [jax.nn.silu, jnp.tanh])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("device", ["a100", "h100", "b200"])
def test_gated_linear_unit(glu, rand, close, device, shape, activation):
    m, k, n = shape
    x, weights = rand((m, k), 1), rand((k, 2, n), 2, std=k**-0.5)
    with pallas_rs.simulate(device, cores=4):
        got = glu.PallasMosaicGpuGatedLinearUnit()(x, weights, activation=activation)
    assert pallas_rs.last_report().verdict == "clean"
    close(got, reference(x, weights, activation))


@pytest.mark.parametrize("axis", ["cluster_size_m", "cluster_size_n"])
def test_clusters(glu, rand, close, axis):
    x, weights = rand((512, 128), 1), rand((128, 2, 256), 2, std=0.1)
    config = glu.Config(tile_m=128, tile_n=64, tile_k=64, num_stages=2, **{axis: 2})
    with pallas_rs.simulate("h100", cores=4):
        got = glu.PallasMosaicGpuGatedLinearUnit(config=config)(x, weights, activation=jax.nn.silu)
    close(got, reference(x, weights, jax.nn.silu))


@pytest.mark.parametrize("device", ["a100", "h100", "b200"])
def test_batches(glu, rand, close, device):
    x, weights = rand((2, 3, 128, 64), 1, jnp.float16), rand((64, 2, 128), 2, jnp.float16, 0.1)
    with pallas_rs.simulate(device, cores=4):
        got = glu.PallasMosaicGpuGatedLinearUnit()(x, weights, activation=jax.nn.silu)
    close(got, reference(x, weights, jax.nn.silu))
