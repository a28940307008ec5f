"""Modified Bessel functions of real orders.

K of the orders m, |m| <= 1/2, and m + 1 comes from series below 1 (Temme 1975, as in :mod:`.bessel_orders`), from the
trapezoidal rule for its integral (NIST Digital Library of Mathematical Functions, 10.32.9) below 20, and from Hankel's
expansion (10.40.2) beyond; 0 and 1 from polynomials. Other orders follow upwards (10.29.1). I is a power series
(10.25.2), Hankel's expansion (10.40.1), or what its ratio to the next order, a continued fraction (10.33.1), and the
Wronskian ``I_v*K_(v+1) + I_(v+1)*K_v = 1/x`` make of K. Loops keep these scalar.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import inline
from . import coefficients, modified_bessel, trigonometric
from .bessel_orders import (
    LARGEST_ORDER,
    hankel_terms,
    hyperbolic_parts,
    inverse_gammas,
    is_odd,
    is_whole,
    power_series,
    turn,
)
from .bits import fma, two_sum
from .exponential import exp_factors

__all__ = ["iv", "ive", "kn", "kv", "kve"]

_LARGE = 2.0**512  # numbers that grow beyond it are divided by it


@inline
def _temme(m, x):
    """``exp(x)*K`` of the orders m and m + 1 for |m| <= 1/2 and x < 1."""
    even, odd = inverse_gammas(m)
    log = math.log(2.0) - math.log(x)
    power = math.pow(x, -m) * math.exp(m * math.log(2.0))
    p, q = 0.5 * power / (even - m * odd), 0.5 / (power * (even + m * odd))
    cosh, sinhc = hyperbolic_parts(m * log, power)
    f = (cosh * odd + sinhc * log * even) / trigonometric.sinc(m)
    z = 0.25 * x * x
    share, k = 1.0, 0.0
    first, second = f, p
    change = p
    while abs(change) > 1e-17 * abs(second) or k < 2.0:
        k += 1.0
        f = (k * f + p + q) / (k * k - m * m)
        p /= k - m
        q /= k + m
        share *= z / k
        first += share * f
        change = share * (p - k * f)
        second += change
    e = math.exp(x)
    return e * first, e * (2.0 / x * second)


@inline
def _trapezoids(m, x):
    """The same for x from 1 to 20: the integral of ``exp(-x*(cosh(t) - 1))*cosh(v*t)``."""
    step = 0.2 if x < 8.0 else 0.56 / math.sqrt(x)
    growth, more = math.exp(step), math.exp(step * m)
    e, up = 1.0, 0.5
    first, second, change = 0.5, 0.5, 0.5
    while change > 1e-17 * second:
        e *= growth
        up *= more
        fall = math.exp(-0.5 * x * (e - 1.0) * (e - 1.0) / e)
        down = 0.25 / up
        first += fall * (up + down)
        change = fall * (up * e + down / e)
        second += change
    return step * first, step * second


@inline
def _start(m, x):
    """``exp(x)*K`` of the orders m and m + 1 for |m| <= 1/2."""
    if m == 0.0:
        return modified_bessel.bessel_k0e(x), modified_bessel.bessel_k1e(x)
    if x < 1.0:
        return _temme(m, x)
    if x < 20.0:
        return _trapezoids(m, x)
    r = math.sqrt(0.5 * math.pi / x)
    even, odd = hankel_terms(m, x, 1.0)
    even1, odd1 = hankel_terms(m + 1.0, x, 1.0)
    return r * (even + odd), r * (even1 + odd1)


@inline
def _scaled_k(v, x):
    """k, k1, n: ``exp(x)*K`` of the orders v >= 0 and v + 1 are these times 2^(512*n), unless they are infinite."""
    m = v - math.floor(v + 0.5)
    k, k1 = _start(m, x)
    n = 0
    while m < v - 0.5 and k1 < math.inf:
        m += 1.0
        k, k1 = k1, 2.0 * m / x * k1 + k
        if k1 > _LARGE:
            k, k1, n = k / _LARGE, k1 / _LARGE, n + 1
    return (k, k1, n) if m > v - 0.5 else (k1, k1, n)


@inline
def _grown(y, n, x):
    """``y*2^(512*n)*exp(x)``."""
    if abs(y) == math.inf:
        return y
    high, low = coefficients.LN2
    total, rest = two_sum(x, 512.0 * n * high)
    p, p_low, one, two = exp_factors(total, rest + 512.0 * n * low)
    return fma(p, y, p_low * y) * one * two


@inline
def _scaled_i(v, x, scaled):
    """I_v(x) for v >= 0 and x > 0, times ``exp(-x)`` if `scaled`."""
    if v == 0.0:
        return modified_bessel.bessel_i0e(x) if scaled else modified_bessel.bessel_i0(x)
    if v == 1.0:
        return modified_bessel.bessel_i1e(x) if scaled else modified_bessel.bessel_i1(x)
    if x <= 20.0 or 0.25 * x * x <= v + 1.0:
        y = power_series(v, x, 1.0)
        return y * math.exp(-x) if scaled else y
    if x >= v * v:
        even, odd = hankel_terms(v, x, 1.0)
        y = (even - odd) / math.sqrt(2.0 * math.pi * x)
        return y if scaled else _grown(y, 0, x)
    if v > LARGEST_ORDER:
        return math.nan
    term = 0.5 * x / (v + 1.0)
    d, ratio, low, k = term, term, 0.0, 1.0
    while abs(term) > 1e-17 * ratio and k < 1e6:
        k += 1.0
        before, d = d, 1.0 / (2.0 * (v + k) / x + d)
        term *= -before * d
        ratio, rest = two_sum(ratio, term)
        low += rest
    k0, k1, n = _scaled_k(v, x)
    return _grown(1.0 / (x * (k1 + (ratio + low) * k0)), -n, 0.0 if scaled else x)


@inline
def _k(v, x, scaled):
    if v != v or not x >= 0.0 or abs(v) == math.inf:
        return math.nan
    if x == 0.0 or x == math.inf:
        return math.inf if x == 0.0 else 0.0
    v = abs(v)
    if x >= 20.0 and x >= 0.5 * v * v:
        even, odd = hankel_terms(v, x, 1.0)
        y, n = math.sqrt(0.5 * math.pi / x) * (even + odd), 0
    elif v > LARGEST_ORDER:
        return math.nan
    else:
        y, _, n = _scaled_k(v, x)
    if scaled and n == 0:
        return y
    return _grown(y, n, 0.0 if scaled else -x)


@inline
def _i(v, x, scaled):
    whole = is_whole(v)
    if v != v or x != x or abs(v) == math.inf or (x < 0.0 and not whole):
        return math.nan
    a, order = abs(x), abs(v)
    flipped = x < 0.0 and is_odd(order)
    sine = 0.0 if whole or v > 0.0 else turn(order)[1]
    if a == math.inf:
        y = 0.0 if scaled else math.inf
    elif a == 0.0:
        y = 1.0 if v == 0.0 else (0.0 if sine == 0.0 else sine * math.inf)
    else:
        y = _scaled_i(order, a, scaled)
        if sine != 0.0:  # DLMF 10.27.2
            k = _k(order, a, False)
            y += 2.0 / math.pi * sine * (k * math.exp(-a) if scaled else k)
    return -y if flipped else y


@inline
def iv(v, x):
    """The modified Bessel function of the first kind of order v. [9 ulp, v up to 25; 20 ulp up to 1000]"""
    return type(x)(_i(np.float64(v), np.float64(x), False))


@inline
def ive(v, x):
    """That times ``exp(-|x|)``."""
    return type(x)(_i(np.float64(v), np.float64(x), True))


@inline
def kv(v, x):
    """The modified Bessel function of the second kind of order v. [9 ulp, v up to 25]"""
    return type(x)(_k(np.float64(v), np.float64(x), False))


@inline
def kve(v, x):
    """That times ``exp(x)``."""
    return type(x)(_k(np.float64(v), np.float64(x), True))


@inline
def kn(n, x):
    """That of a whole order; NaN for others."""
    return type(x)(_k(np.float64(n) if is_whole(np.float64(n)) else math.nan, np.float64(x), False))
