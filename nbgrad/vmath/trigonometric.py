"""Sine, cosine and tangent of radians, their inverses, and sinc.

Figures in brackets are the largest errors in units in the last place.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, device_form, inline
from . import coefficients as c
from .bits import bits, copy_sign, fast_two_sum, fma, from_bits, horner, pick, two_prod
from .rare import cos_beyond, sin_beyond, tan_beyond

__all__ = ["arccos", "arcsin", "arctan", "arctan2", "cos", "sin", "sinc", "tan"]

_TURNS = 2 / math.pi
_WHOLE = 2.0**52  # from here on all numbers are
# Adding one of these rounds to an integer, and leaves that in the last bits.
_ROUND, _ROUND_F = 1.5 * 2.0**52, 1.5 * 2.0**23


def _flip_half64(y, shifted):
    return from_bits(bits(y) ^ ((bits(shifted) & 2) << 62))


def _flip_half32(y, shifted):
    return from_bits(np.int32(bits(y) ^ np.int32((bits(shifted) & 2) << 30)))


#: `y` negated in the second half of the turn, the quadrants 2 and 3.
_flip_half = by_precision(_flip_half32, _flip_half64)


@inline
def _quadrant(x):
    """``shifted, r, rest``: the quadrant k in the last bits of `shifted`, and x - k*pi/2, within pi/4, in two parts."""
    shift = type(x)(pick(x, _ROUND_F, _ROUND))
    shifted = fma(x, type(x)(_TURNS), shift)
    k = shift - shifted
    high, middle, low = pick(x, c.HALF_PI_F, c.HALF_PI)
    first = fma(k, type(x)(high), x)  # exact: neither x nor pi/2's first part has bits far below its result's
    second, more = two_prod(k, type(x)(middle))
    r, less = fast_two_sum(first, second)
    return shifted, r, fma(k, type(x)(low), less + more)


@inline
def _sin_cos(r, rest):
    z = r * r
    sin = r + fma(r * z, horner(z, pick(r, c.SIN_F, c.SIN)), rest)
    return sin, fma(z, horner(z, pick(r, c.COS_F, c.COS)), type(r)(1.0))


@device_form(math.sin)
@inline
def sin(x):
    """[1.2 ulp]"""
    shifted, r, rest = _quadrant(x)
    s, k = _sin_cos(r, rest)
    y = _flip_half(k if bits(shifted) & 1 else s, shifted)
    return sin_beyond(x, y if x != type(x)(0.0) else x)


@device_form(math.cos)
@inline
def cos(x):
    """[1.2 ulp]"""
    shifted, r, rest = _quadrant(x)
    s, k = _sin_cos(r, rest)
    return cos_beyond(x, _flip_half(s if bits(shifted) & 1 else k, shifted + type(x)(1.0)))


@device_form(math.tan)
@inline
def tan(x):
    """[1.9 ulp; 2 in float32]"""
    shifted, r, rest = _quadrant(x)
    z = r * r
    t = r + fma(r * z, horner(z, pick(x, c.TAN_F, c.TAN)), fma(z, rest, rest))
    y = type(x)(-1.0) / t if bits(shifted) & 1 else t
    return tan_beyond(x, y if x != type(x)(0.0) else x)


@inline
def _arcsin_parts(a):
    """s, and what arcsin(s) is more: s = a up to 1/2, beyond arcsin(a) = pi/2 - 2*arcsin(s)."""
    half = type(a)(0.5)
    wide = a > half
    z = half - half * a if wide else a * a
    s = type(a)(math.sqrt(z)) if wide else a  # NaN for a > 1
    return s, s * z * horner(z, pick(a, c.ASIN_F, c.ASIN))


@device_form(math.asin)
@inline
def arcsin(x):
    """[1.3 ulp]"""
    two, a = type(x)(2.0), abs(x)
    s, more = _arcsin_parts(a)
    high, low, _ = pick(x, c.HALF_PI_F, c.HALF_PI)
    far, rest = fast_two_sum(type(x)(high), -two * s)
    far += rest - (two * more - type(x)(low))
    return copy_sign(far if a > type(x)(0.5) else s + more, x)


@device_form(math.acos)
@inline
def arccos(x):
    """[1.3 ulp]"""
    zero, a = type(x)(0.0), abs(x)
    s, more = _arcsin_parts(a)
    high, low, _ = pick(x, c.HALF_PI_F, c.HALF_PI)
    y = s + more
    twice = y + y
    far = type(x)(math.pi) - twice if x < zero else twice
    return far if a > type(x)(0.5) else type(x)(high) - (copy_sign(y, x) - type(x)(low))


@inline
def _arctan_near(t):
    """For t between 0 and 1."""
    z = t * t
    return fma(t * z, horner(z, pick(t, c.ATAN_F, c.ATAN)), t)


@device_form(math.atan)
@inline
def arctan(x):
    """[1.6 ulp]"""
    one, a = type(x)(1.0), abs(x)
    u = _arctan_near(one / a if a > one else a)
    high, low, _ = pick(x, c.HALF_PI_F, c.HALF_PI)
    return copy_sign(type(x)(high) - (u - type(x)(low)) if a > one else u, x)


@device_form(math.atan2)
@inline
def arctan2(y, x):
    """The angle of the point (x, y), zeros and infinities as IEEE 754 has them. [1.7 ulp]"""
    zero, one, two = type(x)(0.0), type(x)(1.0), type(x)(2.0)
    a, b = abs(y), abs(x)
    steep, left = a > b, bits(x) < 0
    less, more = (b, a) if steep else (a, b)
    t = one if less == more and more > zero else less / (one if more == zero else more)
    u = _arctan_near(t)
    u = -u if steep != left else u
    high, low, _ = pick(x, c.HALF_PI_F, c.HALF_PI)
    quarters = one if steep else (two if left else zero)
    return copy_sign(quarters * type(x)(high) + (u + quarters * type(x)(low)), y)


@inline
def _sinc64(x):
    # With r = x - n, n whole: sin(pi*x)/(pi*x) = (-1)^n * sin(pi*r)/(pi*r) * r/x.
    a = abs(x)
    small = a < _WHOLE
    shifted = (a if small else _WHOLE) + _WHOLE
    r = a - (shifted - _WHOLE) if small else a * 0.0
    z = r * r
    y = fma(r * z, horner(z, c.SINC), r) / a if a > 0.0 else a + 1.0
    return from_bits(bits(y) ^ (bits(shifted) << 63))


@inline
def sinc(x):
    """NumPy's ``sin(pi*x)/(pi*x)``, and 1 at 0. [1.9 ulp; float32 is rounded once]"""
    return type(x)(_sinc64(np.float64(x)))
