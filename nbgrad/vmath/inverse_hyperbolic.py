"""The inverse hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, device_form, inline
from . import coefficients as c
from .bits import SQRT_HALF, SQRT_HALF_F, bits, copy_sign, fast_two_sum, fma, from_bits, horner, pick
from .exponential import log_of

__all__ = ["arccosh", "arcsinh", "arctanh"]


_NEAR = 0.5625  # below it the polynomial


def _unit64(w):
    i = (bits(w) - SQRT_HALF) & -0x10000000000000
    return np.float64(i >> 52), from_bits(0x3FF0000000000000 - i)


def _unit32(w):
    i = np.int32(np.int32(bits(w) - SQRT_HALF_F) & np.int32(-0x800000))
    return np.float32(np.int32(i >> np.int32(23))), from_bits(np.int32(np.int32(0x3F800000) - i))


#: ``n, 2^-n``: the latter brings a number between 2^-1000 and 2^1022 between sqrt(1/2) and sqrt(2).
_unit = by_precision(_unit32, _unit64)


@inline
def _log_sum(a, root):
    """``log(a + root)``, and ``log(2*a)`` where the square in the root may be infinite; a is not below 1/2."""
    zero, one = type(a)(0.0), type(a)(1.0)
    huge = a > type(a)(pick(a, 2.0**15, 2.0**30))
    high, low = (a, root) if a > root else (root, a)
    w, low = fast_two_sum(high, low)
    w = a * type(a)(0.25) if huge else w
    n, scale = _unit(w)
    f = fma(scale, w, -one) + (zero if huge else scale * low)
    y = log_of(n + type(a)(3.0) if huge else n, f, pick(a, c.LN2_F, c.LN2), pick(a, c.LOG_F, c.LOG))
    return y if a < type(a)(math.inf) else a


@inline
def _arcsinh_near(s, z):
    """For s below :data:`_NEAR`, z = s²."""
    return fma(s * z, horner(z, pick(s, c.ASINH_F, c.ASINH)), s)


@device_form(math.asinh)
@inline
def arcsinh(x):
    """``log(x + sqrt(x² + 1))``, a polynomial near 0. [1.5 ulp]"""
    a = abs(x)
    far = _log_sum(a, type(x)(math.sqrt(fma(a, a, type(x)(1.0)))))
    return copy_sign(_arcsinh_near(a, a * a) if a < type(x)(_NEAR) else far, x)


@device_form(math.acosh)
@inline
def arccosh(x):
    """``log(x + sqrt(x² - 1))``, near 1 ``2*arcsinh(sqrt((x - 1)/2))``; NaN below 1. [1.6 ulp]"""
    one = type(x)(1.0)
    z = type(x)(0.5) * (x - one)
    near = z < type(x)(_NEAR * _NEAR)
    root = type(x)(math.sqrt(z if near else fma(x, x, -one)))  # NaN below 1
    return type(x)(2.0) * _arcsinh_near(root, z) if near else _log_sum(x, root)


def _doublings64(a):
    i = (bits(1.0 + a) - bits(1.0 - a) + 0x8000000000000) & -0x10000000000000
    return np.float64(i >> 52), from_bits(0x3FF0000000000000 - i)


def _doublings32(a):
    one = np.float32(1.0)
    i = np.int32(bits(np.float32(one + a)) - bits(np.float32(one - a)))
    i = np.int32(np.int32(i + np.int32(0x400000)) & np.int32(-0x800000))
    return np.float32(np.int32(i >> np.int32(23))), from_bits(np.int32(np.int32(0x3F800000) - i))


#: ``n, 2^-n`` for a < 1: (1 + a)/(1 - a) is about 2^n, within a factor of 1.51.
_doublings = by_precision(_doublings32, _doublings64)


@device_form(math.atanh)
@inline
def arctanh(x):
    """``log((1 + x)/(1 - x))/2``, a polynomial below 1/2. [1.3 ulp]"""
    zero, half, one = type(x)(0.0), type(x)(0.5), type(x)(1.0)
    a = abs(x)
    near = a < half
    n, scale = _doublings(a)
    n = zero if near else n
    more, less = scale * (one + a), one - a
    s = a if near else (more - less) / (more + less)
    z = s * s
    high, low = pick(x, c.LN2_F, c.LN2)
    rest = fma(s * z, horner(z, pick(x, c.ATANH_F, c.ATANH)), n * (half * type(x)(low)))
    y = n * (half * type(x)(high)) + (s + rest)
    y = y if a < one else type(x)(math.inf)
    return copy_sign(y, x) if a <= one else type(x)(math.nan)
