"""Exponential integrals, as in the NIST Digital Library of Mathematical Functions, 6.2 and 8.19. Float32 is computed in
float64."""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, inline
from . import bessel_coefficients as c
from .bits import fast_two_sum, fma, horner
from .exponential import exp_times, log, log1p

__all__ = ["exp1", "expi", "expn"]


def _exp1_64(x):
    far = exp_times(-x, horner(2.0 / (x + 2.0) - 1.0 / 3.0, c.E1_FAR) / x)
    return horner(x - 1.0, c.E1_NEAR) - log(x) if x < 1.0 else far


def _exp1_32(x):
    return np.float32(exp1(np.float64(x)))


#: The integral of ``exp(-t)/t`` from x to infinity; inf at 0, NaN below. [2.1 ulp]
exp1 = by_precision(_exp1_32, _exp1_64)


def _expi_64(x):
    # log(x/z) + (x - z)*(...) with the zero z, up to 6; exp(x)/x times a polynomial in 1/x
    zero, zero_low = c.EI_ZERO
    d = (x - zero) - zero_low
    share = log1p(d / zero) if abs(d) < 0.125 else log(x / zero)
    near = fma(d, horner(x, c.EI_NEAR), share)
    b = 1000.0 if x > 1000.0 else x  # there it is infinite
    i = 1.0 / b
    y = horner(i - 0.125, c.EI_6) if b < 12.0 else horner(i - 0.0625, c.EI_12)
    y = y if b < 24.0 else horner(i - 0.02, c.EI_24)
    y = near if x < 6.0 else exp_times(b, y * i)
    return y if x >= 0.0 else -exp1(-x)


def _expi_32(x):
    return np.float32(expi(np.float64(x)))


#: The integral of ``exp(t)/t`` from minus infinity to x, its principal value; -inf at 0. [2.9 ulp]
expi = by_precision(_expi_32, _expi_64)


@inline
def _fraction(n, x):
    """``exp(x)*E_n(x)`` for x + n > 1, by the even part of the continued fraction 8.19.17, summed forwards."""
    b = x + n
    term = 1.0 / b
    d, y, low, k = term, term, 0.0, 0.0
    while abs(term) > 1e-17 * y and k < 500.0:
        k += 1.0
        b += 2.0
        share = k * (k + n - 1.0) * d
        d = 1.0 / (b - share)
        term *= share * d
        y, rest = fast_two_sum(y, term)
        low += rest
    return y + low


@inline
def _expn(n, x):
    # n*E_(n+1) = exp(-x) - x*E_n (8.19.12): upwards for x <= 1, downwards from E_0 for n < 0, which derivatives need
    if n != math.floor(n) or abs(n) > 1e9 or not x >= 0.0:
        return math.nan
    if x == 0.0:
        return 1.0 / (n - 1.0) if n > 1.0 else math.inf
    e = math.exp(-x)
    if n < 1.0:
        y, k = e / x, 0.0
        while k > n and y > 0.0 and y < math.inf:
            k -= 1.0
            y = (e - k * y) / x
        return y
    if n > 1.0 and (x > 1.0 or n > 20.0):
        return exp_times(-x, _fraction(n, x))
    y, k = exp1(x), 1.0
    while k < n:
        y = (e - x * y) / k
        k += 1.0
    return y


@inline
def expn(n, x):
    """The integral of ``exp(-x*t)/t^n`` from 1 to infinity, for whole n and x >= 0; else NaN. [3.4 ulp, n up to 30]"""
    return type(x)(_expn(np.float64(n), np.float64(x)))
