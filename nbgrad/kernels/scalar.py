"""The scalar functions that elementwise operators are made of, each with its derivative: the one rule table.

``name = Fn(name, code, partials)``: the partials take the arguments and ``y``, the value itself, and are
expressions again. Where a function is best differentiated through its value (``exp``, ``tanh``), they use ``y``.
"""

from __future__ import annotations

import math

import numpy as np

from ..codegen.compile import inline
from ..expr import Expr, Fn, both, either, eq, isnan, le, lt, ne, select
from . import special

__all__: list[str] = []  # used as a namespace: ``vm.tanh(x)``


def _math(name: str, partials, code: str = "") -> Fn:
    return Fn(name, code or f"math.{name}({{0}})", partials, helpers={"math": math})


def _special(name: str, partials=None, arguments: int = 1) -> Fn:
    slots = ", ".join(f"{{{k}}}" for k in range(arguments))
    return Fn(name, f"{name}({slots})", partials, helpers={name: getattr(special, name)})


LN2 = math.log(2.0)
LN10 = math.log(10.0)
SQRT_PI = math.sqrt(math.pi)

# Exponentials and logarithms.
exp = _math("exp", lambda x, y: y)
expm1 = _math("expm1", lambda x, y: y + 1)
log = _math("log", lambda x, y: 1 / x)
log2 = _math("log2", lambda x, y: 1 / (x * LN2))
log10 = _math("log10", lambda x, y: 1 / (x * LN10))
log1p = _math("log1p", lambda x, y: 1 / (1 + x))

# Roots and powers.
sqrt = _math("sqrt", lambda x, y: 0.5 / y)
cbrt = _special("cbrt", lambda x, y: 1 / (3 * (y * y)))


def _power_partials(x: Expr, p: Expr, y: Expr):
    # d/dx is p*x^(p-1), and 0 for p = 0 also where x = 0; d/dp is x^p*log(x), and 0 where x = 0 and p >= 0.
    by_base = select(eq(p, 0), 0, p * power(x, p - 1))
    by_exponent = select(both(eq(x, 0), le(0, p)), 0, y * log(x))
    return by_base, by_exponent


@inline
def int_power(base, exponent):
    """base**exponent of integers, wrapping; for a negative exponent what truncating the quotient gives."""
    if exponent < 0:
        return base ** (exponent & 1) if base == 1 or base == -1 else np.int64(0)
    result = np.int64(1)
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


power = Fn(
    "power",
    "math.pow({0}, {1})",
    _power_partials,
    helpers={"math": math, "int_power": int_power},
    integer="int_power({0}, {1})",
)
hypot = Fn(
    "hypot",
    "math.hypot({0}, {1})",
    lambda a, b, y: (select(eq(y, 0), 0, a / y), select(eq(y, 0), 0, b / y)),
    helpers={"math": math},
)

# Trigonometric and hyperbolic functions.
sin = _math("sin", lambda x, y: cos(x))
cos: Fn = _math("cos", lambda x, y: -sin(x))
tan = _math("tan", lambda x, y: 1 + y * y)
arcsin = _math("arcsin", lambda x, y: 1 / sqrt((1 - x) * (1 + x)), "math.asin({0})")
arccos = _math("arccos", lambda x, y: -(1 / sqrt((1 - x) * (1 + x))), "math.acos({0})")
arctan = _math("arctan", lambda x, y: 1 / (1 + x * x), "math.atan({0})")
arctan2 = Fn(
    "arctan2",
    "math.atan2({0}, {1})",
    lambda a, b, y: (b / (a * a + b * b), -a / (a * a + b * b)),
    helpers={"math": math},
)
sinh = _math("sinh", lambda x, y: cosh(x))
cosh: Fn = _math("cosh", lambda x, y: sinh(x))
tanh = _math("tanh", lambda x, y: (1 - y) * (1 + y))
arcsinh = _math("arcsinh", lambda x, y: 1 / hypot(x, 1), "math.asinh({0})")
arccosh = _math("arccosh", lambda x, y: 1 / (sqrt(x - 1) * sqrt(x + 1)), "math.acosh({0})")
arctanh = _math("arctanh", lambda x, y: 1 / ((1 - x) * (1 + x)), "math.atanh({0})")

# Sigmoids and friends.
sigmoid = _special("sigmoid", lambda x, y: y * (1 - y))
softplus = Fn("softplus", "log1pexp({0})", lambda x, y: sigmoid(x), helpers={"log1pexp": special.log1pexp})
log_sigmoid = _special("log_sigmoid", lambda x, y: sigmoid(-x))
logaddexp = _special("logaddexp", lambda a, b, y: (sigmoid(a - b), sigmoid(b - a)), 2)

# The error function and the normal distribution.
erf = _math("erf", lambda x, y: (2 / SQRT_PI) * exp(-(x * x)))
erfc = _math("erfc", lambda x, y: (-2 / SQRT_PI) * exp(-(x * x)))
erfinv = _special("erfinv", lambda x, y: (SQRT_PI / 2) * exp(y * y))
ndtr = _special("ndtr", lambda x, y: (1 / math.sqrt(2 * math.pi)) * exp(-0.5 * (x * x)))
ndtr_ratio = _special("ndtr_ratio", lambda x, y: -y * (x + y))  # phi(x)/Phi(x)
log_ndtr = _special("log_ndtr", lambda x, y: ndtr_ratio(x))

# Gamma functions.
gamma = _special("gamma", lambda x, y: y * digamma(x))
gammaln = _special("gammaln", lambda x, y: digamma(x))
digamma: Fn = _special("digamma", lambda x, y: polygamma(1, x))
polygamma: Fn = _special("polygamma", lambda n, x, y: (None, polygamma(n + 1, x)), 2)
betaln = _special("betaln", lambda a, b, y: (digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)), 2)

# Products with logarithms, zero where the factor is.
xlogy = _special("xlogy", lambda a, b, y: (log(b), select(eq(a, 0), 0, a / b)), 2)
xlog1py = _special("xlog1py", lambda a, b, y: (log1p(b), select(eq(a, 0), 0, a / (1 + b))), 2)


# Normalised sinc, and its derivatives as one family: sinc_deriv(n, x).
sinc_deriv: Fn = _special("sinc_deriv", lambda n, x, y: (None, sinc_deriv(n + 1, x)), 2)


def sinc(x: Expr) -> Expr:
    return sinc_deriv(0, x)


# Rounding: constant between jumps.
def _rounding(name: str) -> Fn:  # NumPy's: math.floor and its like return integers
    return Fn(name, f"np.{name}({{0}})", helpers={"np": np}, integer="{0}")


floor = _rounding("floor")
ceil = _rounding("ceil")
trunc = _rounding("trunc")
rint = Fn("rint", "rint({0})", helpers={"rint": special.rint}, integer="{0}")


@inline
def half_away(x):
    """Nearest integer, halves away from zero: what MXNet's (and C's) ``round`` does."""
    whole = np.trunc(x)
    return whole if abs(x - whole) < 0.5 else whole + math.copysign(type(x)(1), x)


round_half_away = Fn("round", "half_away({0})", helpers={"half_away": half_away}, integer="{0}")


# Division with remainder, rounding towards minus infinity as Python does; 0 for a zero integer divisor.
floor_mod = Fn(
    "mod",
    "floor_mod({0}, {1})",
    lambda a, b, y: (1, -floor(a / b)),
    helpers={"floor_mod": special.floor_mod, "int_mod": special.int_mod},
    integer="int_mod({0}, {1})",
)
floor_divide = Fn(
    "floor_divide",
    "np.floor({0} / {1})",
    helpers={"np": np, "int_floor_div": special.int_floor_div},
    integer="int_floor_div({0}, {1})",
)


# Selections. All keep NaN: a comparison with NaN is false.


held = Fn("held", "{0}")  # the value, as a constant: its derivative is zero


def sign(x: Expr) -> Expr:
    return select(lt(0, x), 1, select(lt(x, 0), -1, select(eq(x, 0), 0, held(x))))


absolute = Fn("abs", "abs({0})", lambda x, y: sign(x))


def maximum(a: Expr, b) -> Expr:
    return select(either(le(b, a), isnan(a)), a, b)


def minimum(a: Expr, b) -> Expr:
    return select(either(le(a, b), isnan(a)), a, b)


def relu(x: Expr) -> Expr:
    return select(lt(0, x), x, select(isnan(x), x * x, 0))  # x*x: a NaN has a NaN gradient too


copysign = Fn(
    "copysign",
    "math.copysign({0}, {1})",
    lambda a, b, y: (select(eq(y, a), 1, -1), None),
    helpers={"math": math},
)


def truth(x: Expr) -> Expr:
    return ne(x, 0)


def as_number(condition: Expr) -> Expr:
    """1 where the condition holds, else 0."""
    return select(condition, 1, 0)
