"""What Python evaluates when: scopes of lambdas and comprehensions, tests that end early, arrays that change places."""

import math

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

V = np.array([0.3, -0.5, 0.8, 0.7])


def applied(f, x):
    return f(x)


def lambdas_in_comprehensions(v):
    b = v[3]
    total = sum([applied(lambda t: t * b, 0.5) for t in v])
    total += max(applied(lambda t: t * b, 0.5) * t for t in v)
    total += sum([t for t in v if applied(lambda t: t * b, 0.5) > 0.3])
    for i in range(2):
        total += sum([applied(lambda i: i * b, 2.0) + i for _ in range(2)]) + sum([i * x for i, x in enumerate(v)])
    return total + sum(applied(lambda k: k * b, 0.5) * t for k, t in enumerate(v))


def functions_in_loops(v):
    total = 0.0
    for i in range(2):

        def scaled(i):
            return i * v[0]

        def doubled(x):
            i = x * 2
            return i

        total += scaled(3.0) * i + doubled(v[1])
    return total


def lists_that_grow_from_comprehensions(v):
    t, k = v[3], 2
    first = [0.5 * t for t in v]
    first.append(t)
    second = [t]
    second.extend([v[k] * t for k in range(2)])
    second += [x * y for x in v for y in v[:2]]
    return first[0] + t + second[1] * v[k] + second[-1]


@numba.njit
def small(x):
    if x > 0.1:
        raise ValueError("x")
    return x


def chains(v):
    h, b = 0.2, v[3]
    if 0.5 < v[0] <= (h := b):
        h = 1.0
    try:
        inside = 0.5 < v[0] < 1.0 / (b - b)
    except ZeroDivisionError:
        inside = True
    if 0.5 < v[0] < small(b) or inside:
        return b
    if -2 < v[1] < v[0] < 3 < v[2] + 5 and 0 < abs(v[1]) * 0.5 <= math.sqrt(v[0]):
        return h * b * 2
    return h


ACCEPTED = [lambdas_in_comprehensions, functions_in_loops, lists_that_grow_from_comprehensions, chains]


@pytest.mark.parametrize("f", ACCEPTED, ids=lambda f: f.__name__)
def test_accepted(f):
    with uncompiled():
        check_derivatives(f, V, compiled=False)


# Arrays that change places.


@numba.njit
def stepped(a, b, n):
    for _ in range(n):
        k = a * b
        b, k = k, b
    return np.sum(b * a)


@numba.njit
def filled(u, new, c):
    for i in range(u.size):
        new[i] = u[i] + c * np.sin(u[i - 1])


def steps(u, c, n):
    for _ in range(n):
        new = np.empty_like(u)
        for i in range(u.size):
            new[i] = u[i] + c * np.sin(u[i - 1])
        u, new = new, u
    return np.sum(u**2)


def steps_of_a_function(u, c, n):
    for _ in range(n):
        new = np.empty_like(u)
        filled(u, new, c)
        u, new = new, u
    return np.sum(u**2)


def rotated(a, b, c, n):
    """What the reverse sweep puts back is never the caller's."""
    for j in range(n):
        for _ in range(j + 1):
            a, b = b, a
            c, b = b, c
        c *= a
    return 0.5


CHANGING = {
    "stepped": (stepped.py_func, V, V[::-1] * 0.5, 3),
    "steps": (steps, V, 0.3, 3),
    "steps_of_a_function": (steps_of_a_function, V, 0.3, 3),
    "rotated": (rotated, V, V * 2, V * 3, 3),
}


def copied(args):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


@pytest.mark.parametrize("name", CHANGING)
def test_callers_keep_their_arrays(name):
    f, *args = CHANGING[name]
    ours, theirs = copied(args), copied(args)
    with uncompiled():
        value = nb.adjoint(f).value_and_grad(*ours)[0]
    np.testing.assert_allclose(value, f(*theirs), rtol=1e-14)
    for mine, there in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, there, rtol=1e-14)
    if name != "rotated":
        check_derivatives(f, *args, compiled=False)


def test_a_called_function_does_not_write_what_it_swaps():
    def f(a, b):
        return stepped(a, b, 3) + 10 * np.sum(b)

    with uncompiled():
        check_derivatives(f, V, V[::-1] * 0.5, compiled=False)


@numba.njit
def exchanged(x, y, s):
    x, y = y, x
    x -= s


def of_one_array(a, s):
    exchanged(a, a, s)
    return np.sum(a)


def of_overlapping_parts(a, s):
    exchanged(a[1:], a[:-1], s)
    return np.sum(a)


def by_another_name(a, s):
    k, b = a, np.zeros(len(a))
    for _ in range(3):
        k, b = b, k
        b[0] += s
    return np.sum(a * a)


def written_after_the_swap(u, c):
    for _ in range(3):
        new = u * c
        u, new = new, u
        new[1] = 3.0
    return np.sum(u)


def put(x, out=None):
    out[0] = x
    return x


def by_a_keyword(u, c):
    for _ in range(3):
        new = u * c
        u, new = new, u
        put(c, out=new)
    return np.sum(u)


def by_a_method(u, c):
    for _ in range(3):
        new = u * c
        u, new = new, u
        new.fill(c)
    return np.sum(u)


def in_a_test(u, c):
    for _ in range(3):
        new = u * c
        u, new = new, u
        while put(c, new) < 0.0:
            c *= 2.0
    return np.sum(u)


REFUSED = [of_one_array, of_overlapping_parts, by_another_name, written_after_the_swap, by_a_keyword, by_a_method,
           in_a_test]  # fmt: skip


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_refused(f):
    with pytest.raises(TraceError, match="swapped"):
        nb.adjoint(f).value_and_grad(V, 0.5)


def with_a_copy(x, y):
    row = y.copy()
    row, x = x, row
    return x[0] * row[1]


def test_arrays_of_two_kinds_do_not_change_places():
    for args in ((V, np.arange(4)), (np.arange(4), V)):
        with pytest.raises(TraceError, match="a swap of arrays of different kinds in 'row, x = x, row'"):
            nb.adjoint(with_a_copy).vjp(*args)


def test_rows_of_one_matrix_change_places():
    def f(x):
        m = x * 1.0
        exchanged(m[0], m[1], 0.5)
        return np.sum(m * m)

    with uncompiled():
        check_derivatives(f, np.outer(V, V), compiled=False)


def indexed(a, places, n):
    for i in range(n):
        a[places[0]] += 0.1 * i
    return np.sum(a * a)


def test_checks_of_loops_without_iterations_read_no_elements():
    with uncompiled():
        assert nb.adjoint(indexed).value_and_grad(np.ones(3), np.zeros(0, int), 0)[0] == 3.0


def set_in_a_branch(x, s, flag):
    if flag:
        k = np.sin(s)
        for _ in range(3):
            x[0] = np.cos(s + k)
    return x[0] * s


@pytest.mark.parametrize("flag", [0, 1])
def test_what_a_branch_sets_is_not_read_where_it_is_not_taken(flag):
    """The factor sin(s + k) of the second derivative stays in the branch."""
    x = V.copy()
    with uncompiled(shuffle=False):
        products = nb.adjoint(set_in_a_branch).hvp((x, 0.3, flag), (V, 1.0, None))
    step = 1e-6
    ahead, behind = (nb.adjoint(set_in_a_branch).value_and_grad(V + e * V, 0.3 + e, flag)[1] for e in (step, -step))
    for product, a, b in zip(products[:2], ahead, behind, strict=False):
        np.testing.assert_allclose(product, (a - b) / (2 * step), atol=1e-8)
