"""Guarded conversions: refuse implicit conversions that would lose a gradient.

Python and NumPy convert arrays implicitly: ``math.exp(x)`` calls ``float(x)``, and ``scipy.stats.norm.cdf(x)`` calls
``numpy.asarray(x)``. Results computed from the values are constants to the tape. While recording, and so inside
``nbgrad.grad(f)`` and its like, an array that carries a gradient refuses. Explicit conversions (``x.asnumpy()``,
``x.item()``, ``x.detach()``) are allowed, and so are printing and the truth value, for branches.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..arrays.ndarray import NDArray
from ..autodiff.constants import carries_gradient
from ..autodiff.state import recording
from ..core.callsite import user_call
from ..core.conventions import MXNET
from ..errors import LostGradientError
from ..operators.entry import public_name

__all__ = ["IMPLICIT", "guard_conversion", "require_constant"]

#: The methods of implicit conversion; :mod:`.methods` guards them.
IMPLICIT = (
    *("__array__", "__dlpack__", "__cuda_array_interface__"),
    *("__complex__", "__float__", "__int__", "__index__", "__trunc__", "__floor__", "__ceil__"),
)


def guard_conversion(name: str, method: Callable) -> Callable:
    """A method of NDArray that raises, while recording, for an array that carries a gradient."""

    def convert(self: NDArray):
        if recording() and self._node is not None:
            require_constant(self)
        return method(self)

    def convert_with(self: NDArray, *args, **kwargs):
        if recording() and self._node is not None:
            require_constant(self)
        return method(self, *args, **kwargs)

    alone = len(inspect.signature(method).parameters) == 1
    guard: Any = functools.wraps(method)(convert if alone else convert_with)
    guard.__code__ = guard.__code__.replace(co_name=name)  # the name that messages show
    return guard


def require_constant(x: NDArray) -> None:
    """Raise a :class:`LostGradientError` if `x` carries a gradient, which the user's call would lose."""
    if carries_gradient(x):
        what, where, outer = user_call()
        as_numpy = x._kind.conventions is not MXNET
        library, short = ("nbgrad.np", "np") if as_numpy else ("nd", "nd")
        instead = (not as_numpy and public_name(outer.strip("_"))) or f"functions of {library}"
        filled = (
            "an array that is filled element by element is made by np.zeros of nbgrad.np"
            if as_numpy
            else "a list is joined by nd.stack"
        )
        taken = "" if as_numpy else "x.item(), x.asscalar(), x.tolist(), "
        raise LostGradientError(
            f"{what} takes the numbers of an array that is being recorded, in {where}. "
            "What is computed from them would be a constant, and gradients through it lost: use "
            f"{instead} instead of NumPy's, math's and SciPy's ({short}.exp, {short}.stack, {short}.linalg, ...), or "
            f"nb.primitive for a function of your own; {filled}. Where a constant is meant, say so: x.asnumpy(), "
            f"{taken}x.detach(), or autograd.pause() around it"
        )
