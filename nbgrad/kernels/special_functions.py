"""The elementwise functions of ``scipy.special`` that are made of the scalar functions here, by their names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..ir.expr import Expr, const, either, eq, isnan, le, lt, select, var
from ..operators.elementwise import Elementwise, derived
from . import scalar as vm

__all__ = ["SPECIAL", "Special", "f_share", "hurwitz_zeta", "riemann_zeta", "special_rule"]

_NAN, _INF = const(math.nan), const(math.inf)


def _entr(x: Expr) -> Expr:
    return select(lt(x, 0), -_INF, -vm.xlogy(x, x))


def _rel_entr(x: Expr, y: Expr) -> Expr:
    inside = select(eq(x, 0), select(lt(y, 0), _INF, 0), select(le(y, 0), _INF, x * vm.log(x / y)))
    return select(either(isnan(x), isnan(y)), _NAN, select(lt(x, 0), _INF, inside))


def _kl_div(x: Expr, y: Expr) -> Expr:
    inside = select(eq(x, 0), select(lt(y, 0), _INF, y), select(le(y, 0), _INF, x * vm.log(x / y) - x + y))
    return select(either(isnan(x), isnan(y)), _NAN, select(lt(x, 0), _INF, inside))


def _gamma_sign(x: Expr) -> Expr:
    below = select(eq(vm.floor(x), x), _NAN, 1 - 2 * vm.floor_mod(vm.floor(x), 2))
    return select(isnan(x), x, select(lt(x, 0), below, 1))


def _beta(a: Expr, b: Expr) -> Expr:
    return _gamma_sign(a) * _gamma_sign(b) * _gamma_sign(a + b) * vm.exp(vm.betaln(a, b))


def _logit(p: Expr) -> Expr:
    return select(vm.absolute(p - 0.5) < 0.25, 2 * vm.arctanh(2 * p - 1), vm.log(p) - vm.log1p(-p))


def _boxcox_of(log: Expr, power: Expr) -> Expr:
    """By the logarithm, which may be minus infinity."""
    at_0 = select(lt(0, power), -1 / power, -_INF)
    return select(eq(log, -_INF), at_0, log * vm.exprel(power * log))


def _boxcox(x: Expr, power: Expr) -> Expr:
    return _boxcox_of(vm.log(x), power)


def f_share(m: Expr, n: Expr, x: Expr) -> Expr:
    """Of the F distribution below x, by what is small of ``m*x/(n + m*x)`` and the rest."""
    near, rest = m * x / (n + m * x), n / (n + m * x)
    below, above = vm.betainc(0.5 * m, 0.5 * n, near), vm.betaincc(0.5 * n, 0.5 * m, rest)
    return select(lt(m * x, n), below, above)


def _huber(delta: Expr, r: Expr) -> Expr:
    size = vm.absolute(r)
    return select(lt(delta, 0), _INF, select(le(size, delta), 0.5 * (r * r), delta * (size - 0.5 * delta)))


def _pseudo_huber(delta: Expr, r: Expr) -> Expr:
    ratio = r / delta
    return select(lt(delta, 0), _INF, select(eq(delta, 0), 0, r * r / (1 + vm.sqrt(1 + ratio * ratio))))


def hurwitz_zeta(x: Expr, q: Expr) -> Expr:
    return select(lt(x, 1), _NAN, vm.zeta(x, q))


def riemann_zeta(x: Expr) -> Expr:
    """Below -1/2 by its reflection (NIST Digital Library of Mathematical Functions, 25.4.1), exactly 0 at -2, -4, ...;
    near 0 that would be a zero times a pole."""
    near = vm.power(const(2 * math.pi), x) * vm.gamma(1 - x)
    far = vm.exp(math.log(2 * math.pi) * x + vm.gammaln(1 - x))  # gamma would be infinite
    sine = vm.sinc(0.5 * x)
    below = 0.5 * (x * sine) * vm.zeta(1 - x, const(1.0)) * select(lt(x, -160), select(eq(sine, 0), 0, far), near)
    return select(lt(x, -0.5), below, vm.zeta(x, const(1.0)))


def _zetac(x: Expr) -> Expr:
    return select(lt(1, x), vm.zeta(x, const(2.0)), riemann_zeta(x) - 1)


class Special(NamedTuple):
    """A function of SciPy's: the names of its arguments, its expression, and what it is."""

    arguments: str
    expression: Callable[..., Expr]
    what: str


#: The functions, by SciPy's names.
SPECIAL: dict[str, Special] = {
    "betainc": Special(
        "a b x", vm.betainc, "The regularised incomplete beta function: the share of the beta distribution below x"
    ),
    "betaincc": Special(
        "a b x", vm.betaincc, "The complement of ``betainc``: the share of the beta distribution above x"
    ),
    "betainccinv": Special("a b y", vm.betainccinv, "The inverse of ``betaincc`` in its last argument"),
    "betaincinv": Special("a b y", vm.betaincinv, "The inverse of ``betainc`` in its last argument"),
    "beta": Special("a b", _beta, "The beta function"),
    "betaln": Special("a b", vm.betaln, "The logarithm of the absolute beta function"),
    "boxcox": Special(
        "x power",
        _boxcox,
        "The Box-Cox transform ``(x**power - 1)/power``, ``log(x)`` for the power 0",
    ),
    "boxcox1p": Special(
        "x power", lambda x, power: _boxcox_of(vm.log1p(x), power), "The Box-Cox transform of ``1 + x``"
    ),
    "cbrt": Special("x", vm.cbrt, "The cube root"),
    "chdtr": Special(
        "v x",
        lambda v, x: vm.gammainc(0.5 * v, 0.5 * x),
        "The share of the chi-square distribution with v degrees of freedom below x",
    ),
    "chdtrc": Special(
        "v x",
        lambda v, x: vm.gammaincc(0.5 * v, 0.5 * x),
        "The share of the chi-square distribution with v degrees of freedom above x",
    ),
    "chdtri": Special(
        "v p",
        lambda v, p: 2 * vm.gammainccinv(0.5 * v, p),
        "The x above which the chi-square distribution has the share p",
    ),
    "cosm1": Special("x", lambda x: -2 * vm.sin(0.5 * x) * vm.sin(0.5 * x), "``cos(x) - 1``, precise where x is small"),
    "digamma": Special("x", vm.digamma, "The derivative of ``gammaln``"),
    "entr": Special("x", _entr, "``-x*log(x)``: 0 at 0, minus infinity below it"),
    "erf": Special("x", vm.erf, "The error function"),
    "erfc": Special("x", vm.erfc, "``1 - erf(x)``, precise where it is small"),
    "erfcinv": Special("y", vm.erfcinv, "The inverse of ``erfc``"),
    "erfcx": Special("x", vm.erfcx, "``exp(x**2)*erfc(x)``"),
    "erfinv": Special("y", vm.erfinv, "The inverse of ``erf``"),
    "exp1": Special("x", vm.exp1, "The exponential integral E1, of ``exp(-t)/t`` from x to infinity"),
    "exp10": Special("x", lambda x: vm.power(const(10.0), x), "``10**x``"),
    "exp2": Special("x", lambda x: vm.power(const(2.0), x), "``2**x``"),
    "expi": Special("x", vm.expi, "The exponential integral Ei, of ``exp(t)/t`` from minus infinity to x"),
    "expit": Special("x", vm.sigmoid, "The logistic function ``1/(1 + exp(-x))``"),
    "expm1": Special("x", vm.expm1, "``exp(x) - 1``, precise where x is small"),
    "expn": Special(
        "n x",
        vm.expn,
        "The exponential integral of ``exp(-x*t)/t**n`` from 1 to infinity, of a whole order, which has no derivative",
    ),
    "exprel": Special("x", vm.exprel, "``(exp(x) - 1)/x``, 1 at 0"),
    "fdtr": Special(
        "dfn dfd x",
        f_share,
        "The share of the F distribution with dfn and dfd degrees of freedom below x",
    ),
    "fdtrc": Special(
        "dfn dfd x",
        lambda dfn, dfd, x: f_share(dfd, dfn, 1 / x),
        "The share of the F distribution with dfn and dfd degrees of freedom above x",
    ),
    "gamma": Special("x", vm.gamma, "The gamma function"),
    "gammainc": Special(
        "a x",
        vm.gammainc,
        "The regularised lower incomplete gamma function: the share of the gamma distribution below x",
    ),
    "gammaincc": Special(
        "a x", vm.gammaincc, "The complement of ``gammainc``: the share of the gamma distribution above x"
    ),
    "gammainccinv": Special("a y", vm.gammainccinv, "The inverse of ``gammaincc`` in its last argument"),
    "gammaincinv": Special("a y", vm.gammaincinv, "The inverse of ``gammainc`` in its last argument"),
    "gammaln": Special("x", vm.gammaln, "The logarithm of the absolute gamma function"),
    "gammasgn": Special("x", _gamma_sign, "The sign of the gamma function; its derivative is 0"),
    "huber": Special("delta r", _huber, "Huber's loss: ``r**2/2``, linear where r is larger than delta"),
    "i0": Special("x", vm.i0, "The modified Bessel function of the first kind of order 0"),
    "i0e": Special("x", vm.i0e, "``i0`` times ``exp(-|x|)``"),
    "i1": Special("x", vm.i1, "The modified Bessel function of the first kind of order 1"),
    "i1e": Special("x", vm.i1e, "``i1`` times ``exp(-|x|)``"),
    "iv": Special(
        "v z",
        vm.iv,
        "The modified Bessel function of the first kind of real order; its derivative by the order is NaN",
    ),
    "ive": Special("v z", vm.ive, "``iv`` times ``exp(-|z|)``"),
    "j0": Special("x", vm.j0, "The Bessel function of the first kind of order 0"),
    "j1": Special("x", vm.j1, "The Bessel function of the first kind of order 1"),
    "jn": Special("n x", vm.jv, "The Bessel function of the first kind; its derivative by the order is NaN"),
    "jv": Special(
        "v z", vm.jv, "The Bessel function of the first kind of real order; its derivative by the order is NaN"
    ),
    "k0": Special("x", vm.k0, "The modified Bessel function of the second kind of order 0"),
    "k0e": Special("x", vm.k0e, "``k0`` times ``exp(x)``"),
    "k1": Special("x", vm.k1, "The modified Bessel function of the second kind of order 1"),
    "k1e": Special("x", vm.k1e, "``k1`` times ``exp(x)``"),
    "kl_div": Special("x y", _kl_div, "``x*log(x/y) - x + y``"),
    "kn": Special(
        "n x",
        vm.kn,
        "The modified Bessel function of the second kind of a whole order, which has no derivative; NaN for others",
    ),
    "kv": Special(
        "v z",
        vm.kv,
        "The modified Bessel function of the second kind of real order; its derivative by the order is NaN",
    ),
    "kve": Special("v z", vm.kve, "``kv`` times ``exp(z)``"),
    "log1p": Special("x", vm.log1p, "``log(1 + x)``, precise where x is small"),
    "log_expit": Special("x", vm.log_sigmoid, "The logarithm of ``expit``"),
    "log_ndtr": Special("x", vm.log_ndtr, "The logarithm of ``ndtr``, precise in both tails"),
    "loggamma": Special(
        "x", lambda x: select(lt(x, 0), _NAN, vm.gammaln(x)), "The logarithm of the gamma function, of positive numbers"
    ),
    "logit": Special("p", _logit, "``log(p/(1 - p))``"),
    "ndtr": Special("x", vm.ndtr, "The share of the standard normal distribution below x"),
    "ndtri": Special("p", vm.ndtri, "The inverse of ``ndtr``"),
    "pdtr": Special(
        "k m",
        lambda k, m: vm.gammaincc(vm.floor(k) + 1, m),
        "The probability of at most k events, of m expected ones: the Poisson distribution",
    ),
    "pdtrc": Special(
        "k m", lambda k, m: vm.gammainc(vm.floor(k) + 1, m), "The probability of more than k events, of m expected ones"
    ),
    "pseudo_huber": Special(
        "delta r", _pseudo_huber, "The smooth form of Huber's loss, ``delta**2*(sqrt(1 + (r/delta)**2) - 1)``"
    ),
    "psi": Special("x", vm.digamma, "The derivative of ``gammaln``"),
    "rel_entr": Special("x y", _rel_entr, "``x*log(x/y)``"),
    "stdtr": Special("df t", vm.stdtr, "The share of Student's distribution with df degrees of freedom below t"),
    "stdtrit": Special("df p", vm.stdtrit, "The t below which Student's distribution has the share p"),
    "xlog1py": Special("x y", vm.xlog1py, "``x*log(1 + y)``, 0 where x is 0"),
    "xlogy": Special("x y", vm.xlogy, "``x*log(y)``, 0 where x is 0"),
    "y0": Special("x", vm.y0, "The Bessel function of the second kind of order 0"),
    "y1": Special("x", vm.y1, "The Bessel function of the second kind of order 1"),
    "yn": Special(
        "n x", vm.yn, "The Bessel function of the second kind of a whole order, which has no derivative; NaN for others"
    ),
    "yv": Special(
        "v z", vm.yv, "The Bessel function of the second kind of real order; its derivative by the order is NaN"
    ),
    "zetac": Special("x", _zetac, "Riemann's zeta function less 1"),
}


def special_rule(name: str) -> Elementwise:
    """The rule of a function of the table."""
    count = len(SPECIAL[name].arguments.split())
    operands = [var(f"x{k}") for k in range(count)]
    return derived(name, SPECIAL[name].expression(*operands), count, 0, ints=False)
