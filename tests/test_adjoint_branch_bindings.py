"""What kernels of packages do: names bound to other arrays in branches, bools added and multiplied, functions that call
themselves with another sign, constants that are None, sums of very many terms."""

import math

import numba
import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.3, 0.5, 0.7])
TABLE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]])
NOTHING, SOMETHING = None, 2.0


@numba.njit
def row_of_table(latitude, month):
    if latitude < -30:
        lengths = TABLE[0, :]
    elif latitude < 0:
        lengths = TABLE[1, :]
    elif latitude < 30:
        return 9.0
    else:
        lengths = TABLE[2, :]
    return lengths[month - 1] * latitude


def rows_of_tables(latitude):
    return row_of_table(latitude, 1) + row_of_table(latitude + 30, 2) + row_of_table(latitude + 60, 3)


@numba.njit
def interpolated(theta, phi, y):
    if theta[-1] < theta[0]:
        theta = theta[::-1]
        phi = phi[::-1]
    return np.interp(y, theta, phi) * np.sum(theta * np.arange(3))


def both_directions(x, y):
    return interpolated(x, x * x, y) + interpolated(x[::-1], x, y)


def windows(x):
    s = 0.0
    n = len(x)
    for i in range(n):
        if i < 2:
            near = x[:3]
        elif i >= n - 2:
            near = x[n - 3 :]
        else:
            near = x[i - 1 : i + 2]
        s += np.sum(near * near) * (i + 1)
    return s


@numba.njit
def option(forward, strike, s, sign):
    intrinsic = abs(max(sign * (forward - strike), 0.0))
    if sign * (forward - strike) > 0:
        return intrinsic + option(forward, strike, s, -sign)
    return intrinsic + s * math.exp(-((forward - strike) ** 2)) * forward


def options(forward, s):
    return option(forward, 1.0, s, 1.0) + option(forward, 1.0, s, -1.0)


def constants(x):
    if NOTHING is not None and x > 0:
        return x * NOTHING
    if SOMETHING is not None and TABLE is not None:
        return x * x * SOMETHING * TABLE[1, 1]
    return x


def kepler(nu, e):
    return nu - e * math.sin(nu)


def unpacked(nu, e):
    first, second = [kepler(v, e) for v in [nu, 2 * nu]]
    return first * second


def tuples_of_slices(x):
    block, row = (slice(0, 2), slice(1, 3)), (1, slice(None))
    m = np.outer(x, x)
    m[block] += x[:2]
    return np.sum(m[block] ** 2) + np.sum(m[row])


def bools(x):
    r = 2.0 * x
    r[(r > 0.5) * (r < 1.3)] = x[0]
    both = (x > 0.6) + (x < 0.4)
    both += x > 2.0
    return np.sum(r) + np.sum(both) * x[1] + np.sum(np.multiply(both, x < 0.4) * x) + np.sum(x[both * True])


PROGRAMS = [
    (rows_of_tables, (-40.0,)),
    (both_directions, (X, 0.45)),
    (windows, (np.arange(7.0) + 0.1,)),
    (options, (1.2, 0.3)),
    (options, (0.7, 0.3)),
    (constants, (0.3,)),
    (unpacked, (0.3, 0.1)),
    (tuples_of_slices, (X,)),
    (bools, (X,)),
]


@pytest.mark.parametrize(("program", "args"), PROGRAMS)
def test_programs(program, args):
    with uncompiled():
        agrees(program, args)


def test_a_sum_of_very_many_terms():
    terms = "\n        + ".join(f"{k + 1}.5e-3 * x**{k % 7} * y" for k in range(500))
    f = function(f"def f(x, y):\n    z = (\n        {terms}\n    )\n    return z * y\n")
    with uncompiled():
        agrees(f, (0.4, 0.7))


@numba.njit
def factorial(x):
    if x <= 1.0:
        return 1.0
    return x * factorial(x - 1.0)


def test_recursion_that_values_make_deep_is_an_error_when_it_is_met():
    f = function("def f(x):\n    return factorial(x)\n", {"factorial": factorial})
    with uncompiled():
        assert nb.adjoint(f).value_and_grad(2.5) == (3.75, (4.0,))
        with pytest.raises(RecursionError, match="factorial calls itself more than 3 deep, which values decide"):
            nb.adjoint(f).value_and_grad(9.5)


@pytest.mark.parametrize("expression", ["(x > 0.5) - (x > 0.2)", "-(x > 0.5)", "np.subtract(x > 0.5, x > 0.2)"])
def test_differences_of_bools_are_refused(expression):
    f = function(f"def f(x):\n    return np.sum(({expression}) * x)\n")
    with pytest.raises(TraceError, match="of bools"):
        nb.adjoint(f).value_and_grad(X)


def kept_by_the_caller(p, e):
    c = p * 2.0
    if e > 0.5:
        c = p
    return c


def written_by_another_name(a, b, e):
    c = a * 2.0
    if e > 0.5:
        c = a
    b[0] = 5.0
    return np.sum(c)


@pytest.mark.parametrize(
    "body",
    [
        "q = kept_by_the_caller(p, e)\n    p[0] = 7.0\n    return np.sum(q)",
        "return written_by_another_name(p, p, e)",
        "return written_by_another_name(p, p[:2], e)",
        "return written_by_another_name(p.reshape(3, 1)[:, 0], p, e)",
    ],
)
def test_no_copy_takes_the_place_of_an_array_that_may_be_written(body):
    """Either the value is Python's, or it is refused."""
    names = {"kept_by_the_caller": kept_by_the_caller, "written_by_another_name": written_by_another_name}
    f = function(f"def f(p, e):\n    {body}\n", names)
    with uncompiled():
        try:
            value = nb.adjoint(f).value_and_grad(X.copy(), 0.7)[0]
        except TraceError as err:
            assert "another array under the name" in str(err)
        else:
            assert value == pytest.approx(f(X.copy(), 0.7))
