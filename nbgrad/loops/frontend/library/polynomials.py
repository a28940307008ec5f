"""NumPy's functions of polynomials, whose coefficients begin with that of the highest power."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, holds_floats, numbers_of, refuse_call

__all__: list[str] = []  # they are found through the table


@definition(np)
def polyval(p: Array, x: Array):
    if np.ndim(x) == 0:
        found = polynomial(p, x)
    else:
        found = np.empty(x.shape, numbers_of(p, x))
        for index in np.ndindex(x.shape):
            found[index] = polynomial(p, x[index])
    return found


def polynomial(p, x):
    y = 0
    for k in range(p.size):
        y = y * x + p[k]
    return y


@definition(np)
def polyadd(a1: Array, a2: Array):
    return aligned_sum(a1, a2, 1)


@definition(np)
def polysub(a1: Array, a2: Array):
    return aligned_sum(a1, a2, -1)


def aligned_sum(a, b, sign):
    n = max(a.size, b.size)
    first = np.concatenate((np.zeros(n - a.size, a.dtype), a))
    return first + sign * np.concatenate((np.zeros(n - b.size, b.dtype), b))


@definition(np)
def polymul(a1: Array, a2: Array):
    return np.convolve(a1, a2)


@definition(np)
def polyder(p: Array, m=1):
    n = max(p.size - m, 0)
    found = np.empty(n, p.dtype)
    for k in range(n):
        factor = 1
        for j in range(m):
            factor *= p.size - 1 - k - j
        found[k] = p[k] * factor
    return found


@definition(np)
def polyint(p: Array, m=1):
    found = np.zeros(p.size + m)
    for k in range(p.size):
        factor = 1.0
        for j in range(m):
            factor *= p.size + j - k
        found[k] = p[k] / factor
    return found


@definition(np)
def polyfit(x: Array, y: Array, deg):
    if np.ndim(x) != 1 or np.ndim(y) != 1:
        refuse_call("np.polyfit of several columns: call it for each")
    if x.size != y.size or x.size == 0:
        raise ValueError("np.polyfit of vectors of different lengths, or without elements")
    powers = vander(x, deg + 1)
    scale = np.sqrt(np.sum(powers * powers, axis=0))
    return np.linalg.lstsq(powers / scale, y.astype(np.float64), x.size * 2.2e-16)[0] / scale


@definition(np)
def vander(x: Array, N=-1, increasing=False):
    n = x.size if N < 0 else N
    if holds_floats(x):
        found = np.ones((x.size, n))
    else:
        found = np.ones((x.size, n), np.int64)
    for i in range(x.size):
        if increasing:
            for j in range(1, n):
                found[i, j] = found[i, j - 1] * x[i]
        else:
            for j in range(n - 2, -1, -1):
                found[i, j] = found[i, j + 1] * x[i]
    return found
