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


def expm(A: Any) -> ndarray:
    """The exponential of a square matrix, or of each of a stack of these, as ``scipy.linalg.expm``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)

    Returns
    -------
    ndarray, shape (..., n, n)

    Raises
    ------
    LinAlgError
        If the last two axes have different lengths.

    Examples
    --------
    >>> import nbgrad as nb
    >>> from nbgrad.scipy import linalg
    >>> turn = lambda t: linalg.expm(t * nb.np.array([[0.0, -1.0], [1.0, 0.0]]))[1, 0]  # the sine
    >>> round(float(nb.grad(turn)(0.0)), 12)
    1.0
    """
    return _applied(scipy.linalg.expm, A)


def logm(A: Any) -> ndarray:
    """The logarithm of a square matrix, or of each of a stack of these, as ``scipy.linalg.logm``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        Without eigenvalues that are zero or negative.

    Returns
    -------
    ndarray, shape (..., n, n)

    Raises
    ------
    LinAlgError
        If the last two axes have different lengths, or the logarithm is complex.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.logm([[1.0, 1.0], [0.0, 1.0]])
    array([[0., 1.],
           [0., 0.]])
    """
    return _applied(scipy.linalg.logm, A)


def sqrtm(A: Any) -> ndarray:
    """The principal square root of a square matrix, or of each of a stack of these, as ``scipy.linalg.sqrtm``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        Without negative eigenvalues; where one is zero, there is no derivative.

    Returns
    -------
    ndarray, shape (..., n, n)

    Raises
    ------
    LinAlgError
        If the last two axes have different lengths, or the root is complex.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.sqrtm([[4.0, 1.0], [0.0, 4.0]])
    array([[2.  , 0.25],
           [0.  , 2.  ]])
    """
    return _applied(scipy.linalg.sqrtm, A)


def cosm(A: Any) -> ndarray:
    """The cosine of a square matrix of shape (..., n, n), as ``scipy.linalg.cosm``."""
    return _applied(scipy.linalg.cosm, A)


def sinm(A: Any) -> ndarray:
    """The sine of a square matrix of shape (..., n, n), as ``scipy.linalg.sinm``."""
    return _applied(scipy.linalg.sinm, A)


def coshm(A: Any) -> ndarray:
    """The hyperbolic cosine of a square matrix of shape (..., n, n), as ``scipy.linalg.coshm``."""
    return _applied(scipy.linalg.coshm, A)


def sinhm(A: Any) -> ndarray:
    """The hyperbolic sine of a square matrix of shape (..., n, n), as ``scipy.linalg.sinhm``."""
    return _applied(scipy.linalg.sinhm, A)
