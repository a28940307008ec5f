"""The logarithm of the beta function. Branches keep it scalar; float32 is calculated in float64."""

from __future__ import annotations

import math

import numpy as np

from ..codegen.compile import inline
from . import coefficients as c
from .bits import horner, two_sum
from .exponential import log, log1p
from .gamma_function import gamma, gammaln
from .psi import digamma

__all__ = ["betaln"]

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@inline
def _stirling(x):
    """What Stirling's formula leaves of log(gamma(x)), for x >= 10: sum of B(2j) / (2j*(2j-1)*x^(2j-1))."""
    i = 1.0 / x
    return i * horner(i * i, c.STIRLING)


@inline
def _betaln(u, v):
    p, q = (u, v) if u < v else (v, u)
    if p <= 0.0 and p == np.floor(p) and q == np.floor(q) and 0.0 < q < 1.0 - p:  # a pole over a pole: finite
        p = 1.0 - p - q
        p, q = (p, q) if p < q else (q, p)
    t, t_low = two_sum(p, q)
    if q >= 10.0 and t >= 10.0 and q < math.inf:
        if p >= 10.0:
            y = (_HALF_LOG_2_PI - 0.5 * log(q)) + (_stirling(p) + (_stirling(q) - _stirling(t)))
            y = (p - 0.5) * log(p / t) + q * log1p(-p / t) + y
        else:
            y = gammaln(p) + (p * (1.0 - log(t)) + (q - 0.5) * log1p(-p / t))
            y += _stirling(q) - _stirling(t)
    elif 0.0 < p < 1e-290 and q < math.inf:
        y = log1p(p / q) - log(p)
    elif p > 0.0:
        # what rounding took from p + q counts
        y = log(gamma(p) * (gamma(q) / gamma(t))) - digamma(t) * t_low if q < math.inf else -math.inf
    else:
        y = gammaln(p) + gammaln(q)
        y = y - gammaln(t) if y < math.inf else y
    return y if u == u and v == v else u + v


@inline
def betaln(a, b):
    """``log|B(a, b)|``, without the digits that summing three gammaln loses when one argument is much greater
    than the other. [2.5 ulp of max(1, result) for positive arguments; negative arguments are no better than the
    three gammaln]

    From 10 up, Stirling's formula with its large parts cancelled by hand (DiDonato and Morris 1992).
    """
    return type(a)(_betaln(np.float64(a), np.float64(b)))
