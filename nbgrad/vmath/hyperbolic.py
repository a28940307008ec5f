"""Hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, device_form, inline
from . import coefficients as c
from .bits import bits, copy_sign, estrin, fma, from_bits, horner, pick
from .exponential import exp_factors

__all__ = ["cosh", "sinh", "tanh"]

_LN2 = math.log(2.0)
# Adding it rounds to the nearest integer n and leaves the exponent of 2^n in the last bits.
_ROUND, _ROUND_F = 1.5 * 2.0**52 + 1023, 1.5 * 2.0**23 + 127


def _power64(shifted):
    return from_bits(bits(shifted) << 52)


def _power32(shifted):
    return from_bits(np.int32(bits(shifted) << np.int32(23)))


_power = by_precision(_power32, _power64)


@device_form(math.tanh)
@inline
def tanh(x):
    """The hyperbolic tangent. [1.4 ulp]"""
    one, two = type(x)(1.0), type(x)(2.0)
    bound = type(x)(pick(x, 10.0, 20.0))
    a = abs(x)
    z = a * a
    small = fma(x * z, estrin(z, pick(x, c.TANH_F, c.TANH)), x)
    # 2*a = n*log(2) + 2*r; log(2) need not be exact, for exp(2*a) does not count where n is large.
    b, shift = bound if a > bound else a, type(x)(pick(x, _ROUND_F, _ROUND))
    shifted = fma(b, type(x)(2.0 / _LN2), shift)
    r = fma(shifted - shift, type(x)(-0.5 * _LN2), b)
    scale = _power(shifted)
    large = one - two / fma(scale * r, estrin(r, pick(x, c.EXP_TWICE_F, c.EXP_TWICE)), scale + one)
    return copy_sign(small if a < type(x)(pick(x, 0.55, 0.6)) else large, x)


@inline
def _half_exp(x):
    p, _, one, two = exp_factors(abs(x), type(x)(0.0))
    return p * one * (type(x)(0.5) * two)


@device_form(math.sinh)
@inline
def sinh(x):
    """The hyperbolic sine. [1.7 ulp]"""
    e = _half_exp(x)
    z = x * x
    small = x + x * (z * horner(z, pick(x, c.SINH_F, c.SINH)))
    return small if abs(x) < type(x)(1.0) else copy_sign(e - type(x)(0.25) / e, x)


@device_form(math.cosh)
@inline
def cosh(x):
    """The hyperbolic cosine. [1.5 ulp]"""
    e = _half_exp(x)
    return e + type(x)(0.25) / e
