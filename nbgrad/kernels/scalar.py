"""The scalar functions that elementwise operators are made of, each with its derivative: the one rule table.

``name = Fn(name, code, partials)``: the partials take the arguments and ``y``, the value itself, and are
expressions again. Where a function is best differentiated through its value (``exp``, ``tanh``), they use ``y``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..backends.numba.compile import inline
from ..ir.expr import ZERO, Expr, Fn, both, const, either, eq, isnan, le, lt, ne, select
from ..vmath import (
    bessel,
    bessel_orders,
    beta,
    bits,
    error,
    exponential,
    exponential_integral,
    gamma_function,
    gamma_moments,
    hyperbolic,
    incomplete_beta,
    incomplete_gamma,
    inverse_hyperbolic,
    modified_bessel,
    modified_orders,
    psi,
    quantile,
    remainder,
    roots,
    trigonometric,
)
from ..vmath import zeta as zeta_sums
from ..vmath.bits import trunc as towards_zero
from . import special

__all__: list[str] = []  # used as a namespace: ``vm.tanh(x)``


def _math(name: str, partials, code: str = "") -> Fn:
    return Fn(name, code or f"math.{name}({{0}})", partials, helpers={"math": math})


def _special(name: str, partials=None, arguments: int = 1) -> Fn:
    slots = ", ".join(f"{{{k}}}" for k in range(arguments))
    return Fn(name, f"{name}({slots})", partials, helpers={name: getattr(special, name)}, finite=True)


def _own(name: str, module, partials=None, arguments: int = 1, **facts) -> Fn:
    slots = ", ".join(f"{{{k}}}" for k in range(arguments))
    return Fn(name, f"{name}({slots})", partials, helpers={name: getattr(module, name)}, **facts)


def _vector(*args, **facts) -> Fn:
    return _own(*args, vectorizes=True, **facts)


LN2 = math.log(2.0)
LN10 = math.log(10.0)
SQRT_PI = math.sqrt(math.pi)

# Exponentials and logarithms.
exp = _vector("exp", exponential, lambda x, y: y)
expm1 = _vector("expm1", exponential, lambda x, y: y + 1)
log = _vector("log", exponential, lambda x, y: 1 / x)
log2 = _vector("log2", exponential, lambda x, y: 1 / (x * LN2))
log10 = _vector("log10", exponential, lambda x, y: 1 / (x * LN10))
log1p = _vector("log1p", exponential, lambda x, y: 1 / (1 + x))

# Roots and powers.
sqrt = _math("sqrt", lambda x, y: 0.5 / y)
cbrt = _vector("cbrt", roots, lambda x, y: 1 / (3 * (y * y)), finite=True)


def _power_partials(x: Expr, p: Expr, y: Expr):
    # d/dx is p*x^(p-1), and 0 for p = 0 also where x = 0; d/dp is x^p*log(x), and 0 where x = 0 and p >= 0.
    by_base = select(eq(p, 0), 0, p * power(x, p - 1))
    by_exponent = select(both(eq(x, 0), le(0, p)), 0, y * log(x))
    return by_base, by_exponent


@inline
def int_power(base, exponent):
    """base**exponent of integers, wrapping; for a negative exponent what truncating the quotient gives."""
    if exponent < 0:
        return base ** (exponent & 1) if base == 1 or base == -1 else type(base)(0)
    result = type(base)(1)
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


power = Fn(
    "power",
    "power({0}, {1})",
    _power_partials,
    helpers={"power": exponential.power, "int_power": int_power},
    integer="int_power({0}, {1})",
)
hypot = _own(
    "hypot", roots, lambda a, b, y: (select(eq(y, 0), 0, a / y), select(eq(y, 0), 0, b / y)), arguments=2, finite=True
)

# Trigonometric and hyperbolic functions.
sin = _vector("sin", trigonometric, lambda x, y: cos(x), finite=True)
cos: Fn = _vector("cos", trigonometric, lambda x, y: -sin(x), finite=True)
tan = _vector("tan", trigonometric, lambda x, y: 1 + y * y)
arcsin = _vector("arcsin", trigonometric, lambda x, y: 1 / sqrt((1 - x) * (1 + x)))
arccos = _vector("arccos", trigonometric, lambda x, y: -(1 / sqrt((1 - x) * (1 + x))))
arctan = _vector("arctan", trigonometric, lambda x, y: 1 / (1 + x * x), finite=True)
arctan2 = _own("arctan2", trigonometric, lambda a, b, y: (b / (a * a + b * b), -a / (a * a + b * b)), arguments=2)
sinh = _vector("sinh", hyperbolic, lambda x, y: cosh(x))
cosh: Fn = _vector("cosh", hyperbolic, lambda x, y: sinh(x))
tanh = _vector("tanh", hyperbolic, lambda x, y: (1 - y) * (1 + y), finite=True)
arcsinh = _own("arcsinh", inverse_hyperbolic, lambda x, y: 1 / hypot(x, 1), finite=True)
arccosh = _vector("arccosh", inverse_hyperbolic, lambda x, y: 1 / (sqrt(x - 1) * sqrt(x + 1)))
arctanh = _vector("arctanh", inverse_hyperbolic, lambda x, y: 1 / ((1 - x) * (1 + x)))

# Sigmoids and friends.
sigmoid = _vector("sigmoid", exponential, lambda x, y: y * (1 - y), finite=True)
silu = _vector("silu", exponential, lambda x, y: sigmoid(x) + x * (sigmoid(x) * (1 - sigmoid(x))), finite=True)
softplus = _vector("softplus", exponential, lambda x, y: sigmoid(x), finite=True)
log_sigmoid = _vector("log_sigmoid", exponential, lambda x, y: sigmoid(-x), finite=True)
logaddexp = _own("logaddexp", exponential, lambda a, b, y: (sigmoid(a - b), sigmoid(b - a)), 2, finite=True)

# The error function and the normal distribution.
erf = _vector("erf", error, lambda x, y: (2 / SQRT_PI) * exp(-(x * x)), finite=True)
erfc = _vector("erfc", error, lambda x, y: (-2 / SQRT_PI) * exp(-(x * x)), finite=True)
erfinv = _own("erfinv", quantile, lambda x, y: (SQRT_PI / 2) * exp(y * y))
ndtr = _own("ndtr", error, lambda x, y: (1 / math.sqrt(2 * math.pi)) * exp(-0.5 * (x * x)), finite=True)
gelu = _own("gelu", error, lambda x, y: ndtr(x) + x * ((1 / math.sqrt(2 * math.pi)) * exp(-0.5 * (x * x))), finite=True)
ndtr_ratio = _own("ndtr_ratio", error, lambda x, y: -y * (x + y))  # phi(x)/Phi(x)
log_ndtr = _own("log_ndtr", error, lambda x, y: ndtr_ratio(x))


def _erfcx_slope(x: Expr, y: Expr) -> Expr:
    """``2*x*y - 2/sqrt(pi)``, which cancels where x is large: there by its asymptotic series."""
    r = 1 / (2 * (x * x))
    series = r * (-1 + r * (3 + r * (-15 + r * (105 - 945 * r))))
    return select(x > 60, (2 / SQRT_PI) * series, 2 * x * y - 2 / SQRT_PI)


erfcx = _own("erfcx", error, _erfcx_slope)
erfcinv = _own("erfcinv", quantile, lambda x, y: (-SQRT_PI / 2) * exp(y * y))
ndtri = _own("ndtri", quantile, lambda x, y: math.sqrt(2 * math.pi) * exp(0.5 * (y * y)))

# Gamma functions.
# Their derivatives end with polygamma, which ends at order 170: 171! is more than any float64.
gamma = _own("gamma", gamma_function, lambda x, y: y * digamma(x), max_order=171)
gammaln = _own("gammaln", gamma_function, lambda x, y: digamma(x), max_order=171)
digamma: Fn = _own("digamma", psi, lambda x, y: trigamma(x), max_order=170)
trigamma: Fn = _own("trigamma", psi, lambda x, y: polygamma(2, x), max_order=169)
polygamma: Fn = _own("polygamma", psi, lambda n, x, y: (None, polygamma(n + 1, x)), 2, max_order=lambda n, x: 170 - n)
betaln = _own(
    "betaln", beta, lambda a, b, y: (digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)), 2, max_order=171
)


# The zeta function, and the sums with powers of logarithms that its derivatives by s are.
zeta: Fn = _own("zeta", zeta_sums, lambda s, q, y: (-zeta_log(1, s, q), -s * zeta(s + 1, q)), 2)


def _zeta_log_partials(m: Expr, s: Expr, q: Expr, y: Expr):
    before = zeta(s + 1, q) if m.value == 1 else zeta_log(m - 1, s + 1, q)
    return None, -zeta_log(m + 1, s, q), m * before - s * zeta_log(m, s + 1, q)


zeta_log: Fn = _own("zeta_log", zeta_sums, _zeta_log_partials, 3)

# Exponential integrals.
exp1 = _vector("exp1", exponential_integral, lambda x, y: -(exp(-x) / x))
expi = _vector("expi", exponential_integral, lambda x, y: exp(x) / x)
expn: Fn = _own("expn", exponential_integral, lambda n, x, y: (None, -expn(n - 1, x)), 2)


# Bessel functions: derivatives are made of the neighbouring orders, and so exact also at 0; those by the order are NaN.
def _bessel_of_order(name: str, module, named: tuple[Fn, ...], slope: Callable) -> Fn:
    """The function of real orders; `slope` makes the derivative of those of the orders v - 1, v + 1, of x and y."""

    def of_order(v: Expr, x: Expr) -> Expr:
        at = dict(enumerate(named)).get(v.value)  # type: ignore[arg-type]
        return at(x) if at else made(v, x)

    def partials(v: Expr, x: Expr, y: Expr):
        by_order = None if name in ("yn", "kn") else const(math.nan)  # whole orders have none
        return by_order, slope(of_order(v - 1, x), of_order(v + 1, x), x, y)

    made: Fn = _own(name, module, partials, 2)
    return made


def _bessel(name: str, module, partials, **facts) -> Fn:
    """The function of one order; generated code calls variables ``j1``, and so it is ``bessel_j1`` there."""
    helper = f"bessel_{name}"
    return Fn(name, f"{helper}({{0}})", partials, helpers={helper: getattr(module, helper)}, vectorizes=True, **facts)


j0: Fn = _bessel("j0", bessel, lambda x, y: -j1(x), finite=True)
j1: Fn = _bessel("j1", bessel, lambda x, y: 0.5 * (j0(x) - jv(2, x)), finite=True)
y0: Fn = _bessel("y0", bessel, lambda x, y: -y1(x))
y1: Fn = _bessel("y1", bessel, lambda x, y: 0.5 * (y0(x) - yv(2, x)))
i0: Fn = _bessel("i0", modified_bessel, lambda x, y: i1(x))
i1: Fn = _bessel("i1", modified_bessel, lambda x, y: 0.5 * (i0(x) + iv(2, x)))
i0e: Fn = _bessel("i0e", modified_bessel, lambda x, y: i1e(x) - sign(x) * y, finite=True)
i1e: Fn = _bessel("i1e", modified_bessel, lambda x, y: 0.5 * (i0e(x) + ive(2, x)) - sign(x) * y, finite=True)
k0: Fn = _bessel("k0", modified_bessel, lambda x, y: -k1(x))
k1: Fn = _bessel("k1", modified_bessel, lambda x, y: -0.5 * (k0(x) + kv(2, x)))
k0e: Fn = _bessel("k0e", modified_bessel, lambda x, y: y - k1e(x))
k1e: Fn = _bessel("k1e", modified_bessel, lambda x, y: y - 0.5 * (k0e(x) + kve(2, x)))
jv: Fn = _bessel_of_order("jv", bessel_orders, (j0, j1), lambda below, above, x, y: 0.5 * (below - above))
yv: Fn = _bessel_of_order("yv", bessel_orders, (y0, y1), lambda below, above, x, y: 0.5 * (below - above))
yn: Fn = _bessel_of_order("yn", bessel_orders, (y0, y1), lambda below, above, x, y: 0.5 * (below - above))
iv: Fn = _bessel_of_order("iv", modified_orders, (i0, i1), lambda below, above, x, y: 0.5 * (below + above))
ive: Fn = _bessel_of_order(
    "ive", modified_orders, (i0e, i1e), lambda below, above, x, y: 0.5 * (below + above) - sign(x) * y
)
kv: Fn = _bessel_of_order("kv", modified_orders, (k0, k1), lambda below, above, x, y: -0.5 * (below + above))
kn: Fn = _bessel_of_order("kn", modified_orders, (k0, k1), lambda below, above, x, y: -0.5 * (below + above))
kve: Fn = _bessel_of_order("kve", modified_orders, (k0e, k1e), lambda below, above, x, y: y - 0.5 * (below + above))


# A draw x of the gamma distribution with shape a, held at its place u in the distribution, as a function of a: the
# implicit derivative dx/da = -(dF/da)/f at F(a, x) = u (:mod:`nbgrad.vmath.gamma_moments`).
def _given_digamma(name: str, partials) -> Fn:
    helpers = {name: getattr(gamma_moments, name), "digamma": psi.digamma, "np": np}
    return Fn(name, f"{name}({{0}}, {{1}}, digamma(np.float64({{0}})))", partials, helpers=helpers)


def _moment_partials(n: Expr, a: Expr, x: Expr, y: Expr):
    before = n * gamma_moment(n - 1, a, x) if n.value else 1
    return None, gamma_moment(n + 1, a, x), y - (a * y + before) / x


def _slope_partials(a: Expr, x: Expr, y: Expr):
    w0, w1, w2 = (gamma_moment(n, a, x) for n in range(3))
    excess = gamma_excess(a, x)
    by_shape = x * (w2 + excess * w1 - trigamma(a) * w0)
    return select(eq(x, 0), 0, by_shape), select(eq(x, 0), 0, (y / x) * (1 + (x - a)) - excess)


gamma_moment: Fn = Fn(
    "gamma_moment",
    "gamma_moment({0}, {1}, {2})",
    _moment_partials,
    helpers={"gamma_moment": gamma_moments.gamma_moment},
)
gamma_excess = _given_digamma("gamma_excess", lambda a, x, y: (-trigamma(a), 1 / x))
gamma_slope = _given_digamma("gamma_slope", _slope_partials)
gamma_draw = Fn("gamma_draw", "{1}", lambda a, x, y: (select(eq(y, 0), 0, gamma_slope(a, y)), None))


# The shares of the gamma distribution with shape a below and above x, and the x that have such shares.
def _gamma_density(a: Expr, x: Expr) -> Expr:
    return exp(xlogy(a - 1, x) - x - gammaln(a))


def _share_by_shape(a: Expr, x: Expr) -> Expr:
    return select(eq(x, 0), 0, _gamma_density(a, x) * gamma_slope(a, x))


def _place_by_shape(a: Expr, y: Expr) -> Expr:
    return select(eq(y, 0), 0, gamma_slope(a, y))


gammainc = _own("gammainc", incomplete_gamma, lambda a, x, y: (-_share_by_shape(a, x), _gamma_density(a, x)), 2)
gammaincc = _own("gammaincc", incomplete_gamma, lambda a, x, y: (_share_by_shape(a, x), -_gamma_density(a, x)), 2)
gammaincinv = _own(
    "gammaincinv", incomplete_gamma, lambda a, p, y: (_place_by_shape(a, y), 1 / _gamma_density(a, y)), 2
)
gammainccinv = _own(
    "gammainccinv", incomplete_gamma, lambda a, p, y: (_place_by_shape(a, y), -1 / _gamma_density(a, y)), 2
)


# Those of the beta distribution with shapes a and b, and of Student's distribution.
def _beta_moment_partials(m: Expr, n: Expr, a: Expr, b: Expr, x: Expr, y: Expr):
    by_x = ((b - 1) / (1 - x) - (a - 1) / x) * y
    by_x = by_x - (m / x) * beta_moment(m - 1, n, a, b, x) if m.value else by_x
    by_x = by_x + (n / (1 - x)) * beta_moment(m, n - 1, a, b, x) if n.value else by_x
    by_x = by_x if m.value or n.value else by_x + 1
    return None, None, beta_moment(m + 1, n, a, b, x), beta_moment(m, n + 1, a, b, x), by_x


beta_moment: Fn = Fn(
    "beta_moment",
    "beta_moment({0}, {1}, {2}, {3}, {4})",
    _beta_moment_partials,
    helpers={"beta_moment": incomplete_beta.beta_moment},
)


def _beta_density(a: Expr, b: Expr, x: Expr) -> Expr:
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


def _beta_slopes(a: Expr, b: Expr, x: Expr) -> tuple[Expr, Expr]:
    """The derivatives of the share below x by a and by b, over the density."""
    whole, total = beta_moment(0, 0, a, b, x), digamma(a + b)
    by_a = beta_moment(1, 0, a, b, x) + (log(x) - digamma(a) + total) * whole
    by_b = beta_moment(0, 1, a, b, x) + (log1p(-x) - digamma(b) + total) * whole
    ends = either(eq(x, 0), eq(x, 1))
    return select(ends, 0, by_a), select(ends, 0, by_b)


def _beta_share(sign: int) -> Callable:
    def partials(a: Expr, b: Expr, x: Expr, y: Expr):
        density, (by_a, by_b) = sign * _beta_density(a, b, x), _beta_slopes(a, b, x)
        ends = either(eq(x, 0), eq(x, 1))  # where the density may be infinite
        return select(ends, 0, density * by_a), select(ends, 0, density * by_b), density

    return partials


def _beta_place(sign: int) -> Callable:
    def partials(a: Expr, b: Expr, p: Expr, y: Expr):
        by_a, by_b = _beta_slopes(a, b, y)
        return -by_a, -by_b, sign / _beta_density(a, b, y)

    return partials


betainc = _own("betainc", incomplete_beta, _beta_share(1), 3, max_order=171)
betaincc = _own("betaincc", incomplete_beta, _beta_share(-1), 3, max_order=171)
betaincinv = _own("betaincinv", incomplete_beta, _beta_place(1), 3, max_order=171)
betainccinv = _own("betainccinv", incomplete_beta, _beta_place(-1), 3, max_order=171)


def student_log_density(df: Expr, t: Expr) -> Expr:
    return -betaln(0.5 * df, 0.5) - 0.5 * log(df) - 0.5 * ((df + 1) * log1p(t * t / df))


def _student_by_df(df: Expr, t: Expr) -> Expr:
    """The derivative of the share below t, by that of the beta distribution with shapes df/2 and 1/2 below
    ``x = df/(df + t^2)``, which is the share of both tails; 1 - x is nearly 0 where t is."""
    near, rest, half, shape = t * t / (df + t * t), df / (df + t * t), 0.5 * df, const(0.5)
    _, by_near = _beta_slopes(shape, half, near)
    by_rest, _ = _beta_slopes(half, shape, rest)
    moved = exp(0.5 * log(near) - half * log1p(t * t / df) - betaln(half, shape)) / df  # x moves with df
    by_shape = select(
        near < 0.5, -_beta_density(shape, half, near) * by_near, _beta_density(half, shape, rest) * by_rest
    )
    tail = 0.25 * by_shape + 0.5 * moved
    at_0 = exp(student_log_density(df, ZERO)) * (0.5 * (digamma(half + 0.5) - digamma(half)) - 0.5 / df)
    return select(eq(t, 0), t * at_0, select(t < 0, tail, -tail))


stdtr = _own(
    "stdtr",
    incomplete_beta,
    lambda df, t, y: (_student_by_df(df, t), exp(student_log_density(df, t))),
    2,
    max_order=171,
)
stdtrit = _own(
    "stdtrit",
    incomplete_beta,
    lambda df, p, y: (
        -_student_by_df(df, y) / exp(student_log_density(df, y)),
        1 / exp(student_log_density(df, y)),
    ),
    2,
    max_order=171,
)

# Products with logarithms, zero where the factor is.
xlogy = _own("xlogy", exponential, lambda a, b, y: (log(b), select(eq(a, 0), 0, a / b)), 2)
xlog1py = _own("xlog1py", exponential, lambda a, b, y: (log1p(b), select(eq(a, 0), 0, a / (1 + b))), 2)


# Normalised sinc, and its derivatives as one family: sinc_deriv(n, x).
sinc_deriv: Fn = _special("sinc_deriv", lambda n, x, y: (None, sinc_deriv(n + 1, x)), 2)
exprel_deriv: Fn = _own("exprel_deriv", special, lambda n, x, y: (None, exprel_deriv(n + 1, x)), 2)


def exprel(x: Expr) -> Expr:
    """``(exp(x) - 1)/x``."""
    return exprel_deriv(0, x)


sinc = _own("sinc", trigonometric, lambda x, y: sinc_deriv(1, x), finite=True)


# Rounding: constant between jumps.
def _rounding(name: str) -> Fn:  # NumPy's: math.floor and its like return integers
    return Fn(name, f"{name}({{0}})", helpers={name: getattr(bits, name)}, integer="{0}", finite=True)


floor = _rounding("floor")
ceil = _rounding("ceil")
trunc = _rounding("trunc")
rint = _rounding("rint")


@inline
def half_away(x):
    """Nearest integer, halves away from zero: what MXNet's (and C's) ``round`` does."""
    whole = towards_zero(x)
    return whole if abs(x - whole) < 0.5 else whole + math.copysign(type(x)(1), x)


round_half_away = Fn("round", "half_away({0})", helpers={"half_away": half_away}, integer="{0}", finite=True)


# Division with remainder, rounding towards minus infinity as Python does; 0 for a zero integer divisor.
floor_mod = Fn(
    "mod",
    "floor_mod({0}, {1})",
    lambda a, b, y: (1, -floor_divide(a, b)),
    helpers={"floor_mod": remainder.floor_mod, "int_mod": special.int_mod},
    integer="int_mod({0}, {1})",
)
floor_divide: Fn = Fn(
    "floor_divide",
    "floor_divide({0}, {1})",
    helpers={"floor_divide": remainder.floor_divide, "int_floor_div": special.int_floor_div},
    integer="int_floor_div({0}, {1})",
)


# Selections. All keep NaN: a comparison with NaN is false.


held = Fn("held", "{0}", finite=True)  # the value, as a constant: its derivative is zero


def sign(x: Expr) -> Expr:
    return select(lt(0, x), 1, select(lt(x, 0), -1, select(eq(x, 0), 0, held(x))))


absolute = Fn("abs", "abs({0})", lambda x, y: sign(x), finite=True)


def maximum(a: Expr, b) -> Expr:
    return select(either(le(b, a), isnan(a)), a, b)


def minimum(a: Expr, b) -> Expr:
    return select(either(le(a, b), isnan(a)), a, b)


def relu(x: Expr) -> Expr:
    return select(lt(0, x), x, select(isnan(x), x * x, 0))  # x*x: a NaN has a NaN gradient too


copysign = Fn(
    "copysign",
    "math.copysign({0}, {1})",
    lambda a, b, y: (select(eq(a, 0), 0, select(eq(y, a), 1, -1)), None),  # 0 between opposite slopes
    helpers={"math": math},
    finite=True,
)


nextafter = Fn("nextafter", "np.nextafter({0}, {1})", lambda a, b, y: (1, None), helpers={"np": np})


def truth(x: Expr) -> Expr:
    return ne(x, 0)


def as_number(condition: Expr) -> Expr:
    """1 where the condition holds, else 0."""
    return select(condition, 1, 0)
