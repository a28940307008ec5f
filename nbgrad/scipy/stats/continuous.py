"""Distributions with densities, in their standard forms: the expressions of each method, by the number and the shapes.

Sources: NIST Digital Library of Mathematical Functions; N. L. Johnson, S. Kotz, N. Balakrishnan, Continuous Univariate
Distributions, 1994.
"""

from __future__ import annotations

import math

from ...ir.expr import Expr, const, eq, lt, select
from ...kernels import scalar as vm
from ...kernels.special_functions import f_share
from .distributions import Continuous

__all__ = ["beta", "cauchy", "chi2", "expon", "f", "fisk", "gamma", "gumbel_l", "gumbel_r", "halfnorm", "invgamma",
           "laplace", "logistic", "lognorm", "norm", "pareto", "rayleigh", "t", "uniform", "weibull_min"]  # fmt: skip

_INF = math.inf
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_EULER = 0.5772156649015329


def _normal(x: Expr) -> Expr:
    return -0.5 * (x * x) - _HALF_LOG_2PI


norm = Continuous(
    "norm", "",
    logpdf=_normal, cdf=vm.ndtr, sf=lambda x: vm.ndtr(-x), logcdf=vm.log_ndtr, logsf=lambda x: vm.log_ndtr(-x),
    ppf=vm.ndtri, isf=lambda q: -vm.ndtri(q),
    mean=lambda: const(0.0), var=lambda: const(1.0), entropy=lambda: const(0.5 + _HALF_LOG_2PI),
)  # fmt: skip

lognorm = Continuous(
    "lognorm", "s", (0.0, _INF), open=True,
    logpdf=lambda x, s: _normal(vm.log(x) / s) - vm.log(s * x),
    cdf=lambda x, s: vm.ndtr(vm.log(x) / s), sf=lambda x, s: vm.ndtr(-vm.log(x) / s),
    logcdf=lambda x, s: vm.log_ndtr(vm.log(x) / s), logsf=lambda x, s: vm.log_ndtr(-vm.log(x) / s),
    ppf=lambda q, s: vm.exp(s * vm.ndtri(q)), isf=lambda q, s: vm.exp(-s * vm.ndtri(q)),
    mean=lambda s: vm.exp(0.5 * (s * s)), var=lambda s: vm.expm1(s * s) * vm.exp(s * s),
    entropy=lambda s: 0.5 + _HALF_LOG_2PI + vm.log(s),
)  # fmt: skip

halfnorm = Continuous(
    "halfnorm", "", (0.0, _INF),
    logpdf=lambda x: _normal(x) + math.log(2.0),
    cdf=lambda x: vm.erf(x * math.sqrt(0.5)), sf=lambda x: vm.erfc(x * math.sqrt(0.5)),
    logsf=lambda x: select(x < 1, vm.log1p(-vm.erf(x * math.sqrt(0.5))), vm.log_ndtr(-x) + math.log(2.0)),
    ppf=lambda q: math.sqrt(2.0) * vm.erfinv(q), isf=lambda q: math.sqrt(2.0) * vm.erfcinv(q),
    mean=lambda: const(math.sqrt(2 / math.pi)), var=lambda: const(1 - 2 / math.pi),
    entropy=lambda: const(0.5 + _HALF_LOG_2PI - math.log(2.0)),
)  # fmt: skip

uniform = Continuous(
    "uniform", "", (0.0, 1.0),
    logpdf=lambda x: 0 * x, cdf=lambda x: x, sf=lambda x: 1 - x, ppf=lambda q: q, isf=lambda q: 1 - q,
    mean=lambda: const(0.5), var=lambda: const(1 / 12), entropy=lambda: const(0.0),
)  # fmt: skip

expon = Continuous(
    "expon", "", (0.0, _INF),
    logpdf=lambda x: -x, cdf=lambda x: -vm.expm1(-x), sf=lambda x: vm.exp(-x), logsf=lambda x: -x,
    ppf=lambda q: -vm.log1p(-q), isf=lambda q: -vm.log(q),
    mean=lambda: const(1.0), var=lambda: const(1.0), entropy=lambda: const(1.0),
)  # fmt: skip


def _gamma_entropy(a: Expr) -> Expr:
    """Of large shapes by its asymptotic series, whose large terms would cancel."""
    r = 1 / a
    series = 0.5 + _HALF_LOG_2PI + 0.5 * vm.log(a) - r * (1 / 3 + r * (1 / 12 + r * (1 / 90 - r / 120)))
    return select(a > 300, series, a + vm.gammaln(a) + (1 - a) * vm.digamma(a))


gamma = Continuous(
    "gamma", "a", (0.0, _INF),
    logpdf=lambda x, a: vm.xlogy(a - 1, x) - x - vm.gammaln(a),
    cdf=lambda x, a: vm.gammainc(a, x), sf=lambda x, a: vm.gammaincc(a, x),
    ppf=lambda q, a: vm.gammaincinv(a, q), isf=lambda q, a: vm.gammainccinv(a, q),
    mean=lambda a: a, var=lambda a: a, entropy=lambda a: _gamma_entropy(a),
)  # fmt: skip

chi2 = Continuous(
    "chi2", "df", (0.0, _INF),
    logpdf=lambda x, df: vm.xlogy(0.5 * df - 1, x) - 0.5 * x - vm.gammaln(0.5 * df) - (0.5 * math.log(2.0)) * df,
    cdf=lambda x, df: vm.gammainc(0.5 * df, 0.5 * x), sf=lambda x, df: vm.gammaincc(0.5 * df, 0.5 * x),
    ppf=lambda q, df: 2 * vm.gammaincinv(0.5 * df, q), isf=lambda q, df: 2 * vm.gammainccinv(0.5 * df, q),
    mean=lambda df: df, var=lambda df: 2 * df,
    entropy=lambda df: _gamma_entropy(0.5 * df) + math.log(2.0),
)  # fmt: skip

invgamma = Continuous(
    "invgamma", "a", (0.0, _INF), open=True,
    logpdf=lambda x, a: -(a + 1) * vm.log(x) - vm.gammaln(a) - 1 / x,
    cdf=lambda x, a: vm.gammaincc(a, 1 / x), sf=lambda x, a: vm.gammainc(a, 1 / x),
    ppf=lambda q, a: 1 / vm.gammainccinv(a, q), isf=lambda q, a: 1 / vm.gammaincinv(a, q),
    mean=lambda a: select(a > 1, 1 / (a - 1), _INF),
    var=lambda a: select(a > 2, 1 / ((a - 1) * (a - 1) * (a - 2)), _INF),
    entropy=lambda a: a + vm.gammaln(a) - (1 + a) * vm.digamma(a),
)  # fmt: skip

beta = Continuous(
    "beta", "a b", (0.0, 1.0),
    logpdf=lambda x, a, b: vm.xlogy(a - 1, x) + vm.xlog1py(b - 1, -x) - vm.betaln(a, b),
    cdf=lambda x, a, b: vm.betainc(a, b, x), sf=lambda x, a, b: vm.betaincc(a, b, x),
    ppf=lambda q, a, b: vm.betaincinv(a, b, q), isf=lambda q, a, b: vm.betainccinv(a, b, q),
    mean=lambda a, b: a / (a + b), var=lambda a, b: a * b / ((a + b) * (a + b) * (a + b + 1)),
    entropy=lambda a, b: vm.betaln(a, b) - (a - 1) * vm.digamma(a) - (b - 1) * vm.digamma(b)
    + (a + b - 2) * vm.digamma(a + b),
)  # fmt: skip

t = Continuous(
    "t", "df",
    logpdf=lambda x, df: select(eq(df, _INF), _normal(x), vm.student_log_density(df, x)),
    cdf=lambda x, df: vm.stdtr(df, x), sf=lambda x, df: vm.stdtr(df, -x),
    ppf=lambda q, df: vm.stdtrit(df, q), isf=lambda q, df: -vm.stdtrit(df, q),
    mean=lambda df: select(df > 1, 0, _INF),
    var=lambda df: select(df > 2, df / (df - 2), select(df > 1, _INF, math.nan)),
    entropy=lambda df: 0.5 * (df + 1) * (vm.digamma(0.5 * (df + 1)) - vm.digamma(0.5 * df))
    + 0.5 * vm.log(df) + vm.betaln(0.5 * df, 0.5),
)  # fmt: skip


def _f_place(q: Expr, m: Expr, n: Expr) -> Expr:
    """By what is small of the share of the beta distribution and the rest."""
    near, rest = vm.betaincinv(0.5 * m, 0.5 * n, q), vm.betainccinv(0.5 * n, 0.5 * m, q)
    return n / m * select(near < 0.5, near / (1 - near), (1 - rest) / rest)


f = Continuous(
    "f", "dfn dfd", (0.0, _INF),
    logpdf=lambda x, m, n: 0.5 * m * vm.log(m / n) + vm.xlogy(0.5 * m - 1, x)
    - 0.5 * (m + n) * vm.log1p(m * x / n) - vm.betaln(0.5 * m, 0.5 * n),
    cdf=lambda x, m, n: f_share(m, n, x), sf=lambda x, m, n: f_share(n, m, 1 / x),
    ppf=lambda q, m, n: _f_place(q, m, n), isf=lambda q, m, n: 1 / _f_place(q, n, m),
    mean=lambda m, n: select(n > 2, n / (n - 2), _INF),
    var=lambda m, n: select(n > 4, 2 * (n * n) * (m + n - 2) / (m * ((n - 2) * (n - 2)) * (n - 4)), _INF),
    entropy=lambda m, n: vm.log(n / m) + vm.betaln(0.5 * m, 0.5 * n) + (1 - 0.5 * m) * vm.digamma(0.5 * m)
    - (1 + 0.5 * n) * vm.digamma(0.5 * n) + 0.5 * (m + n) * vm.digamma(0.5 * (m + n)),
)  # fmt: skip

laplace = Continuous(
    "laplace", "",
    logpdf=lambda x: -vm.absolute(x) - math.log(2.0),
    cdf=lambda x: select(lt(x, 0), 0.5 * vm.exp(x), 1 - 0.5 * vm.exp(-x)),
    sf=lambda x: select(lt(x, 0), 1 - 0.5 * vm.exp(x), 0.5 * vm.exp(-x)),
    logcdf=lambda x: select(lt(x, 0), x - math.log(2.0), vm.log1p(-0.5 * vm.exp(-x))),
    logsf=lambda x: select(lt(x, 0), vm.log1p(-0.5 * vm.exp(x)), -x - math.log(2.0)),
    ppf=lambda q: select(lt(q, 0.5), vm.log(2 * q), -vm.log(2 * (1 - q))),
    isf=lambda q: select(lt(q, 0.5), -vm.log(2 * q), vm.log(2 * (1 - q))),
    mean=lambda: const(0.0), var=lambda: const(2.0), entropy=lambda: const(1 + math.log(2.0)),
)  # fmt: skip

logistic = Continuous(
    "logistic", "",
    logpdf=lambda x: vm.log_sigmoid(x) + vm.log_sigmoid(-x),
    cdf=vm.sigmoid, sf=lambda x: vm.sigmoid(-x), logcdf=vm.log_sigmoid, logsf=lambda x: vm.log_sigmoid(-x),
    ppf=lambda q: vm.log(q) - vm.log1p(-q), isf=lambda q: vm.log1p(-q) - vm.log(q),
    mean=lambda: const(0.0), var=lambda: const(math.pi**2 / 3), entropy=lambda: const(2.0),
)  # fmt: skip


def _cauchy_place(q: Expr) -> Expr:
    """``tan(pi*(q - 1/2))``, of what is small."""
    outer = select(q < 0.5, -1 / vm.tan(math.pi * q), 1 / vm.tan(math.pi * (1 - q)))
    return select(vm.absolute(q - 0.5) < 0.25, vm.tan(math.pi * (q - 0.5)), outer)


cauchy = Continuous(
    "cauchy", "",
    logpdf=lambda x: -math.log(math.pi) - 2 * vm.log(vm.hypot(x, 1)),
    cdf=lambda x: vm.arctan2(const(1.0), -x) / math.pi, sf=lambda x: vm.arctan2(const(1.0), x) / math.pi,
    ppf=_cauchy_place, isf=lambda q: -_cauchy_place(q),
    mean=lambda: const(math.nan), var=lambda: const(math.nan), entropy=lambda: const(math.log(4 * math.pi)),
)  # fmt: skip

weibull_min = Continuous(
    "weibull_min", "c", (0.0, _INF),
    logpdf=lambda x, c: vm.log(c) + vm.xlogy(c - 1, x) - vm.power(x, c),
    cdf=lambda x, c: -vm.expm1(-vm.power(x, c)), sf=lambda x, c: vm.exp(-vm.power(x, c)),
    logsf=lambda x, c: -vm.power(x, c),
    ppf=lambda q, c: vm.power(-vm.log1p(-q), 1 / c), isf=lambda q, c: vm.power(-vm.log(q), 1 / c),
    mean=lambda c: vm.gamma(1 + 1 / c), var=lambda c: vm.gamma(1 + 2 / c) - vm.gamma(1 + 1 / c) * vm.gamma(1 + 1 / c),
    entropy=lambda c: _EULER * (1 - 1 / c) - vm.log(c) + 1,
)  # fmt: skip

gumbel_r = Continuous(
    "gumbel_r", "",
    logpdf=lambda x: -x - vm.exp(-x),
    cdf=lambda x: vm.exp(-vm.exp(-x)), sf=lambda x: -vm.expm1(-vm.exp(-x)), logcdf=lambda x: -vm.exp(-x),
    ppf=lambda q: -vm.log(-vm.log(q)), isf=lambda q: -vm.log(-vm.log1p(-q)),
    mean=lambda: const(_EULER), var=lambda: const(math.pi**2 / 6), entropy=lambda: const(1 + _EULER),
)  # fmt: skip

gumbel_l = Continuous(
    "gumbel_l", "",
    logpdf=lambda x: x - vm.exp(x),
    cdf=lambda x: -vm.expm1(-vm.exp(x)), sf=lambda x: vm.exp(-vm.exp(x)), logsf=lambda x: -vm.exp(x),
    ppf=lambda q: vm.log(-vm.log1p(-q)), isf=lambda q: vm.log(-vm.log(q)),
    mean=lambda: const(-_EULER), var=lambda: const(math.pi**2 / 6), entropy=lambda: const(1 + _EULER),
)  # fmt: skip

pareto = Continuous(
    "pareto", "b", (1.0, _INF),
    logpdf=lambda x, b: vm.log(b) - (b + 1) * vm.log(x),
    cdf=lambda x, b: -vm.expm1(-b * vm.log(x)), sf=lambda x, b: vm.power(x, -b), logsf=lambda x, b: -b * vm.log(x),
    ppf=lambda q, b: vm.exp(-vm.log1p(-q) / b), isf=lambda q, b: vm.power(q, -1 / b),
    mean=lambda b: select(b > 1, b / (b - 1), _INF),
    var=lambda b: select(b > 2, b / ((b - 1) * (b - 1) * (b - 2)), _INF),
    entropy=lambda b: 1 + 1 / b - vm.log(b),
)  # fmt: skip

rayleigh = Continuous(
    "rayleigh", "", (0.0, _INF),
    logpdf=lambda x: vm.log(x) - 0.5 * (x * x),
    cdf=lambda x: -vm.expm1(-0.5 * (x * x)), sf=lambda x: vm.exp(-0.5 * (x * x)), logsf=lambda x: -0.5 * (x * x),
    ppf=lambda q: vm.sqrt(-2 * vm.log1p(-q)), isf=lambda q: vm.sqrt(-2 * vm.log(q)),
    mean=lambda: const(math.sqrt(math.pi / 2)), var=lambda: const(2 - math.pi / 2),
    entropy=lambda: const(1 + 0.5 * _EULER - 0.5 * math.log(2.0)),
)  # fmt: skip


def _fisk_variance(b: Expr) -> Expr:
    ratio = b / vm.sin(b)
    return 2 * b / vm.sin(2 * b) - ratio * ratio


fisk = Continuous(
    "fisk", "c", (0.0, _INF),
    logpdf=lambda x, c: vm.log(c) + vm.xlogy(c - 1, x) - 2 * vm.softplus(c * vm.log(x)),
    cdf=lambda x, c: vm.sigmoid(c * vm.log(x)), sf=lambda x, c: vm.sigmoid(-c * vm.log(x)),
    logcdf=lambda x, c: vm.log_sigmoid(c * vm.log(x)), logsf=lambda x, c: vm.log_sigmoid(-c * vm.log(x)),
    ppf=lambda q, c: vm.power(q / (1 - q), 1 / c), isf=lambda q, c: vm.power((1 - q) / q, 1 / c),
    mean=lambda c: select(c > 1, (math.pi / c) / vm.sin(math.pi / c), _INF), entropy=lambda c: 2 - vm.log(c),
    var=lambda c: select(c > 2, _fisk_variance(math.pi / c), _INF),
)  # fmt: skip
