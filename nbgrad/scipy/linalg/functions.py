"""Functions of matrices: exponential, logarithm, square root, and the like.

The values are SciPy's. The derivative of such a function f at A in the direction E is a block of f itself (Higham,
*Functions of Matrices*, 2008, theorem 3.6)::

    f([[A, E],    =  [[f(A), L(A, E)],
       [0, A]])       [0,    f(A)   ]]

so all derivatives are calls of f, of matrices that are twice as large with each order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ... import np as xp
from ...autograd import Function
from ...errors import LinAlgError
from ...np.arrays import as_array, ndarray

__all__ = ["coshm", "cosm", "expm", "logm", "sinhm", "sinm", "sqrtm"]


class _MatrixFunction(Function):
    """A function of a matrix, or of each of a stack of matrices."""

    _saves = (0,)

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__()
        self.function = function

    def infer(self, a: ndarray) -> ndarray:
        return a

    def forward(self, a: ndarray) -> ndarray:
        self.save_for_backward(a)
        stack = a.asnumpy()
        found = np.empty_like(stack)
        for k in np.ndindex(stack.shape[:-2]):
            value = self.function(stack[k])
            if np.iscomplexobj(value) and np.any(value.imag):
                name = self.function.__name__
                raise LinAlgError(f"{name}: the result is complex, as the matrix has eigenvalues that are not positive")
            found[k] = value.real
        return xp.array(found)

    def backward(self, g: ndarray) -> ndarray:
        (a,) = self.saved_tensors
        n, turned = a.shape[-1], xp.swapaxes(a, -1, -2)
        blocks = xp.concatenate(
            [xp.concatenate([turned, g], -1), xp.concatenate([xp.zeros_like(turned), turned], -1)], -2
        )
        return _MatrixFunction(self.function)(blocks)[..., :n, n:]


def _applied(function: Callable[[np.ndarray], np.ndarray], a: Any) -> ndarray:
    x = as_array(a, function.__name__)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"{function.__name__}: square matrices are expected, got an array of shape {x.shape}")
    return _MatrixFunction(function)(x if x.dtype.kind == "f" else x.astype(np.float64))


_DOCUMENTATION = """The {what} of a square matrix, or of each of a stack of these, as ``scipy.linalg.{name}``.

Parameters
----------
A : array_like, shape (..., n, n)
    Real{condition}.

Returns
-------
ndarray, shape (..., n, n)

Raises
------
LinAlgError
    If the last two axes have different lengths{complex}.

Examples
--------
>>> from nbgrad.scipy import linalg
>>> linalg.{name}({example})
array([[{result}]])
"""


def _function(name: str, what: str, example: str, result: str, condition: str = "") -> Callable[[Any], ndarray]:
    function = getattr(scipy.linalg, name)

    def applied(A: Any) -> ndarray:
        return _applied(function, A)

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = _DOCUMENTATION.format(
        name=name, what=what, example=example, result=result, condition=condition,
        complex=", or the result is complex" if condition else "",
    )  # fmt: skip
    return applied


_NILPOTENT = "[[0.0, 1.0], [0.0, 0.0]]"
expm = _function("expm", "exponential", _NILPOTENT, "1., 1.],\n       [0., 1.")
logm = _function("logm", "logarithm", "[[1.0, 1.0], [0.0, 1.0]]", "0., 1.],\n       [0., 0.",
                 ", without eigenvalues that are zero or negative")  # fmt: skip
sqrtm = _function("sqrtm", "principal square root", "[[4.0, 1.0], [0.0, 4.0]]", "2.  , 0.25],\n       [0.  , 2.  ",
                  ", without negative eigenvalues; where one is zero, there is no derivative")  # fmt: skip
cosm = _function("cosm", "cosine", _NILPOTENT, "1., 0.],\n       [0., 1.")
sinm = _function("sinm", "sine", _NILPOTENT, "0., 1.],\n       [0., 0.")
coshm = _function("coshm", "hyperbolic cosine", _NILPOTENT, "1., 0.],\n       [0., 1.")
sinhm = _function("sinhm", "hyperbolic sine", _NILPOTENT, "0., 1.],\n       [0., 0.")
