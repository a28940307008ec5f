"""Polynomials by their coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ShapeError
from .arrays import as_array, ndarray
from .convolution import convolve
from .creation import from_numpy_values, vander, zeros, zeros_like
from .linalg import inv, lstsq, pinv
from .manipulation import concatenate, ravel, reshape, together
from .products import matmul

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval"]


def polyval(p, x) -> ndarray:
    """The value of a polynomial, by Horner's rule."""
    coefficients, at = as_array(p, "polyval"), as_array(x, "polyval")
    found = zeros_like(at) + 0 * coefficients[0] if coefficients.size else zeros_like(at)
    for k in range(coefficients.size):
        found = found * at + coefficients[k]
    return found


def _padded(p: ndarray, n: int) -> ndarray:
    return concatenate([from_numpy_values(np.zeros(n - p.size, p.dtype)), p]) if n > p.size else p


def polyadd(a1, a2) -> ndarray:
    """The sum of two polynomials."""
    a, b = together("polyadd", [ravel(a1), ravel(a2)])
    n = max(a.size, b.size)
    return _padded(a, n) + _padded(b, n)


def polysub(a1, a2) -> ndarray:
    """The difference of two polynomials."""
    a, b = together("polysub", [ravel(a1), ravel(a2)])
    n = max(a.size, b.size)
    return _padded(a, n) - _padded(b, n)


def polymul(a1, a2) -> ndarray:
    """The product of two polynomials."""
    return convolve(a1, a2)


def polyder(p, m=1) -> ndarray:
    """The derivative of a polynomial, `m` times."""
    found = ravel(p)
    for _ in range(m):
        found = found[:-1] * np.arange(found.size - 1, 0, -1)
    return found


def polyint(p, m=1, k=0.0) -> ndarray:
    """The antiderivative of a polynomial, `m` times, with the constant `k`."""
    found = ravel(p)
    for _ in range(m):
        found = concatenate([found / np.arange(found.size, 0, -1), ravel(as_array(k, "polyint") * 1.0)])
    return found


def polydiv(u, v) -> tuple[ndarray, ndarray]:
    """The quotient and the remainder of two polynomials."""
    a, b = together("polydiv", [ravel(u) * 1.0, ravel(v) * 1.0])
    n = a.size - b.size
    rest, found = a, []
    for k in range(n + 1):
        factor = rest[k] / b[0]
        found.append(factor)
        rest = concatenate([rest[:k], rest[k : k + b.size] - factor * b, rest[k + b.size :]])
    first = min(n + 1, rest.size - 1) if n >= 0 else 0
    while first < rest.size - 1 and abs(float(rest[first].asnumpy())) <= 1e-14:  # NumPy's bound of zero
        first += 1
    return concatenate([reshape(q, (1,)) for q in found]) if found else zeros(1), rest[first:]


def poly(seq_of_zeros) -> ndarray:
    """The coefficients of the polynomial with these roots; that of the highest power is 1."""
    x = as_array(seq_of_zeros, "poly") * 1.0
    if x.ndim > 1:
        raise ShapeError(f"poly: a vector of roots is expected, got the shape {x.shape}; use np.linalg.eigvalsh(a)")
    found = from_numpy_values(np.ones(1))
    for k in range(x.size):
        found = concatenate([found, zeros(1)]) - concatenate([zeros(1), found * x[k]])
    return found


def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False) -> Any:
    """The coefficients of the polynomial of degree `deg` that is closest to points, in the sense of least squares.

    Parameters
    ----------
    x, y : array_like
        Vectors of the same length; `y` may be a matrix, whose columns are fitted each.
    deg : int
    rcond : float, optional
        Singular values below it, relative to the largest one, are taken for zero.
    full : bool
        Return the sums of squares that are left, the rank, the singular values and `rcond`, too.
    w : array_like, optional
        The weight of each residual, not of its square.
    cov : bool or "unscaled"
        Return the covariance matrix of the coefficients, too.

    Returns
    -------
    ndarray, or a tuple
        Coefficients, the highest power first. All are differentiated by x, y and w.
    """
    at, values = as_array(x, "polyfit") * 1.0, as_array(y, "polyfit") * 1.0
    if at.ndim != 1 or not at.size or values.ndim not in (1, 2) or values.shape[0] != at.size:
        raise ShapeError(f"polyfit: vectors of one length are expected, got the shapes {at.shape} and {values.shape}")
    if deg < 0:
        raise ValueError(f"polyfit: deg must not be negative, got {deg}")
    rcond = at.size * np.finfo(at.dtype).eps if rcond is None else rcond
    left = vander(at, deg + 1)
    if w is not None:
        weights = as_array(w, "polyfit") * 1.0
        if weights.shape != at.shape:
            raise ShapeError(f"polyfit: w must have the shape {at.shape}, got {weights.shape}")
        left = left * weights[:, None]
        values = values * (weights if values.ndim == 1 else weights[:, None])
    scale = (left * left).sum(0) ** 0.5
    columns = scale if values.ndim == 1 else scale[:, None]
    if full:
        found, rest, rank, singular = lstsq(left / scale, values, rcond)
        return found / columns, rest, rank, singular, rcond
    found = matmul(pinv(left / scale, rcond), values) / columns
    if not cov:
        return found
    base = inv(matmul(left.T, left))
    if cov == "unscaled":
        factor: Any = 1.0
    elif at.size <= deg + 1:
        raise ValueError("polyfit: cov=True needs more points than coefficients")
    else:
        factor = ((values - matmul(left, found)) ** 2).sum(0) / (at.size - deg - 1)
    return found, base * factor if values.ndim == 1 else base[:, :, None] * factor
