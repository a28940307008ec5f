"""Scalar functions in plain compiled arithmetic, to be inlined into kernels: rounding, remainders, sinc's derivatives.

Those of numbers take and return one float64 or float32; float32 is computed in float64 and rounded once at the end. The
figures in brackets are the largest errors against mpmath, in units in the last place (ulp) of the float64 result: see
``tests/test_special.py``. The others are in :mod:`nbgrad.vmath`.
"""

import math

import numpy as np

from ..backends.numba.compile import inline
from ..vmath.bits import rint

_PI = math.pi


@inline
def int_floor_div(a, b):
    """``a // b`` of two integers of one type; 0 for b = 0 (NumPy's value), smallest // -1 wraps."""
    if b == 0:
        return type(a)(0)
    return type(a)(type(a)(0) - a if b < 0 and b == -1 else a // b)


@inline
def int_mod(a, b):
    """``a % b`` of two integers of one type, with the sign of `b`; 0 for b = 0 (NumPy's value)."""
    return type(a)(0) if b == 0 or (b < 0 and b == -1) else type(a)(a % b)


@inline
def _power(x, n):
    """``x**n`` for a whole n >= 0, by multiplication."""
    y = 1.0
    while n > 0:
        if n & 1:
            y *= x
        x *= x
        n >>= 1
    return y


@inline
def sinc_deriv(n, x):
    """The n-th derivative of ``sin(pi*x)/(pi*x)``, for whole n >= 1. [11 ulp of ``pi^n / (1 + n + pi*|x|)``, the size
    of its swing, for n <= 4; 2000 for n <= 20]

    With z = pi*x and S = sin(z)/z: for |z| < 2.5 or k/2 the Taylor series of the n-th derivative, else
    ``S(k) = (sin(k)(z) - k*S(k-1))/z`` forwards, which loses nothing once z > k/2.
    """
    v = np.float64(x)
    k = np.int64(n)
    z = _PI * v
    if abs(z) < max(2.5, 0.5 * k):
        half = (k + 1) // 2
        m = 2 * half - k
        t = (z if m == 1 else 1.0) * (1.0 if half % 2 == 0 else -1.0)
        y = 0.0
        for j in range(14 if k <= 5 else 14 + k):
            y += t / (2.0 * (half + j) + 1.0)
            t *= -(z * z) / ((m + 2.0 * j + 1.0) * (m + 2.0 * j + 2.0))
    else:
        whole = rint(v)
        r = v - whole
        flip = 1.0 if whole == 2.0 * rint(0.5 * whole) else -1.0
        sin = flip * math.sin(_PI * r)
        cos = flip * math.sin(_PI * (0.5 - abs(r)))
        y = sin / z
        for j in range(1, k + 1):
            sin, cos = cos, -sin
            y = (sin - j * y) / z
    return type(x)(y * _power(_PI, k))


@inline
def exprel_deriv(n, x):
    """The n-th derivative of ``(exp(x) - 1)/x``, for whole n >= 0: the integral of ``s^n*exp(s*x)`` from 0 to 1.
    [4 ulp for n <= 4]

    Near 0 by the series of Kummer's function M(n+1, n+2, x), whose terms are positive, also below 0 (NIST Digital
    Library of Mathematical Functions, 13.2.2 and 13.2.39); else ``E(k) = (exp(x) - k*E(k-1))/x`` forwards.
    """
    v = np.float64(x)
    k = np.int64(n)
    if abs(v) < k + 1.0:
        term, y = 1.0 / (k + 1.0), 0.0
        j = 0.0
        if v < 0.0:
            term *= math.exp(v)
            while term > 1e-18 * y:
                y += term
                j += 1.0
                term *= -v / (k + 1.0 + j)
        else:
            power = 1.0
            while term > 1e-18 * y:
                y += term
                j += 1.0
                power *= v / j
                term = power / (k + 1.0 + j)
    else:
        e = math.exp(v)
        y = math.inf if e == math.inf else math.expm1(v) / v
        for j in range(1, k + 1):
            y = (e - j * y) / v
    return type(x)(y)
