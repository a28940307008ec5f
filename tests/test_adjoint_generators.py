"""Generators are evaluated where they are made: those that Python evaluates later, or not again, are refused."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.3, 0.5, 0.7])


def total(values):
    return sum(values)


def of_a_name(x):
    g = (v * v for v in x)
    t = sum(g)
    m = map(np.sin, x)
    u = 0.0
    for v in m:
        u += v
    h = [v * x[0] for v in x]
    return t * u + sum(h) + 3 * sum(h) + total(v**3 for v in x) + max(v for v in x)


def test_derivatives():
    with uncompiled():
        check_derivatives(of_a_name, X, compiled=False)


def changed_array(x):
    h = x * 2
    g = (v * v for v in h)
    h[1] = x[0] ** 2
    return sum(g)


def changed_name(x):
    h, k = x * 2, x[0]
    g = (v * k for v in h)
    k = x[1]
    return sum(g)


def changed_constant(x):
    c = 2.0
    g = (v * c for v in x)
    c = 3.0
    return sum(g)


def changed_constant_of_a_map(x):
    c = 2.0
    m = map(lambda v: v * c, x)
    c = 3.0
    return sum(m)


def read_twice(x):
    g = (v * v for v in x)
    return sum(g) + 3 * sum(g)


def mapped_twice(x):
    m = map(np.sin, x)
    return sum(m) + 3 * sum(m)


def read_in_a_loop(x):
    t = 0.0
    g = (v * v for v in x)
    for _ in range(2):
        t += sum(g)
    return t


def read_in_a_comprehension(x):
    g = (v * v for v in x)
    return sum(sum(g) * v for v in x)


def in_a_tuple(x):
    p = ((v * v for v in x), 2.0)
    return sum(p[0]) + sum(p[0])


def returned(x):
    def squares(v):
        return (u * u for u in v)

    g = squares(x)
    return sum(g) + sum(g)


def twice(values):
    return sum(values) + sum(values)


def argument(x):
    return twice(v * v for v in x)


REFUSED = [
    changed_array, changed_name, changed_constant, changed_constant_of_a_map, read_twice, mapped_twice, read_in_a_loop,
    read_in_a_comprehension, in_a_tuple, returned, argument,
]  # fmt: skip


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_refused(f):
    with pytest.raises(TraceError, match="a generator, which is not read where it is made"):
        nb.adjoint(f).value_and_grad(X)


# Functions that are called after the iteration that makes them.


def kept(x):
    fs, gs, defaults, later = [], [], [], x * 0.0
    for i in range(3):
        fs.append(lambda v: v * (i + 1))  # noqa: B023
        defaults.append(lambda v, i=i: v * (i + 1))

        def scaled(v):
            return v * (i + 2)  # noqa: B023

        gs.append(scaled)
        at_once = lambda v: v * (i + 1)  # noqa: B023, E731
        later = later + at_once(x)
    return np.sum(fs[0](x)) + np.sum(gs[1](x)) * 10 + np.sum(defaults[0](x)) * 100 + np.sum(later) * 1000


def test_late_binding():
    with uncompiled():
        check_derivatives(kept, X, compiled=False)
