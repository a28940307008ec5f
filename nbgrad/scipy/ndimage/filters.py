"""Linear filters of images: sums of the elements around each one, with weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import np as xp
from ...errors import AttrError, ShapeError
from ...np.arrays import as_array, ndarray, with_common_float
from ...np.convolution import backwards, sliding_products
from ..arguments import axes_of, axis_of, whole

__all__ = ["bordered", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
           "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "per_axis", "prewitt", "sobel",
           "uniform_filter", "uniform_filter1d"]  # fmt: skip

#: What an image goes on with beyond its ends, and how np.pad calls it.
_MODES = {"reflect": "symmetric", "grid-mirror": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap",
          "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant"}  # fmt: skip


def bordered(name: str, x: ndarray, widths: Sequence[tuple[int, int]], mode: Any, cval: float) -> ndarray:
    """An image with a border; one mode, or one for each axis."""
    modes = per_axis(name, mode, x.ndim, "mode")
    for one in modes:
        if one not in _MODES:
            raise AttrError(f"{name}: the modes are {', '.join(map(repr, _MODES))}, got {one!r}")
    for k, (one, width) in enumerate(zip(modes, widths, strict=True)):
        if any(width):
            if not x.shape[k] and _MODES[one] != "constant":
                raise ShapeError(f"{name}: an image without elements has no border of mode {one!r}")
            value = {"constant_values": cval} if _MODES[one] == "constant" else {}
            x = xp.pad(x, [width if j == k else (0, 0) for j in range(x.ndim)], _MODES[one], **value)
    return x


def per_axis(name: str, value: Any, rank: int, what: str) -> list[Any]:
    """A parameter for each axis."""
    if isinstance(value, str) or (not isinstance(value, list | tuple) and np.ndim(value) == 0):
        return [value] * rank
    if len(value) != rank:
        raise ShapeError(f"{name}: {what} has one entry, or one for each of {rank} axes, got {len(value)}")
    return list(value)


def _no_output(name: str, output: Any) -> None:
    if output is not None:
        raise AttrError(f"{name}: output is not supported; assign the result, and convert it with astype")


def _borders(name: str, shape: Sequence[int], origin: Any) -> list[tuple[int, int]]:
    """How many elements the weights reach beyond the ends, along each axis."""
    widths = []
    for m, given in zip(shape, per_axis(name, origin, len(shape), "origin"), strict=True):
        shift = whole(name, given, "the origin")
        before = m // 2 + shift
        if not 0 <= before < max(m, 1):
            raise AttrError(
                f"{name}: the origin moves weights of length {m} by {-(m // 2)} to {(m - 1) // 2}, got {shift}"
            )
        widths.append((before, m - 1 - before))
    return widths


def correlate(input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
              origin: Any = 0) -> ndarray:  # fmt: skip
    """Sums of the elements around each one with weights, as ``scipy.ndimage.correlate``.

    Parameters
    ----------
    input : array_like
    weights : array_like
        Of the same rank.
    output : None
        Not supported.
    mode : str or sequence of str
        How the image goes on beyond its ends: {"reflect", "mirror", "nearest", "wrap", "constant"}.
    cval : float
        The elements there, for "constant".
    origin : int or sequence of int
        How far the middle of the weights is from the element.

    Returns
    -------
    ndarray
        Of the shape of `input`, and of a dtype of floats.

    Examples
    --------
    >>> from nbgrad.scipy import ndimage
    >>> ndimage.correlate([1.0, 2.0, 4.0], [0.0, 0.0, 1.0])
    array([2., 4., 4.])
    """
    _no_output("correlate", output)
    x, w = _image_and_weights("correlate", input, weights)
    return _correlated("correlate", x, w, mode, cval, origin)


def _image_and_weights(name: str, input: Any, weights: Any) -> tuple[ndarray, ndarray]:
    """As arrays of the dtype of floats that the image has."""
    (x,), (w,) = with_common_float(name, input), with_common_float(name, weights)
    return x, w.astype(x.dtype)


def _correlated(name: str, x: ndarray, w: ndarray, mode: Any, cval: float, origin: Any) -> ndarray:
    if x.ndim != w.ndim or not w.size:
        raise ShapeError(f"{name}: weights of the rank of the image are expected, got {w.shape} for {x.shape}")
    return sliding_products(bordered(name, x, _borders(name, w.shape, origin), mode, cval), w)


def convolve(input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
             origin: Any = 0) -> ndarray:  # fmt: skip
    """The same with the weights in reverse order, as ``scipy.ndimage.convolve``; arguments as of :func:`correlate`."""
    _no_output("convolve", output)
    x, w = _image_and_weights("convolve", input, weights)
    return _correlated("convolve", x, backwards(w), mode, cval, _mirrored("convolve", origin, w.shape))


def _mirrored(name: str, origin: Any, shape: Sequence[int]) -> list[int]:
    """The origin for weights in reverse order, whose middle is another element where there is none in the middle."""
    return [-k - (m % 2 == 0) for k, m in zip(per_axis(name, origin, len(shape), "origin"), shape, strict=True)]


def correlate1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
                cval: float = 0.0, origin: int = 0) -> ndarray:  # fmt: skip
    """Sums of the elements around each one along an axis, as ``scipy.ndimage.correlate1d``.

    Parameters
    ----------
    input : array_like
    weights : array_like, shape (m,)
    axis : int
    output, mode, cval, origin
        As of :func:`correlate`.
    """
    _no_output("correlate1d", output)
    x, w = _image_and_weights("correlate1d", input, weights)
    return _along("correlate1d", x, w, axis, mode, cval, origin)


def convolve1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
               cval: float = 0.0, origin: int = 0) -> ndarray:  # fmt: skip
    """The same with the weights in reverse order, as ``scipy.ndimage.convolve1d``."""
    _no_output("convolve1d", output)
    x, w = _image_and_weights("convolve1d", input, weights)
    return _along("convolve1d", x, backwards(w), axis, mode, cval, _mirrored("convolve1d", origin, w.shape)[0])


def _along(name: str, x: ndarray, w: ndarray, axis: int, mode: Any, cval: float, origin: int) -> ndarray:
    if w.ndim != 1 or not w.size or not x.ndim:
        raise ShapeError(f"{name}: a vector of weights and an image are expected, got {w.shape} and {x.shape}")
    k = axis_of(name, axis, x.ndim)
    widths = [(0, 0)] * x.ndim
    (widths[k],) = _borders(name, w.shape, origin)
    x = bordered(name, x, widths, mode, cval)
    after = x.ndim - 1 - k
    if after <= 2:  # the axes after it go along, with weights of length 1
        return sliding_products(x, xp.reshape(w, (-1, *(1,) * after)))
    return xp.moveaxis(sliding_products(xp.moveaxis(x, k, -1), w), -1, k)


def gaussian_filter1d(input: Any, sigma: Any, axis: int = -1, order: int = 0, output: Any = None,
                      mode: str = "reflect", cval: float = 0.0, truncate: float = 4.0, *,
                      radius: int | None = None) -> ndarray:  # fmt: skip
    """An image smoothed by a Gaussian along an axis, or a derivative of it, as ``scipy.ndimage.gaussian_filter1d``.

    Parameters
    ----------
    input : array_like
    sigma : float or 0-d array
        The standard deviation, in elements; it is differentiated, too.
    axis : int
    order : int
        Which derivative of the Gaussian is taken.
    output, mode, cval
        As of :func:`correlate`.
    truncate : float
        How many standard deviations the weights reach.
    radius : int, optional
        How many elements they reach, instead.

    Examples
    --------
    >>> from nbgrad.scipy import ndimage
    >>> ndimage.gaussian_filter1d([0.0, 1.0, 0.0], 0.5)
    array([0.10671464, 0.78657073, 0.10671464])
    """
    _no_output("gaussian_filter1d", output)
    (x,) = with_common_float("gaussian_filter1d", input)
    weights = _gaussian("gaussian_filter1d", sigma, order, truncate, radius)
    return _along("gaussian_filter1d", x, weights.astype(x.dtype), axis, mode, cval, 0)


def _gaussian(name: str, sigma: Any, order: int, truncate: float, radius: int | None) -> ndarray:
    """Weights of correlations, of float64."""
    order = whole(name, order, "the order of a derivative", 0)
    if radius is not None:
        radius = whole(name, radius, "the radius", 0)
    else:
        if isinstance(sigma, ndarray) and sigma._kind.traced:
            raise AttrError(f"{name}: a radius is needed where sigma is an argument of a compiled function")
        size = float(sigma.detach() if isinstance(sigma, ndarray) else sigma)
        if not size >= 0:
            raise AttrError(f"{name}: sigma is not negative, got {size}")
        radius = int(truncate * size + 0.5)
    width = as_array(sigma, name).astype(float)
    places = np.arange(-radius, radius + 1.0)
    heights = xp.exp(-0.5 * places**2 / width**2)
    weights = heights / xp.sum(heights)
    polynomial: list[Any] = [1.0]  # the derivative of p*exp(-x²/(2s²)) is (p' - x*p/s²) times it
    for _ in range(order):
        slope = [k * c for k, c in enumerate(polynomial)][1:] + [0.0, 0.0]
        polynomial = [a - b / width**2 for a, b in zip(slope, [0.0, *polynomial], strict=True)]
    factor: Any = sum((c * places**k for k, c in enumerate(polynomial)), 0.0)
    return backwards(weights * factor)


def gaussian_filter(input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect",
                    cval: float = 0.0, truncate: float = 4.0, *, radius: Any = None,
                    axes: Any = None) -> ndarray:  # fmt: skip
    """An image smoothed by a Gaussian along several axes, as ``scipy.ndimage.gaussian_filter``.

    Parameters
    ----------
    input : array_like
    sigma : float, or sequence or array of floats
        The standard deviation along all axes, or along each; differentiated, too.
    order : int or sequence of int
    axes : int or sequence of int, optional
        All by default.
    output, mode, cval, truncate, radius
        As of :func:`gaussian_filter1d`.
    """
    name = "gaussian_filter"
    _no_output(name, output)
    (x,) = with_common_float(name, input)
    along = axes_of(name, axes, x.ndim)
    many = [per_axis(name, v, len(along), what) for v, what in
            ((sigma, "sigma"), (order, "order"), (mode, "mode"), (radius, "radius"))]  # fmt: skip
    for k, width, which, how, reach in zip(along, *many, strict=True):
        if isinstance(width, ndarray) or width > 1e-15:
            x = gaussian_filter1d(x, width, k, which, None, how, cval, truncate, radius=reach)
    return x


def uniform_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
                     cval: float = 0.0, origin: int = 0) -> ndarray:  # fmt: skip
    """The mean of `size` elements around each one along an axis, as ``scipy.ndimage.uniform_filter1d``."""
    size = whole("uniform_filter1d", size, "the size", 1)
    return correlate1d(input, np.full(size, 1 / size), axis, output, mode, cval, origin)


def uniform_filter(input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
                   origin: Any = 0, *, axes: Any = None) -> ndarray:  # fmt: skip
    """The mean of the elements around each one, as ``scipy.ndimage.uniform_filter``.

    Parameters
    ----------
    input : array_like
    size : int or sequence of int
        How many elements along each axis.
    axes : int or sequence of int, optional
        All by default.
    output, mode, cval, origin
        As of :func:`correlate`.
    """
    (x,) = with_common_float("uniform_filter", input)
    along = axes_of("uniform_filter", axes, x.ndim)
    many = [per_axis("uniform_filter", v, len(along), what) for v, what in
            ((size, "size"), (mode, "mode"), (origin, "origin"))]  # fmt: skip
    for k, one, how, place in zip(along, *many, strict=True):
        x = uniform_filter1d(x, one, k, output, how, cval, place)
    return x


def _slopes(name: str, weights: list[int], input: Any, axis: int, output: Any, mode: Any, cval: float) -> ndarray:
    _no_output(name, output)
    (x,) = with_common_float(name, input)
    modes = per_axis(name, mode, x.ndim, "mode")
    k = axis_of(name, axis, x.ndim)
    found = correlate1d(x, [-1, 0, 1], k, None, modes[k], cval)
    for other in range(x.ndim):
        if other != k:
            found = correlate1d(found, weights, other, None, modes[other], cval)
    return found


def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0) -> ndarray:
    """Sobel's slope along an axis, as ``scipy.ndimage.sobel``; arguments as of :func:`correlate`."""
    return _slopes("sobel", [1, 2, 1], input, axis, output, mode, cval)


def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: float = 0.0) -> ndarray:
    """Prewitt's slope along an axis, as ``scipy.ndimage.prewitt``; arguments as of :func:`correlate`."""
    return _slopes("prewitt", [1, 1, 1], input, axis, output, mode, cval)


def _total(name: str, input: Any, mode: Any, part: Callable[[ndarray, int, str], ndarray]) -> ndarray:
    """The sum of a filter along each axis; of several modes, each is that of the filter of one axis."""
    (x,) = with_common_float(name, input)
    found = xp.zeros_like(x)
    for k, one in enumerate(per_axis(name, mode, x.ndim, "mode")):
        found = found + part(x, k, one)
    return found


def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0) -> ndarray:
    """The sum of second differences along all axes, as ``scipy.ndimage.laplace``; arguments as of :func:`correlate`."""
    _no_output("laplace", output)
    return _total("laplace", input, mode, lambda x, k, one: correlate1d(x, [1, -2, 1], k, None, one, cval))


def gaussian_laplace(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
                     **keywords: Any) -> ndarray:  # fmt: skip
    """The sum of second derivatives of the smoothed image, as ``scipy.ndimage.gaussian_laplace``; arguments as of
    :func:`gaussian_filter`."""
    _no_output("gaussian_laplace", output)
    return _total("gaussian_laplace", input, mode, lambda x, k, one: gaussian_filter(
        x, sigma, [2 * (j == k) for j in range(x.ndim)], None, one, cval, **keywords
    ))  # fmt: skip


def gaussian_gradient_magnitude(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: float = 0.0,
                                **keywords: Any) -> ndarray:  # fmt: skip
    """The length of the gradient of the smoothed image, as ``scipy.ndimage.gaussian_gradient_magnitude``; arguments as
    of :func:`gaussian_filter`. Its derivative where it is 0 is 0."""
    _no_output("gaussian_gradient_magnitude", output)
    squares = _total("gaussian_gradient_magnitude", input, mode, lambda x, k, one: gaussian_filter(
        x, sigma, [int(j == k) for j in range(x.ndim)], None, one, cval, **keywords
    ) ** 2)  # fmt: skip
    return xp.where(squares > 0, xp.sqrt(xp.where(squares > 0, squares, 1.0)), 0.0)
