"""Hyperbolic functions."""

from __future__ import annotations

from ..codegen.compile import inline
from . import coefficients as c
from .bits import copy_sign, horner, pick
from .exponential import exp_factors, exp_less_one

__all__ = ["cosh", "sinh", "tanh"]


@inline
def tanh(x):
    """The hyperbolic tangent. [1.3 ulp]"""
    one, two = type(x)(1.0), type(x)(2.0)
    bound = type(x)(pick(x, 10.0, 20.0))
    a = abs(x)
    z = a * a
    small = x + x * (z * horner(z, pick(x, c.TANH_F, c.TANH)))
    b = bound if a > bound else a
    t, scale = exp_less_one(b + b)
    large = one - two / (scale * t + (scale + one))
    return copy_sign(small if a < type(x)(0.6) else large, x)


@inline
def _half_exp(x):
    p, _, one, two = exp_factors(abs(x), type(x)(0.0))
    return p * one * (type(x)(0.5) * two)


@inline
def sinh(x):
    """The hyperbolic sine. [1.7 ulp]"""
    e = _half_exp(x)
    z = x * x
    small = x + x * (z * horner(z, pick(x, c.SINH_F, c.SINH)))
    return small if abs(x) < type(x)(1.0) else copy_sign(e - type(x)(0.25) / e, x)


@inline
def cosh(x):
    """The hyperbolic cosine. [1.5 ulp]"""
    e = _half_exp(x)
    return e + type(x)(0.25) / e
