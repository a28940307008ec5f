"""Functions that return an argument as it was given, or a new array, by the values in it."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

U = np.linspace(-0.9, 1.1, 6)


def at_most(a, t):
    """The argument itself, or a new array."""
    largest = np.max(np.abs(a))
    if largest < t:
        return a
    return a * (t / largest)


def bound_in_a_loop(x, t):
    z = x
    for k in range(3):
        z = at_most(z, 0.5 * t * k + 1.0)
    return np.sum(z**3)


def copied(x, t):
    y = x * 1.0
    z = at_most(y, t).copy()
    y[0], z[1] = 3.0, 2.0
    return np.sum(z * y)


def used_at_once(x, t):
    y = x * 1.0
    for k in range(3):
        y[k] = np.linalg.norm(at_most(y, t))
    return np.sum(y)


def steps(x, t):
    p, s = x * 1.0, 0.0
    for k in range(3):
        w = p
        p = p + 0.1 * at_most(p, t)
        s += np.sum(w * p)
        p[k] = t
    return s + np.sum(p)


@pytest.mark.parametrize("t", [0.7, 9.0], ids=["new", "argument"])
@pytest.mark.parametrize("f", [bound_in_a_loop, copied, used_at_once, steps], ids=lambda f: f.__name__)
def test_results_that_may_be_arguments(f, t):
    with uncompiled():
        agrees(f, (U, t))


def written_with_its_name(x, t):
    y = x * 1.0
    z = at_most(y, t)
    y[0] = 3.0
    return np.sum(z * y)


def written_in_the_next_iteration(x, t):
    y, s = x * 1.0, 0.0
    z = y * 2
    for k in range(3):
        s += np.sum(z)
        z = at_most(y, t)
        y[k] = s
    return s


def in_a_list(x, t):
    y = x * 1.0
    zs = []
    for k in range(3):
        zs.append(at_most(y, t + k))
    y[0] = 3.0
    return np.sum(zs[0]) + np.sum(zs[2] * y)


@pytest.mark.parametrize("f", [written_with_its_name, written_in_the_next_iteration, in_a_list])
def test_a_write_while_a_result_may_be_the_argument_is_refused(f):
    with pytest.raises(TraceError, match=r"a write to an array|a result that is an argument"):
        nb.adjoint(f).value_and_grad(U, 9.0)


def test_new_arrays_that_are_reshaped_are_no_arguments():
    def f(x, t):
        w = np.kron(np.ones(2), x)
        w[0] = t
        return np.sum(w**2)

    with uncompiled():
        agrees(f, (U, 0.7))


def test_matrices_that_become_shorter():
    def f(x, t):
        y, z, s = x, x * t, 0.0
        for _ in range(2):
            y = y[1:]
            z = z[:-1, 1:] * t
            s += np.sum(y**2) + np.sum(z**3)
        return s

    with uncompiled():
        agrees(f, (U[:, None] * np.arange(1.0, 5.0), 0.7))
