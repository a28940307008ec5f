"""Elementwise operators of one array: one statement each."""

from __future__ import annotations

import math

import numpy as np

from ..ir.expr import eq, isnan, lt, select, var
from ..operators.declare import parametric, unary
from . import scalar as vm

__all__: list[str] = []  # operators are found through the registry

x = var("x")

# Arithmetic.
negative = unary("negative", -x, "Minus the array.", ints=True)
abs_ = unary("abs", vm.absolute(x), "Absolute value. Gradient: sign(x), so 0 at 0.", ints=True, domain=(0.5, 2.0))
sign = unary("sign", vm.sign(x), "-1, 0 or 1. Gradient: 0.", ints=True, domain=(0.5, 2.0), differentiable=False)
square = unary("square", x * x, "The square.", ints=True)
quadratic = parametric(
    "quadratic",
    var("a") * x * x + var("b") * x + var("c"),
    "A polynomial of degree 2.",
    {"a": 0.0, "b": 0.0, "c": 0.0},
    examples=[{"a": 2.0, "b": -1.0, "c": 0.5}],
    method=False,
    reference=lambda x, a=0, b=0, c=0: a * x * x + b * x + c,
    ulp=8,
)
reciprocal = unary("reciprocal", 1 / x, "1/x.", domain=(0.5, 2.0))
identity = unary("identity", x, "A copy.", aliases=("_copy",), ints=True, method=False, reference=lambda a: a.copy())

# Roots.
sqrt = unary("sqrt", vm.sqrt(x), "Square root; NaN below 0. Gradient at 0: inf.", domain=(0.3, 3.0))
rsqrt = unary("rsqrt", 1 / vm.sqrt(x), "1/sqrt(x).", domain=(0.3, 3.0), reference=lambda a: 1 / np.sqrt(a))
cbrt = unary("cbrt", vm.cbrt(x), "Cube root. Gradient at 0: inf.", domain=(0.3, 3.0))
rcbrt = unary("rcbrt", 1 / vm.cbrt(x), "1/cbrt(x).", domain=(0.3, 3.0), reference=lambda a: 1 / np.cbrt(a), ulp=2)

# Exponentials and logarithms.
exp = unary("exp", vm.exp(x), "e to the power x.")
expm1 = unary("expm1", vm.expm1(x), "exp(x) - 1, accurate for small x.")
log = unary("log", vm.log(x), "Natural logarithm; -inf at 0, NaN below.", domain=(0.3, 3.0))
log2 = unary("log2", vm.log2(x), "Logarithm to base 2.", domain=(0.3, 3.0))
log10 = unary("log10", vm.log10(x), "Logarithm to base 10.", domain=(0.3, 3.0))
log1p = unary("log1p", vm.log1p(x), "log(1 + x), accurate for small x.", domain=(-0.5, 2.0))

# Trigonometric.
sin = unary("sin", vm.sin(x), "Sine of x in radians.")
cos = unary("cos", vm.cos(x), "Cosine of x in radians.")
tan = unary("tan", vm.tan(x), "Tangent of x in radians.", domain=(-1.0, 1.0))
arcsin = unary("arcsin", vm.arcsin(x), "Inverse sine, in radians.", domain=(-0.8, 0.8))
arccos = unary("arccos", vm.arccos(x), "Inverse cosine, in radians.", domain=(-0.8, 0.8))
arctan = unary("arctan", vm.arctan(x), "Inverse tangent, in radians.")
degrees = unary("degrees", x * (180 / math.pi), "Radians to degrees.")
radians = unary("radians", x * (math.pi / 180), "Degrees to radians.")

# Hyperbolic.
sinh = unary("sinh", vm.sinh(x), "Hyperbolic sine.")
cosh = unary("cosh", vm.cosh(x), "Hyperbolic cosine.")
tanh = unary("tanh", vm.tanh(x), "Hyperbolic tangent.", ulp=2)
arcsinh = unary("arcsinh", vm.arcsinh(x), "Inverse hyperbolic sine.")
arccosh = unary("arccosh", vm.arccosh(x), "Inverse hyperbolic cosine; NaN below 1.", domain=(1.5, 4.0))
arctanh = unary("arctanh", vm.arctanh(x), "Inverse hyperbolic tangent.", domain=(-0.8, 0.8))

# Rounding: gradient 0.
floor = unary(
    "floor", vm.floor(x), "Largest integer <= x. Gradient: 0.", domain=(0.1, 0.4), ints=True, differentiable=False
)
ceil = unary(
    "ceil", vm.ceil(x), "Smallest integer >= x. Gradient: 0.", domain=(0.1, 0.4), ints=True, differentiable=False
)
rint = unary(
    "rint",
    vm.rint(x),
    "Nearest integer, halves to even. Gradient: 0.",
    domain=(0.1, 0.4),
    ints=True,
    differentiable=False,
)
round_ = unary(
    "round",
    vm.round_half_away(x),
    "Nearest integer, halves away from zero. Gradient: 0.",
    domain=(0.1, 0.4),
    ints=True,
    differentiable=False,
    reference=lambda a: np.trunc(a) + np.copysign(np.abs(a - np.trunc(a)) >= 0.5, a),
)
trunc = unary(
    "trunc",
    vm.trunc(x),
    "x without its fraction. Gradient: 0.",
    aliases=("fix",),
    domain=(0.1, 0.4),
    ints=True,
    differentiable=False,
)

# Activations.
relu = unary(
    "relu",
    vm.relu(x),
    "max(x, 0). Gradient: 1 where x > 0, else 0.",
    ints=True,
    domain=(0.2, 2.0),
    reference=lambda a: np.maximum(a, 0),
)
sigmoid = unary("sigmoid", vm.sigmoid(x), "1/(1 + exp(-x)).", reference="scipy.special.expit", ulp=2)
log_sigmoid = unary(
    "log_sigmoid", vm.log_sigmoid(x), "log(sigmoid(x)), also for large -x.", reference="scipy.special.log_expit"
)


def _with_limits(expr, low, high):
    """`expr`, with its limits at the infinities, where it would be inf/inf or 0*inf."""
    return select(eq(x, -math.inf), low, select(eq(x, math.inf), high, expr))


softsign = unary(
    "softsign",
    _with_limits(x / (1 + vm.absolute(x)), -1, 1),
    "x/(1 + |x|). Gradient: 1/(1 + |x|)^2.",
    domain=(0.2, 2.0),
    reference=lambda a: np.where(np.isinf(a), np.sign(a), a / (1 + np.abs(a))),
)
softrelu = unary(
    "softrelu",
    vm.softplus(x),
    "log(1 + exp(x)).",
    aliases=("softplus",),
    method=False,
    reference=lambda a: np.logaddexp(a, 0),
    ulp=2,
)
silu = unary(
    "silu",
    _with_limits(vm.silu(x), 0, x),
    "x*sigmoid(x). Gradient: s + x*s*(1 - s), s = sigmoid(x).\n\n"
    "References\n----------\nElfwing, Uchibe and Doya 2018, Sigmoid-weighted linear units.",
    aliases=("swish",),
    reference=lambda a: np.where(a == -np.inf, 0, a / (1 + np.exp(-a))),
    ulp=2,
)
gelu = unary(
    "gelu",
    _with_limits(vm.gelu(x), 0, x),
    "x*Phi(x), Phi the normal distribution function. Gradient: Phi(x) + x*phi(x), phi its density."
    "\n\nReferences\n----------\nHendrycks and Gimpel 2016, Gaussian error linear units.",
    reference=lambda a: np.where(
        a == -np.inf, 0, a * np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes="d")(a)
    ),
    ulp=5,
)

# The error function and the normal distribution.
erf = unary(
    "erf",
    vm.erf(x),
    "Error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    reference="scipy.special.erf",
    ulp=2,
)
erfc = unary("erfc", vm.erfc(x), "1 - erf(x), accurate for large x.", reference="scipy.special.erfc", ulp=6)
erfinv = unary(
    "erfinv",
    vm.erfinv(x),
    "Inverse error function, of x in [-1, 1].",
    domain=(-0.8, 0.8),
    reference="scipy.special.erfinv",
    ulp=6,
)
ndtr = unary(
    "ndtr",
    vm.ndtr(x),
    "Normal distribution function, 1/sqrt(2 pi) times the integral of exp(-t^2/2) up to x.",
    reference="scipy.special.ndtr",
    ulp=8,
)
log_ndtr = unary(
    "log_ndtr", vm.log_ndtr(x), "log(ndtr(x)), also for large -x.", reference="scipy.special.log_ndtr", ulp=12
)


def _sinc(a: np.ndarray) -> np.ndarray:
    """As ``numpy.sinc``, which loses digits near whole numbers."""
    whole = np.rint(a)
    with np.errstate(invalid="ignore"):
        swing = np.where(whole % 2 == 0, 1, -1) * np.sin(np.pi * (a - whole)) / (np.pi * a)
    return np.where(a == 0, 1.0, swing)


# Gamma functions.
gamma = unary("gamma", vm.gamma(x), "Gamma function.", domain=(0.5, 3.0), reference="scipy.special.gamma", ulp=5)
gammaln = unary(
    "gammaln",
    vm.gammaln(x),
    "log|Gamma(x)|; inf at the poles 0, -1, -2 and so on.",
    aliases=("lgamma",),
    domain=(2.3, 6.0),
    reference="scipy.special.gammaln",
    ulp=8,
)
digamma = unary(
    "digamma",
    vm.digamma(x),
    "Derivative of log Gamma; poles at 0, -1, -2 and so on.",
    domain=(0.5, 3.0),
    reference="scipy.special.digamma",
    ulp=6,
)
sinc = unary("sinc", vm.sinc(x), "sin(pi x)/(pi x), 1 at 0.", reference=_sinc, ulp=3)

# Tests: 1 or 0 in the operand's dtype; gradient 0.
logical_not = unary(
    "logical_not",
    vm.as_number(eq(x, 0)),
    "1 where x is 0, else 0.",
    ints=True,
    truth=True,
    domain=(0.5, 2.0),
)
isnan_ = unary("isnan", vm.as_number(isnan(x)), "1 where x is NaN, else 0.", ints=True, truth=True)
isinf = unary(
    "isinf",
    vm.as_number(eq(vm.absolute(x), math.inf)),
    "1 where x is infinite, else 0.",
    truth=True,
)
isfinite = unary(
    "isfinite",
    vm.as_number(lt(vm.absolute(x), math.inf)),
    "1 where x is finite, else 0.",
    truth=True,
)
