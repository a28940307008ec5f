"""SciPy's functions of integers, which compute with floats."""

import numpy as np
import pytest
import scipy.special as sp
from loop_programs import uncompiled

import nbgrad as nb

COUNTS = np.array([3, 4, 6, 5])
ONE = ["gammaln", "digamma", "erf", "erfc", "expit", "ndtr", "expm1", "log1p", "log_expit", "log_ndtr"]
TWO = ["betaln", "xlogy", "xlog1py", "gammainc"]


def of_elements(f, x, counts):
    s = 0.0
    for n in counts:
        s += x * f(n)
    return s


def of_sums(f, x, counts):
    s = 0.0
    for k in range(counts.size):
        s += x * f(counts[k] + k)
    return s


def of_two(f, x, counts):
    s = 0.0
    for n in counts:
        s += f(n, x)
    return s


def of_arrays(f, x, counts):
    return np.sum(f(counts) * x)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["log1p", "expit"])
def test_compiled(name, compiled):
    check(of_elements, getattr(sp, name), compiled)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("f", [of_elements, of_sums, of_arrays])
def test_functions_of_one_number(f, name):
    check(f, getattr(sp, name), compiled=False)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name):
    check(of_two, getattr(sp, name), compiled=False)


def check(f, function, compiled):
    x, h = 1.5, 1e-6
    if compiled:
        value, gradients = nb.adjoint(f).value_and_grad(function, x, COUNTS)
    else:
        with uncompiled():
            value, gradients = nb.adjoint(f).value_and_grad(function, x, COUNTS)
    assert value == pytest.approx(f(function, x, COUNTS), rel=1e-12)
    difference = (f(function, x + h, COUNTS) - f(function, x - h, COUNTS)) / (2 * h)
    assert gradients[1] == pytest.approx(difference, rel=1e-6)
