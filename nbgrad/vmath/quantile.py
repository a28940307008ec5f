"""The inverse of the error function, and of the normal distribution function.

With ``w = -log(1 - x²)``, ``erfinv(x)/x`` is a polynomial of w up to 8 (after Giles, 2010), and beyond, ``erfinv(x)``
is ``sqrt(w)`` less a small part. Written once for both precisions where float32 has polynomials of its own.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, inline
from . import coefficients as c
from .bits import copy_sign, fast_two_sum, fma, horner, pick, two_prod, two_sum
from .exponential import log

__all__ = ["erfcinv", "erfinv", "ndtri", "normal_quantile", "normal_quantile_short"]

_SQRT_HALF = math.sqrt(0.5)


@inline
def _near(x, x_low, w):
    """``erfinv(x + x_low)`` where w <= 8, in float32 5."""
    t = w - type(w)(pick(w, 2.5, 4.0))
    grown, low = two_prod(w, horner(t, pick(t, c.ERFINV_MID_F, c.ERFINV_MID)))
    start, start_low = pick(w, c.ERFINV_SLOPE_F, c.ERFINV_SLOPE)
    slope, less = two_sum(type(w)(start), grown)
    return fma(x, slope, x * (less + (low + type(w)(start_low))) + x_low * slope)


@inline
def _far(v, v_scaled):
    """The same, given v = sqrt(w) and the multiple of it that is wanted."""
    t = v - type(v)(pick(v, 3.0, 4.5))
    return fma(-v_scaled, horner(t, pick(t, c.ERFINV_TAIL_F, c.ERFINV_TAIL)), v_scaled)


@inline
def _at_ends(y, x, tail):
    """`y`, or what it is where 1 - x² (or another that has its sign) is 0, or less."""
    infinite = copy_sign(type(x)(math.inf), x)
    return y if tail > type(x)(0.0) else (infinite if tail == type(x)(0.0) else type(x)(math.nan))


@inline
def erfinv(x):
    """The inverse error function, accurate at 0 and ±1 too; ±inf at ±1, NaN outside. [2 ulp]"""
    one = type(x)(1.0)
    tail = fma(-x, x, one)
    w = -log(tail)
    w = w if tail > type(x)(0.0) else one
    v = math.sqrt(w)
    y = _far(v, v) if w > type(x)(pick(x, 5.0, 8.0)) else _near(x, type(x)(0.0), w)
    return _at_ends(copy_sign(y, x), x, tail)


_MID = c.ERFINV_MID[::2], c.ERFINV_MID[1::2]
_TAIL = c.ERFINV_TAIL[::2], c.ERFINV_TAIL[1::2]


@inline
def _halves(t, even, odd):
    s = t * t
    return horner(s, even) + t * horner(s, odd)


@inline
def normal_quantile(q, w):
    """The normal quantile of p = q + 0.5 given ``w = -log(4*p*(1 - p))`` too, at most 37. [2.5 ulp]

    Quicker than the others, for random numbers.
    """
    x = q * c.SQRT_8[0]
    v = math.sqrt(w + w)
    near = fma(x, c.ERFINV_SLOPE[0], x * (w * _halves(w - 4.0, _MID[0], _MID[1])))
    far = fma(-v, _halves(v * _SQRT_HALF - 4.5, _TAIL[0], _TAIL[1]), v)
    return copy_sign(far, q) if w > 8.0 else near


@inline
def normal_quantile_short(q, w):
    """The same with an error of 2^-30 or so, for w <= 21.6."""
    x = q * c.SQRT_8[0]
    v = math.sqrt(w + w)
    near = fma(x, c.ERFINV_SLOPE[0], x * (w * horner(w - 4.0, c.ERFINV_MID_SHORT)))
    far = fma(-v, horner(v * _SQRT_HALF - 3.7, c.ERFINV_TAIL_SHORT), v)
    return copy_sign(far, q) if w > 8.0 else near


@inline
def _whole_range(x, x_low, u, square):
    """``sqrt(square)*erfinv(z)`` given z times ``sqrt(square)`` in two parts, and ``u = 1 - z²``, however small."""
    w = -log(u)
    w = w if u > 0.0 else 1.0
    scaled = math.sqrt(square * w)
    v = math.sqrt(w)
    far = _far(v, scaled) if v < 6.1 else fma(-scaled, horner(16.0 / v - 1.6, c.ERFINV_FAR), scaled)
    return _at_ends(copy_sign(far, x) if w > 8.0 else _near(x, x_low, w), x, u)


def _ndtri64(p):
    least = p if p < 0.5 else 1.0 - p
    q, q_low = fast_two_sum(-0.5, p)
    x, x_low = two_prod(q, c.SQRT_8[0])
    return _whole_range(x, x_low + (q * c.SQRT_8[1] + q_low * c.SQRT_8[0]), 4.0 * least * (1.0 - least), 2.0)


def _ndtri32(p):
    return np.float32(ndtri(np.float64(p)))


#: The inverse of ndtr; ±inf at 0 and 1, NaN outside. [2 ulp, however small p]
ndtri = by_precision(_ndtri32, _ndtri64)


def _erfcinv64(x):
    least = x if x < 1.0 else 2.0 - x
    y, y_low = fast_two_sum(1.0, -x)
    return _whole_range(y, y_low, least * (2.0 - least), 1.0)


def _erfcinv32(x):
    return np.float32(erfcinv(np.float64(x)))


#: The inverse of erfc on [0, 2]; inf at 0, -inf at 2, NaN outside. [2 ulp, however small x]
erfcinv = by_precision(_erfcinv32, _erfcinv64)
