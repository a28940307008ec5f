"""The incomplete gamma functions and their inverses, by the quadrature of :mod:`.gamma_moments`.

With ``t(a, x) = x^a*exp(-x)/Gamma(a)``::

    gammainc(a, x)  = -t*W_0       below (a + 1/2)*exp(-1/a), where W_0 is of the lower tail
    gammaincc(a, x) =  t*W_0       above it

and the other one is 1 less that. For a of 16 and more, t is ``sqrt(a/(2*pi))*exp(a*(log(1 + m) - m) - s(a))`` with
``m = (x - a)/a`` and the remainder s of Stirling's formula, so that no large numbers cancel. Errors grow with the
exponent: they are a few ulp where it is small, and about its size times 1.2e-16 in the far tails.
"""

import math

import numpy as np

from ..backends.numba.compile import inline
from .gamma_function import gamma, gammaln
from .gamma_moments import gamma_moment, is_lower
from .quantile import ndtri

__all__ = ["gammainc", "gammaincc", "gammainccinv", "gammaincinv", "log1p_less"]


@inline
def log1p_less(m):
    """``log(1 + m) - m``, by the series of the logarithm in ``m/(2 + m)`` where the two cancel."""
    if not -0.5 < m < 1.0:
        return math.log1p(m) - m
    r = m / (2.0 + m)
    square, total = r * r, 0.0
    for k in range(37, 1, -2):
        total = total * square + 1.0 / k
    return r * (2.0 * square * total - m)


@inline
def _log_less(a, x):
    """``log(x/a) - (x - a)/a``."""
    m = (x - a) / a
    return log1p_less(m) if -0.5 < m < 1.0 else math.log(x / a) - m


@inline
def _weight(a, x):
    """``x^a*exp(-x)/Gamma(a)``."""
    if a < 16.0:
        if 1e-300 < x < 300.0:
            return math.pow(x, a) * math.exp(-x) / gamma(a)
        return math.exp(a * math.log(x) - x - gammaln(a))
    r = 1.0 / (a * a)
    rest = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / a
    return math.sqrt(a / (2.0 * math.pi)) * math.exp(a * _log_less(a, x) - rest)


@inline
def _tail(upper, a, x):
    """The share of the distribution above x, or below it."""
    if not (a >= 0.0 and x >= 0.0) or (a == 0.0 and x == 0.0) or (a == math.inf and x == math.inf):
        return math.nan
    if a == 0.0 or x == math.inf:
        return 0.0 if upper else 1.0
    if x == 0.0 or a == math.inf:
        return 1.0 if upper else 0.0
    lower = is_lower(a, x)
    found = min(_weight(a, x) * abs(gamma_moment(np.int64(0), a, x)), 1.0)
    return found if lower != upper else 1.0 - found


@inline
def gammainc(a, x):
    """The share of the gamma distribution with shape a below x."""
    return type(x)(_tail(False, np.float64(a), np.float64(x)))


@inline
def gammaincc(a, x):
    """The share of the gamma distribution with shape a above x."""
    return type(x)(_tail(True, np.float64(a), np.float64(x)))


@inline
def _start(a, p, q):
    """Near the x that has p below it and q above: Wilson and Hilferty's, or the first term of the series."""
    z = ndtri(p) if p < q else -ndtri(q)
    s = 1.0 / (9.0 * a)
    root = 1.0 - s + z * math.sqrt(s)
    if a > 0.5 and root > 0.3:
        return a * root * root * root
    x = math.exp((math.log(p) + gammaln(a + 1.0)) / a)
    return x if x < 0.5 else max(-math.log(q) - gammaln(a), x if x < 1.0 else 0.5)


@inline
def _place(a, p, q, upper):
    """The x at which the tail is q (`upper`) or p, by Halley's steps for its logarithm."""
    if not (a > 0.0 and a < math.inf and p >= 0.0 and q >= 0.0):
        return math.nan
    if p == 0.0 or q == 0.0:
        return 0.0 if p == 0.0 else math.inf
    wanted = q if upper else p
    x = _start(a, p, q)
    low, high = 0.0, math.inf
    for _ in range(60):
        if x < 1e-300:
            return x
        found = _tail(upper, a, x)
        if (found > wanted) == upper:
            low = x
        else:
            high = x
        step = math.nan
        if found > 0.0:
            slope = _weight(a, x) / found  # of the logarithm, by that of x
            slope = -slope if upper else slope
            newton = math.log(wanted / found) / slope if slope != 0.0 else math.nan
            bend = 0.5 * (a - x - slope)  # that of the logarithm, relative to its slope
            step = newton / (1.0 + min(max(newton * bend, -0.5), 0.5))
        if abs(step) < 1e-6:  # the next one is below the rounding errors
            return x * math.exp(step)
        x = x * math.exp(step) if abs(step) < 5.0 else math.nan
        if not low < x < high:
            x = (
                math.sqrt(low * high)
                if low > 0.0 and high < math.inf
                else 2.0 * low
                if high == math.inf
                else 0.5 * high
            )
    return x


@inline
def gammaincinv(a, p):
    """The x below which the gamma distribution with shape a has the share p."""
    share = np.float64(p)
    if not (share >= 0.0 and share <= 1.0):
        return type(p)(math.nan)
    return type(p)(_place(np.float64(a), share, 1.0 - share, share > 0.7))


@inline
def gammainccinv(a, q):
    """The x above which the gamma distribution with shape a has the share q."""
    share = np.float64(q)
    if not (share >= 0.0 and share <= 1.0):
        return type(q)(math.nan)
    return type(q)(_place(np.float64(a), 1.0 - share, share, share < 0.3))
