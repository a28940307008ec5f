"""The incomplete beta functions, their inverses, and the logarithmic moments that their derivatives are made of.

For whole m, n >= 0, a, b > 0 and 0 < x < 1, with t the variable of integration::

    W_mn(a, b, x) =  integral from 0 to x of (t/x)^(a-1) * ((1-t)/(1-x))^(b-1) * log(t/x)^m * log((1-t)/(1-x))^n dt
                                                                                                  if x <= a/(a + b)
                    -integral from x to 1 of the same                                             otherwise

The two are antiderivatives of one integrand, so both satisfy dW_mn/da = W_(m+1)n, dW_mn/db = W_m(n+1) and ::

    dW_mn/dx = [m = n = 0] + ((b-1)/(1-x) - (a-1)/x)*W_mn - (m/x)*W_(m-1)n + (n/(1-x))*W_m(n-1)

With the density D(x) = x^(a-1)*(1-x)^(b-1)/B(a, b), the share below x is D*W_00, or 1 + D*W_00 above a/(a + b).

With t = x*exp(-u) below, and 1 - t = (1-x)*exp(-u) above, the integrals run over u >= 0 up to where the integrand has
fallen by ``exp(-45)``, in panels of 20 Gauss-Legendre nodes that double in width away from u = 0.
"""

import math

import numpy as np

from ..backends.numba.compile import inline
from .beta import betaln, stirling
from .error import ndtr
from .gamma_moments import FALL, NODES, WEIGHTS
from .incomplete_gamma import log1p_less
from .psi import digamma, polygamma
from .quantile import ndtri

__all__ = ["beta_moment", "betainc", "betaincc", "betainccinv", "betaincinv", "stdtr", "stdtrit"]


@inline
def _gain(ratio, u):
    """The logarithm of the factor of the far end: log((1 - y*exp(-u))/(1 - y)), for ratio = y/(1 - y)."""
    return math.log1p(-ratio * math.expm1(-u))


@inline
def _less(u):
    """``1 - exp(-u) - u``, for u < 1/4."""
    rest = 1.0
    for k in range(12, 2, -1):
        rest = 1.0 - rest * u / k
    return -0.5 * u * u * rest


@inline
def _exponent(p, q, y, z, u, gain):
    """``(q-1)*gain - p*u``; the two cancel where p and q are large."""
    w = -(y / z) * math.expm1(-u)
    if q < 8.0 or u > 0.25 or w > 1.0:
        return (q - 1.0) * gain - p * u
    return (u * ((q - 1.0) * y - p * z) + (q - 1.0) * y * _less(u)) / z + (q - 1.0) * log1p_less(w)


@inline
def _reach(p, q, ratio):
    """The u at which minus the exponent, ``p*u - (q-1)*gain``, is about 45 or more."""
    u = FALL / p
    if q > 1.0:  # it is convex: from the right of it, by Newton's steps
        u = (FALL + (q - 1.0) * math.log1p(ratio)) / p
        for _ in range(12):
            fallen = p * u - (q - 1.0) * _gain(ratio, u)
            slope = p - (q - 1.0) * ratio * math.exp(-u) / (1.0 - ratio * math.expm1(-u))
            if not (slope > 0.0 and fallen > 1.01 * FALL):
                break
            u -= (fallen - FALL) / slope
    return u


@inline
def _integral(i, j, p, q, y, z):
    """Integral from 0 to y of (t/y)^(p-1) * ((1-t)/z)^(q-1) * log(t/y)^i * log((1-t)/z)^j, over y, for z = 1 - y and an
    integrand that is largest at y."""
    ratio = y / z
    end = _reach(p, q, ratio)
    first = min(min(1.0, 2.0 * z / y), 0.25 * end)
    total, done = 0.0, 0.0
    while done < end:
        half = 0.5 * min(max(first, done), end - done)
        middle = done + half
        part = 0.0
        for k in range(np.uint64(20)):
            u = middle + half * NODES[k]
            gain = _gain(ratio, u)
            part += WEIGHTS[k] * (-u) ** i * gain**j * math.exp(_exponent(p, q, y, z, u, gain))
        total += half * part
        done += 2.0 * half
    return total


@inline
def beta_moment(m, n, a, b, x):
    """``W_mn(a, b, x)``; NaN unless a and b are positive and finite and x is between 0 and 1."""
    i, j, p, q, y = np.int64(m), np.int64(n), np.float64(a), np.float64(b), np.float64(x)
    if not (p > 0.0 and q > 0.0 and p < math.inf and q < math.inf and y > 0.0 and y < 1.0):
        return type(x)(math.nan)
    if y <= p / (p + q):
        return type(x)(y * _integral(i, j, p, q, y, 1.0 - y))
    return type(x)((y - 1.0) * _integral(j, i, q, p, 1.0 - y, y))


@inline
def _weight(a, b, y, z):
    """``y^a * z^b / B(a, b)``, for z = 1 - y."""
    if a < 16.0 or b < 16.0:
        by_y = a * math.log(y) if y < 0.5 else a * math.log1p(-z)
        by_z = b * math.log(z) if z < 0.5 else b * math.log1p(-y)
        return math.exp(by_y + by_z - betaln(a, b))
    n = a + b
    off = (y * b - z * a) / n  # y less its mean
    rest = stirling(a) + stirling(b) - stirling(n)
    exponent = a * log1p_less(off * n / a) + b * log1p_less(-off * n / b)
    return math.sqrt(a / n * (b / (2.0 * math.pi))) * math.exp(exponent - rest)


@inline
def _direct(a, b, y, z):
    """The share below y, where its integrand is largest at y."""
    return min(_weight(a, b, y, z) * _integral(np.int64(0), np.int64(0), a, b, y, z) / z, 1.0)


@inline
def _tail(a, b, y, z):
    """The share below y, for z = 1 - y; the one above is that of b, a, z, y."""
    if not (a >= 0.0 and b >= 0.0 and y >= 0.0 and y <= 1.0) or (a == 0.0 and b == 0.0):
        return math.nan
    if a == math.inf and b == math.inf:
        return math.nan
    if y == 0.0 or z == 0.0:
        return 0.0 if y == 0.0 else 1.0
    if a == 0.0 or b == math.inf:
        return 1.0
    if b == 0.0 or a == math.inf:
        return 0.0
    if y <= a / (a + b):
        return _direct(a, b, y, z)
    other = _direct(b, a, z, y)
    return _direct(a, b, y, z) if other > 0.9 and b <= 1.0 else 1.0 - other


@inline
def betainc(a, b, x):
    """The share of the beta distribution with shapes a and b below x."""
    y = np.float64(x)
    return type(x)(_tail(np.float64(a), np.float64(b), y, 1.0 - y))


@inline
def betaincc(a, b, x):
    """The share of the beta distribution with shapes a and b above x."""
    y = np.float64(x)
    return type(x)(_tail(np.float64(b), np.float64(a), 1.0 - y, y))


@inline
def _place(a, b, p, q):
    """The logit of the x that has the share p below it and q above, by Newton's steps for the logarithm of the smaller
    of the two as a function of the logit."""
    lower = p < q
    wanted = p if lower else q
    spread = math.sqrt(polygamma(np.float64(1.0), a) + polygamma(np.float64(1.0), b))
    at = digamma(a) - digamma(b) + (ndtri(p) if lower else -ndtri(q)) * spread
    low, high = -745.0, 745.0
    at = min(max(at, low), high)
    for _ in range(100):
        y, z = 1.0 / (1.0 + math.exp(-at)), 1.0 / (1.0 + math.exp(at))
        found = _tail(a, b, y, z) if lower else _tail(b, a, z, y)
        if (found < wanted) == lower:
            low = at
        else:
            high = at
        step = math.nan
        if found > 0.0:
            slope = _weight(a, b, y, z) / found
            newton = math.log(wanted / found) / slope if slope > 0.0 else math.nan
            step = newton if lower else -newton
        if abs(step) < 1e-8:
            return at + step
        at = at + step
        if not low < at < high:
            at = 0.5 * (low + high)
            if not low < at < high:
                break
    return at


@inline
def _inverse(a, b, p, q):
    if not (a > 0.0 and b > 0.0 and a < math.inf and b < math.inf and p >= 0.0 and q >= 0.0):
        return math.nan
    if p == 0.0 or q == 0.0:
        return 0.0 if p == 0.0 else 1.0
    return 1.0 / (1.0 + math.exp(-_place(a, b, p, q)))


@inline
def betaincinv(a, b, p):
    """The x below which the beta distribution with shapes a and b has the share p."""
    share = np.float64(p)
    return type(p)(_inverse(np.float64(a), np.float64(b), share, 1.0 - share))


@inline
def betainccinv(a, b, q):
    """The x above which the beta distribution with shapes a and b has the share q."""
    share = np.float64(q)
    return type(q)(_inverse(np.float64(a), np.float64(b), 1.0 - share, share))


@inline
def _student_tail(df, t):
    """The share of Student's distribution below t, which is not positive."""
    square = t * t
    if square == math.inf:
        return 0.0
    return 0.5 * _tail(0.5 * df, 0.5, df / (df + square), square / (df + square))


@inline
def stdtr(df, t):
    """The share of Student's distribution with df degrees of freedom below t."""
    n, at = np.float64(df), np.float64(t)
    if not (n > 0.0) or at != at:
        return type(t)(math.nan)
    if n == math.inf:
        return type(t)(ndtr(at))
    return type(t)(_student_tail(n, at) if at <= 0.0 else 1.0 - _student_tail(n, -at))


@inline
def stdtrit(df, p):
    """The t below which Student's distribution with df degrees of freedom has the share p."""
    n, share = np.float64(df), np.float64(p)
    if not (n > 0.0 and share >= 0.0 and share <= 1.0):
        return type(p)(math.nan)
    if n == math.inf:
        return type(p)(ndtri(share))
    if share == 0.0 or share == 1.0 or share == 0.5:
        return type(p)((share - 0.5) * math.inf if share != 0.5 else 0.0)
    lower = min(share, 1.0 - share)
    at = math.sqrt(n) * math.exp(-0.5 * _place(0.5 * n, 0.5, 2.0 * lower, 1.0 - 2.0 * lower))
    return type(p)(-at if share < 0.5 else at)
