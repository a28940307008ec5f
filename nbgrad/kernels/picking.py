"""Elements chosen, replaced, counted and added to by index: compositions of slices, ``take``, adjoints, ``where``."""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray, from_value, wrap
from ..core.dtypes import bool_, float32, int64
from ..core.shapes import axis as resolve_axis
from ..errors import AttrError, RangeError, ShapeError
from ..operators.cast import unify
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import composite
from .binary import add
from .host import arrayed, computed, demand_shape
from .indexing import add_axis, in_range, integers, take_axis
from .join import concat
from .selection import where
from .shape import expand_dims, reshape
from .slices import block_of, block_slices, embed

__all__ = [
    "bincount",
    "boolean_mask",
    "fill_element_0index",
    "index_add",
    "index_copy",
    "slice_assign",
    "slice_assign_scalar",
]


def _numbers(*values, dtype="float32") -> Input:
    return Input(values=values, dtype=dtype)


@composite(method=False, samples=sample_table(
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
    demand_shape("boolean_mask", "index", index)
    return take_axis(data, np.flatnonzero(index._view()), k)


def _filled(a: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    out = np.array(a)
    out[np.arange(len(a)), places.astype(int)] = values
    return out


@composite(method=False, samples=sample_table(
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
    here = arrayed(computed(_columns, places, shape=lhs.shape, dtype=bool_, sizes=lhs.shape), float32, lhs)
    return where(here, expand_dims(mhs, axis=1), lhs)


def _columns(places: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    wrong = (places < 0) | (places >= sizes[1])
    if wrong.any():
        raise RangeError(f"fill_element_0index: column {places[wrong][0]} is out of range for lhs of shape {sizes}")
    return places[:, None] == np.arange(sizes[1])


def _numpy_add(a: np.ndarray, index: np.ndarray, values: np.ndarray, axis=0) -> np.ndarray:
    out = np.array(a)
    np.add.at(np.moveaxis(out, axis, 0), index.astype(int), np.moveaxis(values, axis, 0))
    return out


def _numpy_copy(a: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    out = np.array(a)
    out[index.astype(int)] = values
    return out


@composite(method=True, samples=sample_table(
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
    places = integers(as_array(index, op, "index"), op, data)
    k = resolve_axis(axis, data.ndim, op)
    expected = (*data.shape[:k], places.size, *data.shape[k + 1 :])
    if places.ndim != 1 or value.shape != expected:
        raise ShapeError(
            f"{op}: for data {data.shape} and {places.size} indices along axis {axis}, index must be 1-d and value of "
            f"shape {expected}; got {places.shape} and {value.shape}"
        )
    n = data.shape[k]
    return add(data, add_axis(value, in_range(places, n, "raise", op), k, n))


@composite(method=False, samples=sample_table(
    _numpy_copy, [(3, 2), _numbers(2, 0), (2, 2)], [(3,), _numbers(1, 1, dtype="int64"), (2,)],
    [(2, 2), Input((0,), dtype="float32"), (0, 2)],
))  # fmt: skip
def index_copy(old_tensor, index_vector, new_tensor):
    """A copy of `old_tensor` with the slices of `new_tensor` in place of its own at the places `index_vector`.

    Parameters
    ----------
    old_tensor : NDArray
    index_vector : NDArray
        1-d: places along axis 0. Negative ones count from the end; where one is repeated, its last slice stays.
    new_tensor : NDArray
        Shape of `old_tensor`, but as long as `index_vector`.

    Returns
    -------
    NDArray
        Shape of `old_tensor`. Gradients of the places filled go to `new_tensor`, those of the others to `old_tensor`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    IndexError
        For an index out of range.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.contrib.index_copy(nd.zeros(3), nd.array([2, 0]), nd.array([5, 6])).tolist()
    [6.0, 0.0, 5.0]
    """
    op = "index_copy"
    old, new = unify([as_array(old_tensor, op, "old_tensor"), as_array(new_tensor, op, "new_tensor")], op)
    places = integers(as_array(index_vector, op, "index_vector"), op)
    if places.ndim != 1 or not old.ndim or new.shape != (places.size, *old.shape[1:]):
        raise ShapeError(
            f"{op}: index_vector must be 1-d, and new_tensor a slice of old_tensor {old.shape} for each of its "
            f"elements; got {places.shape} and {new.shape}"
        )
    if places.size == 0:
        return concat(old, new, dim=0)  # both are on the tape
    n = len(old)
    source = computed(_sources, in_range(places, n, "raise", op), shape=(n,), n=n)
    here = reshape(arrayed(source, int64, old) >= 0, (n,) + (1,) * (old.ndim - 1))
    return where(here, take_axis(new, computed(_at_least_0, source, shape=(n,)), 0), old)


def _sources(places: np.ndarray, n: int) -> np.ndarray:
    """For each of n slices the last place where it is named, -1 if none is."""
    source = np.full(n, -1)
    source[places] = np.arange(places.size)
    return source


def _at_least_0(source: np.ndarray) -> np.ndarray:
    return np.maximum(source, 0)


def _assigned(a: np.ndarray, values, begin, end, step=None) -> np.ndarray:
    out = np.array(a)
    out[tuple(slice(*s) for s in zip(begin, end, step or (None,) * len(begin), strict=True))] = values
    return out


def _block(data: NDArray, begin, end, step, op: str) -> tuple[dict, NDArray]:
    """The block of `data` that is selected, and ones there and zeros elsewhere."""
    parts = block_slices(data.shape, begin, end, step, op)
    inside = np.zeros(data.shape)
    inside[tuple(parts)] = 1
    return block_of(data.shape, parts), from_value(inside, like=data._kind, dtype=float32)


@composite(method=False, aliases=("_slice_assign", "_crop_assign"), samples=sample_table(
    _assigned,
    [(4, 3), (2, 2), {"begin": (1, 0), "end": (3, 2)}],
    [(4, 3), (2, 3), {"begin": (None,), "end": (None,), "step": (-2,)}],
    [(3,), (0,), {"begin": (1,), "end": (1,)}],
))  # fmt: skip
def slice_assign(lhs, rhs, begin, end, step=None):
    """A copy of `lhs` with `rhs` in place of the block ``lhs[begin[0]:end[0]:step[0], ...]``.

    The method ``x.slice_assign(rhs, begin, end, step)`` writes into `x` instead.

    Parameters
    ----------
    lhs : NDArray
    rhs : NDArray
        Shape of the block.
    begin, end, step : tuple of (int or None)
        As for ``slice``.

    Returns
    -------
    NDArray
        Shape of `lhs`. Gradients of the block go to `rhs`, those outside to `lhs`.

    Raises
    ------
    ShapeError, AttrError
        If the block does not fit `lhs`, or `rhs` the block.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.slice_assign(nd.zeros((2, 2)), nd.ones((2, 1)), begin=(0, 1), end=(2, 2)).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    op = "slice_assign"
    lhs, rhs = unify([as_array(lhs, op, "lhs"), as_array(rhs, op, "rhs")], op)
    block, inside = _block(lhs, begin, end, step, op)
    if rhs.shape != block["shape"]:
        raise ShapeError(f"{op}: rhs must have the shape of the block, {block['shape']}, got {rhs.shape}")
    return where(inside, embed(rhs, begin=block["begin"], step=block["step"], shape=lhs.shape), lhs)


@composite(method=False, aliases=("_slice_assign_scalar", "_crop_assign_scalar"), samples=sample_table(
    lambda a, scalar, **at: _assigned(a, scalar, **at),
    [(4, 3), {"scalar": 2.0, "begin": (1, 0), "end": (3, 2)}],
    [(4,), {"scalar": 3.0, "begin": (3,), "end": (0,), "step": (-2,)}],
))  # fmt: skip
def slice_assign_scalar(data, scalar=0.0, begin=(), end=(), step=None):
    """A copy of `data` with a number in place of the block ``data[begin[0]:end[0]:step[0], ...]``.

    The method ``x.slice_assign_scalar(value, begin, end, step)`` writes into `x` instead.

    Parameters
    ----------
    data : NDArray
    scalar : float
        Truncated for an array of integers.
    begin, end, step : tuple of (int or None)
        As for ``slice``.

    Returns
    -------
    NDArray
        Shape and dtype of `data`. Gradient: g outside the block, 0 inside.

    Raises
    ------
    ShapeError, AttrError
        If the block does not fit `data`.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.slice_assign_scalar(nd.zeros(3), 7, begin=(1,), end=(3,)).tolist()
    [0.0, 7.0, 7.0]
    """
    data = as_array(data, "slice_assign_scalar")
    _, inside = _block(data, begin, end, step, "slice_assign_scalar")
    return where(inside, float(scalar) if data._kind.dtype.is_float else int(scalar), data)


@composite(method=False, samples=sample_table(
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
    demand_shape("bincount", "data", data)
    index = integers(data._view(), "bincount")
    wrong = (index < 0) | (index != data._view())
    if wrong.any():
        raise AttrError(f"bincount: whole numbers of at least 0 are needed, got {data._view()[wrong][0]}")
    n = max(int(index.max(initial=-1)) + 1, int(minlength))
    if weights is not None:
        return add_axis(weights, index, 0, n)
    counts = np.bincount(index, minlength=n)
    return wrap(counts, (n,), data._kind.of(int64))
