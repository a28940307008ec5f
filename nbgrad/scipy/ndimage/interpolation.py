"""Images between their elements: by the nearest one, linearly, or by cubic splines.

A cubic spline through the elements is a sum of B-splines, whose coefficients are the elements filtered forwards and
backwards with one pole (Unser, Aldroubi, Eden, *B-spline signal processing: part II*, IEEE Transactions on Signal
Processing 41 (1993) 834).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import np as xp
from ...errors import AttrError, ShapeError
from ...kernels.feedback import feedback
from ...np.arrays import ndarray, with_common_float
from ..arguments import values_of, whole
from .filters import bordered

__all__ = ["affine_transform", "map_coordinates", "shift", "zoom"]

_POLE = math.sqrt(3) - 2
_MEMORY = 30  # its power there is below 1e-17
#: By how many elements SciPy makes images longer before a spline goes through them.
_PADDED = 12
#: How coefficients go on beyond the ends.
_SPLINES = {"constant": "mirror", "mirror": "mirror", "wrap": "mirror", "grid-wrap": "grid-wrap", "nearest": "reflect",
            "reflect": "reflect", "grid-mirror": "reflect", "grid-constant": "mirror"}  # fmt: skip


def map_coordinates(input: Any, coordinates: Any, output: Any = None, order: int = 3, mode: str = "constant",
                    cval: float = 0.0, prefilter: bool = True) -> ndarray:  # fmt: skip
    """An image at other places, as ``scipy.ndimage.map_coordinates``.

    Parameters
    ----------
    input : array_like, of rank r
    coordinates : array_like, shape (r, ...)
        The places, in elements; they are differentiated, too.
    output : None
        Not supported.
    order : {3, 1, 0}
        Cubic splines, linear, or the nearest element.
    mode : {"constant", "nearest", "reflect", "mirror", "wrap", "grid-constant", "grid-mirror", "grid-wrap"}
        How the image goes on beyond its ends.
    cval : float
        The elements there, for "constant" and "grid-constant".
    prefilter : bool
        Whether the elements are values; else they are the coefficients of splines.

    Returns
    -------
    ndarray
        Of the shape of `coordinates` without its first axis.

    Examples
    --------
    >>> from nbgrad.scipy import ndimage
    >>> ndimage.map_coordinates([0.0, 10.0, 40.0], [[0.5, 1.5]], order=1)
    array([ 5., 25.])
    """
    name = "map_coordinates"
    (x,), (places,) = with_common_float(name, input), with_common_float(name, coordinates)
    dtype = x.dtype
    if output is not None:
        raise AttrError(f"{name}: output is not supported; assign the result, and convert it with astype")
    if order not in (0, 1, 3):
        raise AttrError(f"{name}: the orders are 0, 1 and 3, got {order!r}")
    if mode not in _SPLINES:
        raise AttrError(f"{name}: the modes are {', '.join(map(repr, _SPLINES))}, got {mode!r}")
    if places.ndim < 1 or places.shape[0] != x.ndim or not x.size or not x.ndim:
        raise ShapeError(f"{name}: coordinates of shape ({x.ndim}, ...) and elements are needed, got {places.shape}")
    at: list[Any] = [places[k] for k in range(x.ndim)]
    limits = x.shape
    outside = None
    if mode == "constant":
        outside = _any([(t < 0) | (t > n - 1) for t, n in zip(at, limits, strict=True)])
    elif mode == "wrap":  # of n - 1 elements, as the last one is the first one again
        at = [_around(t, n) for t, n in zip(at, limits, strict=True)]
    if order == 3 and prefilter:
        if mode in ("nearest", "grid-constant"):
            x = bordered(name, x, [(_PADDED, _PADDED)] * x.ndim, mode, cval)
            at = [t + _PADDED for t in at]
        x = _coefficients(x, _SPLINES[mode])
    if mode == "nearest":
        at = [xp.clip(t, -4, n + 3) for t, n in zip(at, x.shape, strict=True)]  # where nothing changes any more
    found = _weighted(x, at, order, mode, cval)
    return (found if outside is None else xp.where(outside, cval, found)).astype(dtype)


def _around(t: Any, n: int) -> Any:
    """Places from 0 to n - 1; from below 0 the last element is met first, from above the first one."""
    turn = max(n - 1, 1)
    below, above = turn * (xp.floor(-t / turn) + 1), turn * xp.floor(t / turn)
    return t + below * (t < 0) - above * (t > n - 1)


def _any(flags: Sequence[Any]) -> Any:
    found = flags[0]
    for flag in flags[1:]:
        found = found | flag
    return found


def _coefficients(x: ndarray, mode: str) -> ndarray:
    """Of the B-splines whose sum goes through the elements."""
    pole = np.array([-_POLE], x.dtype)
    for k in range(x.ndim):
        if x.shape[k] > 1:
            line = xp.moveaxis(x, k, -1)
            line = bordered("spline", line, [(0, 0)] * (x.ndim - 1) + [(_MEMORY, _MEMORY)], mode, 0.0)
            line = -_POLE * feedback(feedback(6 * line, xp.array(pole)), xp.array(pole), back=True)
            x = xp.moveaxis(line[..., _MEMORY : line.shape[-1] - _MEMORY], -1, k)
    return x


def _weighted(x: ndarray, at: list[Any], order: int, mode: str, cval: float) -> ndarray:
    """The sum of the coefficients around each place, with the weights of B-splines.

    The coefficients of a place, (order + 1) along each axis of the image, are on axes before those of the places.
    """
    rank, polynomials = x.ndim, _POLYNOMIALS[order].astype(x.dtype)
    steps = np.cumprod([1, *x.shape[:0:-1]])[::-1].tolist()
    element, weight, known = 0, 1.0, None
    for k, (t, n, step) in enumerate(zip(at, x.shape, steps, strict=True)):
        own = tuple(order + 1 if j == k else 1 for j in range(rank)) + (1,) * t.ndim
        whole = xp.floor(t + 0.5) if order == 0 else xp.floor(t)
        first = whole.detach().astype(np.int64) - (order == 3)
        place, there = _inside(first + np.arange(order + 1).reshape(own), n, mode)
        element = element + place * step
        rest, factor = t - whole, 0.0
        for c in polynomials[::-1]:
            factor = factor * rest + c.reshape(own)
        weight = weight * factor
        known = there if known is None or there is None else known & there
    values = xp.take(xp.ravel(x), element)
    values = values if known is None else xp.where(known, values, cval)
    return xp.sum(values * weight, tuple(range(rank)))


def _inside(place: Any, n: int, mode: str) -> tuple[Any, Any]:
    """The element that stands at a place which may be beyond the ends, and whether there is one."""
    if mode == "grid-constant":
        return xp.clip(place, 0, n - 1), (place >= 0) & (place < n)
    if mode == "nearest":
        return xp.clip(place, 0, n - 1), None
    kind = _SPLINES[mode]
    if n == 1:
        return place * 0, None
    if kind == "grid-wrap":
        return place % n, None
    period = 2 * n - 2 if kind == "mirror" else 2 * n
    place = place % period
    return xp.where(place < n, place, (period if kind == "mirror" else period - 1) - place), None


#: The B-splines around a place, a column each, as polynomials of its distance from the element below; the lowest power
#: is first.
_POLYNOMIALS = {
    0: np.array([[1.0]]),
    1: np.array([[1.0, 0.0], [-1.0, 1.0]]),
    3: np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6,
}


def _grid(shape: Sequence[int]) -> np.ndarray:
    return np.stack(np.meshgrid(*[np.arange(float(n)) for n in shape], indexing="ij")) if shape else np.zeros((0,))


def shift(input: Any, shift: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: float = 0.0,
          prefilter: bool = True) -> ndarray:  # fmt: skip
    """An image moved by a number of elements, which need not be whole, as ``scipy.ndimage.shift``.

    Parameters
    ----------
    input : array_like
    shift : float or array_like
        Along all axes, or along each; differentiated, too.
    output, order, mode, cval, prefilter
        As of :func:`map_coordinates`.
    """
    (x,), (by,) = with_common_float("shift", input), with_common_float("shift", shift)
    if by.ndim and by.shape != (x.ndim,):
        raise ShapeError(f"shift: one number, or one for each of {x.ndim} axes, is expected, got the shape {by.shape}")
    by = xp.reshape(by, (-1,) + (1,) * x.ndim)
    return map_coordinates(x, _grid(x.shape) - by, output, order, mode, cval, prefilter)


def zoom(input: Any, zoom: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: float = 0.0,
         prefilter: bool = True) -> ndarray:  # fmt: skip
    """An image with more or fewer elements, whose first and last ones stay, as ``scipy.ndimage.zoom``.

    Parameters
    ----------
    input : array_like
    zoom : float or sequence of float
        How many times as many, along all axes or along each; it has no derivative.
    output, order, mode, cval, prefilter
        As of :func:`map_coordinates`.
    """
    (x,) = with_common_float("zoom", input)
    factors = np.asarray(zoom, float)
    if factors.shape not in ((), (x.ndim,)) or not (factors >= 0).all():
        raise ShapeError(f"zoom: one factor, or one for each of {x.ndim} axes, not negative, is expected, got {zoom!r}")
    shape = [round(n * float(z)) for n, z in zip(x.shape, np.broadcast_to(factors, (x.ndim,)), strict=True)]
    ratios = [(n - 1) / (m - 1) if m > 1 else 1.0 for n, m in zip(x.shape, shape, strict=True)]
    places = _grid(shape) * np.reshape(ratios, (-1,) + (1,) * x.ndim)
    ends = np.reshape([n - 1.0 for n in x.shape], (-1,) + (1,) * x.ndim)
    return map_coordinates(x, np.minimum(places, ends), output, order, mode, cval, prefilter)


def affine_transform(input: Any, matrix: Any, offset: Any = 0.0, output_shape: Any = None, output: Any = None,
                     order: int = 3, mode: str = "constant", cval: float = 0.0,
                     prefilter: bool = True) -> ndarray:  # fmt: skip
    """An image at the places ``matrix @ o + offset`` for each element o of the result, as
    ``scipy.ndimage.affine_transform``.

    Parameters
    ----------
    input : array_like, of rank r
    matrix : array_like, shape (r, r), (r,), (r, r + 1) or (r + 1, r + 1)
        The matrix, its diagonal, or with `offset` as its last column; differentiated, too.
    offset : float or array_like, shape (r,)
        Differentiated, too.
    output_shape : tuple of int, optional
        That of the result; that of `input` by default.
    output, order, mode, cval, prefilter
        As of :func:`map_coordinates`.
    """
    (x,), (m,), (by,) = (with_common_float("affine_transform", v) for v in (input, matrix, offset))
    r = x.ndim
    if m.shape in ((r + 1, r + 1), (r, r + 1)):
        if m.shape[0] > r and (numbers := values_of(m)) is not None and numbers[r].tolist() != [0.0] * r + [1.0]:
            raise ValueError(f"affine_transform: the last row of a matrix of shape {m.shape} is {[0] * r + [1]}")
        m, by = m[:r, :r], m[:r, r]
    if m.shape not in ((r, r), (r,)):
        raise ShapeError(f"affine_transform: for rank {r} a matrix of shape ({r}, {r}) is expected, got {m.shape}")
    if by.shape not in ((), (r,)):
        raise ShapeError(f"affine_transform: for rank {r} an offset of shape ({r},) is expected, got {by.shape}")
    lengths = x.shape if output_shape is None else tuple(output_shape)
    shape = tuple([whole("affine_transform", n, "a length of output_shape", 0) for n in lengths])
    if len(shape) != r:
        raise ShapeError(f"affine_transform: output_shape has {r} lengths, got {shape}")
    grid = _grid(shape).reshape(r, -1)
    places = m[:, None] * grid if m.ndim == 1 else m @ grid
    places = xp.reshape(places + (by[:, None] if by.ndim else by), (r, *shape))
    return map_coordinates(x, places, output, order, mode, cval, prefilter)
