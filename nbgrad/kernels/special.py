"""Scalar special functions in plain compiled arithmetic, to be inlined into kernels.

Every function takes and returns one float64 or float32; float32 is computed in float64 and rounded
once at the end (so float32 results are within 0.501 ulp wherever float64 is within a few). NaN in,
NaN out; infinities, poles and arguments outside the domain answer as `scipy.special` does.

The figures in brackets are the largest errors against mpmath, in units in the last place (ulp) of
the float64 result, over dense and nasty arguments in the named range: see ``tests/test_special.py``.
Next to a zero that is not 0 itself (of digamma, polygamma, betaln, gammaln, sinc's derivatives) the
error is that many ulp of the larger of the terms that cancel.
"""

import math

import numpy as np

from ..codegen.compile import inline

_PI = math.pi
_LN2 = math.log(2.0)
_SQRT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.9189385332046728
_SQRT_2_OVER_PI = 0.7978845608028654
#: B(2j)/(2j)!, j = 1 to 9
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 2.08767569878681e-08, -5.284190138687493e-10,
              1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15)  # fmt: skip


@inline
def rint(x):
    """The nearest integer, halves to the even one. [exact]"""
    v = np.float64(x)
    a = abs(v)
    near = (a + 4503599627370496.0) - 4503599627370496.0 if a < 4503599627370496.0 else a
    return type(x)(math.copysign(near, v))


@inline
def fix(x):
    """The integer part: rounded towards zero, the sign of a zero kept. [exact]"""
    v = np.float64(x)
    a = abs(v)
    return type(x)(math.copysign(rint(a) - 1.0 if rint(a) > a else rint(a), v))


@inline
def floor_mod(a, b):
    """``a - b*floor(a/b)``, with the sign of `b` as in Python; NaN for b = 0 or infinite a. [0.5 ulp]"""
    return type(a)(np.float64(a) % np.float64(b))


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
def cbrt(x):
    """The real cube root. [0.67 ulp]

    A third of the exponent by integer division of the bits (Kahan 1991), two Halley steps, then one Newton
    step from a root cut to 26 bits, whose square is exact.
    """
    v = np.float64(x)
    a = abs(v)
    tiny = a < 2.2250738585072014e-308
    a = a * 18014398509481984.0 if tiny else a  # 2^54
    t = np.int64(np.float64(a).view(np.int64) // np.int64(3) + np.int64(0x2A9F800000000000)).view(np.float64)
    c = t * (t * (t / a))
    t = t * ((c + 2.0) / (2.0 * c + 1.0))
    c = t * (t * (t / a))
    t = t * ((c + 2.0) / (2.0 * c + 1.0))
    cut = (np.float64(t).view(np.int64) + np.int64(0x4000000)) & np.int64(-0x8000000)
    t = np.int64(cut).view(np.float64)
    r = a / (t * t)
    t = t + t * (r - t) / (2.0 * t + r)
    t = t * 3.814697265625e-06 if tiny else t  # 2^-18
    t = t if 0.0 < a < math.inf else a
    return type(x)(math.copysign(t, v))


@inline
def hypot(a, b):
    """``sqrt(a² + b²)`` without overflow; infinite as soon as one argument is. [0.6 ulp]"""
    return type(a)(math.hypot(np.float64(a), np.float64(b)))


@inline
def logaddexp(a, b):
    """``log(exp(a) + exp(b))`` without overflow. [1 ulp; of max(a, b) where the terms cancel]"""
    u, v = np.float64(a), np.float64(b)
    if u == v:  # infinities too
        return type(a)(u + _LN2)
    return type(a)((u if u > v else v) + math.log1p(math.exp(-abs(u - v))))


@inline
def log1pexp(x):
    """Softplus, ``log(1 + exp(x))``. [2 ulp]"""
    v = np.float64(x)
    return type(x)((v if v > 0.0 else 0.0) + math.log1p(math.exp(-abs(v))))


@inline
def sigmoid(x):
    """``1 / (1 + exp(-x))``, both tails kept. [2.3 ulp]"""
    v = np.float64(x)
    e = math.exp(-abs(v))
    return type(x)((e if v < 0.0 else 1.0) / (1.0 + e))


@inline
def log_sigmoid(x):
    """``log(sigmoid(x))``. [2 ulp]"""
    return -log1pexp(-x)


@inline
def xlogy(x, y):
    """``x*log(y)``, and 0 for x = 0 unless y is NaN. [1.6 ulp]"""
    u, v = np.float64(x), np.float64(y)
    return type(x)(0.0 if u == 0.0 and v == v else u * math.log(v))


@inline
def xlog1py(x, y):
    """``x*log1p(y)``, and 0 for x = 0 unless y is NaN. [1.6 ulp]"""
    u, v = np.float64(x), np.float64(y)
    return type(x)(0.0 if u == 0.0 and v == v else u * math.log1p(v))


@inline
def _scaled(z):
    """``(1 + 2z) * erfcx(z)`` for z >= 0: between 1 and 1.3, exactly 1 at 0.

    Variable and scaling as in Shepherd and Laframboise (1981): s = 2z/(z + 3.75); the value is
    1 + s*g(s - 1), where g is the Chebyshev interpolant of degree 23, as powers of t = s - 1.
    """
    c = 1e17 if z > 1e17 else z
    s = 2.0 * c / (c + 3.75)
    t = s - 1.0
    g = (4.270472427184967e-10 * t - 1.0652100892560516e-10) * t - 5.07428260388852e-09
    g = (g * t + 1.276092806152313e-09) * t + 3.740388738724219e-08
    g = (g * t - 1.4005353074201294e-08) * t - 2.4464810544247007e-07
    g = ((g * t + 1.8723734471233091e-07) * t + 1.5643624930460329e-06) * t - 2.5377500097954473e-06
    g = ((g * t - 8.906355823587831e-06) * t + 3.1290494349244584e-05) * t + 2.0358579693926705e-05
    g = ((g * t - 0.00031051262172745374) * t + 0.0006042262966685475) * t + 0.0011513995467633167
    g = ((g * t - 0.010897979106929788) * t + 0.03926025652730712) * t - 0.09795365511666321
    g = ((g * t + 0.19025797627692215) * t - 0.29906190641868974) * t + 0.3813386449088395
    g = (g * t - 0.3777532294233746) * t + 0.2375126308378276
    return 1.0 + s * g


@inline
def _exp_square(x, k):
    """``exp(k*x²)`` for |k| <= 1, without the loss of x² digits that squaring first would bring.

    x = h + l with h a multiple of 2^-20, so that h² is exact for every |x| whose result is not 0 or inf.
    """
    x = 64.0 if abs(x) > 64.0 else abs(x)
    h = (x + 6442450944.0) - 6442450944.0  # 1.5 * 2^32
    low = k * (x - h) * (x + h)
    return math.exp(k * (h * h)) * (1.0 + low * (1.0 + low * (0.5 + low * (1.0 / 6.0))))


@inline
def erfcx(x):
    """``exp(x²)*erfc(x)``; inf below -26.7. [3.5 ulp]"""
    v = np.float64(x)
    z = abs(v)
    y = _scaled(z) / (1.0 + 2.0 * z)
    if z > 8e307:
        y = 0.5641895835477563 / z
    if v < 0.0:
        y = 2.0 * _exp_square(v, 1.0) - y
    return type(x)(y)


@inline
def ndtr(x):
    """The normal distribution function, ``erfc(-x/sqrt(2))/2``. [4.2 ulp, the far left tail included]"""
    v = np.float64(x)
    z = abs(v) * _SQRT_HALF
    tail = 0.5 * _exp_square(v, -0.5) * (_scaled(z) / (1.0 + 2.0 * z))
    tail = 0.0 if z > 40.0 else tail
    return type(x)(tail if v < 0.0 else 1.0 - tail)


@inline
def log_ndtr(x):
    """The logarithm of :func:`ndtr`; ``-x²/2 - log(-x*sqrt(2*pi))`` far to the left. [5 ulp]"""
    v = np.float64(x)
    z = abs(v) * _SQRT_HALF
    scaled = 0.5 * _scaled(z) / (1.0 + 2.0 * z)
    if v > 0.0:
        return type(x)(-0.0 if z > 40.0 else math.log1p(-_exp_square(v, -0.5) * scaled))
    return type(x)(-0.5 * v * v + (0.0 if z > 1e100 else math.log(scaled)))


@inline
def ndtr_ratio(x):
    """``phi(x)/Phi(x)``, the derivative of :func:`log_ndtr`; close to -x far to the left. [5 ulp]"""
    v = np.float64(x)
    z = abs(v) * _SQRT_HALF
    f = _scaled(z)
    if v < 0.0:
        return type(x)((2.0 * _SQRT_2_OVER_PI / f) * (0.5 + z))
    e = 0.0 if z > 40.0 else 0.5 * _exp_square(v, -0.5)
    return type(x)(_SQRT_2_OVER_PI * e / (1.0 - e * (f / (1.0 + 2.0 * z))))


@inline
def _pick(mid, near, a, b, c):
    return a if mid else (b if near else c)


@inline
def normal_quantile(q, w):
    """The normal quantile of p = q + 0.5, given both q and ``w = sqrt(-log(min(p, 1 - p)))``. [5 ulp]

    Rational approximations of Wichura's AS 241 (1988), PPND16; relative error under 1e-16 before rounding for
    w <= 27. The three ranges share one evaluation, with the coefficients selected, so that a loop vectorises.
    """
    mid = abs(q) <= 0.425
    near = w <= 5.0
    r = 0.180625 - q * q if mid else (w - 1.6 if near else w - 5.0)
    a = _pick(mid, near, 2509.0809287301227, 0.0007745450142783414, 2.0103343992922881e-07)
    a = a * r + _pick(mid, near, 33430.57558358813, 0.022723844989269184, 2.7115555687434876e-05)
    a = a * r + _pick(mid, near, 67265.7709270087, 0.2417807251774506, 0.0012426609473880784)
    a = a * r + _pick(mid, near, 45921.95393154987, 1.2704582524523684, 0.026532189526576124)
    a = a * r + _pick(mid, near, 13731.69376550946, 3.6478483247632045, 0.29656057182850487)
    a = a * r + _pick(mid, near, 1971.5909503065513, 5.769497221460691, 1.7848265399172913)
    a = a * r + _pick(mid, near, 133.14166789178438, 4.630337846156546, 5.463784911164114)
    a = a * r + _pick(mid, near, 3.3871328727963665, 1.4234371107496835, 6.657904643501103)
    b = _pick(mid, near, 5226.495278852854, 1.0507500716444169e-09, 2.0442631033899397e-15)
    b = b * r + _pick(mid, near, 28729.085735721943, 0.0005475938084995345, 1.421511758316446e-07)
    b = b * r + _pick(mid, near, 39307.89580009271, 0.015198666563616457, 1.8463183175100548e-05)
    b = b * r + _pick(mid, near, 21213.794301586597, 0.14810397642748008, 0.0007868691311456133)
    b = b * r + _pick(mid, near, 5394.196021424751, 0.6897673349851, 0.014875361290850615)
    b = b * r + _pick(mid, near, 687.1870074920579, 1.6763848301838038, 0.1369298809227358)
    b = b * r + _pick(mid, near, 42.31333070160091, 2.053191626637759, 0.599832206555888)
    b = b * r + 1.0
    return (q if mid else math.copysign(1.0, q)) * (a / b)


@inline
def ndtri(p):
    """The inverse of :func:`ndtr`; ±inf at 0 and 1, NaN outside. [5.5 ulp]"""
    v = np.float64(p)
    tail = v if v < 0.5 else 1.0 - v
    y = normal_quantile(v - 0.5, math.sqrt(-math.log(tail)) if tail > 0.0 else 6.0)
    return type(p)(y if tail > 0.0 else (math.copysign(math.inf, v - 0.5) if tail == 0.0 else math.nan))


@inline
def erfinv(x):
    """The inverse error function, accurate at 0 and ±1 too; ±inf at ±1, NaN outside. [5.5 ulp]"""
    v = np.float64(x)
    tail = 1.0 - abs(v)
    y = normal_quantile(0.5 * v, math.sqrt(_LN2 - math.log(tail)) if tail > 0.0 else 6.0) * _SQRT_HALF
    return type(x)(y if tail > 0.0 else (math.copysign(math.inf, v) if tail == 0.0 else math.nan))


@inline
def erfcinv(x):
    """The inverse of erfc on [0, 2]; inf at 0, -inf at 2, NaN outside. [5.5 ulp, however small x]"""
    v = np.float64(x)
    tail = v if v < 1.0 else 2.0 - v
    q = 0.5 * (1.0 - v)
    y = normal_quantile(q, math.sqrt(_LN2 - math.log(tail)) if tail > 0.0 else 6.0) * _SQRT_HALF
    return type(x)(y if tail > 0.0 else (math.copysign(math.inf, q) if tail == 0.0 else math.nan))


@inline
def gamma(x):
    """The gamma function: ±inf at ±0, NaN at negative integers and -inf. [5 ulp with glibc]"""
    return type(x)(math.gamma(np.float64(x)))


@inline
def gammaln(x):
    """``log|gamma(x)|``: inf at the poles. [4 ulp with glibc, zeros below 0 included]"""
    v = np.float64(x)
    return type(x)(v if v == -math.inf else math.lgamma(v))


@inline
def _stirling(x):
    """What Stirling's formula leaves of log(gamma(x)), for x >= 10: sum of B(2j) / (2j*(2j-1)*x^(2j-1))."""
    i = 1.0 / x
    z = i * i
    s = 691.0 / 360360.0 - z * (1.0 / 156.0)
    s = 1.0 / 1680.0 - z * (1.0 / 1188.0 - z * s)
    return i * (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * s)))


@inline
def betaln(a, b):
    """``log|B(a, b)|``, without the digits that summing three gammaln loses when one argument is much greater
    than the other. [3 ulp of max(1, result) for positive arguments of which one is 10 or more, 12 if none is;
    negative arguments are no better than the three gammaln]

    From 10 up, Stirling's formula with its large parts cancelled by hand (DiDonato and Morris 1992).
    """
    u, v = np.float64(a), np.float64(b)
    p, q = (u, v) if u < v else (v, u)
    if p <= 0.0 and p == rint(p) and q == rint(q) and 0.0 < q < 1.0 - p:  # a pole over a pole: finite
        p = 1.0 - p - q
        p, q = (p, q) if p < q else (q, p)
    t = p + q
    if q >= 10.0 and t >= 10.0 and q < math.inf:
        if p >= 10.0:
            y = (_HALF_LOG_2PI - 0.5 * math.log(q)) + (_stirling(p) + (_stirling(q) - _stirling(t)))
            y = (p - 0.5) * math.log(p / t) + q * math.log1p(-p / t) + y
        else:
            y = math.lgamma(p) + (p * (1.0 - math.log(t)) + (q - 0.5) * math.log1p(-p / t))
            y += _stirling(q) - _stirling(t)
    elif 0.0 < p < 1e-290 and q < math.inf:
        y = math.log1p(p / q) - math.log(p)
    elif p > 0.0:
        y = math.log(math.gamma(p) * (math.gamma(q) / math.gamma(t))) if q < math.inf else -math.inf
    else:
        y = math.lgamma(p) + math.lgamma(q)
        y = y - math.lgamma(t) if y < math.inf else y
    return type(a)(y if u == u and v == v else u + v)


@inline
def digamma(x):
    """The logarithmic derivative of gamma: ∓inf at ±0, NaN at negative integers and -inf. [3.2 ulp]

    On [1, 2) a Chebyshev interpolant of psi(x)/(x - x0), as powers, with the zero x0 in two parts (after
    Cody, Strecok and Thacher 1973); psi(x + 1) = psi(x) + 1/x down from 10 and up from 0; the asymptotic
    series from 10; the reflection psi(x) = psi(1 - x) - pi*cot(pi*x) below 0.
    """
    v = np.float64(x)
    y = 0.0
    if v <= 0.0:
        if v == rint(v):
            return type(x)(-math.copysign(math.inf, v) if v == 0.0 else math.nan)
        y = -_PI * _cot_pi(v - rint(v))
        v = 1.0 - v
    if v < 1.0:
        y -= 1.0 / v
        v += 1.0
    if v >= 10.0:
        z = 1.0 / (v * v)
        s = z * (1.0 / 132.0 - z * (691.0 / 32760.0 - z * (1.0 / 12.0)))
        s = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - s))))
        return type(x)(y + (math.log(v) - (0.5 / v + s)))
    while v >= 2.0:
        v -= 1.0
        y += 1.0 / v
    t = 2.0 * v - 3.0
    s = (2.4765474440031764e-10 - 8.25512972008104e-11 * t) * t - 2.889363639216111e-10
    s = ((s * t + 8.668257373761658e-10) * t - 3.6788868183645545e-09) * t + 1.10370884388543e-08
    s = (s * t - 3.166618072027162e-08) * t + 9.500926192924096e-08
    s = (s * t - 2.8628755280038686e-07) * t + 8.591324222417666e-07
    s = ((s * t - 2.578107848270217e-06) * t + 7.741156881253708e-06) * t - 2.325823828431376e-05
    s = ((s * t + 6.995020484160625e-05) * t - 0.00021074841215733007) * t + 0.000636888028319074
    s = ((s * t - 0.0019350666647832667) * t + 0.005936795278433826) * t - 0.018550615381738605
    s = ((s * t + 0.06013562106019355) * t - 0.21181371064073026) * t + 0.951055876031833
    return type(x)(y + ((v - 1.4616321449683622) - 9.549995429965697e-17) * s)


@inline
def _cot_pi(r):
    """``cot(pi*r)`` for |r| <= 0.5."""
    a = abs(r)
    c = 1.0 / math.tan(_PI * a) if a < 0.25 else math.tan(_PI * (0.5 - a))
    return math.copysign(c, r)


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
def hurwitz(n, x):
    """Hurwitz's zeta, the sum of (x + k)^-n over k >= 0, for whole n >= 2 and x > 0. [n + 3 ulp, n <= 11]

    Terms up to 9 + n, then Euler and Maclaurin's formula with nine Bernoulli terms.
    """
    y = 0.0
    while x < 9.0 + n:
        y += 1.0 / _power(x, n)
        x += 1.0
    i = 1.0 / x
    z = i * i
    last = 1.0 / _power(x, n - 1)
    t = last * i
    s = np.float64(n)
    e = last / (s - 1.0) + 0.5 * t
    t *= s * i
    for j in range(9):
        e += t * _BERNOULLI[j]
        t *= (s + (2.0 * j + 1.0)) * (s + (2.0 * j + 2.0)) * z
    return y + e


@inline
def polygamma(n, x):
    """The n-th derivative of digamma, whole 0 <= n <= 170, int or float; else NaN. [n + 5 ulp, n <= 6]

    ``(-1)^(n+1) * n! * hurwitz(n + 1, x)``. For x < 0 the sum over all integers less the one over the
    negative ones; the former is a polynomial in cot(pi*x) where its terms would cancel. At the poles inf for
    odd n, -inf for even n, as in SciPy.
    """
    v = np.float64(x)
    k = np.int64(n)
    if n != k or k < 0 or k > 170 or v != v:
        return type(x)(math.nan)
    if k == 0:
        return type(x)(digamma(v))
    odd = (k & 1) == 1
    sign = 1.0 if odd else -1.0  # of (-1)^(n+1), and of (-1)^s with s = n + 1
    factorial = 1.0
    for j in range(2, k + 1):
        factorial *= j
    if v > 0.0:
        return type(x)(sign * factorial * hurwitz(k + 1, v))
    r = v - rint(v)
    if not abs(r) > 0.0:  # a pole, or -inf
        return type(x)(sign * math.inf)
    if odd or abs(r) < 0.25 or k > 6:
        y = 1.0 / _power(r, k + 1) + hurwitz(k + 1, 1.0 + r) + sign * hurwitz(k + 1, 1.0 - r)
    else:
        c = _cot_pi(r)
        d = c * c
        y = c * (1.0 + d) * _power(_PI, k + 1)
        if k == 4:
            y *= (2.0 + 3.0 * d) * (1.0 / 3.0)
        elif k == 6:
            y *= (17.0 + d * (60.0 + 45.0 * d)) * (1.0 / 45.0)
    return type(x)(sign * factorial * (y - sign * hurwitz(k + 1, 1.0 - v)))


@inline
def sinc_deriv(n, x):
    """The n-th derivative of ``sin(pi*x)/(pi*x)``, for whole 0 <= n <= 4. [3 ulp for n = 0; else 11 ulp
    of ``pi^n / (1 + n + pi*|x|)``, the size of its swing]

    With z = pi*x and S = sin(z)/z: for |z| < 2.5 the Taylor series of the n-th derivative, else
    ``S(k) = (sin(k)(z) - k*S(k-1))/z`` forwards, which loses nothing once z > k/2.
    """
    v = np.float64(x)
    k = np.int64(n)
    z = _PI * v
    if abs(z) < 2.5 and k > 0:
        half = (k + 1) // 2
        m = 2 * half - k
        t = (z if m == 1 else 1.0) * (1.0 if half % 2 == 0 else -1.0)
        y = 0.0
        for j in range(14):
            y += t / (2.0 * (half + j) + 1.0)
            t *= -(z * z) / ((m + 2.0 * j + 1.0) * (m + 2.0 * j + 2.0))
    else:
        whole = rint(v)
        r = v - whole
        flip = 1.0 if whole == 2.0 * rint(0.5 * whole) else -1.0
        sin = flip * math.sin(_PI * r)
        cos = flip * math.sin(_PI * (0.5 - abs(r)))
        y = sin / z if z != 0.0 else 1.0
        for j in range(1, k + 1):
            sin, cos = cos, -sin
            y = (sin - j * y) / z
    return type(x)(y * _power(_PI, k))


@inline
def sinc(x):
    """NumPy's sinc, ``sin(pi*x)/(pi*x)``, and 1 at 0. [3 ulp]"""
    return sinc_deriv(0, x)
