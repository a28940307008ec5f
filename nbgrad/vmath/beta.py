"""The logarithm of the beta function. Branches keep it scalar; float32 is computed in float64."""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import inline
from . import coefficients as c
from .bits import fast_two_sum, floor, fma, horner, pair_product, pair_sum, rint, two_sum
from .exponential import log, log1p, log_parts
from .gamma_function import gammaln, gammaln_parts
from .psi import digamma

__all__ = ["betaln", "stirling"]

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@inline
def stirling(x):
    """What Stirling's formula leaves of log(gamma(x)), for x >= 10: sum of B(2j) / (2j*(2j-1)*x^(2j-1))."""
    i = 1.0 / x
    return i * horner(i * i, c.STIRLING)


@inline
def _log_pair(x, low):
    """``log(x + low)`` in two parts."""
    y, y_low = log_parts(x)
    return fast_two_sum(y, y_low + low / x)


@inline
def _log_share(a, b):
    """``log(a/(a + b))`` in two parts, a and b at least 10 or b much smaller."""
    a *= 0.5  # a + b may overflow
    t, t_low = two_sum(a, 0.5 * b)
    q = a / t  # rounded rightly: next to 1, the square of what is missing counts
    return _log_pair(q, (fma(-q, t, a) - q * t_low) / t)


@inline
def _of_positive(p, q):
    """For 0 < p <= q < inf."""
    if p < 1e-290 and q < 10.0:
        return log1p(p / q) - log(p)
    t, t_low = two_sum(p, q)
    if q >= 10.0 and p >= 10.0:
        a, a_low = _log_share(p, q)
        y, low = pair_product(a, a_low, p, -0.5)
        a, a_low = _log_share(q, p)
        a, a_low = pair_product(a, a_low, q, 0.0)
        rest = (_HALF_LOG_2_PI - 0.5 * log(q)) + (stirling(p) + (stirling(q) - stirling(t)))
    elif q >= 10.0:
        a, a_low = _log_share(q, p)
        y, low = pair_product(a, a_low, q, -0.5)
        a, a_low = _log_pair(t, t_low)
        a, a_low = pair_sum(1.0, 0.0, -a, -a_low)
        a, a_low = pair_product(a, a_low, p, 0.0)
        y, low = pair_sum(y, low, a, a_low)
        a, a_low = gammaln_parts(p, rint(p))
        rest = stirling(q) - stirling(t)
    else:
        y, low = gammaln_parts(t, rint(t))
        a, a_low = gammaln_parts(q, rint(q))
        y, low = pair_sum(-y, -low, a, a_low)
        a, a_low = gammaln_parts(p, rint(p))
        rest = -digamma(t) * t_low
    y, low = pair_sum(y, low, a, a_low)
    return y + (low + rest)


@inline
def _betaln(u, v):
    p, q = (u, v) if u < v else (v, u)
    if p <= 0.0 and p == floor(p) and q == floor(q) and 0.0 < q < 1.0 - p:  # a pole over a pole: finite
        p = 1.0 - p - q
        p, q = (p, q) if p < q else (q, p)
    if p > 0.0:
        y = _of_positive(p, q) if q < math.inf else -math.inf
    else:
        y = gammaln(p) + gammaln(q)
        y = y - gammaln(p + q) if y < math.inf else y
    return y if u == u and v == v else u + v


@inline
def betaln(a, b):
    """``log|B(a, b)|``, without the digits that summing three gammaln loses when one argument is much greater
    than the other. [1.1 ulp of max(1/8, result) for positive arguments; negative arguments are no better than the
    three gammaln]

    From 10 up, Stirling's formula with its large parts cancelled by hand (DiDonato and Morris 1992), in two parts.
    """
    return type(a)(_betaln(np.float64(a), np.float64(b)))
