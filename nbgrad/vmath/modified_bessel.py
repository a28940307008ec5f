"""Modified Bessel functions of orders 0 and 1, also times ``exp(-|x|)`` and ``exp(x)``: the names that end in "e".

I are polynomials in x² up to 8, K the logarithm times I and a polynomial up to 1 (NIST Digital Library of Mathematical
Functions, 10.31.2); from there the exponential over ``sqrt(x)`` times a polynomial. Float32 is computed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, inline
from . import bessel_coefficients as c
from .bits import copy_sign, fma, horner
from .exponential import exp, exp_times, log

__all__ = ["bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "bessel_k0", "bessel_k0e", "bessel_k1", "bessel_k1e"]


@inline
def _i_near(v, w):
    """``I0(x)``, or ``I1(x)/x``, for w = x² up to 64."""
    return fma(w, horner(w, c.I1_NEAR), 0.5) if v else fma(w, horner(w, c.I0_NEAR), 1.0)


@inline
def _i_far(v, a):
    """``exp(-a)*I(a)`` from 8."""
    t = 1.0 / a - 0.0625
    return (horner(t, c.I1_FAR) if v else horner(t, c.I0_FAR)) / math.sqrt(a)


def _i0_64(x):
    a = abs(x)
    b = 1000.0 if a > 1000.0 else a  # there it is infinite
    far = exp_times(b, _i_far(0, b))
    return _i_near(0, a * a) if a < 8.0 else far


def _i0_32(x):
    return np.float32(bessel_i0(np.float64(x)))


#: [3.1 ulp]
bessel_i0 = by_precision(_i0_32, _i0_64)


def _i0e_64(x):
    a = abs(x)
    return exp(-a) * _i_near(0, a * a) if a < 8.0 else _i_far(0, a)


def _i0e_32(x):
    return np.float32(bessel_i0e(np.float64(x)))


#: [2.8 ulp]
bessel_i0e = by_precision(_i0e_32, _i0e_64)


def _i1_64(x):
    a = abs(x)
    b = 1000.0 if a > 1000.0 else a
    far = exp_times(b, _i_far(1, b))
    return copy_sign(a * _i_near(1, a * a) if a < 8.0 else far, x)


def _i1_32(x):
    return np.float32(bessel_i1(np.float64(x)))


#: [3.3 ulp]
bessel_i1 = by_precision(_i1_32, _i1_64)


def _i1e_64(x):
    a = abs(x)
    return copy_sign(exp(-a) * (a * _i_near(1, a * a)) if a < 8.0 else _i_far(1, a), x)


def _i1e_32(x):
    return np.float32(bessel_i1e(np.float64(x)))


#: [2.6 ulp]
bessel_i1e = by_precision(_i1e_32, _i1e_64)


@inline
def _k0_near(x):
    w = x * x
    return fma(-log(x), fma(w, horner(w, c.I0_SHORT), 1.0), horner(w, c.K0_NEAR))


@inline
def _k1_near(x):
    w = x * x
    rest = x * fma(log(x), fma(w, horner(w, c.I1_SHORT), 0.5), horner(w, c.K1_NEAR))
    return math.inf if x == 0.0 else 1.0 / x + rest


@inline
def _k_far(v, x):
    """``exp(x)*K(x)`` from 1."""
    t = 1.0 / (x + 1.0) - 0.25
    return (horner(t, c.K1_FAR) if v else horner(t, c.K0_FAR)) / math.sqrt(x)


def _k0_64(x):
    return _k0_near(x) if x < 1.0 else exp_times(-x, _k_far(0, x))


def _k0_32(x):
    return np.float32(bessel_k0(np.float64(x)))


#: inf at 0, NaN below. [2.7 ulp]
bessel_k0 = by_precision(_k0_32, _k0_64)


def _k0e_64(x):
    return exp(x) * _k0_near(x) if x < 1.0 else _k_far(0, x)


def _k0e_32(x):
    return np.float32(bessel_k0e(np.float64(x)))


#: [2.3 ulp]
bessel_k0e = by_precision(_k0e_32, _k0e_64)


def _k1_64(x):
    return _k1_near(x) if x < 1.0 else exp_times(-x, _k_far(1, x))


def _k1_32(x):
    return np.float32(bessel_k1(np.float64(x)))


#: inf at 0, NaN below. [2.9 ulp]
bessel_k1 = by_precision(_k1_32, _k1_64)


def _k1e_64(x):
    return exp(x) * _k1_near(x) if x < 1.0 else _k_far(1, x)


def _k1e_32(x):
    return np.float32(bessel_k1e(np.float64(x)))


#: [2.8 ulp]
bessel_k1e = by_precision(_k1e_32, _k1e_64)
