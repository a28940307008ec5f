"""Loops that search by tests: a warning says that the derivative is not that of what they find."""

import math
import warnings

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import DerivativeWarning


def kepler(M, e):
    low, high = M - e, M + e
    while high - low > 1e-13:
        E = (low + high) / 2
        if E - e * math.sin(E) < M:
            low = E
        else:
            high = E
    return (low + high) / 2


def cubic(x, a):
    return x**3 - a


def with_a_count(a):
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if cubic(middle, a) * cubic(low, a) <= 0:
            high = middle
        else:
            low = middle
    return middle


def with_a_break(a, tolerance):
    low, high = 0.0, 10.0
    at_low = cubic(low, a)
    while True:
        middle = 0.5 * (low + high)
        value = cubic(middle, a)
        if abs(value) < tolerance:
            break
        if value * at_low < 0:
            high = middle
        else:
            low, at_low = middle, value
    return middle


def golden_section(a):
    low, high = -3.0, 3.0
    while high - low > 1e-8:
        left, right = high - 0.618 * (high - low), low + 0.618 * (high - low)
        if (left - a) ** 2 < (right - a) ** 2:
            high = right
        else:
            low = left
    return 0.5 * (low + high)


def in_a_loop(xs):
    total = 0.0
    for i in range(xs.size):
        total += with_a_count(xs[i])
    return total


def newton(a):
    x = 1.0
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def largest(x, threshold):
    best, chosen = x[0], 0.0
    for i in range(x.size):
        if x[i] > best:
            best = x[i]
        if x[i] > threshold:
            chosen = best
    return best + chosen


def adaptive(rate, tolerance):
    t, y, h = 0.0, 1.0, 0.1
    while t < 1.0:
        once = y + h * rate * y
        half = y + h / 2 * rate * y
        twice = half + h / 2 * rate * half
        if abs(once - twice) > tolerance:
            h *= 0.5
        else:
            t, y, h = t + h, twice, 1.5 * h
    return y


def clipped(x, low, high):
    total = 0.0
    for i in range(x.size):
        v = x[i]
        if v < low:
            v = low
        if v > high:
            v = high
        total += v
    return total


def only_a_choice(a):
    """A search whose result only decides what is computed."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if cubic(middle, a) > 0:
            high = middle
        else:
            low = middle
    return a * a if middle > 1.0 else a


def by_bools_as_factors(a):
    low, high = 0.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        below = middle * middle <= a
        low = low + (middle - low) * below
        high = high + (middle - high) * (not below)
    return middle


def by_two_products(a):
    low, high = 0.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        below = middle * middle <= a
        low = below * middle + (1 - below) * low
        high = middle * (1 - below) + high * below
    return middle


def by_values_of_conditions(a):
    low, high = 0.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        low = middle if middle * middle <= a else low
        high = np.where(middle * middle <= a, high, middle)
    return middle


def masked_sum(x):
    total = 0.0
    for i in range(x.size):
        total = total + x[i] * (x[i] > 0)
    return total


def steps_of_another_length(a):
    """A sum of steps: no variable is set to another one."""
    x, long, short = 0.0, 0.5, 0.2
    for _ in range(9):
        below = x * x <= a
        x = x + (long - short) * below
    return x * a


def held_by_a_choice(x, a):
    """What a test chooses among others is no step of a search, though later tests ask for it."""
    low, high, s = 0.2, 0.7, 0.1
    held = high
    for i in range(x.size):
        if i % 2:
            continue
        held = low if held * a < x[i] else high
        s += held * a
    return s


def largest_by_products(x):
    most = x[0]
    for i in range(x.size):
        most = most + (x[i] - most) * (x[i] > most)
    return most


@pytest.mark.parametrize(
    ("f", "args", "line"),
    [
        (kepler, (1.0, 0.5), "while high - low > 1e-13:"),
        (with_a_count, (2.0,), "for _ in range"),
        (with_a_break, (2.0, 1e-9), "while True:"),
        (golden_section, (0.5,), "while high - low > 1e-8:"),
        (in_a_loop, (np.array([2.0, 3.0]),), "for _ in range"),
        (by_bools_as_factors, (2.0,), "for _ in range"),
        (by_two_products, (2.0,), "for _ in range"),
        (by_values_of_conditions, (2.0,), "for _ in range"),
    ],
)
def test_searches_warn_once(f, args, line):
    adj = nb.adjoint(f)
    with pytest.warns(DerivativeWarning, match=f"(low and high|high and low) in .{line}") as caught:
        adj.value_and_grad(*args)
    assert caught[0].filename == __file__
    assert "nb.fixed_point(residual=...)" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adj.value_and_grad(*args)
        assert "are moved by tests alone" in adj.explain(*args)
    with pytest.warns(DerivativeWarning, match=line):
        nb.tangent(f).jvp(args, tuple(np.ones_like(a) for a in args))


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (newton, (2.0,)),
        (largest, (np.arange(3.0), 1.0)),
        (adaptive, (1.0, 1e-4)),
        (clipped, (np.arange(3.0), 0.5, 1.5)),
        (only_a_choice, (2.0,)),
        (masked_sum, (np.arange(-1.0, 3.0),)),
        (largest_by_products, (np.arange(3.0),)),
        (steps_of_another_length, (2.0,)),
        (held_by_a_choice, (np.arange(4.0), 0.5)),
    ],
)
def test_other_loops_do_not(f, args):
    nb.adjoint(f).value_and_grad(*args)


def test_searches_for_what_is_not_differentiated_do_not():
    nb.adjoint(with_a_break, 1)
    adj = nb.adjoint(lambda a, x: with_a_break(a, 1e-9) * x, 1)
    assert adj.value_and_grad(2.0, 3.0)[1] == pytest.approx(2 ** (1 / 3))
