"""Functions of huge angles are right in whichever lane of a vectorised loop these are."""

import math

import accuracy
import numpy as np
import pytest

from nbgrad.vmath import rare, trigonometric

NAMES = ["sin", "cos", "tan"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_one_huge_angle_among_others(name, dtype):
    function = getattr(trigonometric, name)
    huge = np.dtype(dtype).type(1e20)
    x = np.linspace(-3, 3, 75).astype(dtype)
    ordinary = accuracy.call(function, x, dtype=dtype)
    exact = getattr(math, name)(float(huge))
    for place in range(x.size):
        mixed = x.copy()
        mixed[place] = huge
        got = accuracy.call(function, mixed, dtype=dtype)
        assert got[place] == pytest.approx(exact, rel=2 * float(np.finfo(dtype).eps))
        assert (np.delete(got, place) == np.delete(ordinary, place)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NAMES)
def test_both_ways_agree_at_the_limit(name, dtype):
    limit = np.dtype(dtype).type(rare.LIMITS["f64" if dtype == "float64" else "f32"])
    x = np.array([-limit, np.nextafter(limit, 0), limit, np.nextafter(limit, np.inf)], dtype)
    exact = [getattr(math, name)(float(v)) for v in x]
    assert accuracy.call(getattr(trigonometric, name), x, dtype=dtype) == pytest.approx(exact, rel=3e-7)
