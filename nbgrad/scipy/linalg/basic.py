"""Inverses, determinants and solutions, with SciPy's arguments."""

from __future__ import annotations

from typing import Any

from ... import np as xp
from ...errors import AttrError
from ...np import linalg
from ...np.arrays import as_array, ndarray
from .factors import cho_factor, cho_solve, of_triangle

__all__ = ["det", "inv", "lstsq", "pinv", "solve"]

_GENERAL = ("gen", "general", None)
_SYMMETRIC = ("sym", "symmetric", "her", "hermitian")
_POSITIVE = ("pos", "positive definite")


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> ndarray:
    """The inverse of each matrix, of shape (..., n, n), as ``scipy.linalg.inv``; LinAlgError if one is singular."""
    return linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> ndarray:
    """The determinant of each matrix, of shape (..., n, n), as ``scipy.linalg.det``."""
    return linalg.det(a)


def solve(a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
          check_finite: bool = True, assume_a: str | None = None, transposed: bool = False) -> ndarray:  # fmt: skip
    """The x with ``a x = b``, as ``scipy.linalg.solve``.

    Parameters
    ----------
    a : array_like, shape (n, n)
    b : array_like, shape (n,) or (n, k)
    lower : bool
        The triangle of a symmetric `a` that is read.
    assume_a : {"gen", "sym", "her", "pos"}, optional
        What `a` is: general, symmetric, or symmetric and positive definite.
    transposed : bool
        Whether the equation is ``aᵀ x = b``.

    Raises
    ------
    LinAlgError
        If `a` is singular, no square matrix, or not positive definite where it was said to be.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.solve([[4.0, 2.0], [2.0, 2.0]], [6.0, 4.0], assume_a="pos")
    array([1., 1.])
    """
    if assume_a in _POSITIVE:
        return cho_solve(cho_factor(a, lower), b)
    if assume_a not in (*_GENERAL, *_SYMMETRIC):
        raise AttrError(f"solve: assume_a is 'gen', 'sym', 'her' or 'pos', got {assume_a!r}")
    a = as_array(a, "solve")
    a = of_triangle(a, lower) if assume_a in _SYMMETRIC else a
    return linalg.solve(xp.swapaxes(a, -1, -2) if transposed else a, b)


def pinv(a: Any, *, atol: float | None = None, rtol: float | None = None, check_finite: bool = True) -> ndarray:
    """The pseudo-inverse of each matrix, as ``scipy.linalg.pinv``; singular values up to `rtol` times the largest one
    count as 0."""
    if atol is not None:
        raise AttrError("pinv: atol is not supported; give rtol, relative to the largest singular value")
    return linalg.pinv(a, rtol=rtol)


def lstsq(a: Any, b: Any, cond: float | None = None, overwrite_a: bool = False, overwrite_b: bool = False,
          check_finite: bool = True) -> tuple[ndarray, ndarray, int, ndarray]:  # fmt: skip
    """The x that minimizes ``|a x - b|²``, as ``scipy.linalg.lstsq``: x, the sums of squared residuals, the rank of `a`
    and its singular values; those up to `cond` times the largest one count as 0."""
    return linalg.lstsq(a, b, cond)
