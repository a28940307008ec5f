"""Bessel functions of the first and second kind, of real orders.

The orders m, |m| <= 1/2, and m + 1 come from series below 2 (Temme, On the numerical evaluation of the ordinary Bessel
function of the second kind, J. Comput. Phys. 21, 1976), from the trapezoidal rule below 20 (:func:`_waves`), and from
Hankel's expansion beyond; 0 and 1 from polynomials. The others follow from ``f(v-1) + f(v+1) = 2*v/x*f(v)`` (NIST
Digital Library of Mathematical Functions, 10.6.1) upwards, J for v > x downwards from a continued fraction (10.10.1).
Negative orders are reflected (10.2.3, 10.4.7). Loops keep these scalar.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import inline
from . import bessel, trigonometric
from . import bessel_coefficients as c
from .bits import horner, two_sum
from .gamma_function import gamma, gammaln, sine_over_pi

__all__ = [
    "LARGEST_ORDER",
    "hankel_terms",
    "hyperbolic_parts",
    "inverse_gammas",
    "is_odd",
    "is_whole",
    "jv",
    "power_over_gamma",
    "power_series",
    "turn",
    "yn",
    "yv",
]

LARGEST_ORDER = 1e7
_STEP = 0.0625  # of the trapezoidal rule; twice that below 8
_U = _STEP * np.arange(62)
#: ``exp(u)``, ``sinh(u)*tanh(u)``, the Gudermannian of u, and its cosine and sine.
_EXP, _FALL, _ANGLE = np.exp(_U), np.sinh(_U) * np.tanh(_U), np.arctan(np.sinh(_U))
_COS, _SIN = 1.0 / np.cosh(_U), np.tanh(_U)


@inline
def is_whole(v):
    return math.floor(v) == v


@inline
def is_odd(v):
    """Of a whole v."""
    return v - 2.0 * math.floor(0.5 * v) == 1.0


@inline
def turn(v):
    """Cosine and sine of ``pi*v``, exact where v or 2*v is whole."""
    r = v - 2.0 * math.floor(0.5 * v + 0.5)  # from -1 to 1
    a = abs(r)
    sine = math.pi * sine_over_pi(a if a <= 0.5 else 1.0 - a)[0]
    cosine = math.pi * sine_over_pi(0.5 - a)[0]
    return cosine, sine if r >= 0.0 else -sine


@inline
def power_over_gamma(v, half):
    """``half^v/gamma(v + 1)`` for v > -1."""
    if v < 170.0:
        return math.pow(half, v) / (gamma(v + 1.0) if v < 1.0 else v * gamma(v))  # for v + 1.0 is rounded
    return math.exp(v * math.log(half) - gammaln(v + 1.0))


@inline
def inverse_gammas(m):
    """Of ``1/gamma(1 - m)`` the even part, and the odd one over m; |m| <= 1/2."""
    w = m * m
    return 1.0 + w * horner(w, c.GAMMA_EVEN), horner(w, c.GAMMA_ODD)


@inline
def hyperbolic_parts(s, power):
    """``cosh(s)`` and ``sinh(s)/s``, given exp(s)."""
    if abs(s) < 0.5:
        w, y = s * s, 1.0
        for k in range(12, 1, -2):
            y = 1.0 + y * w / (k * (k + 1.0))
        return math.cosh(s), y
    return 0.5 * (power + 1.0 / power), 0.5 * (power - 1.0 / power) / s


@inline
def hankel_terms(v, x, sign):
    """The sums of the even and of the odd terms of ``sum of a_k(v)/x^k`` (DLMF 10.17.1), every other one in each times
    `sign`, until they grow."""
    square, k = 4.0 * v * v, 1.0
    even, odd, term = 1.0, 0.0, 1.0
    while k < 100.0:
        following = term * (square - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * x)
        if abs(following) >= abs(term) and k > abs(v):
            break
        odd += following
        term = sign * following * (square - (2.0 * k + 1.0) * (2.0 * k + 1.0)) / (8.0 * (k + 1.0) * x)
        even += term
        if abs(term) < 1e-17:
            break
        k += 2.0
    return even, odd


@inline
def power_series(v, x, sign):
    """J_v(x) for v > -1 by its power series (DLMF 10.2.2), x²/4 at most v + 1 or so, for the sign -1; for 1 I_v(x)
    (DLMF 10.25.2), x at most 20 or so."""
    z = sign * 0.25 * x * x
    total, low, term, k = 1.0, 0.0, 1.0, 0.0
    while abs(term) > 1e-17 * abs(total):
        k += 1.0
        term *= z / (k * (k + v))
        total, rest = two_sum(total, term)
        low += rest
    return power_over_gamma(v, 0.5 * x) * (total + low)


@inline
def _temme(m, x):
    """Y_m(x) and Y_(m+1)(x) for |m| <= 1/2 and x < 2."""
    even, odd = inverse_gammas(m)
    log = math.log(2.0) - math.log(x)
    power = math.pow(x, -m) * math.exp(m * math.log(2.0))  # exp(s)
    p, q = power / (math.pi * (even - m * odd)), 1.0 / (power * math.pi * (even + m * odd))
    ratio = 1.0 / trigonometric.sinc(m)
    cosh, sinhc = hyperbolic_parts(m * log, power)
    f = 2.0 / math.pi * ratio * (cosh * odd + sinhc * log * even)
    half = math.sin(0.5 * math.pi * m)
    r = 2.0 * half * half / m if abs(m) > 1e-150 else 0.0
    z = -0.25 * x * x
    share, k = 1.0, 0.0
    first, second, change = f + r * q, p, p
    while k < 3.0 or abs(change) > 1e-17 * abs(second):
        k += 1.0
        f = (k * f + p + q) / (k * k - m * m)
        p /= k - m
        q /= k + m
        share *= z / k
        g = f + r * q
        first += share * g
        change = share * (p - k * g)
        second += change
    return -first, -2.0 / x * second


@inline
def _waves(m, x):
    """P + i*Q of the orders m and m + 1, ``sqrt(pi*x/2)*exp(-i*w)*(J + i*Y)`` with ``w = x - (2*v + 1)*pi/4``, for
    |m| <= 1/2 and x from 2 to 20.

    The integral of ``exp(i*x*cosh(t) - v*t)/(pi*i)*exp(-i*pi*v/2)`` over t (DLMF 10.9.10, along the path of steepest
    descent ``t = u + i*gd(u)``, on which ``cosh(t) = 1 + i*sinh(u)*tanh(u)``) by the trapezoidal rule in u.
    """
    p, q, p1, q1 = 0.5, 0.5, 0.5, 0.5  # half of the integrand at u = 0, which is 1 + i
    stride = 2 if x < 8.0 else 1
    width = _STEP * stride
    step, growth = math.exp(width * m), 0.5
    for k in range(stride, 62, stride):
        fall = math.exp(-x * _FALL[k])
        if fall < 1e-18:
            break
        # cosh(m*t) and cosh((m + 1)*t), times the slope 1 + i*cos(gd(u)) of the path
        growth *= step
        up, down = fall * growth, 0.25 * fall / growth
        cosine, sine = math.cos(m * _ANGLE[k]), math.sin(m * _ANGLE[k])
        re, im = (up + down) * cosine, (up - down) * sine
        p += re - _COS[k] * im
        q += im + _COS[k] * re
        up, down = up * _EXP[k], down / _EXP[k]
        re, im = (up + down) * (cosine * _COS[k] - sine * _SIN[k]), (up - down) * (sine * _COS[k] + cosine * _SIN[k])
        p1 += re - _COS[k] * im
        q1 += im + _COS[k] * re
    scale = width * math.sqrt(x / math.pi)
    return scale * (p + q), scale * (q - p), scale * (p1 + q1), scale * (q1 - p1)


@inline
def _rotated(v, x, p, q):
    """J and Y, given P and Q."""
    cosine, sine = turn(0.5 * v)
    cosine, sine = cosine - sine, cosine + sine  # of (2*v + 1)*pi/4, times sqrt(2)
    s, c = trigonometric.sin(x), trigonometric.cos(x)
    cosine, sine = c * cosine + s * sine, s * cosine - c * sine
    r = 1.0 / math.sqrt(math.pi * x)
    return r * (p * cosine - q * sine), r * (p * sine + q * cosine)


@inline
def _far(v, x):
    """J and Y by Hankel's expansion."""
    p, q = hankel_terms(v, x, -1.0)
    return _rotated(v, x, p, q)


@inline
def _start(m, x):
    """J_m, J_(m+1), Y_m, Y_(m+1) for |m| <= 1/2."""
    if m == 0.0:
        return bessel.bessel_j0(x), bessel.bessel_j1(x), bessel.bessel_y0(x), bessel.bessel_y1(x)
    if x < 2.0:
        y, y1 = _temme(m, x)
        return power_series(m, x, -1.0), power_series(m + 1.0, x, -1.0), y, y1
    if x < 20.0:
        p, q, p1, q1 = _waves(m, x)
        j, y = _rotated(m, x, p, q)
        j1, y1 = _rotated(m + 1.0, x, p1, q1)
        return j, j1, y, y1
    j, y = _far(m, x)
    j1, y1 = _far(m + 1.0, x)
    return j, j1, y, y1


@inline
def _upwards(m, v, x, f, f1):
    """f_v from f_m and f_(m+1)."""
    if v == m:
        return f
    m += 1.0
    while m < v - 0.5 and abs(f1) < math.inf:
        f, f1 = f1, 2.0 * m / x * f1 - f
        m += 1.0
    return f1


@inline
def _downwards(m, v, x, j, j1):
    """J_v from J_m and J_(m+1) for v > x: J is proportional to what comes downwards from J_(v+1)/J_v."""
    # 1/(2*(v + 1)/x - 1/(2*(v + 2)/x - ...)), summed forwards
    term = 0.5 * x / (v + 1.0)
    d, ratio, low, k = term, term, 0.0, 1.0
    while abs(term) > 1e-17 * abs(ratio) and k < 1e6:
        k += 1.0
        before, d = d, 1.0 / (2.0 * (v + k) / x - d)
        term *= before * d
        ratio, rest = two_sum(ratio, term)
        low += rest
    f1, f, k, scale = ratio + low, 1.0, v, 1.0
    while k > m + 0.5:
        f1, f = f, 2.0 * k / x * f - f1
        k -= 1.0
        if abs(f) > 1e200:
            f, f1, scale = 1e-200 * f, 1e-200 * f1, 1e-200 * scale
    return scale * (j / f if abs(f) > abs(f1) else j1 / f1)


@inline
def _both(v, x, first, second):
    """J_v(x) and Y_v(x) for v >= 0 and x > 0, those of them that are asked for."""
    if x >= 20.0 and x >= 0.5 * v * v:
        return _far(v, x)
    simple = 0.25 * x * x <= v + 1.0 and v >= 1.5
    j = power_series(v, x, -1.0) if simple and first else math.nan
    if v > LARGEST_ORDER or (simple and not second):
        return j, math.nan
    m = v - math.floor(v + 0.5)
    low, low1, y, y1 = _start(m, x)
    if first and not simple:
        j = _upwards(m, v, x, low, low1) if v <= x or v - m < 1.5 else _downwards(m, v, x, low, low1)
    return j, _upwards(m, v, x, y, y1) if second else math.nan


@inline
def _jv(v, x):
    whole = is_whole(v)
    if v != v or x != x or abs(v) == math.inf or (x < 0.0 and not whole):
        return math.nan
    a, order = abs(x), abs(v)
    odd = whole and is_odd(order)
    flipped = odd and (v < 0.0) != (x < 0.0)
    if a == math.inf:
        return 0.0
    if a == 0.0:
        y = 1.0 if v == 0.0 else 0.0
        if v < 0.0 and not whole:
            y = -math.inf if is_odd(math.floor(order)) else math.inf
        return -y if flipped else y
    cosine, sine = turn(order)
    reflected = v < 0.0 and not whole
    j, y = _both(order, a, not reflected or cosine != 0.0, reflected)
    if reflected:
        return (cosine * j if cosine != 0.0 else 0.0) - sine * y
    return -j if flipped else j


@inline
def _yv(v, x):
    if v != v or not x >= 0.0 or abs(v) == math.inf:
        return math.nan
    order = abs(v)
    if x == math.inf:
        return 0.0
    cosine, sine = turn(order)
    sine = 0.0 if v >= 0.0 else sine
    cosine = 1.0 if v >= 0.0 else cosine
    if x == 0.0:
        return math.copysign(math.inf, -cosine) if cosine != 0.0 else 0.0
    j, y = _both(order, x, sine != 0.0, cosine != 0.0)
    return (sine * j if sine != 0.0 else 0.0) + (cosine * y if cosine != 0.0 else 0.0)


@inline
def jv(v, x):
    """The Bessel function of the first kind of order v. [10 ulp, v up to 25; 25 ulp up to 1000; NaN from 1e7 on]"""
    return type(x)(_jv(np.float64(v), np.float64(x)))


@inline
def yv(v, x):
    """The Bessel function of the second kind of order v. [likewise]"""
    return type(x)(_yv(np.float64(v), np.float64(x)))


@inline
def yn(n, x):
    """That of a whole order; NaN for others."""
    return type(x)(_yv(np.float64(n) if is_whole(np.float64(n)) else math.nan, np.float64(x)))
