"""SciPy's special functions.

Derivatives: NIST Digital Library of Mathematical Functions, 8.8, 10.6, 10.29; with respect to orders and shapes only
where said.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import scipy.special

from .... import np as _np
from ....core.registry import operators
from ....np.arrays import as_array
from ..boxes import isbox
from ..extend import defvjp, primitive
from ..numpy.numpy_vjps import unbroadcast
from ..numpy.wrapping import chosen

__all__ = ["beta", "betainc", "betaln", "digamma", "erf", "erfc", "erfcinv", "erfinv", "expit", "gamma", "gammainc",
           "gammaincc", "gammaln", "gammasgn", "i0", "i1", "iv", "ive", "j0", "j1", "jn", "log_ndtr", "logit",
           "logsumexp", "multigammaln", "ndtr", "polygamma", "psi", "rgamma", "y0", "y1", "yn"]  # fmt: skip


def _operator(name: str, plain: Any) -> Callable:
    """An operator of nbgrad where an argument is recorded, SciPy's function elsewhere."""
    return chosen(plain, lambda *args: operators[name].call(*[as_array(a, name) * 1.0 for a in args]))


erf, erfc, erfinv = (_operator(n, getattr(scipy.special, n)) for n in ("erf", "erfc", "erfinv"))
gamma, gammaln = _operator("gamma", scipy.special.gamma), _operator("gammaln", scipy.special.gammaln)
digamma = psi = _operator("digamma", scipy.special.digamma)
expit, betaln = _operator("sigmoid", scipy.special.expit), _operator("betaln", scipy.special.betaln)

logit = chosen(scipy.special.logit, lambda x: _np.log(x) - _np.log1p(-x))
beta = chosen(scipy.special.beta, lambda a, b: _np.exp(betaln(a, b)))
ndtr = chosen(scipy.special.ndtr, lambda x: 0.5 * erfc(x * -math.sqrt(0.5)))
rgamma = chosen(scipy.special.rgamma, lambda x: 1.0 / gamma(x))


def _of(plain: Any) -> Any:
    return primitive(plain)


polygamma, gammasgn, erfcinv = map(_of, (scipy.special.polygamma, scipy.special.gammasgn, scipy.special.erfcinv))
log_ndtr, betainc = _of(scipy.special.log_ndtr), _of(scipy.special.betainc)
gammainc, gammaincc = _of(scipy.special.gammainc), _of(scipy.special.gammaincc)
j0, j1, y0, y1 = (_of(getattr(scipy.special, n)) for n in ("j0", "j1", "y0", "y1"))
jn, yn, i0, i1, iv, ive = (_of(getattr(scipy.special, n)) for n in ("jn", "yn", "i0", "i1", "iv", "ive"))


def _by(*slopes: Callable) -> list[Callable]:
    """The pullbacks of elementwise functions with these partial derivatives, each a function of all arguments."""

    def maker(slope: Callable, k: int) -> Callable:
        return lambda ans, *args: lambda g: unbroadcast(g * slope(ans, *args), args[k])

    return [maker(s, k) for k, s in enumerate(slopes)]


def _along_last(function: Any, slope: Callable) -> None:
    """The derivative with respect to the second argument alone."""
    defvjp(function, lambda ans, n, x: lambda g: unbroadcast(g * slope(ans, n, x), x), argnums=[1])


defvjp(gammasgn, None)
defvjp(erfcinv, *_by(lambda ans, x: -0.5 * math.sqrt(math.pi) * _np.exp(ans**2)))
defvjp(log_ndtr, *_by(lambda ans, x: _np.exp(-0.5 * x**2 - ans) / math.sqrt(2 * math.pi)))
defvjp(j0, *_by(lambda ans, x: -j1(x)))
defvjp(y0, *_by(lambda ans, x: -y1(x)))
defvjp(j1, *_by(lambda ans, x: 0.5 * (j0(x) - jn(2, x))))
defvjp(y1, *_by(lambda ans, x: 0.5 * (y0(x) - yn(2, x))))
defvjp(i0, *_by(lambda ans, x: i1(x)))
defvjp(i1, *_by(lambda ans, x: 0.5 * (i0(x) + iv(2, x))))
_along_last(polygamma, lambda ans, n, x: polygamma(n + 1, x))
_along_last(jn, lambda ans, n, x: 0.5 * (jn(n - 1, x) - jn(n + 1, x)))
_along_last(yn, lambda ans, n, x: 0.5 * (yn(n - 1, x) - yn(n + 1, x)))
_along_last(iv, lambda ans, n, x: 0.5 * (iv(n - 1, x) + iv(n + 1, x)))
_along_last(ive, lambda ans, n, x: 0.5 * (ive(n - 1, x) + ive(n + 1, x)) - _np.sign(x) * ans)
_along_last(gammainc, lambda ans, a, x: _np.exp((a - 1) * _np.log(x) - x - gammaln(a)))
_along_last(gammaincc, lambda ans, a, x: -_np.exp((a - 1) * _np.log(x) - x - gammaln(a)))
defvjp(
    betainc,
    lambda ans, a, b, x: (
        lambda g: unbroadcast(g * _np.exp((a - 1) * _np.log(x) + (b - 1) * _np.log1p(-x) - betaln(a, b)), x)
    ),
    argnums=[2],
)


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the multivariate gamma function."""
    if not isbox(a):
        return scipy.special.multigammaln(a, d)
    return d * (d - 1) / 4 * math.log(math.pi) + sum(gammaln(a - 0.5 * k) for k in range(d))


def _logsumexp(x: Any, axis: Any = None, b: Any = 1.0, keepdims: bool = False) -> Any:
    x = _np.array(x)
    greatest = _np.max(x, axis, keepdims=True).detach()
    greatest = _np.where(_np.isfinite(greatest), greatest, 0.0)
    found = _np.log(_np.sum(b * _np.exp(x - greatest), axis, keepdims=True)) + greatest
    return found if keepdims else found.reshape(_np.sum(x, axis).shape)


logsumexp = chosen(scipy.special.logsumexp, _logsumexp)

#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.special)
