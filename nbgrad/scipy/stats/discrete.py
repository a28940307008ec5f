"""Distributions on whole numbers."""

from __future__ import annotations

import math

from ...ir.expr import const, either, le, lt, select
from ...kernels import scalar as vm
from .distributions import Discrete

__all__ = ["bernoulli", "binom", "geom", "nbinom", "poisson"]

_NAN = const(math.nan)


def _of_share(value, p):
    """NaN where `p` is no probability."""
    return select(either(lt(p, 0), lt(1, p)), _NAN, value)


def _outside(value, above, instead):
    return select(above, instead, value)


poisson = Discrete(
    "poisson", "mu",
    logpmf=lambda k, mu: vm.xlogy(k, mu) - vm.gammaln(k + 1) - mu,
    cdf=lambda k, mu: vm.gammaincc(k + 1, mu), sf=lambda k, mu: vm.gammainc(k + 1, mu),
    mean=lambda mu: mu, var=lambda mu: mu,
)  # fmt: skip

binom = Discrete(
    "binom", "n p",
    logpmf=lambda k, n, p: _of_share(_outside(
        vm.xlogy(k, p) + vm.xlog1py(n - k, -p) - vm.log(n + 1) - vm.betaln(n - k + 1, k + 1), lt(n, k), -math.inf), p),
    cdf=lambda k, n, p: _of_share(_outside(vm.betaincc(k + 1, n - k, p), le(n, k), 1.0), p),
    sf=lambda k, n, p: _of_share(_outside(vm.betainc(k + 1, n - k, p), le(n, k), 0.0), p),
    mean=lambda n, p: n * p, var=lambda n, p: n * p * (1 - p),
)  # fmt: skip

bernoulli = Discrete(
    "bernoulli", "p",
    logpmf=lambda k, p: _of_share(_outside(vm.xlogy(k, p) + vm.xlog1py(1 - k, -p), lt(1, k), -math.inf), p),
    cdf=lambda k, p: _of_share(_outside(1 - p, le(1, k), 1.0), p),
    sf=lambda k, p: _of_share(_outside(p, le(1, k), 0.0), p),
    mean=lambda p: p, var=lambda p: p * (1 - p),
)  # fmt: skip

nbinom = Discrete(
    "nbinom", "n p",
    logpmf=lambda k, n, p: _of_share(
        vm.xlogy(n, p) + vm.xlog1py(k, -p) - vm.log(n + k) - vm.betaln(n, k + 1), p),
    cdf=lambda k, n, p: _of_share(vm.betainc(n, k + 1, p), p),
    sf=lambda k, n, p: _of_share(vm.betaincc(n, k + 1, p), p),
    mean=lambda n, p: n * (1 - p) / p, var=lambda n, p: n * (1 - p) / (p * p),
)  # fmt: skip

geom = Discrete(
    "geom", "p", 1,
    logpmf=lambda k, p: _of_share(vm.xlog1py(k - 1, -p) + vm.log(p), p),
    cdf=lambda k, p: _of_share(-vm.expm1(vm.xlog1py(k, -p)), p),
    sf=lambda k, p: _of_share(vm.exp(vm.xlog1py(k, -p)), p),
    mean=lambda p: 1 / p, var=lambda p: (1 - p) / (p * p),
)  # fmt: skip
