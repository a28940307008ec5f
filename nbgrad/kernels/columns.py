"""Images as columns: for each place of a sliding window what lies in it, and the adjoint of that.

A tap of the window sees a slice of the padded images; the columns are these slices, stacked. Their gradient puts each
slice back where it was and adds them up: each operator's gradient is the other one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.shapes import Shape, size
from ..errors import ShapeError
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import composite
from .convolution import outputs, per_dimension
from .join import stack
from .selection import add_n
from .shape import reshape
from .slices import embed, slice_

__all__ = ["col2im", "im2col"]


class _Window:
    """The sliding window over images of a size: the shapes, and for each tap where its slice begins."""

    def __init__(self, spatial: Shape, kernel, stride, dilate, pad, op: str) -> None:
        n = len(spatial)
        if not 1 <= n <= 3:
            raise ShapeError(f"{op}: images with 1 to 3 spatial dimensions are needed, got {spatial}")
        self.kernel = per_dimension(kernel, n, 1, 1, op, "kernel")
        self.stride = per_dimension(stride, n, 1, 1, op, "stride")
        self.dilate = per_dimension(dilate, n, 1, 1, op, "dilate")
        self.pad = per_dimension(pad, n, 0, 0, op, "pad")
        self.places = outputs(spatial, self.kernel, self.stride, self.dilate, self.pad)
        self.padded = tuple(m + 2 * p for m, p in zip(spatial, self.pad, strict=True))
        if min(self.places) < 1:
            raise ShapeError(f"{op}: kernel {self.kernel} with dilate {self.dilate} exceeds {spatial} with {self.pad}")

    def taps(self) -> Iterator[dict[str, tuple[int, ...]]]:
        for tap in itertools.product(*map(range, self.kernel)):
            begin = tuple(k * d for k, d in zip(tap, self.dilate, strict=True))
            yield {"begin": (0, 0, *begin), "step": (1, 1, *self.stride)}


def _numpy_columns(x, kernel, stride=(1, 1), dilate=(1, 1), pad=(0, 0)) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in pad)))
    seen = np.lib.stride_tricks.sliding_window_view(
        x, [d * (k - 1) + 1 for k, d in zip(kernel, dilate, strict=True)], (2, 3)
    )
    seen = seen[:, :, :: stride[0], :: stride[1], :: dilate[0], :: dilate[1]]
    n, _, height, width = seen.shape[:4]
    return seen.transpose(0, 1, 4, 5, 2, 3).reshape(n, -1, height * width)


_WINDOW = {"kernel": (2, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 0)}


@composite(method=False, samples=sample_table(
    _numpy_columns, [(1, 2, 3, 4), _WINDOW], [(2, 1, 2, 3), {"kernel": (2, 1)}],
), gradient="``col2im`` of g")  # fmt: skip
def im2col(data, kernel, stride=(), dilate=(), pad=()):
    """What a sliding window sees of images: one column for each of its places.

    Parameters
    ----------
    data : NDArray
        Shape (n, c, ...), with 1 to 3 spatial dimensions.
    kernel : tuple of int
        The window.
    stride, dilate, pad : tuple of int
        Steps of the window, of its taps, and how many zeros surround the images; default 1, 1, 0.

    Returns
    -------
    NDArray
        Shape (n, c * taps, places).

    Raises
    ------
    ShapeError, AttrError
        If the window does not fit.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.im2col(nd.arange(4).reshape((1, 1, 4)), kernel=(2,)).tolist()
    [[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]]
    """
    data = as_array(data, "im2col")
    window = _Window(data.shape[2:], kernel, stride, dilate, pad, "im2col")
    n, c = data.shape[:2]
    if any(window.pad):
        flat = (1,) * data.ndim
        data = embed(data, begin=(0, 0, *window.pad), step=flat, shape=(n, c, *window.padded))
    seen = [slice_(data, **tap, shape=(n, c, *window.places)) for tap in window.taps()]
    return reshape(stack(*seen, axis=2), (n, c * len(seen), size(window.places)))


def _numpy_images(columns, output_size, kernel, **window) -> np.ndarray:
    n, c = len(columns), columns.shape[1] // int(np.prod(kernel))
    flat = np.eye(c * int(np.prod(output_size)), dtype=columns.dtype).reshape(-1, c, *output_size)
    return np.tensordot(columns, _numpy_columns(flat, kernel, **window), ((1, 2), (1, 2))).reshape(n, c, *output_size)


@composite(method=False, samples=sample_table(
    _numpy_images, [(1, 8, 4), {"output_size": (3, 4), **_WINDOW}],
    [(2, 2, 3), {"output_size": (2, 3), "kernel": (2, 1)}], ulp=2,
), gradient="``im2col`` of g")  # fmt: skip
def col2im(data, output_size, kernel, stride=(), dilate=(), pad=()):
    """Images of which each element is the sum of all that a sliding window saw of it: the adjoint of ``im2col``.

    Parameters
    ----------
    data : NDArray
        Shape (n, c * taps, places).
    output_size : tuple of int
        The spatial shape of the images.
    kernel, stride, dilate, pad : tuple of int
        As for ``im2col``.

    Returns
    -------
    NDArray
        Shape (n, c, *output_size).

    Raises
    ------
    ShapeError, AttrError
        If the window does not fit `output_size`, or `data` the window.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.col2im(nd.ones((1, 2, 3)), output_size=(4,), kernel=(2,)).tolist()
    [[[1.0, 2.0, 2.0, 1.0]]]
    """
    data = as_array(data, "col2im")
    spatial = (output_size,) if hasattr(output_size, "__index__") else tuple(map(int, output_size))
    window = _Window(spatial, kernel, stride, dilate, pad, "col2im")
    taps, places = size(window.kernel), size(window.places)
    if data.ndim != 3 or data.shape[1] % taps or data.shape[2] != places:
        raise ShapeError(f"col2im: data (n, channels * {taps}, {places}) is needed, got shape {data.shape}")
    n, c = data.shape[0], data.shape[1] // taps
    seen = reshape(data, (n, c, taps, *window.places))
    whole = (n, c, *window.padded)
    padded = add_n(*[embed(_tap(seen, k), **tap, shape=whole) for k, tap in enumerate(window.taps())])
    if not any(window.pad):
        return padded
    return slice_(padded, begin=(0, 0, *window.pad), step=(1,) * padded.ndim, shape=(n, c, *spatial))


def _tap(seen: NDArray, k: int) -> NDArray:
    """Slice `k` along axis 2."""
    n, c, _, *places = seen.shape
    one = slice_(seen, begin=(0, 0, k, *[0] * len(places)), step=(1,) * seen.ndim, shape=(n, c, 1, *places))
    return reshape(one, (n, c, *places))
