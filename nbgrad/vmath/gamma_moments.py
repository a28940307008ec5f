"""Logarithmic moments of the gamma distribution's tails, by quadrature: what the gradient of a gamma draw is made of.

For whole n >= 0, a > 0 and x >= 0, with s the variable of integration::

    W_n(a, x) = -integral from 0 to 1 of s^(a-1) * exp(x*(1 - s)) * log(s)^n ds     if x <= (a + 1/2)*exp(-1/a)
                 integral from 1 to inf of the same                                 otherwise

The two are antiderivatives of one integrand, so both satisfy dW_n/da = W_(n+1) and, integrated by parts,
dW_n/dx = W_n - (a*W_n + n*W_(n-1) + [n = 0])/x. Where they meet, close to x = exp(digamma(a)), the terms of
:func:`gamma_slope` have one sign on either side, so it loses no digits anywhere.

With s = exp(-u) below and s = exp(u) above, the integrals run over u >= 0 up to where the integrand has fallen by
``exp(-45)``. Panels of 20 Gauss-Legendre nodes double in width away from the end that varies on the scale of 1:
u = 0 below, the last u above.
"""

import math

import numpy as np

from ..backends.numba.compile import inline

__all__ = ["FALL", "NODES", "WEIGHTS", "gamma_excess", "gamma_moment", "gamma_slope"]

FALL = 45.0
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


@inline
def is_lower(a, x):
    return x <= (a + 0.5) * math.exp(-1.0 / a)


@inline
def _exponent(lower, a, x, log_x, u):
    """Logarithm of the integrand without its factor log(s)^n."""
    v = -u if lower else u
    if u < 0.25:  # expm1(v) - v by its series: a*v and x*expm1(v) cancel when a is large
        rest = 1.0
        for k in range(12, 2, -1):
            rest = 1.0 + rest * v / k
        return (a - x) * v - 0.5 * x * v * v * rest
    return a * v - (x * math.expm1(v) if x > 1.0 else math.exp(v + log_x) - x)


@inline
def _reach(lower, a, x, log_x):
    """The u at which the exponent is about -45: Newton from the right of it, for minus the exponent is convex."""
    gap = a - x if lower else x - a
    curve = 2.0 * x / 3.0 if lower else x  # minus the exponent is at least gap*u + curve*u^2/2, below for u <= 1
    u = 2.0 * FALL / (gap + math.sqrt(gap * gap + 2.0 * FALL * curve))
    if lower:
        far = (FALL + x) / a
        u = u if u < far and u <= 1.0 else far
    else:
        u = min(u, math.log(x + 64.0) - log_x + 1.0)
    for _ in range(6):
        slope = a - x * math.exp(-u) if lower else math.exp(u + log_x) - a
        u -= (-_exponent(lower, a, x, log_x, u) - FALL) / slope
    return u


@inline
def _integral(n, p, q, lower, a, x):
    """Integral over u of u^n*(p*u + q) times the exponential."""
    log_x = math.log(x) if x > 0.0 else -math.inf
    end = _reach(lower, a, x, log_x)
    first = min(1.0, 0.25 * end)
    total, done = 0.0, 0.0
    while done < end:
        half = 0.5 * min(max(first, done), end - done)
        middle = done + half
        part = 0.0
        for k in range(np.uint64(20)):
            r = middle + half * NODES[k]
            u = r if lower else end - r
            part += WEIGHTS[k] * u**n * (p * u + q) * math.exp(_exponent(lower, a, x, log_x, u))
        total += half * part
        done += 2.0 * half
    return total


@inline
def gamma_moment(n, a, x):
    """``W_n(a, x)``; NaN unless a is positive and finite and x is finite and not negative."""
    k, b, v = np.int64(n), np.float64(a), np.float64(x)
    if not (b > 0.0 and b < math.inf and v >= 0.0 and v < math.inf):
        return type(x)(math.nan)
    lower = is_lower(b, v)
    return type(x)(_integral(k, 0.0, -1.0 if lower and k % 2 == 0 else 1.0, lower, b, v))


@inline
def gamma_excess(a, x, digamma):
    """``log(x) - digamma(a)``, given digamma(a): without cancellation where a is large and x near it."""
    b, v = np.float64(a), np.float64(x)
    if b < 64.0 or abs(v - b) > 0.5 * b:
        return type(x)(math.log(v) - digamma)
    r = 1.0 / (b * b)
    series = 0.5 / b + r * (1.0 / 12.0 + r * (-1.0 / 120.0 + r * (1.0 / 252.0 - r / 240.0)))
    return type(x)(math.log1p((v - b) / b) + series)


@inline
def gamma_slope(a, x, digamma):
    """``x*(W_1 + (log(x) - digamma(a))*W_0)``, given digamma(a); 0 for x = 0, NaN as for :func:`gamma_moment`."""
    b, v = np.float64(a), np.float64(x)
    if not (b > 0.0 and b < math.inf and v >= 0.0 and v < math.inf):
        return type(x)(math.nan)
    if v == 0.0:
        return type(x)(0.0)
    lower = is_lower(b, v)
    c = gamma_excess(b, v, digamma)
    return type(x)(v * _integral(np.int64(0), 1.0, -c if lower else c, lower, b, v))
