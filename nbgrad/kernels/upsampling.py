"""Larger images, and normalization across neighbouring channels: compositions of other operators.

``UpSampling`` repeats elements, or is a transposed convolution with one filter per channel. ``LRN`` (Krizhevsky,
Sutskever and Hinton 2012, section 3.3) divides by a power of the sum of squares over a window of n channels::

    y_c = x_c / (k + alpha/n Σ_(|d - c| <= n/2) x_d²)^beta
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray
from ..errors import AttrError, DTypeError, ShapeError
from ..operators.cast import unify
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import composite
from .binary import add, multiply, power
from .convolution import Deconvolution
from .join import concat
from .layout import repeat
from .slices import embed, slice_axis
from .unary import identity, square

__all__ = ["LRN", "UpSampling"]


def _larger(x: np.ndarray, scale: int) -> np.ndarray:
    return x.repeat(scale, 2).repeat(scale, 3)


def _repeated(x: NDArray, scale: int) -> NDArray:
    return identity(x) if scale == 1 else repeat(repeat(x, scale, axis=2), scale, axis=3)


def _numpy_up(*images: np.ndarray, scale, multi_input_mode="concat", **more) -> np.ndarray:
    size = images[0].shape[2] * scale
    parts = [_larger(x, size // x.shape[2]) for x in images]
    return np.concatenate(parts, 1) if multi_input_mode == "concat" else sum(parts[1:], parts[0])


@composite("UpSampling", method=False, samples=sample_table(
    _numpy_up,
    [(1, 2, 2, 1), {"scale": 2, "sample_type": "nearest"}],
    [(1, 1, 2, 2), (1, 2, 1, 1), {"scale": 2, "sample_type": "nearest", "num_args": 2}],
    [(1, 1, 2, 2), (1, 1, 1, 1), {"scale": 1, "sample_type": "nearest", "multi_input_mode": "sum"}], ulp=1,
), gradient="sums of g over the repetitions; for ``'bilinear'`` as for ``Deconvolution``")  # fmt: skip
def UpSampling(
    *data, scale=None, sample_type=None, num_args=None, num_filter=0, multi_input_mode="concat", workspace=512
):
    """Images that are `scale` times as large.

    Parameters
    ----------
    *data : NDArray
        For ``'nearest'``, one or more stacks of images (n, c, h, w), each enlarged to `scale` times the first one's
        size. For ``'bilinear'`` images and the weight of a transposed convolution, shape (c, 1, k, k) with
        ``k = 2*scale - scale % 2``; it interpolates if the weight is the product of two tents.
    scale : int
    sample_type : {'nearest', 'bilinear'}
    num_args : int, optional
        The number of arrays; checked if given.
    num_filter : int
        For ``'bilinear'``: the number of channels; checked if given.
    multi_input_mode : {'concat', 'sum'}
        What becomes of several stacks: channels one after the other, or added.
    workspace
        Accepted for MXNet's sake.

    Returns
    -------
    NDArray
        Shape (n, c, h*scale, w*scale).

    Raises
    ------
    AttrError, ShapeError
        For other attributes, or shapes that do not fit.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.UpSampling(nd.array([[[[1, 2]]]]), scale=2, sample_type="nearest").tolist()
    [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """
    op = "UpSampling"
    images = [as_array(x, op, f"{k}") for k, x in enumerate(data)]
    if not images or (num_args is not None and num_args != len(images)):
        raise AttrError(f"{op}: num_args is {num_args}, but {len(images)} array(s) are given")
    if isinstance(scale, bool) or not isinstance(scale, int | np.integer) or scale < 1:
        raise AttrError(f"{op}: scale must be an integer of at least 1, got {scale!r}")
    if any(x.ndim != 4 for x in images):
        raise ShapeError(f"{op}: arrays must have 4 axes, got shapes {', '.join(str(x.shape) for x in images)}")
    if sample_type == "bilinear":
        return _bilinear(images, int(scale), num_filter)
    if sample_type != "nearest":
        raise AttrError(f"{op}: sample_type must be 'nearest' or 'bilinear', got {sample_type!r}")
    if multi_input_mode not in ("concat", "sum"):
        raise AttrError(f"{op}: multi_input_mode must be 'concat' or 'sum', got {multi_input_mode!r}")
    height, width = (int(scale) * n for n in images[0].shape[2:])
    parts = []
    for x in unify(images, op):
        times = height // max(x.shape[2], 1)
        if (x.shape[2] * times, x.shape[3] * times) != (height, width):
            raise ShapeError(f"{op}: images of shape {x.shape} do not enlarge to {height} x {width} by a whole number")
        parts.append(_repeated(x, times))
    if len(parts) == 1:
        return parts[0]
    if multi_input_mode == "concat":
        return concat(*parts, dim=1)
    if any(x.shape != parts[0].shape for x in parts):
        raise ShapeError(f"{op}: stacks to be added must have equally many images and channels")
    total = parts[0]
    for x in parts[1:]:
        total = add(total, x)
    return total


def _bilinear(images: list[NDArray], scale: int, num_filter) -> NDArray:
    op = "UpSampling"
    if len(images) != 2:
        raise AttrError(f"{op}: 'bilinear' takes images and a weight, got {len(images)} array(s)")
    x, weight = images
    channels, taps = x.shape[1], 2 * scale - scale % 2
    if num_filter not in (0, None, channels):
        raise AttrError(f"{op}: num_filter must be the number of channels, {channels}, got {num_filter!r}")
    if weight.shape != (channels, 1, taps, taps):
        raise ShapeError(f"{op}: weight must have shape {(channels, 1, taps, taps)}, got {weight.shape}")
    pad = scale // 2
    return Deconvolution(
        x,
        weight,
        kernel=(taps, taps),
        stride=(scale, scale),
        pad=(pad, pad),
        num_filter=channels,
        num_group=channels,
        no_bias=True,
    )


def _numpy_lrn(x: np.ndarray, nsize, alpha=1e-4, beta=0.75, knorm=2.0) -> np.ndarray:
    half = nsize // 2
    padded = np.pad(x * x, ((0, 0), (half, half), *((0, 0),) * (x.ndim - 2)))
    total = sum(padded[:, k : k + x.shape[1]] for k in range(2 * half + 1))
    return x * (knorm + alpha / nsize * total) ** -beta


@composite("LRN", method=False, samples=sample_table(
    _numpy_lrn,
    [(2, 4, 1, 2), {"nsize": 3, "alpha": 0.5}], [(1, 2, 2, 2), {"nsize": 5, "alpha": 1.0, "beta": 0.5, "knorm": 1.0}],
    [(1, 3, 1, 1), {"nsize": 1, "alpha": 0.5}], ulp=4, ints=False,
), gradient="``g*q^-beta - data*sum(2*alpha*beta/nsize * g*data*q^(-beta - 1))``, q being the bracket")  # fmt: skip
def LRN(data, alpha=1e-4, beta=0.75, knorm=2.0, nsize=None):
    """Each element divided by ``(knorm + alpha/nsize * s)**beta``, s the sum of squares over `nsize` channels.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype; shape (n, c, ...).
    alpha, beta, knorm : float
    nsize : int
        Required: the width of the window, odd. Beyond the first and the last channel there are zeros.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Raises
    ------
    AttrError, ShapeError, DTypeError
        For an even `nsize`, data with fewer than two axes, or integers.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.LRN(nd.ones((1, 3, 1, 1)), nsize=3, alpha=3, beta=1, knorm=1)[0, :, 0, 0].tolist()
    [0.3333333432674408, 0.25, 0.3333333432674408]
    """
    data = as_array(data, "LRN")
    if not data._kind.dtype.is_float:
        raise DTypeError(f"LRN: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    if data.ndim < 2:
        raise ShapeError(f"LRN: data (n, channels, ...) is needed, got shape {data.shape}")
    if isinstance(nsize, bool) or not isinstance(nsize, int | np.integer) or nsize < 1 or nsize % 2 == 0:
        raise AttrError(f"LRN: nsize must be an odd integer of at least 1, got {nsize!r}")
    half, channels = int(nsize) // 2, data.shape[1]
    squares = square(data)
    begin = tuple(half if k == 1 else 0 for k in range(data.ndim))
    wide = tuple(n + 2 * half if k == 1 else n for k, n in enumerate(data.shape))
    padded = embed(squares, begin=begin, step=(1,) * data.ndim, shape=wide)
    total = squares
    for k in range(2 * half + 1):
        if k != half:
            total = add(total, slice_axis(padded, axis=1, begin=k, end=k + channels))
    return multiply(data, power(total * (alpha / nsize) + knorm, -float(beta)))
