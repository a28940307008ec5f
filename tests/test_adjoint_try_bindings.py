"""Names that are bound again in the body of a ``try``, before an error leaves it."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled


def rebound_before_an_error(x, y, n):
    u = y * 1.0
    for k in range(n):
        try:
            u = x * 1.0
            if u[k] <= 0.5:
                raise ValueError("small")
            u = u + y
        except ValueError:
            pass
    return np.sum(u * u)


def another_kind_before_an_error(x, y, n):
    u, s = 1.0, 0.0
    for k in range(n):
        try:
            u = x[k] * 2.0
            if u <= 0.5:
                raise ValueError("small")
            u = int(u)
        except ValueError:
            s += u
        s += u * y[k]
    return s


def none_before_an_error(x, y, n):
    best, s = None, 0.0
    for k in range(n):
        try:
            best = x[k]
            if x[k] < 0.5:
                raise ValueError("small")
            best = None
        except ValueError:
            s += 1.0
        s += y[k] if best is None else best
    return s


def in_a_loop_of_the_try(x, y, n):
    u, s = y[0], 0.0
    try:
        for k in range(n):
            u = x[k]
            if x[k] < 0.5:
                raise ValueError("small")
            u = np.array([u, 2.0])
            s += u[1] * y[k]
    except ValueError:
        s *= 2.0
    return s


@pytest.mark.parametrize(
    "f", [rebound_before_an_error, another_kind_before_an_error, none_before_an_error, in_a_loop_of_the_try]
)
@pytest.mark.parametrize("x", [np.array([0.9, 0.2]), np.array([0.2, 0.9]), np.array([0.7, 1.3])], ids=str)
def test_an_error_may_leave_a_try_between_any_statements(f, x):
    with uncompiled():
        agrees(f, (x, np.array([1.0, 2.0]), 2))
