"""Cube root, and the length of a vector of two."""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, device_form
from .bits import bits, copy_sign, fma, from_bits, horner
from .coefficients import CBRT, CBRT_F

__all__ = ["cbrt", "hypot"]

# a^(1/3) = a*y² with y = a^(-1/3). A third of the bits of a float, taken from a constant, are those of a first y,
# with |1 - a*y³| < 0.1021: a third of the exponent and a logarithm by straight lines. In double precision the bits but
# the last 12 become a float, and the result bits again, by being the last bits of a number from 2^52 to 2^53.
_START = 2.0**52 + 2.0**52 / 3 + (4 / 3 * 1023 - 0.068) * 2.0**40
_START_F = np.float32((4 / 3 * 127 - 0.068) * 2.0**23)
_THIRD_F = np.float32(1 / 3)
_TINY, _TINY_F = float(np.finfo("f8").tiny), np.finfo("f4").tiny


def _cbrt64(x):
    x = np.float64(x)
    a = abs(x)
    subnormal = a < _TINY
    a = a * (2.0**54 if subnormal else 1.0)
    shifted = fma(from_bits((bits(a) >> 12) | 0x4330000000000000), -1 / 3, _START)
    y = from_bits(bits(shifted) << 12)
    e = fma(-a * y, y * y, 1.0)
    y = fma(y * e, horner(e, CBRT), y)
    y = from_bits(bits(y) & -0x8000000)  # 26 bits, whose square is exact
    c = a * (y * y)
    e = fma(-c, y, 1.0)
    c = fma(c * e, fma(e, 5 / 9, 2 / 3), c)
    c = c * copy_sign(2.0**-18 if subnormal else 1.0, x)
    return c if a < math.inf else x


def _cbrt32(x):
    one, a = np.float32(1.0), abs(x)
    subnormal = a < _TINY_F
    a = a * (np.float32(2.0**24) if subnormal else one)
    y = from_bits(np.int32(fma(np.float32(bits(a)), -_THIRD_F, _START_F)))
    e = fma(-a * y, y * y, one)
    y = fma(y * e, horner(e, CBRT_F), y)
    c = a * (y * y)
    c = fma(c * fma(-c, y, one), np.float32(2 / 3), c)
    c = c * copy_sign(np.float32(2.0**-8) if subnormal else one, x)
    return c if a < np.float32(math.inf) else x


#: The real cube root. [0.67 ulp; 1.2 in float32]
cbrt = by_precision(_cbrt32, _cbrt64)

# Squares of numbers beyond 2^500 overflow, those of numbers below 2^-400 lose digits.
_LARGE, _SMALL = 2.0**500, 2.0**-400
_DOWN, _UP = 2.0**-600, 2.0**600


def _hypot64(x, y):
    a, b = abs(np.float64(x)), abs(np.float64(y))
    high = b if a < b else a
    scale = _DOWN if high > _LARGE else (_UP if high < _SMALL else 1.0)
    back = _UP if high > _LARGE else (_DOWN if high < _SMALL else 1.0)
    a, b = a * scale, b * scale
    length = math.sqrt(fma(a, a, b * b)) * back
    return math.inf if (a == math.inf) | (b == math.inf) else length


def _hypot32(x, y):
    a, b = np.float64(x), np.float64(y)
    length = np.float32(math.sqrt(fma(a, a, b * b)))
    infinite = (abs(a) == math.inf) | (abs(b) == math.inf)
    return np.float32(math.inf) if infinite else length


#: ``sqrt(x² + y²)`` without overflow; infinite as soon as one argument is. [1.2 ulp; float32 is rounded once]
hypot = device_form(math.hypot)(by_precision(_hypot32, _hypot64))
