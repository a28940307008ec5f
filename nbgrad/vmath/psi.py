"""The logarithmic derivative of the gamma function, and its further derivatives, whose loops keep them scalar.

Float32 is computed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, inline
from . import coefficients as c
from .bits import copy_sign, fast_two_sum, fma, horner, pair_product, pair_quotient, pair_sum, two_prod, two_sum
from .exponential import log_parts
from .gamma_function import sine_over_pi

__all__ = ["BERNOULLI", "digamma", "hurwitz", "polygamma", "trigamma"]

_PI_LOW = 1.2246467991473532e-16
_WHOLE = 4503599627370496.0  # 2^52: from there on all numbers are whole; added, it rounds
#: B(2j)/(2j)!, j = 1 to 9
BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 2.08767569878681e-08, -5.284190138687493e-10,
              1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15)  # fmt: skip


@inline
def _pi_cot(r):
    """``pi*cot(pi*r)`` in two parts, |r| <= 0.5."""
    s, s_low = sine_over_pi(abs(r))
    cos, cos_low = sine_over_pi(0.5 - abs(r))
    q, q_low = pair_quotient(copy_sign(cos, r), copy_sign(cos_low, r * cos_low), s, s_low)
    return pair_product(math.pi, _PI_LOW, q, q_low)


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
    cot, cot_low = _pi_cot(r)
    y = y + (cot + cot_low) if reflected else y
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
def _power(x, low, n):
    """``(x + low)**n`` for a whole n >= 0 in two parts, by multiplication."""
    y, y_low = 1.0, 0.0
    while n > 0:
        if n & 1:
            y, y_low = pair_product(y, y_low, x, low)
        x, low = pair_product(x, low, x, low)
        n >>= 1
    return y, y_low


@inline
def _inverse_power(x, low, n):
    """``1/(x + low)**n`` in two parts."""
    y, low = _power(x, low, n)
    q, q_low = pair_quotient(1.0, 0.0, y, low)
    return fast_two_sum(q, q_low if 1e-290 < abs(q) < 1e290 else 0.0)


@inline
def hurwitz(n, x, x_low):
    """Hurwitz's zeta at x + x_low, the sum of (x + k)^-n over k >= 0, for whole n >= 2 and x > 0, in two parts.

    Terms up to 9 + n, then Euler and Maclaurin's formula with nine Bernoulli terms.
    """
    y, low = 0.0, 0.0
    while x < 9.0 + n:
        term, term_low = _inverse_power(x, x_low, n)
        y, low = pair_sum(y, low, term, term_low)
        x, rest = two_sum(x, 1.0)
        x_low += rest
    i, i_low = _inverse_power(x, x_low, 1)
    last, last_low = _inverse_power(x, x_low, n - 1)
    t, t_low = pair_product(last, last_low, i, i_low)
    y, low = pair_sum(y, low, 0.5 * t, 0.5 * t_low)
    s = np.float64(n)
    z = i * i
    t *= s * i
    for j in range(9):
        low += t * BERNOULLI[j]
        t *= (s + (2.0 * j + 1.0)) * (s + (2.0 * j + 2.0)) * z
    last, last_low = pair_quotient(last, last_low, s - 1.0, 0.0)
    return pair_sum(y, low, last, last_low)


@inline
def _mix(a, a_low, j, b, b_low, k):
    """The pair a times j plus the pair b times k."""
    a, a_low = pair_product(a, a_low, j, 0.0)
    return pair_sum(a, a_low, *pair_product(b, b_low, k, 0.0))


@inline
def _polynomial_of_cot(n, r):
    """The sum of (r + k)^-n over all integers k for n = 3, 5 or 7, in two parts."""
    c, c_low = _pi_cot(r)
    d, d_low = pair_product(c, c_low, c, c_low)
    p, p_low = pair_product(math.pi, _PI_LOW, math.pi, _PI_LOW)
    y, low = pair_product(c, c_low, *pair_sum(p, p_low, d, d_low))  # c*(pi² + c²)
    if n == 5:  # times (2*pi² + 3*c²)/3
        y, low = pair_product(y, low, *_mix(p, p_low, 2.0, d, d_low, 3.0))
        y, low = pair_quotient(y, low, 3.0, 0.0)
    if n == 7:  # times (17*pi⁴ + 60*pi²*c² + 45*c⁴)/45
        a, a_low = pair_product(d, d_low, *_mix(p, p_low, 60.0, d, d_low, 45.0))
        p, p_low = pair_product(p, p_low, p, p_low)
        y, low = pair_product(y, low, *_mix(p, p_low, 17.0, a, a_low, 1.0))
        y, low = pair_quotient(y, low, 45.0, 0.0)
    return y, low


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
    factorial, factorial_low = 1.0, 0.0
    for j in range(2, k + 1):
        factorial, factorial_low = pair_product(factorial, factorial_low, j, 0.0)
    if v > 0.0:
        y, low = hurwitz(k + 1, v, 0.0)
    else:
        a = -v
        r = ((a + _WHOLE) - _WHOLE) - a if a < _WHOLE else 0.0
        if r == 0.0:
            return sign * math.inf
        if odd or abs(r) < 0.4 or k > 6:
            y, low = _inverse_power(r, 0.0, k + 1)
            for side in (1.0, -1.0):
                other, other_low = hurwitz(k + 1, *two_sum(1.0, side * r))
                factor = 1.0 if side > 0.0 else sign
                y, low = pair_sum(y, low, factor * other, factor * other_low)
        else:
            y, low = _polynomial_of_cot(k + 1, r)
        other, other_low = hurwitz(k + 1, *two_sum(1.0, a))
        y, low = pair_sum(y, low, -sign * other, -sign * other_low)
    y, low = pair_product(y, low, factorial, factorial_low)
    return sign * (y + low if abs(y) < 1e290 else y)


@inline
def polygamma(n, x):
    """The n-th derivative of digamma, whole 0 <= n <= 170, int or float; else NaN. [2 ulp, n <= 6]

    At the poles inf for odd n, -inf for even n. Below 0 an ulp of the larger of the sums that cancel.
    """
    return type(x)(_polygamma(n, np.float64(x)))
