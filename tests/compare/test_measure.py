"""Errors in numbers, for every kind of element."""

import jax.numpy as jnp
import numpy as np
import pytest
from pallas_rs._compare._measure import measure
from pallas_rs._compare._tolerance import Tolerance

FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]


def compare(a, b, rtol=0.0, atol=0.0):
    return measure("x", a.shape, a, b, Tolerance(rtol, atol))


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbours_are_one_unit_apart(dtype):
    one = np.ones(1, jnp.dtype(dtype))
    eps = float(jnp.finfo(dtype).eps)
    above = (one.astype(np.float64) + eps).astype(one.dtype)
    below = (one.astype(np.float64) - eps / 2).astype(one.dtype)
    assert compare(above, one).max_ulp == 1
    assert compare(below, one).max_ulp == 1
    assert compare(above, below).max_ulp == 2
    assert compare(above, one).max_rel == eps


def test_zero_has_neighbours_on_both_sides():
    tiny = np.array([np.finfo(np.float32).smallest_subnormal])
    assert compare(tiny, -tiny).max_ulp == 2
    signed = compare(np.array([0.0], np.float32), np.array([-0.0], np.float32))
    assert (signed.different, signed.max_ulp) == (0, 0)


def test_values_without_a_distance():
    nan, inf, one = (np.array([v], np.float32) for v in (np.nan, np.inf, 1))
    assert compare(nan, nan).agrees
    assert compare(inf, inf).agrees
    for a, b in ((nan, one), (one, nan), (inf, one), (one, inf), (inf, -inf)):
        found = compare(a, b, rtol=1.0, atol=1e30)
        assert not found.agrees, (a, b)
        assert found.max_abs == np.inf


def test_integers_do_not_overflow():
    a, b = np.array([2**63 - 1]), np.array([-(2**63)])
    assert compare(a, b).max_abs == pytest.approx(2.0**64)
    u = compare(np.array([0], np.uint8), np.array([255], np.uint8))
    assert u.max_abs == 255


def test_the_histogram_counts_every_element():
    one = np.ones(5, np.float32)
    ranks = (one.view(np.int32) + np.array([0, 1, 2, 3, 5000], np.int32)).view(np.float32)
    assert compare(ranks, one).histogram == (1, 1, 1, 1, 0, 0, 0, 0, 0, 1)


def test_complex_numbers_have_no_units():
    a, b = np.array([1 + 1j], np.complex64), np.array([1 - 1j], np.complex64)
    found = compare(a, b)
    assert (found.max_abs, found.max_ulp) == (2.0, None)


def test_nothing_is_equal_to_nothing():
    empty = np.zeros((0,), np.float32)
    assert compare(empty, empty).agrees
