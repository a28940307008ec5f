"""Smoothing by polynomials, and what is left when lines are taken away, with SciPy's arguments."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.signal

from ... import np as xp
from ...errors import AttrError, ShapeError
from ...np.arrays import ndarray, with_common_float
from ..arguments import axis_of, whole
from ..ndimage.filters import convolve1d

__all__ = ["detrend", "savgol_filter"]


def savgol_filter(x: Any, window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, axis: int = -1,
                  mode: str = "interp", cval: float = 0.0) -> ndarray:  # fmt: skip
    """The values, or derivatives, of the polynomials closest to each part of a signal, as
    ``scipy.signal.savgol_filter``.

    Parameters
    ----------
    x : array_like
    window_length : int
        How many elements a polynomial is fitted to.
    polyorder : int
        Less than `window_length`.
    deriv : int
        Which derivative of the polynomial is taken.
    delta : float
        The distance of neighbours.
    axis : int
    mode : {"interp", "mirror", "nearest", "constant", "wrap"}
        How the ends are treated: by the polynomial of the outermost elements, or by more elements.
    cval : float
        The elements beyond the ends, for "constant".
    """
    name = "savgol_filter"
    (data,) = with_common_float(name, x)
    window_length, deriv = whole(name, window_length, "window_length", 1), whole(name, deriv, "deriv", 0)
    polyorder, axis = whole(name, polyorder, "polyorder", 0), axis_of(name, axis, data.ndim)
    if np.ndim(delta):
        raise ShapeError(f"{name}: delta is a number, got the shape {np.shape(delta)}")
    coefficients = scipy.signal.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=float(delta))
    coefficients = coefficients.astype(data.dtype)
    if mode != "interp":
        return convolve1d(data, coefficients, axis, mode=mode, cval=cval)
    data = xp.moveaxis(data, axis, -1)
    n, half = data.shape[-1], window_length // 2
    if n < window_length:
        raise ShapeError(f"savgol_filter: for mode 'interp' {window_length} elements are needed, got {n}")

    def end(places: range) -> np.ndarray:
        rows = [scipy.signal.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=float(delta), pos=k, use="dot")
                for k in places]  # fmt: skip
        return np.array(rows, data.dtype).reshape(len(rows), window_length).T

    middle = convolve1d(data, coefficients, mode="constant")[..., half : n - half]
    first = data[..., :window_length] @ end(range(half))
    last = data[..., n - window_length :] @ end(range(window_length - half, window_length))
    return xp.moveaxis(xp.concatenate([first, middle, last], -1), -1, axis)


def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> ndarray:
    """A signal less its mean, or less the lines closest to its parts, as ``scipy.signal.detrend``.

    Parameters
    ----------
    data : array_like
    axis : int
    type : {"linear", "constant"}
    bp : int or sequence of int
        Where a new line begins.
    """
    (x,) = with_common_float("detrend", data)
    axis = axis_of("detrend", axis, x.ndim)
    if type in ("constant", "c"):
        return x - xp.mean(x, axis, keepdims=True)
    if type not in ("linear", "l"):
        raise AttrError(f"detrend: the types are 'linear' and 'constant', got {type!r}")
    x = xp.moveaxis(x, axis, -1)
    n = x.shape[-1]
    ends = sorted({0, n, *[whole("detrend", k, "a break") for k in np.atleast_1d(bp).tolist()]})
    if ends[-1] > n or ends[0] < 0:
        raise ShapeError(f"detrend: breaks are between 0 and {n}, got {bp}")
    parts = []
    for first, last in pairwise(ends):
        line = np.stack([np.arange(1, last - first + 1) / (last - first), np.ones(last - first)], -1)
        q = np.linalg.qr(line)[0].astype(x.dtype)
        part = x[..., first:last]
        parts.append(part - (part @ q) @ q.T)
    return xp.moveaxis(xp.concatenate(parts, -1), -1, axis)
