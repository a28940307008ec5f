"""The logarithmic derivative of the gamma function, and its further derivatives, whose loops keep them scalar.

Float32 is calculated in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..codegen.compile import by_precision, inline
from . import coefficients as c
from .bits import copy_sign, fast_two_sum, fma, horner, pair_product, pair_quotient, two_prod, two_sum
from .exponential import log_parts
from .gamma_function import sine_over_pi

__all__ = ["digamma", "hurwitz", "polygamma", "trigamma"]

_PI_LOW = 1.2246467991473532e-16
_WHOLE = 4503599627370496.0  # 2^52: from there on all numbers are whole; added, it rounds
#: B(2j)/(2j)!, j = 1 to 9
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 2.08767569878681e-08, -5.284190138687493e-10,
              1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15)  # fmt: skip


@inline
def _pi_cot(r):
    """``pi*cot(pi*r)``, |r| <= 0.5."""
    s, s_low = sine_over_pi(abs(r))
    cos, cos_low = sine_over_pi(0.5 - abs(r))
    q, q_low = pair_quotient(cos, cos_low, s, s_low)
    return copy_sign(math.pi * q + (math.pi * q_low + _PI_LOW * q), r)


def _digamma64(x):
    # psi(v) on [1, 2), with its zero in two parts; from 2 log(v) less a polynomial in 1/v; psi(v + 1) - 1/v below 1.
    reflected = x < 0.0
    v = 1.0 - x if reflected else x
    i = 1.0 / v
    m = v + 1.0 if v < 1.0 else v
    m_low = v - (m - 1.0) if v < 1.0 else ((1.0 - v) - x if reflected else 0.0)
    slope = horner(m - 1.5, c.DIGAMMA_MID)
    mid = fma(m - c.DIGAMMA_ZERO[0], slope, (m_low - c.DIGAMMA_ZERO[1]) * slope)
    high, low = log_parts(v)
    far, rest = two_sum(high, -i * horner(i, c.DIGAMMA_TAIL))
    i_low = fma(-i, v, 1.0) * i if abs(i) < 1e300 else 0.0
    y = (mid - i) - i_low if v < 1.0 else mid
    y = far + (rest + low) if v >= 2.0 else y
    y = math.inf if v == math.inf else y
    # psi(x) = psi(1 - x) - pi*cot(pi*x)
    a = abs(x)
    r = a - ((a + _WHOLE) - _WHOLE)
    y = y + _pi_cot(r) if reflected else y
    y = -i if x == 0.0 else y
    return math.nan if reflected and (r == 0.0 or a >= _WHOLE) else y


def _digamma32(x):
    return np.float32(digamma(np.float64(x)))


#: ∓inf at ±0, NaN at negative integers and -inf. [2 ulp; below 0 of the larger of the terms that cancel]
digamma = by_precision(_digamma32, _digamma64)


@inline
def _inverse_square(x):
    """``1/x²`` in two parts."""
    i, low = pair_quotient(1.0, 0.0, x, 0.0)
    y, y_low = two_prod(i, i)
    return y, y_low + 2.0 * i * low if y < 1e290 else 0.0


def _trigamma64(x):
    # A polynomial in 1/v from 2; psi'(v) = psi'(v + 1) + 1/v² below, up to twice.
    reflected = x < 0.0
    v = 1.0 - x if reflected else x
    u = 1.0 / (v + 2.0 if v < 1.0 else (v + 1.0 if v < 2.0 else v))
    y = u + u * u * horner(u, c.TRIGAMMA)
    first, first_low = _inverse_square(v)
    y = y + _inverse_square(v + 1.0)[0] if v < 1.0 else y
    y = first + (y + first_low) if v < 2.0 else y
    # psi'(x) = (pi/sin(pi*x))² - psi'(1 - x)
    a = abs(x)
    r = a - ((a + _WHOLE) - _WHOLE)
    s, s_low = sine_over_pi(r)
    q, q_low = pair_quotient(1.0, 0.0, s, s_low)
    square, low = two_prod(q, q)
    y = square + ((low + 2.0 * q * q_low if square < 1e290 else 0.0) - y) if reflected else y
    return math.inf if reflected and (r == 0.0 or a >= _WHOLE) else y


def _trigamma32(x):
    return np.float32(trigamma(np.float64(x)))


#: The derivative of digamma; inf at the poles. [2 ulp]
trigamma = by_precision(_trigamma32, _trigamma64)


@inline
def _power(x, n):
    """``x**n`` for a whole n >= 0 in two parts, by multiplication."""
    y, y_low, low = 1.0, 0.0, 0.0
    while n > 0:
        if n & 1:
            y, y_low = pair_product(y, y_low, x, low)
        x, low = pair_product(x, low, x, low)
        n >>= 1
    return y, y_low


@inline
def _inverse_power(x, n):
    """``1/x**n`` in two parts."""
    y, low = _power(x, n)
    q, q_low = pair_quotient(1.0, 0.0, y, low)
    return fast_two_sum(q, q_low if 1e-290 < abs(q) < 1e290 else 0.0)


@inline
def hurwitz(n, x):
    """Hurwitz's zeta, the sum of (x + k)^-n over k >= 0, for whole n >= 2 and x > 0. [2 ulp, n <= 11]

    Terms up to 9 + n, then Euler and Maclaurin's formula with nine Bernoulli terms.
    """
    y, low = 0.0, 0.0
    while x < 9.0 + n:
        term, term_low = _inverse_power(x, n)
        total, rest = two_sum(y, term)
        y, low = total, low + (rest + term_low if total < 1e290 else 0.0)
        x += 1.0
    i = 1.0 / x
    z = i * i
    last = _inverse_power(x, n - 1)[0]
    t = last * i
    s = np.float64(n)
    e = 0.5 * t
    t *= s * i
    for j in range(9):
        e += t * _BERNOULLI[j]
        t *= (s + (2.0 * j + 1.0)) * (s + (2.0 * j + 2.0)) * z
    return y + (last / (s - 1.0) + (e + low))


@inline
def _polygamma(n, v):
    # (-1)^(n+1) * n! * hurwitz(n + 1, x). For x < 0 the sum over all integers less the one over the negative ones;
    # the former is a polynomial in cot(pi*x) where its terms would cancel.
    k = np.int64(n)
    if n != k or k < 0 or k > 170 or v != v:
        return math.nan
    if k == 0:
        return digamma(v)
    odd = (k & 1) == 1
    sign = 1.0 if odd else -1.0  # of (-1)^(n+1), and of (-1)^s with s = n + 1
    factorial = 1.0
    for j in range(2, k + 1):
        factorial *= j
    if v > 0.0:
        return sign * factorial * hurwitz(k + 1, v)
    a = -v
    r = ((a + _WHOLE) - _WHOLE) - a if a < _WHOLE else 0.0
    if r == 0.0:
        return sign * math.inf
    if odd or abs(r) < 0.25 or k > 6:
        y = _inverse_power(r, k + 1)[0] + hurwitz(k + 1, 1.0 + r) + sign * hurwitz(k + 1, 1.0 - r)
    else:
        c = _pi_cot(r) / math.pi
        d = c * c
        y = c * (1.0 + d) * _power(math.pi, k + 1)[0]
        if k == 4:
            y *= (2.0 + 3.0 * d) * (1.0 / 3.0)
        elif k == 6:
            y *= (17.0 + d * (60.0 + 45.0 * d)) * (1.0 / 45.0)
    return sign * factorial * (y - sign * hurwitz(k + 1, 1.0 - v))


@inline
def polygamma(n, x):
    """The n-th derivative of digamma, whole 0 <= n <= 170, int or float; else NaN. [5 ulp, n <= 6]

    At the poles inf for odd n, -inf for even n.
    """
    return type(x)(_polygamma(n, np.float64(x)))
