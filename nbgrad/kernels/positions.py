"""Positions as numbers: flat and per axis; and how many elements lie in each bin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays.ndarray import NDArray, from_host_values
from ..autodiff import tracing
from ..core.dtypes import float64, int64
from ..core.shapes import distinct_axes, size
from ..errors import AttrError, RangeError, ShapeError
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import composite
from .host import arrayed, computed, demand_shape
from .indexing import integers

__all__ = ["histogram", "index_array", "ravel_multi_index", "unravel_index"]


def _lengths(shape, op: str) -> tuple[int, ...]:
    try:
        lengths = tuple(int(n) for n in shape)
    except TypeError:
        raise ShapeError(f"{op}: shape must be a tuple of integers, got {shape!r}") from None
    if not lengths or any(n < 1 for n in lengths[1:]) or lengths[0] < -1:
        raise ShapeError(f"{op}: shape must be of positive lengths, the first maybe -1, got {lengths}")
    return lengths


def _strides(lengths: tuple[int, ...]) -> np.ndarray:
    return np.cumprod((1, *lengths[:0:-1]), dtype=np.int64)[::-1]


_COLUMNS = Input(values=[[3, 6, 6], [4, 5, 1]], dtype="float32")
_FLAT = Input(values=[22, 41, 37], dtype="int64")


@composite(method=False, differentiable=False, samples=sample_table(
    lambda a, shape: np.ravel_multi_index(tuple(a.astype(int)), shape), [_COLUMNS, {"shape": (7, 6)}], result="float32",
) + sample_table(lambda a, shape: 6 * a[0] + a[1], [_COLUMNS, {"shape": (-1, 6)}], result="float32"))  # fmt: skip
def ravel_multi_index(data, shape=None):
    """The numbers of elements of an array of `shape`, counted along the last axis first; from their positions.

    Parameters
    ----------
    data : NDArray
        One row of indices for each axis: a column is a position.
    shape : tuple of int
        The first length may be -1: any.

    Returns
    -------
    NDArray
        Shape ``data.shape[1:]``, dtype of `data`.

    Raises
    ------
    ShapeError
        If `data` has not one row per axis, or for a shape with lengths that are not positive.
    IndexError
        For a position outside.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.ravel_multi_index(nd.array([[3, 6, 6], [4, 5, 1]]), shape=(7, 6)).tolist()
    [22.0, 41.0, 37.0]
    """
    op = "ravel_multi_index"
    data, lengths = as_array(data, op), _lengths(shape, op)
    index = integers(data, op)
    if index.ndim == 0 or len(index) != len(lengths):
        raise ShapeError(f"{op}: data must have a row for each axis of {lengths}, got shape {index.shape}")
    return arrayed(computed(_raveled, index, shape=index.shape[1:], lengths=lengths), data._kind.dtype, data)


def _raveled(index: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    for row, n in zip(index, lengths, strict=True):
        wrong = (row < 0) | (row >= n if n >= 0 else False)
        if wrong.any():
            raise RangeError(f"ravel_multi_index: index {row[wrong].flat[0]} is out of range for an axis of length {n}")
    return np.tensordot(_strides(lengths), index, 1)


@composite(method=False, differentiable=False, samples=sample_table(
    lambda a, shape: np.stack(np.unravel_index(a, shape)), [_FLAT, {"shape": (7, 6)}], result="int64",
) + sample_table(lambda a, shape: np.stack(np.divmod(a, 6)), [_FLAT, {"shape": (-1, 6)}], result="int64"))  # fmt: skip
def unravel_index(data, shape=None):
    """The positions in an array of `shape` of the elements with these numbers: undoes ``ravel_multi_index``.

    Parameters
    ----------
    data : NDArray
    shape : tuple of int
        The first length may be -1: any.

    Returns
    -------
    NDArray
        Shape ``(len(shape), *data.shape)``, dtype of `data`.

    Raises
    ------
    ShapeError
        For a shape with lengths that are not positive.
    IndexError
        For a number outside.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.unravel_index(nd.array([22, 41, 37]), shape=(7, 6)).tolist()
    [[3.0, 6.0, 6.0], [4.0, 5.0, 1.0]]
    """
    op = "unravel_index"
    data, lengths = as_array(data, op), _lengths(shape, op)
    shape = (len(lengths), *data.shape)
    return arrayed(computed(_unraveled, integers(data, op), shape=shape, lengths=lengths), data._kind.dtype, data)


def _unraveled(index: np.ndarray, lengths: tuple[int, ...]) -> np.ndarray:
    strides = _strides(lengths)
    wrong = (index < 0) | (index >= lengths[0] * strides[0] if lengths[0] >= 0 else False)
    if wrong.any():
        raise RangeError(f"unravel_index: {index[wrong].flat[0]} is out of range for shape {lengths}")
    steps = strides.reshape((-1,) + (1,) * index.ndim)
    found = index // steps
    found[1:] %= np.reshape(lengths[1:], (-1,) + (1,) * index.ndim)
    return found


@composite(method=False, differentiable=False, samples=sample_table(
    lambda a, axes=None: np.moveaxis(np.indices(a.shape), 0, -1)[..., slice(None) if axes is None else list(axes)],
    [(2, 3)], [(2, 3), {"axes": (1,)}], [(2, 1, 2), {"axes": (-1, 0)}], [(0,)], result="int64",
))  # fmt: skip
def index_array(data, axes=None):
    """The position of every element of `data`, in a new last axis.

    Parameters
    ----------
    data : NDArray
    axes : tuple of int, optional
        Only the indices along these, in this order; default all.

    Returns
    -------
    NDArray
        Shape ``(*data.shape, number of axes)``, int64.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.contrib.index_array(nd.zeros((1, 2))).tolist()
    [[[0, 0], [0, 1]]]
    """
    data = as_array(data, "index_array")
    chosen = range(data.ndim) if axes is None else distinct_axes(axes, data.ndim, "index_array")
    every = np.indices(data.shape, dtype=np.int64)
    found = np.stack([every[k] for k in chosen], -1) if len(chosen) else np.zeros((*data.shape, 0), np.int64)
    return from_host_values(found, tracing.outside_kind(data._kind, int64))


def _counts(values: np.ndarray, *edges: np.ndarray, bins, span) -> np.ndarray:
    return _histogram(np.histogram, values, edges, bins, span)[0].astype(np.int64)


def _edges(values: np.ndarray, *edges: np.ndarray, bins, span) -> np.ndarray:
    return _histogram(np.histogram_bin_edges, values, edges, bins, span)


def _histogram(function, values: np.ndarray, edges: Sequence[np.ndarray], bins, span):
    try:
        return function(values, edges[0] if edges else bins, span)
    except (TypeError, ValueError) as err:
        raise AttrError(f"histogram: {err}") from None


@composite(method=False, differentiable=False)
def histogram(a, bins=10, range=None):
    """How many elements lie in each of a row of bins.

    Parameters
    ----------
    a : NDArray
    bins : int or NDArray or sequence
        How many bins of one width; or their edges, rising. All bins but the last are without their upper edge.
    range : (float, float), optional
        Where the first of `bins` bins begins and the last ends; default, the least and the greatest element.

    Returns
    -------
    list of NDArray
        The counts, int64; and the edges, one more, in the dtype of `a` (integers: the default float dtype).

    Raises
    ------
    AttrError
        For bins or a range that NumPy does not take.

    Examples
    --------
    >>> from nbgrad import nd
    >>> [r.tolist() for r in nd.histogram(nd.array([1, 2, 3, 4, 5, 6]), bins=3, range=(0, 6))]
    [[1, 2, 3], [0.0, 2.0, 4.0, 6.0]]
    """
    a = as_array(a, "histogram", "a")
    edges: list = []
    if isinstance(bins, str):  # a rule that makes them of the numbers
        demand_shape("histogram", "a", a)
        n = 0
    elif isinstance(bins, int | np.integer):
        n = int(bins)
    else:
        edges, bins = [bins if isinstance(bins, NDArray) else np.asarray(bins)], None
        n = size(edges[0].shape) - 1
    how = {"bins": bins, "span": None if range is None else tuple(range)}
    counts = computed(_counts, a, *edges, shape=(n,), **how)
    found = computed(_edges, a, *edges, shape=(n + 1,), dtype=float64, **how)
    dtype = a._kind.as_float().dtype
    return [arrayed(counts, int64, a), arrayed(found, dtype, a)]
