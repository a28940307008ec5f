"""Hurwitz's zeta function ``sum of (q + k)^-s over k >= 0``, and the same sums with powers of ``log(q + k)``, of which
its derivatives by s are made.

The sums go up to a = q + k of 9 + s and more. Of the rest, Euler and Maclaurin's formula (NIST Digital Library of
Mathematical Functions, 25.11.28) has nine Bernoulli terms, and Abel and Plana's (2.10.2), for logarithms, an integral::

    f(a)/2 + integral of f from a to infinity - 2*integral of Im f(a + i*t)/(exp(2*pi*t) - 1) over t >= 0
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import inline
from .bits import two_sum
from .psi import BERNOULLI

__all__ = ["zeta", "zeta_log"]

_COUNT = 32
_T, _WEIGHTS = np.polynomial.legendre.leggauss(_COUNT)
_T = 3.25 * (_T + 1.0)  # beyond 6.5 the exponential leaves nothing
_WEIGHTS = 2.0 * 3.25 * _WEIGHTS / np.expm1(2.0 * math.pi * _T)


@inline
def _euler_maclaurin(s, a):
    """The sum from a, without the term of a itself halved."""
    last = math.pow(a, -s)
    z, t, y = 1.0 / (a * a), last * s / a, 0.5 * last
    for j in range(9):
        y += t * BERNOULLI[j]
        t *= (s + (2.0 * j + 1.0)) * (s + (2.0 * j + 2.0)) * z
    far = last * a if last > 0.0 else math.pow(a, 1.0 - s)  # which is less small
    return far / (s - 1.0), y


@inline
def _zeta(s, q):
    if s != s or q != q or s <= -1.0:
        return math.nan
    if s == 1.0:
        return math.inf
    if q == math.inf:
        return 0.0 if s > 1.0 else math.nan
    whole_q = math.floor(q) == q
    if q <= 0.0 and (whole_q or math.floor(s) != s or q < -1e6):
        return math.inf if whole_q and s > 1.0 else math.nan
    total, rest, a, a_low = 0.0, 0.0, q, 0.0
    while a < 9.0 + s or a < 1.0:
        term = math.pow(a, -s)
        total, low = two_sum(total, term)
        rest += low - (s * a_low / a * term if a_low != 0.0 else 0.0)
        if term <= 1e-18 * abs(total) and a > 0.0:
            return total + rest if abs(total) < math.inf else total
        a, low = two_sum(a, 1.0)
        a_low += low
    far, near = _euler_maclaurin(s, a)
    total, low = two_sum(total, far)
    rest += low + near - (s - 1.0) * a_low / a * far
    return total + rest if abs(total) < math.inf else total


@inline
def zeta(s, q):
    """For s > -1, by continuation below 1; inf at 1, and for whole q <= 0. [2 ulp from 1 on]"""
    return type(s)(_zeta(np.float64(s), np.float64(q)))


@inline
def _imaginary_integral(m, s, a):
    """Twice the integral of ``Im log(z)^m*z^-s``, z = a + i*t, over ``exp(2*pi*t) - 1``."""
    y = 0.0
    for k in range(_COUNT):
        t = _T[k]
        angle, log = math.atan2(t, a), 0.5 * math.log(a * a + t * t)
        size = math.pow(math.sqrt(log * log + angle * angle), np.float64(m)) * math.exp(-s * log)
        y += _WEIGHTS[k] * size * math.sin(m * math.atan2(angle, log) - s * angle)
    return y


@inline
def _zeta_log(m, s, q):
    if not (s > -1.0 and q > 0.0) or s == 1.0 or m < 0 or q == math.inf or s == math.inf:
        return math.nan if s != 1.0 else math.inf
    total, a = 0.0, q
    while a < 12.0 + s:
        log = math.log(a)
        term = math.pow(log, np.float64(m)) * math.pow(a, -s)
        total += term
        if abs(term) <= 1e-18 * abs(total) and s * log > m:
            return total
        a += 1.0
    log = math.log(a)
    power = math.pow(a, -s)
    tail = power * a / (s - 1.0)  # the integral, for m = 0; by parts for the next
    full = power
    for j in range(1, m + 1):
        full *= log
        tail = (full * a + j * tail) / (s - 1.0)
    return total + (tail + (0.5 * full - _imaginary_integral(m, s, a)))


@inline
def zeta_log(m, s, q):
    """The sum of ``log(q + k)^m*(q + k)^-s`` for whole m >= 0 and q > 0."""
    k = np.int64(m)
    return type(s)(_zeta_log(k, np.float64(s), np.float64(q)))
