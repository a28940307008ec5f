"""Tuples that are assigned side by side: all values are those from before the statement."""

from collections import namedtuple

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

Point = namedtuple("Point", "x y")


def swapped(v):
    a = (v[0], v[1])
    b = (v[2], v[3])
    a, b = b, a
    return a[0] * 2.0 + a[1] * b[0]


def swapped_in_a_branch(v):
    a, b = (v[0], v[1]), (v[2], v[3])
    if v[0] > 0.1:
        a, b = b, a
    if v[1] > 0.1:
        t = a
        a = b
        b = t
    return a[0] * 2.0 + a[1] * b[0]


def rotated_points(v):
    a, b, c = Point(v[0], v[1]), Point(v[2], v[3]), Point(v[1], v[0])
    for _ in range(4):
        a, b, c = b, c, a
        a, c = Point(a.y, a.x), Point(c.x * 0.9, b.y)
    return a[0] * 2.0 + a[1] * b[0] + c.y**2


def beside_a_number(v):
    a, b, s = (v[0], v[1]), (v[2], v[3]), v[2]
    (a, b), s = (b, a), s + a[0]
    for _ in range(3):
        a, s = (s, a[0] * a[1]), a[0]
    return a[0] * 2.0 + a[1] * s + b[1]


def nested(v):
    s = ((v[0], v[1]), (v[2], v[3]))
    s = (s[1], s[0])
    for _ in range(3):
        s = (s[1], (s[0][1], s[0][0] * 0.9))
    return s[0][0] * 2.0 + s[0][1] * s[1][0]


def two_least(v):
    least, second = (v[0], v[1]), (0.5, 0.7)
    for k in range(4):
        d = (v[k] * 1.1, v[k] ** 2)
        if d[0] < least[0]:
            least, second = d, least
        elif d[0] < second[0]:
            second = d
    return least[1] * 2 + second[1] * second[0]


def with_items(v):
    (x, y), (z, w) = (v[0], v[1]), (v[2], v[3])
    (x, y), (z, w) = (y, z), (w, x)
    return x * y**2 + z * w**3


def with_arrays(v):
    a, b = (v[0], v[1] * v), (v[2], v[3] * v[::-1])
    for k in range(3):
        a, b = b, a
        if v[k] > 0.2:
            a, b = (b[0], a[1]), (a[0], b[1] * 2)
    return a[0] * 2.0 + a[1][0] * b[0] + b[1][1] ** 2


def arrays_alone(v):
    a, b, c = (v * 2, v * 3), (v * 4, v[::-1] * 3), v * 5
    for _ in range(3):
        a, b = (b[1], a[0]), (a[1], b[0])
        a, c = (c, a[0]), a[1]
    return a[0][1] * b[1][0] + a[1][0] * b[0][2] + c[0] ** 2


def nested_with_arrays(v):
    p = (v, (v[::-1] * 2, v[0]))
    if v[1] > -9.0:
        p = (p[0] * v[1], (p[0], v[1]))
    for _ in range(2):
        p = (p[1][0], (p[0], p[1][1] * 0.9))
    q = Point(v * 2, (v[0], v))
    for _ in range(2):
        q = Point(q.x * 0.5, (q.y[0], q.x))
    return p[0][0] + p[1][0][1] * p[1][1] + np.sum(q.x * q.y[1])


@numba.njit
def in_order(a, b):
    if a[0] > b[0]:
        a, b = b, a
    return a[0] * 2.0 + a[1] * b[0]


@numba.njit
def pair(a, b):
    return (b[0] * 2.0, a[1]), (a[0], b[1])


def parameters(v):
    a, b = (v[0], v[1]), (v[2], v[3])
    total = in_order(a, b) + in_order(b, a) + in_order(Point(v[3], v[2]), Point(v[1], v[0]))
    for _ in range(3):
        a, b = pair(b, a)
    return total + a[0] * 2.0 + a[1] * b[0] + b[1] ** 2


ACCEPTED = [swapped, swapped_in_a_branch, rotated_points, beside_a_number, nested, two_least, with_items, with_arrays,
            arrays_alone, nested_with_arrays, parameters]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("f", ACCEPTED, ids=lambda f: f.__name__)
def test_accepted(f, seed):
    with uncompiled():
        check_derivatives(f, np.random.default_rng(seed).normal(size=4))


def test_compiled():
    check_derivatives(swapped, np.array([1.0, 2.0, 3.0, 4.0]))
    value, gradient = nb.adjoint(swapped).value_and_grad(np.array([1.0, 2.0, 3.0, 4.0]))
    assert value == 10.0
    np.testing.assert_array_equal(gradient[0], [4.0, 0.0, 2.0, 1.0])


def test_parameters_of_the_function():
    for args, value, gradients in (
        (((1.0, 2.0), (3.0, 4.0)), 8.0, ((2.0, 3.0), (2.0, 0.0))),
        (((3.0, 4.0), (1.0, 2.0)), 8.0, ((2.0, 0.0), (2.0, 3.0))),
    ):
        assert nb.adjoint(in_order).value_and_grad(*args) == (value, gradients)


def written(v):
    a, b = (v[0], v[1] * v), (v[2], v[3] * v)
    if v[0] > 0.5:
        a, b = b, a
        a[1][0] = 3.0
    return a[1][0] * b[0]


def not_taken(p, t):
    if p > 100.0:
        t = t[::-1]
    return p * t[1] ** 2


def each_iteration(p, t):
    for k in range(3):
        p += t[0] ** 2 * (k + 1)
        t = t[::-1]
    return p


def loop_without_iterations(p, t):
    while p > 100.0:
        t = t[0:2]
        p -= 1.0
    return p * t[1] ** 2


def under_another_name(p, t):
    u = t
    if p > 100.0:
        t = u[::-1]
    return p * t[1] + u[0] ** 2


def multiplied_by_one(p, t):
    if p > 100.0:
        t *= 1
    return p * t[1] ** 2


def beside_a_number(p, t):
    if p > 100.0:
        t, p = t[::-1], p * 2.0
    return p * t[1] ** 2


def after_a_return(p, t):
    if p > 100.0:
        return p
    t = t[::-1]
    return p * t[1] ** 2


def of_a_called_function(p, t):
    return not_taken(p, t) + each_iteration(p, t[::-1])


REBOUND = [not_taken, each_iteration, loop_without_iterations, under_another_name, multiplied_by_one, beside_a_number,
           after_a_return, of_a_called_function]  # fmt: skip


@pytest.mark.parametrize("f", REBOUND, ids=lambda f: f.__name__)
def test_a_tuple_of_the_callers_is_bound_in_a_loop_or_branch(f):
    """Its items are parameters: where the statement does not run, the name has these."""
    check_derivatives(f, 0.7, (0.3, -0.27), compiled=False)


def test_a_tuple_of_arrays_of_the_callers_is_bound_in_a_loop():
    def f(p, t):
        for k in range(3):
            t = t[::-1]
            a, b = t
            p += np.sum(a * b[0]) * (k + 1) + a[1] ** 2
        return p

    check_derivatives(f, 0.7, (np.array([0.1, 0.2]), np.array([0.4, 0.3])))


def test_a_parameter_is_written_after_a_tuple_was_bound():
    def f(x, t):
        if x[0] > 100.0:
            t = t[::-1]
        x[0] = t[1]
        return 1.0 * x[1]

    x = np.array([0.5, 0.6])
    with uncompiled():
        nb.adjoint(f).value_and_grad(x, (0.3, -0.27))
    assert x.tolist() == [-0.27, 0.6]


def test_arrays_that_are_written_are_refused():
    with pytest.raises(TraceError, match="arrays assigned to other names"):
        nb.adjoint(written).value_and_grad(np.ones(4))


def in_two_places(v):
    p = (v * 1.0, (v * 2, 0.5))
    for _ in range(2):
        p = (p[0], (p[0], 1.0))
        p[0][0] += 1.0
    return np.sum(p[1][0] * v)


def known_by_a_name(v):
    p = (v * 1.0, v * 2)
    q = p[1]
    for _ in range(2):
        p = (p[1], p[0])
        p[0][0] += 1.0
    return np.sum(p[1] * v) + np.sum(q)


def known_by_a_part(v):
    p = (v * 1.0, (v * 2, 0.3))
    row = p[1][0][1:]
    for _ in range(2):
        p = (p[1][0], (p[0], 0.3))
        p[0][1] += 1.0
    return np.sum(p[1][0] * v) + np.sum(row)


def in_the_next_iteration(v):
    """The write comes before the assignment, and hits in the inner loop's next iteration what is in w, too."""
    u, w = (v[0], v * 0.5), (v[1], v * 2)
    for _ in range(2):
        for _ in range(2):
            u[1][0] += np.sum(u[1])
            u = (v[2], w[1])
        w = (v[2] + u[0], w[1] + v)
    return np.sum(u[1] * v) + np.sum(w[1])


@pytest.mark.parametrize(
    "f", [in_two_places, known_by_a_name, known_by_a_part, in_the_next_iteration], ids=lambda f: f.__name__
)
def test_writes_that_another_name_would_see_are_refused(f):
    """Items that change their places keep who else has them."""
    with pytest.raises(TraceError, match="stands for, too"):
        nb.adjoint(f).value_and_grad(np.arange(1.0, 5.0))


def apart(v):
    p = (v * 1.0, (v * 2, v * 3))
    for _ in range(3):
        p = (p[1][0], (p[1][1], p[0]))
        p[0][0] += 1.0
    return np.sum(p[1][0] * v) + np.sum(p[0]) + p[1][1][2]


def test_items_that_only_the_tuple_has_are_written():
    with uncompiled():
        check_derivatives(apart, np.arange(1.0, 5.0))
