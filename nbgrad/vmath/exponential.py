"""Exponentials and logarithms.

Most are written once for both precisions: ``type(x)(1.0)`` is a number of the argument's type, and ``pick(x, ...)``
the first for float32, the second for float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import by_precision, device_form, inline
from . import coefficients as c
from .bits import (
    SQRT_HALF,
    SQRT_HALF_F,
    bits,
    copy_sign,
    estrin,
    fast_two_sum,
    fma,
    from_bits,
    horner,
    pick,
    rint,
    split,
    two_prod,
)

__all__ = [
    "clamp",
    "exp",
    "exp2",
    "exp_factors",
    "exp_minus",
    "exp_sum",
    "exp_times",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_of",
    "log_parts",
    "log_sigmoid",
    "logaddexp",
    "power",
    "reduced",
    "sigmoid",
    "silu",
    "softplus",
    "xlog1py",
    "xlogy",
]

_LOG2_E = 1.0 / math.log(2.0)
# Adding it rounds to the nearest integer n and leaves n + 2*bias in the last bits.
_ROUND, _ROUND_F = 1.5 * 2.0**52 + 2 * 1023, 1.5 * 2.0**23 + 2 * 127


def _power64(shifted):
    i = bits(shifted)
    half = i >> 1
    return from_bits(half << 52), from_bits((i - half) << 52)


def _power32(shifted):
    i = bits(shifted)
    half = np.int32(i >> np.int32(1))
    rest = np.int32(i - half)
    return from_bits(np.int32(half << np.int32(23))), from_bits(np.int32(rest << np.int32(23)))


#: Two powers of 2 whose product is 2^n, even where that is subnormal or more than the largest number.
_power = by_precision(_power32, _power64)


@inline
def reduced(v, low):
    """``shifted, r, r_low``: v + low = n*log(2) + r + r_low with |r| < 0.35, and what :func:`_power` takes for n."""
    shift = type(v)(pick(v, _ROUND_F, _ROUND))
    shifted = v * type(v)(_LOG2_E) + shift
    n = shifted - shift
    ln2, ln2_low = pick(v, c.LN2_F, c.LN2)
    a = v - n * type(v)(ln2)
    b = n * type(v)(ln2_low) - low
    r = a - b
    return shifted, r, (a - r) - b


@inline
def clamp(x, low, high):
    """`x` between two numbers; NaN stays."""
    v = type(x)(low) if x < type(x)(low) else x
    return type(x)(high) if v > type(x)(high) else v


@inline
def exp_factors(high, low):
    """``p, p_low, a, b``: exp(high + low) = (p + p_low)*a*b, a and b powers of 2. Arguments as of :func:`exp_sum`.

    The pair is good to 2^-56; what it is multiplied with before a and b is rounded once even if that is subnormal.
    """
    v = clamp(high, pick(high, -150.0, -1400.0), pick(high, 150.0, 1400.0))
    shifted, r, r_low = reduced(v, low)
    p, p_low = fast_two_sum(type(r)(1.0), r + r * r * horner(r, pick(r, c.EXP_F, c.EXP)))
    half, rest = _power(shifted)
    return p, p_low + r_low, half, rest


@inline
def exp_sum(high, low):
    """exp(high + low), |low| much smaller than 1; `low` must be finite. [1 ulp]"""
    p, _, half, rest = exp_factors(high, low)
    return p * half * rest


@inline
def exp_times(x, y):
    """``exp(x)*y``, rounded once even where that is subnormal."""
    p, p_low, one, two = exp_factors(x, type(x)(0.0))
    return fma(p, y, p_low * y) * one * two


@device_form(math.exp)
@inline
def exp(x):
    """e to the power x. [1.1 ulp]"""
    return exp_sum(x, type(x)(0.0))


@inline
def exp2(x):
    """2 to the power x. [0.9 ulp]"""
    v = clamp(x, pick(x, -151.0, -1076.0), pick(x, 129.0, 1025.0))
    shift = type(v)(pick(v, _ROUND_F, _ROUND))
    shifted = v + shift
    r = v - (shifted - shift)
    p = type(r)(1.0) + r * horner(r, pick(r, c.EXP2_F, c.EXP2))
    half, rest = _power(shifted)
    return p * half * rest


@device_form(math.expm1)
@inline
def expm1(x):
    """``exp(x) - 1``, without its cancellation near 0. [1.4 ulp]"""
    one, half = type(x)(1.0), type(x)(0.5)
    shifted, r, r_low = reduced(clamp(x, -40.0, pick(x, 90.0, 712.0)), type(x)(0.0))
    a, b = _power(shifted)
    tail = r * r * (half + r * horner(r, pick(r, c.EXPM1_F, c.EXPM1))) + r_low
    return copy_sign(a * (b * tail + (b * r + (b - one / a))), x)


@inline
def _log_of(n, f, more, scale, terms):
    """``n*log(2) + log(1 + f) + more`` with log(2) in two parts, for f between sqrt(1/2) - 1 and sqrt(2) - 1."""
    # With s = f/(2 + f): log(1 + f) = 2*s + s³*(...) = f - s*(f - s²*(...)).
    s = f / (f + type(f)(2.0))
    z = s * s
    high, low = scale
    return n * type(f)(high) + (f - (s * (f - z * horner(z, terms)) - (n * type(f)(low) + more)))


@inline
def log_of(n, f, scale, terms):
    """``n*log(2) + log(1 + f)``, likewise."""
    return _log_of(n, f, type(f)(-0.0), scale, terms)


@inline
def _at_edges(n, x, pole):
    """`n`, the whole part of the logarithm of what is 0 at `pole`, with what that is there, beyond, and at infinity."""
    n = n if x < type(x)(math.inf) else type(x)(math.inf)
    n = type(x)(-math.inf) if x == type(x)(pole) else n
    return n if x >= type(x)(pole) else type(x)(math.nan)


@device_form(math.log)
@inline
def log(x):
    """The natural logarithm. [1 ulp]"""
    n, m = split(x)
    return log_of(_at_edges(n, x, 0.0), m - type(x)(1.0), pick(x, c.LN2_F, c.LN2), pick(x, c.LOG_F, c.LOG))


@inline
def _log_to_base(x, base):
    """``n, high, low``: ``log(x)/log(b)`` is n*log(2)/log(b) + high + low, given 1/log(b) in two parts."""
    n, m = split(x)
    f = m - type(x)(1.0)
    s = f / (m + type(x)(1.0))
    z = s * s
    w = s * (f - z * horner(z, pick(x, c.LOG_F, c.LOG)))  # log(m) = f - w
    return _at_edges(n, x, 0.0), f * type(x)(base[0]), f * type(x)(base[1]) - w * type(x)(base[0])


@device_form(math.log2)
@inline
def log2(x):
    """The logarithm to base 2, exact for its powers. [1.2 ulp]"""
    n, high, low = _log_to_base(x, pick(x, c.LOG2_E_F, c.LOG2_E))
    return n + (high + low)


@device_form(math.log10)
@inline
def log10(x):
    """The logarithm to base 10. [1.2 ulp]"""
    n, high, low = _log_to_base(x, pick(x, c.LOG10_E_F, c.LOG10_E))
    unit, unit_low = pick(x, c.LOG10_2_F, c.LOG10_2)
    return n * type(x)(unit) + (high + (low + n * type(x)(unit_low)))


def _quarter_split64(u):
    i = (bits(0.25 * u) - SQRT_HALF) & -0x10000000000000
    return np.float64(i >> 52) + 2.0, from_bits(0x3FF0000000000000 - i)


def _quarter_split32(u):
    i = np.int32(bits(np.float32(0.25) * u) - SQRT_HALF_F) & np.int32(-0x800000)
    n = np.float32(np.int32(i >> np.int32(23))) + np.float32(2.0)
    return n, from_bits(np.int32(np.int32(0x3F800000) - np.int32(i)))


#: ``n, scale``: scale = 2^(2 - n) brings u/4 between sqrt(1/2) and sqrt(2); for u so large that 2^-n is subnormal, too.
_quarter_split = by_precision(_quarter_split32, _quarter_split64)


@device_form(math.log1p)
@inline
def log1p(x):
    """``log(1 + x)``, also for small x. [1 ulp]"""
    one = type(x)(1.0)
    largest = type(x)(pick(x, 3.4028234663852886e38, 1.7976931348623157e308))
    v = x if x < largest else largest
    n, scale = _quarter_split(v + one)
    scale *= type(x)(0.25)
    less = scale - one
    f = scale * v + less
    f_low = scale * v + (less - f)
    more = f_low - f_low * f  # f_low/(1 + f), to a few digits
    y = _log_of(_at_edges(n, x, -1.0), f, more, pick(x, c.LN2_F, c.LN2), pick(x, c.LOG_F, c.LOG))
    return copy_sign(y, x)


@inline
def _exp_minus(v, low):
    """exp(v + low) for v <= 0 and a `low` much smaller than 1."""
    least = type(v)(pick(v, -104.0, -746.0))
    shifted, r, _ = reduced(least if v < least else v, low)
    p = type(r)(1.0) + (r + r * r * horner(r, pick(r, c.EXP_F, c.EXP)))
    half, rest = _power(shifted)
    return p * half * rest


@inline
def exp_minus(v):
    """exp(v) for v <= 0. [1.1 ulp]"""
    return _exp_minus(v, type(v)(0.0))


@inline
def _log1p_exp(v, low):
    """log(1 + exp(v + low)) for v <= 0. [1.8 ulp]"""
    e = _exp_minus(v, low)
    s = e / (e + type(e)(2.0))
    z = s * s
    return e - s * (e - z * horner(z, pick(z, c.LOG_WIDE_F, c.LOG_WIDE)))


@inline
def softplus(x):
    """``log(1 + exp(x))``. [1.8 ulp]"""
    zero = type(x)(0.0)
    return (x if x > zero else zero) + _log1p_exp(-abs(x), zero)


@inline
def log_sigmoid(x):
    """``log(sigmoid(x))``. [1.8 ulp]"""
    return -softplus(-x)


@inline
def logaddexp(a, b):
    """``log(exp(a) + exp(b))`` without overflow. [1.8 ulp; of the larger term where max(a, b) and the rest cancel]"""
    zero = type(a)(0.0)
    more, less = (a, b) if a > b else (b, a)
    v = less - more if a != b else zero  # infinities too
    low = (less - v) - more
    return more + _log1p_exp(v, low if abs(low) < type(a)(1.0) else zero)


def _inverse_power64(shifted):
    i = bits(shifted)
    half = i >> 1
    return from_bits(half << 52), from_bits((half - i + 2046) << 52)


def _inverse_power32(shifted):
    i = bits(shifted)
    half = np.int32(i >> np.int32(1))
    rest = np.int32(np.int32(half - i) + np.int32(254))
    return from_bits(np.int32(half << np.int32(23))), from_bits(np.int32(rest << np.int32(23)))


#: Two powers of 2 of which the second, divided by the first, is 2^-n.
_inverse_power = by_precision(_inverse_power32, _inverse_power64)


@inline
def _sigmoid_parts(v):
    """A power of 2 and what it is divided by for sigmoid(v)."""
    shifted, r, _ = reduced(v, type(v)(0.0))
    t = r * r * horner(-r, pick(r, c.EXP_F, c.EXP)) - r
    half, rest = _inverse_power(shifted)
    one = half + rest
    return half, one + (rest * t + (half - (one - rest)))  # what the sum lost of half, if that is the smaller one


@inline
def sigmoid(x):
    """``1 / (1 + exp(-x))``, both tails kept. [1.7 ulp]"""
    bound = pick(x, 104.0, 746.0)
    half, under = _sigmoid_parts(clamp(x, -bound, bound))
    return half / under


@inline
def silu(x):
    """``x / (1 + exp(-x))``. [1.7 ulp]"""
    v = clamp(x, pick(x, -112.0, -760.0), 60.0)
    half, under = _sigmoid_parts(v)
    return v * half / under if x < type(x)(60.0) else x


@inline
def xlogy(x, y):
    """``x*log(y)``, and 0 for x = 0 unless y is NaN. [1.9 ulp]"""
    zero = type(x)(0.0)
    return zero if x == zero and y == y else x * log(y)


@inline
def xlog1py(x, y):
    """``x*log1p(y)``, and 0 for x = 0 unless y is NaN. [1.9 ulp]"""
    zero = type(x)(0.0)
    return zero if x == zero and y == y else x * log1p(y)


@inline
def log_parts(x):
    """log(x) of a float64 as high + low, for finite x > 0. [relative error 2^-63]"""
    n, m = split(x)
    f = m - 1.0
    d, d_low = fast_two_sum(1.0, m)
    q = 1.0 / d
    s = f * q
    s_low = (fma(-s, d, f) - s * d_low) * q
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    # 2*s + s³*(2/3 + z*(...)), all in two parts
    third, third_low = c.TWO_THIRDS
    p, p_low = fast_two_sum(third, z * horner(z, c.LOG_LONG))
    cube, cube_low = two_prod(s, z)
    cube_low += s * z_low + s_low * z
    w, w_low = two_prod(cube, p)
    w_low += cube * (p_low + third_low) + cube_low * p
    high, low = fast_two_sum(2.0 * s, w)
    ln2, ln2_low = c.LN2
    total, rest = fast_two_sum(n * ln2, high)
    return total, rest + (low + (2.0 * s_low + w_low) + n * ln2_low)


@inline
def power(x, y):
    """``x**y`` with the special cases of C's pow. [1.9 ulp]"""
    zero, one, infinity = type(x)(0.0), type(x)(1.0), type(x)(math.inf)
    half_y = type(x)(0.5) * y
    a, negative, whole = abs(x), bits(x) < 0, rint(y) == y
    # What is special about x and y goes into the exponent n of a = 2^n * (1 + f), f exact.
    n, m = split(a)
    n = type(x)(math.nan) if negative and not whole else n
    n = n if a < infinity else a
    n = -infinity if a == zero else n
    n = zero if y == zero else n
    b = zero if a == one else y
    # log2(a) = high + low, of s + s_low = f/(2 + f): n + unit*s + third*s³ + s⁵*(...), unit and third in two parts.
    f = m - one
    s = f / (m + one)
    s_low = fma(-s, f, fma(type(x)(-2.0), s, f)) * fma(s, type(x)(-0.5), type(x)(0.5))
    z = s * s
    unit, unit_low = pick(x, c.TWO_LOG2_E_F, c.TWO_LOG2_E)
    third, third_low = pick(x, c.TWO_THIRDS_LOG2_E_F, c.TWO_THIRDS_LOG2_E)
    start = fma(z, type(x)(0.9765), type(x)(unit))  # (high - n)/s to 2^-17 or so
    high = fma(s, start, n)
    tail = fma(z, estrin(z, pick(x, c.LOG2_POWER_F, c.LOG2_POWER)), type(x)(third_low))
    tail = fma(z, tail, fma(fma(s, s, -z), type(x)(third), type(x)(unit_low)))
    more = tail + fma(z, type(x)(third), type(x)(unit) - start)
    slope = fma(z, type(x)(2.95), type(x)(unit))  # unit/(1 - s²) to 2^-11
    low = fma(s, more, fma(s, start, n - high) + s_low * slope)
    # b*log2(a) is a whole number, in the last bits of `shifted`, and r.
    bound, shift = pick(x, 160.0, 1100.0), pick(x, _ROUND_F, _ROUND)
    v = fma(b, high, type(x)(shift))
    shifted = clamp(v, shift - bound, shift + bound)
    r = fma(b, low, fma(b, high, type(x)(shift) - v))
    r = zero if v < shifted or v > shifted else r
    half, other = _power(shifted)
    p = fma(r, estrin(r, pick(r, c.EXP2_F, c.EXP2_WIDE)), one) * half * other
    return -p if negative and whole and rint(half_y) != half_y else p
