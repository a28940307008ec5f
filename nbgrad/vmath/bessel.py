"""Bessel functions of the first and second kind, of orders 0 and 1.

Polynomials up to 5, from there Hankel's expansion (NIST Digital Library of Mathematical Functions, 10.17.3 and 10.17.4)
with polynomials for its P and Q. Errors are in units in the last place of the larger of the result and the swing
``sqrt(2/(pi*x))``; below 1, of the result. Float32 is computed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, inline
from . import bessel_coefficients as c
from .bits import copy_sign, fma, horner
from .exponential import log
from .trigonometric import cos, sin

__all__ = ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"]

_MIDDLE = 3.75  # of the polynomials from 2.5 to 5
_TWO_OVER_PI = 2.0 / math.pi
_RSQRT_PI = 1.0 / math.sqrt(math.pi)


@inline
def _hankel(a, p, q):
    """``1/sqrt(pi*a)``, P - 1 + Q and P - 1 - Q."""
    s = 1.0 / fma(a, a, 12.0)
    less, q = s * horner(s, p), horner(s, q) / a
    return _RSQRT_PI / math.sqrt(a), less + q, less - q


@inline
def _by_size(a, near, middle, far):
    """The one for a, below 2.5, 5, or up to infinity, where it is 0."""
    y = near if a < 2.5 else middle
    y = y if a < 5.0 else far
    return 0.0 if a == math.inf else y


def _j0_64(x):
    a = abs(x)
    w = a * a
    near = fma(w, horner(w, c.J0_NEAR), 1.0)
    r, more, less = _hankel(a, c.HANKEL_P0, c.HANKEL_Q0)
    sine, cosine = sin(a), cos(a)
    far = r * ((sine + cosine) + fma(more, cosine, less * sine))
    return _by_size(a, near, horner(a - _MIDDLE, c.J0_MID), far)


def _j0_32(x):
    return np.float32(bessel_j0(np.float64(x)))


#: [2.6 ulp]
bessel_j0 = by_precision(_j0_32, _j0_64)


def _j1_64(x):
    a = abs(x)
    w = a * a
    near = a * fma(w, horner(w, c.J1_NEAR), 0.5)
    r, more, less = _hankel(a, c.HANKEL_P1, c.HANKEL_Q1)
    sine, cosine = sin(a), cos(a)
    far = r * ((sine - cosine) + fma(more, sine, -less * cosine))
    return copy_sign(1.0, x) * _by_size(a, near, horner(a - _MIDDLE, c.J1_MID), far)


def _j1_32(x):
    return np.float32(bessel_j1(np.float64(x)))


#: [2.7 ulp]
bessel_j1 = by_precision(_j1_32, _j1_64)


def _y0_64(x):
    # below 2.5 the logarithm times J0, and a rest that is smooth at 0 (DLMF 10.8.2)
    w = x * x
    first = fma(w, horner(w, c.J0_NEAR), 1.0)
    near = fma(_TWO_OVER_PI * log(x), first, horner(w, c.Y0_NEAR))
    r, more, less = _hankel(x, c.HANKEL_P0, c.HANKEL_Q0)
    sine, cosine = sin(x), cos(x)
    far = r * ((sine - cosine) + fma(more, sine, -less * cosine))
    return _by_size(x, near, horner(x - _MIDDLE, c.Y0_MID), far)


def _y0_32(x):
    return np.float32(bessel_y0(np.float64(x)))


#: -inf at 0, NaN below. [2.7 ulp]
bessel_y0 = by_precision(_y0_32, _y0_64)


def _y1_64(x):
    w = x * x
    first = x * fma(w, horner(w, c.J1_NEAR), 0.5)
    near = fma(_TWO_OVER_PI * log(x), first, x * horner(w, c.Y1_NEAR)) - _TWO_OVER_PI / x
    near = -math.inf if x == 0.0 else near
    r, more, less = _hankel(x, c.HANKEL_P1, c.HANKEL_Q1)
    sine, cosine = sin(x), cos(x)
    far = -r * ((sine + cosine) + fma(more, cosine, less * sine))
    return _by_size(x, near, horner(x - _MIDDLE, c.Y1_MID), far)


def _y1_32(x):
    return np.float32(bessel_y1(np.float64(x)))


#: -inf at 0, NaN below. [2.3 ulp]
bessel_y1 = by_precision(_y1_32, _y1_64)
