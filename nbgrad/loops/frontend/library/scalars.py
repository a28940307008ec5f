"""NumPy's and Python's functions of single numbers that follow from others."""

from __future__ import annotations

import math

import numpy as np

from ..function_table import Array, definition

__all__: list[str] = []  # they are found through the table


@definition(np)
def logaddexp(x1, x2):
    high, low = np.where(x1 > x2, x1, x2), np.where(x1 > x2, x2, x1)
    return high + np.log1p(np.exp(np.where(np.isinf(high) & ~np.isnan(low), 0.0, low - high)))


@definition(np)
def fix(x):
    return np.trunc(x)


@definition(np)
def heaviside(x1, x2):
    return np.where(x1 != x1, x1, np.where(x1 < 0, 0.0, np.where(x1 > 0, 1.0, x2)))


@definition(math)
def exp2(x):
    return np.exp2(x)


@definition(math)
def cbrt(x):
    return np.cbrt(x)


@definition(np)
def logaddexp2(x1, x2):
    return np.logaddexp(x1 * LOG_2, x2 * LOG_2) / LOG_2


LOG_2 = math.log(2.0)


@definition(np)
def logical_xor(x1, x2):
    return (x1 != 0) != (x2 != 0)


@definition(np)
def modf(x):
    whole = np.trunc(x)
    return np.where(np.isinf(x), np.copysign(0.0, x), x - whole), whole


@definition(math, "modf")
def modf_of_number(x):
    return modf(x)


@definition(np)
def ldexp(x1, x2):
    half = x2 // 2  # the whole power may overflow where the result does not
    return x1 * np.exp2(1.0 * half) * np.exp2(1.0 * (x2 - half))


@definition(math, "ldexp")
def ldexp_of_number(x, i):
    return ldexp(x, i)


@definition(math)
def nextafter(x, y):
    return np.nextafter(x, y)


@definition(math)
def remainder(x, y):
    size, divisor = abs(x), abs(y)
    rest = math.fmod(size, divisor)
    other = divisor - rest
    if rest == other:
        rest -= 2.0 * math.fmod(0.5 * (size - rest), divisor)  # ties to even
    elif rest > other:
        rest = -other
    return math.copysign(1.0, x) * rest


# Integers.


@definition(math)
def gcd(a, b):
    a, b = abs(a), abs(b)
    while b != 0:
        a, b = b, a % b
    return a


@definition(math)
def lcm(a, b):
    found = 0
    if a != 0 and b != 0:
        found = abs(a // gcd(a, b) * b)
    return found


@definition(math)
def factorial(n):
    return perm(n, n)


@definition(math)
def perm(n, k=None):
    if k is None:
        k = n
    check_not_negative(n, k)
    found = 1
    for j in range(n - k + 1, n + 1):
        if found > LARGEST // max(j, 1):
            raise OverflowError("a product of integers that is too large for 64 bits")
        found *= j
    return found


@definition(math)
def comb(n, k):
    check_not_negative(n, k)
    found = 0
    if k <= n:
        found = 1
        for j in range(1, min(k, n - k) + 1):
            if found > LARGEST // n:
                raise OverflowError("a product of integers that is too large for 64 bits")
            found = found * (n - min(k, n - k) + j) // j
    return found


LARGEST = 2**63 - 1


def check_not_negative(n, k):
    if n < 0 or k < 0:
        raise ValueError("a number of things that is negative")


# Sums and products of vectors.


@definition(math)
def prod(iterable: Array, start=1):
    return start * np.prod(iterable)


@definition(math)
def dist(p: Array, q: Array):
    if p.size != q.size:
        raise ValueError("math.dist of points in spaces of different dimensions")
    return np.sqrt(np.sum((p - q) ** 2))


@definition(np)
def isscalar(element):
    return np.ndim(element) == 0


@definition(np)
def size(a, axis=None):
    if axis is not None:
        number = a.shape[axis]
    elif np.ndim(a) == 0:
        number = 1
    else:
        number = a.size
    return number
