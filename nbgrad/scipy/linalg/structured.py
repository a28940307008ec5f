"""Matrices that are made of vectors and of other matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import np as xp
from ...errors import ShapeError
from ...np.arrays import as_array, ndarray

__all__ = ["block_diag", "circulant", "hankel", "toeplitz"]


def block_diag(*arrs: Any) -> ndarray:
    """The matrix with these matrices on its diagonal, and zeros elsewhere, as ``scipy.linalg.block_diag``.

    Parameters
    ----------
    *arrs : array_like of at most two axes
        Vectors are rows, numbers matrices of one element.

    Raises
    ------
    ShapeError
        If an array has more axes.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.block_diag([[1.0, 2.0]], 3.0)
    array([[1., 2., 0.],
           [0., 0., 3.]])
    """
    blocks = [xp.atleast_2d(as_array(a, "block_diag")) for a in arrs] or [xp.zeros((1, 0))]
    if wrong := [a.shape for a in blocks if a.ndim > 2]:
        raise ShapeError(f"block_diag: matrices, vectors and numbers are expected, got an array of shape {wrong[0]}")
    width, dtype = sum(a.shape[1] for a in blocks), np.result_type(*(a.dtype for a in blocks))
    rows, left = [], 0
    for a in blocks:
        rows.append(xp.pad(a.astype(dtype), ((0, 0), (left, width - left - a.shape[1]))))
        left += a.shape[1]
    return xp.concatenate(rows)


def _vector(x: Any, name: str) -> ndarray:
    return as_array(x, name).reshape(-1)


def toeplitz(c: Any, r: Any = None) -> ndarray:
    """The matrix with constant diagonals whose first column is `c`, and whose first row is `r` from its second
    element.

    Parameters
    ----------
    c, r : array_like
        Vectors; `r` is `c`, if it is not given.

    Returns
    -------
    ndarray, shape (len(c), len(r))

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.toeplitz([1.0, 2.0, 3.0], [1.0, 4.0])
    array([[1., 4.],
           [2., 1.],
           [3., 2.]])
    """
    c = _vector(c, "toeplitz")
    r = c if r is None else _vector(r, "toeplitz")
    values = xp.concatenate([c[::-1], r[1:]])
    return values[np.arange(c.size)[::-1][:, None] + np.arange(r.size)]


def hankel(c: Any, r: Any = None) -> ndarray:
    """The matrix with constant antidiagonals whose first column is `c`, and whose last row is `r` from its second
    element; zeros, if `r` is not given."""
    c = _vector(c, "hankel")
    r = xp.zeros_like(c) if r is None else _vector(r, "hankel")
    values = xp.concatenate([c, r[1:]])
    return values[np.arange(c.size)[:, None] + np.arange(r.size)]


def circulant(c: Any) -> ndarray:
    """The matrix whose columns are the vector `c`, moved down by one in each column, as ``scipy.linalg.circulant``."""
    c = _vector(c, "circulant")
    n = c.size
    return c[(np.arange(n)[:, None] - np.arange(n)) % n]
