"""Special functions under SciPy's names, of arrays of :mod:`nbgrad.np` and of numbers.

Derivatives are there by all arguments, also by the shapes of incomplete gamma and beta functions and of their inverses,
and to any order, except where a function says otherwise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import np
from ..core.registry import operators
from ..errors import DTypeError
from ..ir.expr import var
from ..kernels.special_functions import SPECIAL, hurwitz_zeta, riemann_zeta
from ..np.arrays import as_array, ndarray
from ..np.elementwise import elementwise
from ..np.special import special_function
from ..operators.elementwise import derived

__all__ = ["log_softmax", "logsumexp", "multigammaln", "polygamma", "softmax", "zeta"]


globals().update({name: special_function(name) for name in SPECIAL})
__all__ += sorted(SPECIAL)

if TYPE_CHECKING:  # for type checkers, which do not see the names that are added above

    def __getattr__(name: str) -> Any: ...


def polygamma(n: Any, x: Any) -> ndarray:
    """The n-th derivative of ``digamma``, as ``scipy.special.polygamma``.

    Parameters
    ----------
    n : int or array_like of integers
        The order, at least 0; it has no derivative.
    x : array_like
        Of any shape that broadcasts with that of `n`.

    Raises
    ------
    DTypeError
        If `n` is no whole number.
    """
    orders = as_array(n, "polygamma")
    if orders.dtype.kind not in "iub":
        raise DTypeError(f"polygamma: the order is a whole number, got dtype {orders.dtype}; use n.astype(int)")
    x = as_array(x, "polygamma")
    x = x if x.dtype.kind == "f" else x.astype(float)
    return operators["polygamma"].call(orders.astype(x.dtype), x)


_riemann_zeta: Any = elementwise("zeta", derived("zeta", riemann_zeta(var("x0")), 1, 0, ints=False))
_hurwitz_zeta: Any = elementwise("zeta", derived("zeta", hurwitz_zeta(var("x0"), var("x1")), 2, 0, ints=False))


def zeta(x: Any, q: Any = None) -> ndarray:
    """Riemann's zeta function, or with `q` Hurwitz's, as ``scipy.special.zeta``.

    Parameters
    ----------
    x : array_like
        With `q` at least 1; what is below gives NaN.
    q : array_like, optional
        Of any shape that broadcasts with that of `x`; the sum is of ``(q + k)**-x`` over k >= 0.
    """
    return _riemann_zeta(x) if q is None else _hurwitz_zeta(x, q)


def multigammaln(a: Any, d: int) -> ndarray:
    """The logarithm of the multivariate gamma function of dimension `d`, as ``scipy.special.multigammaln``.

    Parameters
    ----------
    a : array_like
        Of any shape, larger than ``(d - 1)/2``.
    d : int
    """
    a = as_array(a, "multigammaln")
    terms = sum(special_function("gammaln")(a - 0.5 * k) for k in range(d))
    return d * (d - 1) / 4 * math.log(math.pi) + terms


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> ndarray:
    """The logarithm of the sum of exponentials, as ``scipy.special.logsumexp``.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int, optional
        The axes to sum along; all by default.
    b : array_like, optional
        Factors of the exponentials.
    keepdims : bool
        Whether the axes stay, with length 1.

    Returns
    -------
    ndarray
        Of the shape of `a` without these axes. NaN where the sum is negative.
    """
    a = as_array(a, "logsumexp")
    a = a if a.dtype.kind == "f" else a.astype(float)
    if b is not None:
        a, b = np.broadcast_arrays(a, b)
    greatest = np.max(a.detach(), axis, keepdims=True)
    greatest = np.where(np.isfinite(greatest), greatest, 0.0)
    terms = np.exp(a - greatest)
    found = np.log(np.sum(terms if b is None else b * terms, axis, keepdims=True)) + greatest
    return found if keepdims else np.squeeze(found, axis=_axes(axis, a.ndim))


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    return tuple(range(rank)) if axis is None else axis if isinstance(axis, tuple) else (axis,)


def softmax(x: Any, axis: Any = None) -> ndarray:
    """Exponentials over their sum along axes, all by default, as ``scipy.special.softmax``."""
    return np.exp(log_softmax(x, axis))


def log_softmax(x: Any, axis: Any = None) -> ndarray:
    """The logarithm of :func:`softmax`, as ``scipy.special.log_softmax``."""
    x = as_array(x, "log_softmax")
    return x - logsumexp(x, axis, keepdims=True)
