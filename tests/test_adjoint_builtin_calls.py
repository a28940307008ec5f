"""Python's own functions and forms in loops: map, list, sorted, tuples with stars, and := that reads its own name."""

import math

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb

X = np.array([0.3, 0.5, -0.2, 0.9])


def mapped(x):
    return sum(map(math.sin, x)) + np.sum(np.array(list(map(lambda v: v**2, x))) ** 2)


def mapped_together(x):
    return sum(map(lambda a, b: a * b * x[0], x, x[::-1]))


def square(v):
    return v * v


def in_a_loop(x):
    t = 0.0
    for v in map(square, x):
        t += v * x[1]
    return t


def in_order(x):
    s = sorted(x)
    t = s[0] * 2 + s[-1] ** 2
    for k, v in enumerate(sorted(x, reverse=True)):
        t += k * v * v
    return t + sorted([x[0], x[1] ** 2, x[2] * 3])[1] + sorted(v * v for v in x)[2]


def a_list_of_it(x):
    s = list(x)
    s.append(x[0] ** 2)
    t = 0.0
    for k in list(range(len(s))):
        t += s[k] * k
    return t * s[-1]


def stars(x):
    y = np.zeros((2, *x.shape, 1))
    y[0, :, 0] = x
    y[1, :, 0] = x**2
    a, b, c = (x[0], *(x[1], x[2]))
    return np.sum(y[1] * y[0]) * a * b + c


def counts(x, n):
    i, t = -1, 0.0
    while (i := i + 1) < n:
        if i == 1:
            continue
        t += x[0] ** (i + 1)
    return t


def converges(x):
    v, k = x[0] + 2.0, 0
    while abs((v := 0.5 * (v + x[1] / v)) ** 2 - x[1]) > 1e-14:
        k += 1
        if k > 50:
            break
    else:
        v = v * 3.0
    return v


def in_branches(x):
    a = x[0]
    if (a := a * 2.0) > 10.0:
        return a
    elif (a := a + x[1]) > 1.0:
        return a * a
    return -a


CASES = [
    (mapped, ()), (mapped_together, ()), (in_a_loop, ()), (in_order, ()), (a_list_of_it, ()), (stars, ()),
    (counts, (4,)), (converges, ()), (in_branches, ()),
]  # fmt: skip


@pytest.mark.parametrize("f, more", CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_derivatives(f, more):
    with uncompiled():
        check_derivatives(f, X, *more, compiled=False)


def a_function_of_that_name(x):
    def sorted(v):
        return v * 2.0

    list = lambda v: v * 3.0  # noqa: E731
    return np.sum(sorted(x)) + list(x[0])


def test_a_function_of_that_name():
    with uncompiled():
        value, (x_bar,) = nb.adjoint(a_function_of_that_name).value_and_grad(X)
    assert value == pytest.approx(2.0 * X.sum() + 3.0 * X[0])
    np.testing.assert_allclose(x_bar, [5.0, 2.0, 2.0, 2.0])
