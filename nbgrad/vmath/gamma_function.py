"""The gamma function and its logarithm.

Arguments up to 7.5 are brought to 2 + f, |f| <= 0.5, by ``gamma(x + 1) = x*gamma(x)``; from there Stirling's formula
holds, with the logarithm in two parts. Below -0.5 the reflection ``gamma(-a) = -pi/(a*sin(pi*a)*gamma(a))``.
Float32 is computed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, inline
from . import coefficients as c
from .bits import bits, copy_sign, fast_two_sum, fma, from_bits, horner, pair_product, pair_quotient, two_prod, two_sum
from .exponential import exp_factors, log, log_parts

__all__ = ["gamma", "gammaln", "gammaln_parts", "sine_over_pi"]

_STIRLING_FROM = 7.5
_LOG_GAMMA_REST = c.LOG_GAMMA[1:]
_WHOLE = 4503599627370496.0  # 2^52: from there on all numbers are whole; added, it rounds


@inline
def _times(up, up_low, x, n, k):
    """The pair times x - k where x is nearest to an n > k + 1."""
    factor = x - k if n > k + 1.5 else 1.0
    product, low = two_prod(up, factor)
    return product, low + up_low * factor


@inline
def _steps(x, n):
    """``gamma(x)/gamma(2 + x - n)`` for -0.5 <= x < 7.5 as the quotient of two pairs; n is the nearest integer.

    One of them is 1; the second is negative for negative x.
    """
    up, up_low = _times(1.0, 0.0, x, n, 1.0)
    up, up_low = _times(up, up_low, x, n, 2.0)
    up, up_low = _times(up, up_low, x, n, 3.0)
    up, up_low = _times(up, up_low, x, n, 4.0)
    up, up_low = _times(up, up_low, x, n, 5.0)
    twice = fma(x, x, x)  # x*(x + 1)
    down = x if n == 1.0 else 1.0
    return up, up_low, twice if n == 0.0 else down, fma(x, x, x - twice) if n == 0.0 else 0.0


@inline
def _near_two(f):
    """``log(gamma(2 + f))`` in two parts, |f| <= 0.5."""
    high, low = two_prod(f, c.LOG_GAMMA[0])
    return high, low + f * f * horner(f, _LOG_GAMMA_REST)


@inline
def _stirling(a, log_a, log_low):
    """``log(gamma(a))`` in two parts, for a >= 7.5 so small that it is finite."""
    i = 1.0 / a
    b = a - 0.5
    high, low = two_prod(b, log_a - 1.0)
    rest, less = fast_two_sum(c.STIRLING_START[0], low + (b * log_low + i * horner(i * i, c.STIRLING)))
    high, low = fast_two_sum(high, rest)
    return high, low + (less + c.STIRLING_START[1])


@inline
def sine_over_pi(r):
    """``sin(pi*r)/pi`` in two parts, |r| <= 0.5."""
    z = r * r
    s, s_low = fast_two_sum(1.0, z * horner(z, c.SINE_REST))
    high, low = two_prod(r, s)
    return high, low + r * s_low


def _gamma64(x):
    reflected = x < -0.5
    a = -x if reflected else x
    moved = abs(x) + _WHOLE
    n = moved - _WHOLE
    r = a - n
    a = 200.0 if a > 200.0 else a
    near = a < _STIRLING_FROM
    # gamma(a) = exp(e)*up/down
    log_a, log_low = log_parts(a)
    far_e, far_low = _stirling(a, log_a, log_low)
    e, e_low = _near_two(r)
    e, e_low = e if near else far_e, e_low if near else far_low
    up, up_low, down, down_low = _steps(a, n)
    up, up_low = up if near else 1.0, up_low if near else 0.0
    down, down_low = down if near else 1.0, down_low if near else 0.0
    p, p_low, one, two = exp_factors(-e if reflected else e, -e_low if reflected else e_low)
    sine, sine_low = sine_over_pi(r)
    s, s_low = two_prod(a, sine)
    under, under_low = pair_product(s, s_low + a * sine_low, up, up_low)
    over, over_low = down if reflected else up, down_low if reflected else up_low
    under, under_low = under if reflected else down, under_low if reflected else down_low
    q, q_low = pair_quotient(over, over_low, under, under_low)
    y = fma(p, q, p * q_low + p_low * q) * one * two
    minus = (bits(moved) ^ 1) << 63
    y = from_bits(bits(y) ^ minus) if reflected else y
    y = 1.0 / x if abs(x) < 1e-17 else y
    return math.nan if reflected and (r == 0.0 or abs(x) >= _WHOLE) else y


def _gamma32(x):
    return np.float32(gamma(np.float64(x)))


#: The gamma function: ±inf at ±0, NaN at negative integers and -inf. [1.5 ulp]
gamma = by_precision(_gamma32, _gamma64)


@inline
def gammaln_parts(a, n):
    """``log|gamma(a)|`` in two parts, a >= -0.5; n is the nearest integer."""
    r = a - n
    near = a < _STIRLING_FROM
    # e + log(up/down), or the logarithm is of a and part of e
    up, up_low, down, down_low = _steps(a, n)
    below = n < 2.0
    u, u_low = abs(down) if below else up, copy_sign(down_low, down_low * down) if below else up_low
    log_u, log_low = log_parts(u if near else a)
    e, e_low = _near_two(r)
    log_low += u_low / u if near else 0.0
    total, rest = two_sum(-log_u if below else log_u, e)
    rest += (-log_low if below else log_low) + e_low
    far, far_low = _stirling(a, log_u, log_low)
    return total if near else far, rest if near else far_low


def _gammaln64(x):
    reflected = x < -0.5
    a = -x if reflected else x
    n = (abs(x) + _WHOLE) - _WHOLE
    total, rest = gammaln_parts(a, n)
    # log(gamma(-a)) = -log(a*sin(pi*a)/pi) - log(gamma(a))
    r = a - n
    sine, sine_low = sine_over_pi(abs(r))
    s, s_low = two_prod(a, sine)
    log_s, log_s_low = log_parts(s)
    high, low = two_sum(log_s, total)
    mirrored = -(high + (low + (rest + (log_s_low + (s_low + a * sine_low) / s))))
    mirrored = math.inf if r == 0.0 or a >= _WHOLE else mirrored
    y = mirrored if reflected else total + rest
    y = math.inf if a > 2.6e305 or x == 0.0 else y
    return -math.inf if x == -math.inf else y


def _gammaln32(x):
    # the same in float64 without second parts
    x = np.float64(x)
    reflected = x < -0.5
    a = -x if reflected else x
    n = (abs(x) + _WHOLE) - _WHOLE
    r = a - n
    near = a < _STIRLING_FROM
    up, _, down, _ = _steps(a, n)
    below = n < 2.0
    log_u = log((abs(down) if below else up) if near else a)
    y = (-log_u if below else log_u) + r * horner(r, c.LOG_GAMMA_SHORT)
    i = 1.0 / a
    far = (a - 0.5) * (log_u - 1.0) + (c.STIRLING_START[0] + i * horner(i * i, c.STIRLING_SHORT))
    y = y if near else far
    y = -(y + log(a * sine_over_pi(abs(r))[0])) if reflected else y
    return np.float32(-math.inf if x == -math.inf else y)


#: ``log|gamma(x)|``: inf at the poles. [1.8 ulp; below 0 of the larger of the terms that cancel]
gammaln = by_precision(_gammaln32, _gammaln64)
