"""Convolutions and correlations of any rank: the sums of products of one array with the parts of another.

All are :func:`sliding_products`, one call of the kernels of networks' convolutions for each three axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import AttrError, ShapeError
from ..kernels.convolution import convolution
from .arrays import ndarray
from .manipulation import atleast_1d, reshape, together
from .selection import pad

__all__ = ["backwards", "convolve", "correlate", "part_of_convolution", "sliding_products"]


def sliding_products(x: ndarray, w: ndarray) -> ndarray:
    """The sums of products of `w` with each part of `x` of its shape, along the last axes.

    Parameters
    ----------
    x : ndarray, shape (..., *n)
        Of floats.
    w : ndarray, shape (*m)
        Of the same dtype; no axis is longer than that of `x`.

    Returns
    -------
    ndarray, shape (..., *(n - m + 1))
    """
    lines, rank = x.shape[: x.ndim - w.ndim], w.ndim
    if rank > 3:
        count = x.shape[len(lines)] - w.shape[0] + 1
        before = (slice(None),) * len(lines)
        parts = [sliding_products(x[(*before, slice(k, k + count))], w[k]) for k in range(w.shape[0])]
        return _total(parts)
    if not rank:
        return x * w
    data = reshape(x, (-1, 1, *x.shape[len(lines) :]) if x.size else (0, 1, *x.shape[len(lines) :]))
    ones = (1,) * rank
    found: Any = convolution(data, reshape(w, (1, 1, *w.shape)), stride=ones, dilate=ones, pad=(0,) * rank)
    return reshape(found, (*lines, *found.shape[2:]))


def part_of_convolution(x: ndarray, w: ndarray, first: Sequence[int], shape: Sequence[int]) -> ndarray:
    """The elements of the full convolution of two arrays of one rank and dtype, from the places `first` on.

    Parameters
    ----------
    x, w : ndarray
        Of one rank; `w` should be the smaller.
    first, shape : sequence of int
        Where along each axis the result begins in the full convolution, and how long it is.
    """
    sizes = list(zip(x.shape, w.shape, first, shape, strict=True))
    if x.dtype.kind == "f" and (w._kind.traced or np.isfinite(w._view()).all()):
        # Place i of the full convolution is the sum of w[k]*x[i - k].
        widths = [(m - 1 - start, start + length - n) for n, m, start, length in sizes]
        part = x[tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), (n, *_) in zip(widths, sizes, strict=True))]
        padded = pad(part, [(max(0, a), max(0, b)) for a, b in widths]) if any(map(max, widths)) else part
        return sliding_products(padded, backwards(w))
    # What is not finite must not meet the zeros beyond the ends; integers stay integers.
    parts = []
    for at in np.ndindex(*w.shape):
        cuts, widths = [], []
        for k, (n, _, start, length) in zip(at, sizes, strict=True):
            low, high = max(0, start - k), max(0, min(n, start + length - k))
            cuts.append(slice(low, max(low, high)))
            before = min(length, max(0, low + k - start))
            widths.append((before, length - before - max(0, high - low)))
        parts.append(pad(x[tuple(cuts)] * w[at], widths))
    return _total(parts)


def _total(parts: list[ndarray]) -> ndarray:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def backwards(x: ndarray) -> ndarray:
    """The elements in reverse order along all axes."""
    return x[(slice(None, None, -1),) * x.ndim]


def _vectors(name: str, a: Any, v: Any) -> tuple[ndarray, ndarray]:
    x, w = together(name, [atleast_1d(a), atleast_1d(v)])
    if x.ndim > 1 or w.ndim > 1:
        raise ShapeError(f"{name}: vectors are expected, got the shapes {x.shape} and {w.shape}")
    if not (x.size and w.size):
        raise ShapeError(f"{name}: vectors must not be empty")
    return x, w


def convolve(a, v, mode="full") -> ndarray:
    """Discrete convolution of two vectors."""
    x, w = _vectors("convolve", a, v)
    x, w = (w, x) if x.size < w.size else (x, w)
    n, m = x.size, w.size
    places = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}
    if mode not in places:
        raise AttrError(f"convolve: the modes are 'full', 'same' and 'valid', got {mode!r}")
    first, length = places[mode]
    return part_of_convolution(x, w, [first], [length])


def correlate(a, v, mode="valid") -> ndarray:
    """Cross-correlation of two vectors."""
    x, w = _vectors("correlate", a, v)
    if x.size < w.size and mode != "full":
        return backwards(correlate(w, x, mode))
    return convolve(x, backwards(w), mode)
