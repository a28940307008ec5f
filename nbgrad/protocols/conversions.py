"""Refuse implicit conversions through which a gradient would be lost.

Python and NumPy take the numbers in an array without being asked to: ``math.exp(x)`` calls ``float(x)``, and
``scipy.stats.norm.cdf(x)`` calls ``numpy.asarray(x)``. What they compute with them is a constant to the tape. While
recording, and so inside ``nbgrad.grad(f)`` and its like, an array that carries a gradient refuses. What says that a
constant is meant (``x.asnumpy()``, ``x.item()``, ``x.detach()``) is allowed, as is what leads to no number: printing,
and the truth value, by which a program chooses its way.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..arrays.ndarray import NDArray
from ..autodiff.constants import carries_gradient
from ..autodiff.state import recording
from ..core.callsite import called
from ..errors import LostGradientError
from ..operators.entry import namesake

__all__ = ["IMPLICIT", "demand_constant", "guarded"]

#: The methods by which others take the numbers without being asked to; :mod:`.methods` has them guarded.
IMPLICIT = (
    *("__array__", "__dlpack__", "__cuda_array_interface__"),
    *("__complex__", "__float__", "__int__", "__index__", "__trunc__", "__floor__", "__ceil__"),
)


def guarded(name: str, method: Callable) -> Callable:
    """A method of NDArray that is refused while recording for an array that carries a gradient."""

    def convert(self: NDArray):
        if recording() and self._node is not None:
            demand_constant(self)
        return method(self)

    def convert_with(self: NDArray, *args, **kwargs):
        if recording() and self._node is not None:
            demand_constant(self)
        return method(self, *args, **kwargs)

    alone = len(inspect.signature(method).parameters) == 1
    made: Any = functools.wraps(method)(convert if alone else convert_with)
    made.__code__ = made.__code__.replace(co_name=name)  # what a message says was called
    return made


def demand_constant(x: NDArray) -> None:
    """A :class:`LostGradientError` if `x` carries a gradient, which the user's call would lose."""
    if carries_gradient(x):
        what, where, outer = called()
        instead = namesake(outer.strip("_")) or "functions of nd"
        raise LostGradientError(
            f"{what} takes the numbers of an array that is being recorded, in {where}. "
            "What is computed from them would be a constant, and gradients through it lost: use "
            f"{instead} instead of NumPy's, math's and SciPy's (nd.exp, nd.stack, nd.linalg, ...), or nb.primitive for "
            "a function of your own. Where a constant is meant, say so: x.asnumpy(), x.item(), x.asscalar(), "
            "x.tolist(), x.detach(), or autograd.pause() around it"
        )
