"""Elements chosen, replaced, counted and added to by index: compositions of ``take``, its adjoint, and ``where``."""

from __future__ import annotations

import numpy as np

from ..cast import unify
from ..codegen.launch import kind_of
from ..dtypes import float32, int64
from ..entry import as_array
from ..errors import AttrError, RangeError, ShapeError
from ..ndarray import from_value, wrap
from ..samples import Input, table
from ..shapes import axis as resolve_axis
from ..structured import composite
from .binary import add
from .indexing import add_axis, integers, take_axis
from .selection import where
from .shape import expand_dims

__all__ = ["bincount", "boolean_mask", "fill_element_0index", "index_add"]


def _numbers(*values, dtype="float32") -> Input:
    return Input(values=values, dtype=dtype)


@composite(method=False, samples=table(
    lambda a, m, axis=0: np.compress(m != 0, a, axis),
    [(3, 2), _numbers(0, 1, 2)], [(2, 3), _numbers(True, False, True, dtype="bool"), {"axis": 1}],
    [(2, 2), _numbers(0, 0, dtype="int32")], [(0, 2), Input((0,), dtype="float32")],
))  # fmt: skip
def boolean_mask(data, index, axis=0):
    """The slices of `data` along an axis for which `index` is not zero. Gradients go to these.

    Parameters
    ----------
    data : NDArray
    index : NDArray
        1-d, as long as the axis; any dtype.
    axis : int

    Returns
    -------
    NDArray
        `data` with a shorter axis, maybe of length 0.

    Raises
    ------
    ShapeError
        If `index` does not fit.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.contrib.boolean_mask(nd.array([[1, 2], [3, 4], [5, 6]]), nd.array([0, 1, 1])).tolist()
    [[3.0, 4.0], [5.0, 6.0]]
    """
    data, index = as_array(data, "boolean_mask"), as_array(index, "boolean_mask", "index")
    k = resolve_axis(axis, data.ndim, "boolean_mask")
    if index.shape != data.shape[k : k + 1]:
        raise ShapeError(
            f"boolean_mask: index must have shape ({data.shape[k]},), one element per slice of data {data.shape} along "
            f"axis {axis}; got {index.shape}"
        )
    return take_axis(data, np.flatnonzero(index._view()), k)


def _filled(a: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    out = np.array(a)
    out[np.arange(len(a)), places.astype(int)] = values
    return out


@composite(method=False, samples=table(
    _filled, [(3, 2), (3,), _numbers(0, 1, 1)], [(2, 3), (2,), _numbers(2, 0, dtype="int64")],
))  # fmt: skip
def fill_element_0index(lhs, mhs, rhs):
    """A copy of the matrix `lhs` with ``mhs[i]`` at place ``rhs[i]`` of row i.

    Parameters
    ----------
    lhs : NDArray
        Shape (n, m).
    mhs : NDArray
        Shape (n,): the new elements.
    rhs : NDArray
        Shape (n,): their columns.

    Returns
    -------
    NDArray
        Shape of `lhs`. Gradients of the places filled go to `mhs`, those of the others to `lhs`.

    Raises
    ------
    ShapeError
        If the shapes are not these.
    IndexError
        For a column out of range.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.fill_element_0index(nd.zeros((2, 2)), nd.array([5, 6]), nd.array([1, 0])).tolist()
    [[0.0, 5.0], [6.0, 0.0]]
    """
    op = "fill_element_0index"
    lhs, mhs = unify([as_array(lhs, op, "lhs"), as_array(mhs, op, "mhs")], op)
    places = integers(as_array(rhs, op, "rhs"), op)
    if lhs.ndim != 2 or mhs.shape != lhs.shape[:1] or places.shape != lhs.shape[:1]:
        raise ShapeError(
            f"{op}: lhs (n, m), mhs (n,) and rhs (n,) are needed, got {lhs.shape}, {mhs.shape} and {places.shape}"
        )
    wrong = (places < 0) | (places >= lhs.shape[1])
    if wrong.any():
        raise RangeError(f"{op}: column {places[wrong][0]} is out of range for lhs of shape {lhs.shape}")
    here = from_value(places[:, None] == np.arange(lhs.shape[1]), like=lhs._kind, dtype=float32)
    return where(here, expand_dims(mhs, axis=1), lhs)


def _places(index: np.ndarray, n: int, op: str) -> np.ndarray:
    wrong = (index < -n) | (index >= n)
    if wrong.any():
        raise RangeError(f"{op}: index {index[wrong].flat[0]} is out of range for an axis of length {n}")
    return np.where(index < 0, index + n, index)


def _numpy_add(a: np.ndarray, index: np.ndarray, values: np.ndarray, axis=0) -> np.ndarray:
    out = np.array(a)
    np.add.at(np.moveaxis(out, axis, 0), index.astype(int), np.moveaxis(values, axis, 0))
    return out


@composite(method=True, samples=table(
    _numpy_add,
    [(3, 2), _numbers(2, 0, 2), (3, 2)], [(2, 3), _numbers(-1, 1, dtype="int32"), (2, 2), {"axis": 1}],
    [(3,), Input((0,), dtype="float32"), (0,)], ulp=1,
))  # fmt: skip
def index_add(data, index, value, axis=0):
    """A copy of `data` with the slices of `value` added at the places `index` of an axis.

    Parameters
    ----------
    data : NDArray
    index : NDArray
        1-d. Negative ones count from the end; where one is repeated, all its slices are added.
    value : NDArray
        Shape of `data`, but as long as `index` along the axis.
    axis : int

    Returns
    -------
    NDArray
        Shape of `data`. Gradients go to `data` as they are, and to `value` from the places.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    IndexError
        For an index out of range.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.index_add(nd.zeros(3), nd.array([0, 2, 2]), nd.array([1, 2, 3])).tolist()
    [1.0, 0.0, 5.0]
    """
    op = "index_add"
    data, value = unify([as_array(data, op), as_array(value, op, "value")], op)
    places = integers(as_array(index, op, "index"), op)
    k = resolve_axis(axis, data.ndim, op)
    expected = (*data.shape[:k], places.size, *data.shape[k + 1 :])
    if places.ndim != 1 or value.shape != expected:
        raise ShapeError(
            f"{op}: for data {data.shape} and {places.size} indices along axis {axis}, index must be 1-d and value of "
            f"shape {expected}; got {places.shape} and {value.shape}"
        )
    n = data.shape[k]
    return add(data, add_axis(value, _places(places, n, op), k, n))


@composite(method=False, samples=table(
    lambda i, w=None, minlength=0: np.bincount(i.astype(int), w, minlength),
    [_numbers(1, 3, 1), (3,)], [_numbers(0, 2, dtype="int64"), (2,), {"minlength": 5}], ulp=1, ints=False,
))  # fmt: skip
def bincount(data, weights=None, minlength=0):
    """How often each of 0, 1, 2, ... occurs; or the sums of the weights of its occurrences.

    Parameters
    ----------
    data : NDArray
        1-d; whole numbers of at least 0.
    weights : NDArray, optional
        Shape of `data`.
    minlength : int
        At least so many counts.

    Returns
    -------
    NDArray
        Shape ``(max(data.max() + 1, minlength),)``; int64, or the dtype of the weights. Gradients go to the weights.

    Raises
    ------
    ShapeError
        If `data` is not a vector, or the weights are not in its shape.
    AttrError
        For a negative or fractional number or `minlength`.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.array([1, 3, 1])
    >>> nd.bincount(x).tolist(), nd.bincount(x, nd.array([0.5, 1, 2])).tolist()
    ([0, 2, 0, 1], [0.0, 2.5, 0.0, 1.0])
    """
    data = as_array(data, "bincount")
    if data.ndim != 1 or (weights is not None and as_array(weights, "bincount", "weights").shape != data.shape):
        shape = "none" if weights is None else weights.shape
        raise ShapeError(f"bincount: data must be a vector, with weights of its shape; got {data.shape} and {shape}")
    if isinstance(minlength, bool) or not isinstance(minlength, int | np.integer) or minlength < 0:
        raise AttrError(f"bincount: minlength must be an integer of at least 0, got {minlength!r}")
    index = integers(data, "bincount")
    wrong = (index < 0) | (index != data._view())
    if wrong.any():
        raise AttrError(f"bincount: whole numbers of at least 0 are needed, got {data._view()[wrong][0]}")
    n = max(int(index.max(initial=-1)) + 1, int(minlength))
    if weights is not None:
        return add_axis(weights, index, 0, n)
    counts = np.bincount(index, minlength=n)
    return wrap(counts, (n,), kind_of(int64, data._kind.ctx))
