"""Calls that raise an error in any case, and what stands after them."""

import functools

import numba
import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb


def by_option(s, option):
    if option == 1:
        factor = 2.0
    elif option == 2:
        factor = -1.0
    else:
        raise ValueError("unknown option")
    return s * factor


def last_of(s, n):
    p = s
    for k in range(n):
        p = p * 0.5 + by_option(p, 1) * (0.1 + 0.01 * k)
        if p < 0.3:
            return p
    return p + 0.1 * k


def priced(s, side):
    if side == 1:
        return last_of(s, 4) * by_option(s, 1)
    elif side == -1:
        first = by_option(s, 3)
        z = last_of(s, 5)
        w = 0.0
        for k in range(3):
            if s > k:
                w = z * s
                if w > 3.0:
                    break
        if w > 2.0:
            return w * z * first
        return z * first
    return s


def refused_in_one_branch(x):
    s = 0.0
    for v in x:
        if v > 100.0:
            s += by_option(v, 7) * v
            r = s
        else:
            r = v * v
        s += r
    return s


@pytest.mark.parametrize("side", [0, 1])
def test_what_does_not_raise_is_differentiated(side):
    with uncompiled():
        agrees(priced, (1.3, side))
    value, gradients = nb.adjoint(priced).value_and_grad(1.3, side)
    pull = nb.adjoint(priced).vjp(1.3, side)
    assert (pull.value, pull(1.0)) == (value, gradients)


def test_what_raises_raises():
    for call in (nb.adjoint(priced).value_and_grad, nb.adjoint(priced).vjp):
        with pytest.raises(ValueError, match="unknown option"):
            call(1.3, -1)


def test_a_branch_that_raises_in_any_case():
    x = np.array([0.5, 2.0])
    with uncompiled():
        agrees(refused_in_one_branch, (x,))
    with pytest.raises(ValueError, match="unknown option"):
        nb.adjoint(refused_in_one_branch).value_and_grad(np.array([0.5, 200.0]))


def test_arrays_of_the_dtype_of_a_parameter_that_is_bound_again():
    def turned(u):
        if u[0] > 0.0:
            u = np.roll(u, 1)
        return np.sum(u * u * np.arange(3))

    def f(a):
        return turned(a)

    value, (gradient,) = nb.adjoint(f).value_and_grad(np.arange(1.0, 4.0))
    assert value == f(np.arange(1.0, 4.0))
    np.testing.assert_array_equal(gradient, [2.0, 8.0, 0.0])


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args):
        return 2.0 * function(*args)

    return wrapper


@doubled
@numba.njit
def square(x):
    return x * x


def test_what_wraps_a_compiled_function_is_not_left_out():
    def f(x):
        return square(x) + 1.0

    assert nb.adjoint(f).value_and_grad(3.0) == (19.0, (12.0,))
    assert nb.adjoint(square).value_and_grad(3.0)[0] == 18.0
