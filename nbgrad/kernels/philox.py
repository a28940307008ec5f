"""Random numbers without state: element i of a stream is a function of the key and of its place.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as
1, 2, 3"): ten rounds of multiplications turn a 128-bit counter and a 64-bit key into four 32-bit words. Word
j of block c is the same whoever computes it, so how a fill is split over threads or devices cannot change it.
All of it is integer arithmetic, sums, products, quotients and square roots, without a library call: integers,
masks and uniform numbers on [0, 1) are the same bits everywhere, other floats may differ in the last bits
where one machine fuses a multiplication with an addition and another does not.

Every kernel takes ``out, key, offset, ...`` and numbers its blocks from `offset`. Element i takes

- word i % 4 of block offset + i//4, where 32 bits are enough: float32 outputs, and every mask;
- words 2*(i % 2) and 2*(i % 2) + 1 (the high half first) of block offset + i//2, where 64 are wanted: float64
  outputs, integers and permutations.

:func:`consumed` says how many blocks that is. A fill can be split where a block begins: at multiples of 4
elements (or 2), with as many blocks added to `offset`. On a device every thread fills such pieces
(:mod:`.random_device`); a permutation, each step of which needs those before it, is drawn on the CPU.
"""

import numpy as np

from ..backends.numba.compile import Kernel, inline, kernel
from ..vmath.bits import SQRT_HALF, bits, from_bits
from ..vmath.coefficients import LN2, LOG
from ..vmath.exponential import log_of
from ..vmath.quantile import normal_quantile, normal_quantile_short

_U = np.uint64
_M0, _M1 = _U(0xD2511F53), _U(0xCD9E8D57)  # the multipliers of the paper
_W0, _W1 = _U(0x9E3779B9), _U(0xBB67AE85)  # what the key grows by: the golden ratio, sqrt(3) - 1
_LOW = _U(0xFFFFFFFF)
_0, _1, _2, _3, _8, _11, _12, _32 = (_U(n) for n in (0, 1, 2, 3, 8, 11, 12, 32))


def elements(made: Kernel, itemsize: int) -> int:
    """How many elements of `itemsize` bytes a kernel of this module, or one like them, draws from a block."""
    return 4 if made is bernoulli or (made not in (integers, permutation) and itemsize == 4) else 2


def consumed(made: Kernel, n: int, itemsize: int) -> int:
    """How many blocks of its stream it uses to fill `n` of them."""
    return -(-n // elements(made, itemsize))


@inline
def philox(a, b, c, d, k, h):
    """Ten rounds of Philox4x32 on the counter (a, b, c, d), lowest word first, under the key (k, h)."""
    for _ in range(10):
        p = a * _M0
        q = c * _M1
        a, b, c, d = (q >> _32) ^ b ^ k, q & _LOW, (p >> _32) ^ d ^ h, p & _LOW
        k = (k + _W0) & _LOW
        h = (h + _W1) & _LOW
    return a, b, c, d


@inline
def block(key, c):
    """The four 32-bit words of block `c` under `key` (both uint64), each in a uint64."""
    return philox(c & _LOW, c >> _32, _0, _0, key & _LOW, key >> _32)


@inline
def word32(key, start, i):
    """The word of element i of a 32-bit stream."""
    a, b, c, d = block(key, start + (i >> _2))
    even, odd = (c, d) if i & _2 else (a, b)
    return odd if i & _1 else even


@inline
def words64(key, start, i):
    """The two words, high and low, of element i of a 64-bit stream."""
    a, b, c, d = block(key, start + (i >> _1))
    return (c, d) if i & _1 else (a, b)


@inline
def unit32(word):
    """A float32 in [0, 1) from the upper 24 bits of a 32-bit word."""
    return np.float32(np.int32(word >> _8)) * np.float32(5.9604644775390625e-08)


@inline
def unit64(high, low):
    """A float64 in [0, 1) from the upper 53 bits of two 32-bit words."""
    return np.float64(np.int64((high << _32 | low) >> _11)) * 1.1102230246251565e-16


@inline
def _between(u, low, high):
    """`u` of [0, 1) in [low, high), all of one type; what rounding puts on `high` goes to `low`."""
    y = low + (high - low) * u
    return y if y < high else low


@inline
def open32(word):
    """A float64 strictly inside (0, 1), symmetric about 0.5, from a 32-bit word: an odd multiple of 2^-33."""
    return np.float64(np.int64(word << _1 | _1)) * 1.1641532182693481e-10


@inline
def open64(high, low):
    """A float64 strictly inside (0, 1), symmetric about 0.5: an odd multiple of 2^-53 from 52 random bits."""
    return np.float64(np.int64((high << _32 | low) >> _12 << _1 | _1)) * 1.1102230246251565e-16


@inline
def log_unit(x):
    """The natural logarithm of a normal positive float64, without what others need. [1 ulp]"""
    i = bits(x) - SQRT_HALF
    m = from_bits((i & 0xFFFFFFFFFFFFF) + SQRT_HALF)
    return log_of(np.float64(i >> 52), m - 1.0, LN2, LOG)


@inline
def _spread(u):
    """``-log(4*u*(1 - u))``."""
    least = u if u < 0.5 else 1.0 - u
    return -log_unit(4.0 * least * (1.0 - least))


@inline
def to_normal(u):
    """The standard normal quantile of a u strictly inside (0, 1), a multiple of 2^-53."""
    return normal_quantile(u - 0.5, _spread(u))


@inline
def to_normal_short(u):
    """The same for a multiple of 2^-33, good enough to be rounded to float32."""
    return normal_quantile_short(u - 0.5, _spread(u))


@inline
def below(high, low, n):
    """A whole number in [0, n) from two 32-bit words, n a uint64: the upper half of the product of the 64
    bits and n (Lemire 2019, without its rejection: a value's chance is off by at most n/2^64 of itself)."""
    a, b = n >> _32, n & _LOW
    mid = high * b + (low * b >> _32)
    return high * a + (mid >> _32) + ((mid & _LOW) + low * a >> _32)


@kernel
def uniform(out, key, offset, low, high):
    """Uniform on [low, high): 24 random bits for float32, 53 for float64."""
    k, start, n = _U(key), _U(offset), _U(out.size)
    if out.itemsize == 4:
        least, end = np.float32(low), np.float32(high)
        for i in range(n >> _2):
            a, b, c, d = block(k, start + i)
            j = i << _2
            out[j] = _between(unit32(a), least, end)
            out[j | _1] = _between(unit32(b), least, end)
            out[j | _2] = _between(unit32(c), least, end)
            out[j | _3] = _between(unit32(d), least, end)
        for last in range(n & ~_3, n):
            out[last] = _between(unit32(word32(k, start, last)), least, end)
    else:
        for i in range(n >> _1):
            a, b, c, d = block(k, start + i)
            j = i << _1
            out[j] = _between(unit64(a, b), low, high)
            out[j | _1] = _between(unit64(c, d), low, high)
        for last in range(n & ~_1, n):
            a, b = words64(k, start, last)
            out[last] = _between(unit64(a, b), low, high)


@kernel
def normal(out, key, offset, loc, scale):
    """Normal with mean `loc` and standard deviation `scale`, by the inverse of the distribution function: one
    uniform number an element, 32 bits for float32 (up to 6.3 deviations), 53 for float64 (up to 8.2)."""
    k, start, n = _U(key), _U(offset), _U(out.size)
    if out.itemsize == 4:
        for i in range(n >> _2):
            a, b, c, d = block(k, start + i)
            j = i << _2
            out[j] = loc + scale * to_normal_short(open32(a))
            out[j | _1] = loc + scale * to_normal_short(open32(b))
            out[j | _2] = loc + scale * to_normal_short(open32(c))
            out[j | _3] = loc + scale * to_normal_short(open32(d))
        for last in range(n & ~_3, n):
            out[last] = loc + scale * to_normal_short(open32(word32(k, start, last)))
    else:
        for i in range(n >> _1):
            a, b, c, d = block(k, start + i)
            j = i << _1
            out[j] = loc + scale * to_normal(open64(a, b))
            out[j | _1] = loc + scale * to_normal(open64(c, d))
        for last in range(n & ~_1, n):
            a, b = words64(k, start, last)
            out[last] = loc + scale * to_normal(open64(a, b))


@kernel
def exponential(out, key, offset, scale):
    """Exponential with mean `scale`: ``-scale*log(u)``, u strictly inside (0, 1)."""
    k, start, n = _U(key), _U(offset), _U(out.size)
    if out.itemsize == 4:
        for i in range(n >> _2):
            a, b, c, d = block(k, start + i)
            j = i << _2
            out[j] = -scale * log_unit(open32(a))
            out[j | _1] = -scale * log_unit(open32(b))
            out[j | _2] = -scale * log_unit(open32(c))
            out[j | _3] = -scale * log_unit(open32(d))
        for last in range(n & ~_3, n):
            out[last] = -scale * log_unit(open32(word32(k, start, last)))
    else:
        for i in range(n >> _1):
            a, b, c, d = block(k, start + i)
            j = i << _1
            out[j] = -scale * log_unit(open64(a, b))
            out[j | _1] = -scale * log_unit(open64(c, d))
        for last in range(n & ~_1, n):
            a, b = words64(k, start, last)
            out[last] = -scale * log_unit(open64(a, b))


@kernel
def bernoulli(out, key, offset, p, scale):
    """`scale` where u >= p, else 0, with u a multiple of 2^-32: a dropout mask. Any output type."""
    k, start, n = _U(key), _U(offset), _U(out.size)
    x = min(max(p, 0.0), 1.0) * 4294967296.0
    least = np.int64(x)
    t = _U(least + np.int64(least < x))
    for i in range(n >> _2):
        a, b, c, d = block(k, start + i)
        j = i << _2
        out[j] = scale if a >= t else 0.0
        out[j | _1] = scale if b >= t else 0.0
        out[j | _2] = scale if c >= t else 0.0
        out[j | _3] = scale if d >= t else 0.0
    for last in range(n & ~_3, n):
        out[last] = scale if word32(k, start, last) >= t else 0.0


@kernel
def integers(out, key, offset, low, high):
    """Whole numbers in [low, high), for any integer output type that holds them."""
    k, start, n = _U(key), _U(offset), _U(out.size)
    first, count = _U(low), _U(high) - _U(low)
    for i in range(n >> _1):
        a, b, c, d = block(k, start + i)
        j = i << _1
        out[j] = np.int64(first + below(a, b, count))
        out[j | _1] = np.int64(first + below(c, d, count))
    for last in range(n & ~_1, n):
        a, b = words64(k, start, last)
        out[last] = np.int64(first + below(a, b, count))


@kernel
def permutation(out, key, offset):
    """A permutation of 0 ... n - 1 (int64): Fisher and Yates' shuffle, from the front. Not to be split."""
    k, start, n = _U(key), _U(offset), _U(out.size)
    for i in range((n + _1) >> _1):
        a, b, c, d = block(k, start + i)
        j = i << _1
        swap = below(a, b, j + _1)
        out[j] = out[swap]
        out[swap] = np.int64(j)
        if j + _1 < n:
            swap = below(c, d, j + _2)
            out[j + _1] = out[swap]
            out[swap] = np.int64(j + _1)
