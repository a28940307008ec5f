"""Recursion in loops: inlined where its depth is a constant, refused where it is not."""

import math

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled
from random_loops import Recursive, arguments, function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.5, 1.2, -0.7, 0.3, 0.9, -0.2, 0.6, 1.1])
DEPTH = 3
SETTINGS = (2, 0.5)


def power(n, x):
    return 1.0 if n == 0 else x * power(n - 1, x)


def by_squaring(x, n):
    if n == 0:
        return 1.0
    half = by_squaring(x, n // 2)
    if n % 2 == 1:
        return half * half * x
    return half * half


def of_powers(x, k):
    total = 0.0
    for i in range(x.size):
        total += power(4, x[i]) * k + by_squaring(x[i], 13) + power(DEPTH, k) + power(SETTINGS[0], x[i])
    return total


def legendre(n, x):
    if n == 0:
        return 1.0
    elif n == 1:
        return x
    return ((2 * n - 1) * x * legendre(n - 1, x) - (n - 1) * legendre(n - 2, x)) / n


def chebyshev(n, x):
    if n <= 1:
        return 1.0 if n == 0 else x
    return 2.0 * x * chebyshev(n - 1, x) - chebyshev(n - 2, x)


def hermite(x, n=4):
    if n > 1:
        return 2.0 * x * hermite(x, n - 1) - 2.0 * (n - 1) * hermite(x, n=n - 2)
    return 2.0 * x if n == 1 else 1.0


def of_polynomials(x, k):
    total = hermite(k)
    for v in x[:4]:
        total += legendre(5, v) + k * chebyshev(4, v) + hermite(v, 3)
    return total


def clenshaw(c, x, k, last):
    """b[k] and b[k + 1] of Clenshaw's recurrence, as a tuple."""
    if k == last:
        return c[k], 0.0
    first, second = clenshaw(c, x, k + 1, last)
    return c[k] + 2.0 * x * first - second, first


def of_clenshaw(x, k):
    first, second = clenshaw(x, k, 1, 5)
    return x[0] + k * first - second


def bessel(n, x):
    """Upward recurrence of spherical Bessel functions."""
    if n == 0:
        return math.sin(x) / x
    if n == 1:
        return math.sin(x) / x**2 - math.cos(x) / x
    return (2 * n - 1) / x * bessel(n - 1, x) - bessel(n - 2, x)


def of_bessel(x, k):
    return bessel(4, k) * x[0] + bessel(2, 1.0 + x[1] ** 2)


def simpson(f, a, b, tolerance, depth):
    c = 0.5 * (a + b)
    once = (b - a) / 6.0 * (f(a) + 4.0 * f(c) + f(b))
    twice = (b - a) / 12.0 * (f(a) + 4.0 * f(0.5 * (a + c)) + 2.0 * f(c) + 4.0 * f(0.5 * (c + b)) + f(b))
    if depth == 0 or abs(twice - once) < 15.0 * tolerance:
        return twice + (twice - once) / 15.0
    return simpson(f, a, c, tolerance / 2.0, depth - 1) + simpson(f, c, b, tolerance / 2.0, depth - 1)


def of_simpson(x, k):
    return simpson(lambda t: math.exp(-k * t * t) * x[0], 0.0, x[1], 1e-4, 1)


def halves(x, depth):
    """Divide and conquer, as in Fourier transforms."""
    if depth == 0:
        return np.sum(x**2)
    m = x.size // 2
    return halves(x[:m], depth - 1) - 0.5 * halves(x[m:], depth - 1) + x[0] * x[m]


def butterflies(x, step, depth):
    """Writes an array that it is given."""
    if depth > 0:
        butterflies(x, 2 * step, depth - 1)
        for i in range(0, x.size - step, 2 * step):
            even, odd = x[i], x[i + step]
            x[i] = even + 0.5 * odd
            x[i + step] = even * odd
    return


def of_halves(x, k):
    y = k * x
    butterflies(y, 1, 2)
    return halves(x, 2) + halves(y, 1)


def even(n, x):
    return x if n == 0 else odd(n - 1, 1.1 * x)


def odd(n, x):
    return 0.5 * x if n == 0 else even(n - 1, x * x)


def of_each_other(x, k):
    return even(5, k) * x[0] + odd(3, x[1]) + even(0, x[2])


def of_inner(x, k):
    def tower(depth, v):
        if depth == 0:
            return v
        return math.sin(tower(depth - 1, v)) + k * v

    total = 0.0
    for v in x:
        total += tower(4, v)
    return total


def refined(f, low, high, n):
    """Richardson's extrapolation: two recursive calls, and a loop."""
    if n == 0:
        h, total = (high - low) / 4.0, 0.0
        for i in range(4):
            total += f(low + (i + 0.5) * h) * h
        return total
    finer = 0.5 * (refined(f, low, 0.5 * (low + high), n - 1) + refined(f, 0.5 * (low + high), high, n - 1)) * 2.0
    return finer + (finer - refined(f, low, high, n - 1)) / 3.0


def of_refined(x, k):
    return refined(lambda t: t**3 * x[0] + math.sin(k * t), 0.0, x[1], 2)


PROGRAMS = [
    of_powers,
    of_polynomials,
    of_clenshaw,
    of_bessel,
    of_simpson,
    of_halves,
    of_each_other,
    of_inner,
    of_refined,
]


@pytest.mark.parametrize("f", PROGRAMS)
def test_programs(f):
    check_derivatives(f, X, 0.7, compiled=False)


def test_closed_forms():
    def f(x):
        return legendre(3, x) + by_squaring(x, 10)

    assert nb.adjoint(f).value_and_grad(0.5)[1][0] == pytest.approx((15 * 0.25 - 3) / 2 + 10 * 0.5**9)
    assert nb.tangent(f).jvp((0.5,), (1.0,))[1] == pytest.approx((15 * 0.25 - 3) / 2 + 10 * 0.5**9)
    assert nb.adjoint(f).hvp((0.5,), (1.0,))[0] == pytest.approx(15 * 0.5 + 90 * 0.5**8)


def to_the_depth_of_an_argument(x, n):
    return power(n, x)


def too_deep(x):
    return power(200, x)


def too_often(x):
    return chebyshev(20, x)


def forever(x):
    return forever(x)


def with_an_array(x):
    return np.sum(by_error(x, True))


def by_error(x, again):
    if np.sum(np.abs(x)) < 0.1:
        return x
    return by_error(0.5 * x, again)


DEEP = "(which calls itself more than 64 deep|in which calls are nested too deeply)"


@pytest.mark.parametrize(
    ("f", "args", "said"),
    [
        (to_the_depth_of_an_argument, (0.5, 100), f"power, {DEEP}"),
        (power, (-1, 0.5), f"power, {DEEP}"),
        (too_deep, (0.5,), f"power, {DEEP}"),
        (too_often, (0.5,), "chebyshev, which calls itself more than 256 times"),
        (with_an_array, (X,), "by_error, which calls itself to a depth that is not known"),
    ],
)
def test_refused(f, args, said):
    advice = r".*in '.*'; pass a constant that counts down to a test of it, write a loop, or make it a primitive"
    with pytest.raises(TraceError, match=said + advice) as caught:
        nb.adjoint(f).value_and_grad(*args)
    assert f"{__file__}, line " in str(caught.value)


def test_without_an_end():
    with pytest.raises(
        RecursionError, match="forever calls itself more than 3 deep, which values decide; pass a constant"
    ):
        nb.adjoint(forever).value_and_grad(0.5)


def price(sign, s, k, t):
    """What is paid for minus an amount, with another sign: known values that go round do not end it."""
    if k < 0.0:
        return -price(-sign, -s, -k, t)
    d = (math.log(s / k) + 0.5 * t) / math.sqrt(t)
    return sign * (s * math.erf(sign * d) - k * math.erf(sign * (d - math.sqrt(t))))


def of_price(s, k):
    return price(1, s, k, 0.5) + price(-1, s, k, 0.25)


def exchanged(sign, s, k):
    if s < k and sign == 1:
        return exchanged(-sign, k, s) + s * s
    if s > 3.0 * k and sign == -1:
        return exchanged(sign, k, 0.5 * s) * 2.0
    return s * k**2


def halved(x, again):
    return x if abs(x) < 0.1 else halved(0.5 * x, again)


def of_halved(x):
    return halved(x, True) * x


def down_to_zero(n, x):
    if n <= 0:
        return x * x
    return x * down_to_zero(n - 1, x)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (of_price, (1.2, 1.1)),
        (of_price, (-1.2, -1.1)),
        (price, (1, -1.2, -1.1, 0.5)),
        (price, (-1, 1.2, 1.1, 0.5)),
        (exchanged, (1, 1.0, 2.0)),
        (exchanged, (1, 1.0, 4.0)),
        (exchanged, (-1, 5.0, 1.0)),
        (of_halved, (0.3,)),
        (down_to_zero, (3, 0.7)),
        (down_to_zero, (-1, 0.7)),
    ],
)
def test_known_values_that_do_not_end_it(f, args):
    with uncompiled():
        agrees(f, args)


def test_depths_that_are_arguments():
    """A test of an integer argument by == ends it: code is generated for each of its values."""
    adj, outer = nb.adjoint(power), nb.adjoint(to_the_depth_of_an_argument)
    with uncompiled():
        for n in (3, 0, 5, 3):
            assert adj.value_and_grad(n, 0.5) == (0.5**n, (None, n * 0.5 ** (n - 1)))
            assert outer.value_and_grad(0.5, n) == (0.5**n, (n * 0.5 ** (n - 1), None))


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    import random

    with uncompiled():
        agrees(function(Recursive(random.Random(seed)).source()), arguments(seed), rtol=1e-5)
