"""The error function, the normal distribution function, and their relatives.

All tails come from ``A(z) = (1 + 2z)*exp(z²)*erfc(z)``, which stays between 1 and 1.3 for z >= 0 (variable and scaling
as in Shepherd and Laframboise, 1981), as ``1 + s*g(s - 1)`` with s = 2z/(z + 3.75).

Written once for both precisions where float32 has polynomials of its own, see :mod:`.exponential`; the others
calculate float32 in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, device_form, inline
from . import coefficients as c
from .bits import copy_sign, fast_two_sum, fma, horner, pair_product, pair_quotient, pick, two_prod, two_sum
from .exponential import exp, exp_factors, exp_sum, log_parts

__all__ = ["erf", "erfc", "erfcx", "gelu", "log_ndtr", "ndtr", "ndtr_ratio"]

_SQRT_HALF = math.sqrt(0.5)
_RSQRT_PI = 1.0 / math.sqrt(math.pi)


@inline
def _erf_mid(x):
    """erf(x) for |x| <= 0.6."""
    return x + x * horner(x * x, pick(x, c.ERF_MID_F, c.ERF_MID))


@inline
def _scaled(z, d, d_low):
    """``exp(z²)*erfc(z)`` in two parts, given 1 + 2z in two: for z from 0 to 1e10, in float32 from 0.45 to 10.3."""
    k = type(z)(3.75)
    u = z + k
    r = type(z)(1.0) / (u * d)
    over = d * r  # 1/u and 1/d; what they are off does not matter, as the remainders are exact
    near = u * r
    s = (z + z) * over
    s += (fma(-s, u, z + z) - s * (z - (u - k))) * over
    t = s - type(z)(1.0)
    a, a_low = fast_two_sum(type(z)(1.0), s * horner(t, pick(t, c.ERF_TAIL_F, c.ERF_TAIL)))
    q = a * near
    return q, (fma(-q, d, a) + (a_low - q * d_low)) * near


@inline
def _scaled_erfc(z):
    d, d_low = two_sum(type(z)(1.0), z + z)
    return _scaled(z, d, d_low)


@inline
def _scaled_normal(a):
    """``exp(a²/2)*erfc(a/sqrt(2))`` in two parts."""
    root, root_low = pick(a, c.SQRT_2_F, c.SQRT_2)
    b, b_low = two_prod(a, type(a)(root))
    d, d_low = two_sum(type(a)(1.0), b)
    return _scaled(a * type(a)(_SQRT_HALF), d, d_low + (b_low + a * type(a)(root_low)))


@inline
def _bell(a, k):
    """``exp(k*a²)`` for a >= 0 and |k| = 1 or 1/2, as (p + p_low)*one*two, see :func:`exp_factors`."""
    z = type(a)(40.0) if a > type(a)(40.0) else a
    square, low = two_prod(z, z)
    return exp_factors(type(a)(k) * square, type(a)(k) * low)


def _erf32(x):
    # 1 - erfc(x), and erfc(x) need not be accurate by itself: an exponential of a polynomial
    a = abs(x)
    a = np.float32(4.0) if a > np.float32(4.0) else a
    y = copy_sign(np.float32(1.0) - exp(horner(a, c.ERF_LOG_F)), x)
    return y if abs(x) > np.float32(0.65) else _erf_mid(x)


def _erf64(x):
    a = abs(x)
    a = 6.0 if a > 6.0 else a
    q, _ = _scaled_erfc(a)
    y = copy_sign(1.0 - exp_sum(-a * a, 0.0) * q, x)
    return y if abs(x) > 0.6 else _erf_mid(x)


#: The error function. [1.8 ulp]
erf = device_form(math.erf)(by_precision(_erf32, _erf64))


@device_form(math.erfc)
@inline
def erfc(x):
    """[1.4 ulp, as far as it is not 0]"""
    a = abs(x)
    a = type(x)(28.0) if a > type(x)(28.0) else a
    p, p_low, one, two = _bell(a, -1.0)
    q, q_low = _scaled_erfc(a)
    y = fma(p, q, p * q_low + p_low * q) * one * two
    y = y if x >= type(x)(0.0) else type(x)(2.0) - y
    return y if abs(x) > type(x)(0.47) else type(x)(1.0) - _erf_mid(x)


@inline
def ndtr(x):
    """The normal distribution function, ``erfc(-x/sqrt(2))/2``. [1.5 ulp, as far as it is not 0]"""
    half = type(x)(0.5)
    a = abs(x)
    a = type(x)(40.0) if a > type(x)(40.0) else a
    p, p_low, one, two = _bell(a, -0.5)
    q, q_low = _scaled_normal(a)
    y = fma(p, q, p * q_low + p_low * q) * (half * one) * two
    y = y if x <= type(x)(0.0) else type(x)(1.0) - y
    return y if abs(x) > type(x)(0.66) else half + half * _erf_mid(x * type(x)(_SQRT_HALF))


@inline
def gelu(x):
    """``x*ndtr(x)``. [1.9 ulp, as far as it is not 0]"""
    half, bound = type(x)(0.5), type(x)(40.0)
    a = bound if abs(x) > bound else abs(x)
    v = copy_sign(a, x)  # NaN stays
    p, p_low, one, two = _bell(a, -0.5)
    q, q_low = _scaled_normal(a)
    tail, tail_low = pair_product(p, p_low, q, q_low)
    y = fma(v, tail, v * tail_low) * (half * one) * two
    y = y if x <= type(x)(0.0) else x - y
    v *= half
    mid = fma(v, _erf_mid(x * type(x)(_SQRT_HALF)), v)
    return y if a > type(x)(0.66) else copy_sign(mid, x)


def _erfcx64(x):
    a = abs(x)
    z = 1e9 if a > 1e9 else a
    q, q_low = _scaled_erfc(z)
    p, p_low, one, two = _bell(z, 1.0)
    left = (2.0 * (p * one * two) - q) + (2.0 * (p_low * one * two) - q_low)
    right = q + q_low if a < 1e9 else _RSQRT_PI / a
    return right if x >= 0.0 else left


def _erfcx32(x):
    return np.float32(erfcx(np.float64(x)))


#: ``exp(x²)*erfc(x)``; inf below -26.7. [1.4 ulp]
erfcx = by_precision(_erfcx32, _erfcx64)


def _log_ndtr64(x):
    # The logarithm of u + u_low: ndtr(x) to the right of 0, and without its factor exp(-x²/2) to the left.
    a = abs(x)
    z = 1e10 if a > 1e10 else a
    square, low = two_prod(z, z)
    q, q_low = _scaled_normal(z)
    p, p_low, one, two = _bell(z, -0.5)
    tail, tail_low = pair_product(p, p_low, 0.5 * q, 0.5 * q_low)
    tail, tail_low = tail * one * two, tail_low * one * two
    left = x <= 0.0
    u = 0.5 * q if left else 1.0 - tail
    u_low = 0.5 * q_low if left else ((1.0 - u) - tail) - tail_low
    high, more = log_parts(u)
    more += u_low / u
    total, less = two_sum(-0.5 * square, high)
    y = total + (less + (more - 0.5 * low)) if left else high + more
    return -abs(y) if a < 1e10 or x > 0.0 else -0.5 * x * x


def _log_ndtr32(x):
    return np.float32(log_ndtr(np.float64(x)))


#: The logarithm of ndtr; ``-x²/2 - log(-x*sqrt(2*pi))`` far to the left. [1.5 ulp]
log_ndtr = by_precision(_log_ndtr32, _log_ndtr64)


def _ndtr_ratio64(x):
    a = abs(x)
    z = 1e10 if a > 1e10 else a
    q, q_low = _scaled_normal(z)
    p, p_low, one, two = _bell(z, -0.5)
    scale = 0.5 * one * two
    tail, tail_low = pair_product(p, p_low, q, q_low)
    bell, bell_low = pair_product(p, p_low, c.SQRT_2_OVER_PI[0], c.SQRT_2_OVER_PI[1])
    left = x <= 0.0
    under = q if left else 1.0 - tail * scale
    under_low = q_low if left else ((1.0 - under) - tail * scale) - tail_low * scale
    over = c.SQRT_2_OVER_PI[0] if left else bell * scale
    over_low = c.SQRT_2_OVER_PI[1] if left else bell_low * scale
    y, low = pair_quotient(over, over_low, under, under_low)
    return y + low if x > -1e10 else a


def _ndtr_ratio32(x):
    return np.float32(ndtr_ratio(np.float64(x)))


#: phi(x)/Phi(x), the derivative of log_ndtr; close to -x far to the left. [1.3 ulp]
ndtr_ratio = by_precision(_ndtr_ratio32, _ndtr_ratio64)
