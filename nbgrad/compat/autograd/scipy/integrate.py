"""Ordinary differential equations, differentiated by their adjoint equations.

Source: L. S. Pontryagin et al., The Mathematical Theory of Optimal Processes, 1962, as in R. T. Q. Chen et al., Neural
ordinary differential equations, 2018, appendix C.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.integrate

from .. import numpy as anp
from ..boxes import getval, holds_box
from ..extend import defvjp_argnum, primitive
from ..misc.flatten import flatten
from ..products import make_vjp

__all__ = ["odeint"]


@primitive
def _solution(func: Callable, y0: Any, t: Any, flat: Any, unflatten: Callable, options: dict) -> Any:
    return scipy.integrate.odeint(lambda y, at: getval(func(y, at, *unflatten(flat))), y0, t, **options)


def odeint(func: Callable, y0: Any, t: Any, args: tuple = (), **options: Any) -> Any:
    """As SciPy's, with gradients for `y0`, `t` and `args`.

    Parameters
    ----------
    func : callable
        ``func(y, t, *args)``, the derivative of y, by functions of this package's ``numpy``.
    y0, t : array_like
        The initial state, and the times of the states that are returned, the first that of `y0`.
    args : tuple
        Further arguments of `func`: arrays, numbers and trees of them.
    **options
        Of SciPy: ``rtol``, ``atol`` and the like.
    """
    if not holds_box((y0, t, args)):
        return scipy.integrate.odeint(func, y0, t, args=tuple(args), **options)
    flat, unflatten = flatten(tuple(args))
    return _solution(func, y0, t, flat, unflatten, options)


def _pullback(argnum: int, ans: Any, args: Any, kwargs: dict) -> Callable | None:
    func, _, t, flat, unflatten, options = args
    if argnum not in (1, 2, 3):
        return None
    n, count = ans.shape[1], ans.shape[0]

    def of_all(point: Any) -> Any:
        return func(point[0], point[1], *unflatten(point[2]))

    def backwards(state: Any, minus: Any, flat: Any) -> Any:
        """The derivatives, by ``-t``, of the state, its cotangent, and those of time and arguments."""
        vjp, slope = make_vjp(of_all, (state[:n], -minus, flat))
        by_state, by_time, by_flat = vjp(state[n : 2 * n])
        return anp.concatenate([-anp.ravel(slope), anp.ravel(by_state), anp.ravel(by_time), anp.ravel(by_flat)])

    def pulled(g: Any) -> Any:
        cotangent, start, total = np.zeros(n), np.zeros(1), np.zeros(flat.shape)
        by_times = []
        for k in range(count - 1, 0, -1):
            moved = anp.sum(g[k] * anp.ravel(func(ans[k], t[k], *unflatten(flat))))
            by_times.append(moved)
            begin = anp.concatenate([ans[k], cotangent + g[k], start - moved, total])
            end = odeint(backwards, begin, anp.array([-t[k], -t[k - 1]]), (flat,), **options)[1]
            cotangent, start, total = end[n : 2 * n], end[2 * n : 2 * n + 1], end[2 * n + 1 :]
        by_times.append(start[0])
        return {1: cotangent + g[0], 2: anp.array(by_times[::-1]), 3: total}[argnum]

    return pulled


defvjp_argnum(_solution, _pullback)

#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.integrate)
