"""Operators that read and write by index.

The family. ``_take`` reads whole slices of one axis, in the order an integer array says; ``_take_add``
adds slices into zeros at those places. They are each other's adjoint, and every kind of reading with
integer arrays becomes a ``_take`` of a reshaped array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, from_host_values
from ..autodiff import tracing
from ..backends import threads
from ..backends.numba.compile import kernel
from ..core.dtypes import int64
from ..core.shapes import axis as resolve_axis
from ..core.shapes import size
from ..errors import AttrError, DTypeError, RangeError, ShapeError
from ..operators.cast import cast
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from . import traced_index
from .along import read_along
from .host import computed
from .shape import reshape

__all__ = ["add_axis", "flat_positions", "in_range", "integers", "pick", "take", "take_axis"]

# Kernels: x (outer, n, inner), index (m) -> out (outer, m, inner).


@kernel
def _take_kernel(x, index, out, outer, n, inner):
    m, width = np.uint64(index.size), np.uint64(inner)
    for o in range(np.uint64(outer)):
        for k in range(m):
            source = (o * np.uint64(n) + np.uint64(index[k])) * width
            target = (o * m + k) * width
            if width == 1:
                out[target] = x[source]
            else:
                for j in range(width):
                    out[target + j] = x[source + j]


@kernel
def _take_add_kernel(g, index, out, outer, n, inner):
    m, width = np.uint64(index.size), np.uint64(inner)
    for i in range(np.uint64(out.size)):
        out[i] = 0
    for o in range(np.uint64(outer)):
        for k in range(m):
            target = (o * np.uint64(n) + np.uint64(index[k])) * width
            source = (o * m + k) * width
            for j in range(width):
                out[target + j] += g[source + j]


def _parts(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    return size(shape[:axis]), shape[axis], size(shape[axis + 1 :])


# What tests compare with.


def _at(values) -> Input:
    return Input(values=values, dtype="float32")  # as MXNet's indices are


def _taken_add(g: np.ndarray, index: np.ndarray, axis: int, n: int) -> np.ndarray:
    out = np.zeros(g.shape[:axis] + (n,) + g.shape[axis + 1 :], g.dtype)
    np.add.at(np.moveaxis(out, axis, 0), index, np.moveaxis(g, axis, 0))
    return out


def _picked(a: np.ndarray, index: np.ndarray, axis: int, keepdims: bool, mode: str) -> np.ndarray:
    n = a.shape[axis]
    index = np.expand_dims(np.clip(index, 0, n - 1) if mode == "clip" else index % n, axis)
    found = np.take_along_axis(a, index, axis)
    return found if keepdims else found.squeeze(axis) if a.ndim > 1 else found


def _scattered(a: np.ndarray, index: np.ndarray, shape) -> np.ndarray:
    out = np.zeros(shape, a.dtype)
    np.add.at(out, tuple(index.astype(int)), a)
    return out


@structured(
    "_take",
    method=False,
    samples=sample_table(
        np.take,
        [(3, 2), Input(values=[2, 0, 2], dtype="int64"), {"axis": 0}],
        [(2, 3), Input(values=[[1, 1], [0, 2]], dtype="int64"), {"axis": 1}],
        [(3,), Input(values=1, dtype="int64"), {"axis": 0}],
        [(3, 2), Input((0,), dtype="int64"), {"axis": 0}],
    ),
)
def _take(data, index, axis=REQUIRED):
    """``data`` read along one axis at `index` (int64, checked)."""
    shape = data._shape[:axis] + index._shape + data._shape[axis + 1 :]
    return Spec(shape, data._kind.dtype, axis=axis)


@_take.run
def _(data, index, out, *, axis):
    outer, n, inner = _parts(data._shape, axis)
    x, positions, m = data._buf, index._buf, index.size

    def call(start: int, stop: int) -> None:
        if outer == 1:
            _take_kernel(x, positions[start:stop], out._buf[start * inner : stop * inner], 1, n, inner)
        else:
            source, target = threads.row_slices((x, out._buf), (n * inner, m * inner), start, stop)
            _take_kernel(source, positions, target, stop - start, n, inner)

    if outer == 1:
        threads.parallel_ranges(call, m, inner)
    else:
        threads.parallel_ranges(call, outer, m * inner)


@structured(
    "_take_add",
    method=False,
    samples=sample_table(
        _taken_add,
        [(3, 2), Input(values=[2, 0, 2], dtype="int64"), {"axis": 0, "n": 4}],
        [(2, 3), Input(values=[1, 1, 0], dtype="int64"), {"axis": 1, "n": 2}],
        ulp=1,
    ),
)
def _take_add(data, index, axis=REQUIRED, n=REQUIRED):
    """Zeros of length `n` along one axis, with the slices of `data` added at `index`."""
    shape = data._shape[:axis] + (n,) + data._shape[axis + index.ndim :]
    return Spec(shape, data._kind.dtype, axis=axis, n=n)


@_take_add.run
def _(data, index, out, *, axis, n):
    _take_add_kernel(data._buf, index._buf, out._buf, *_parts(out._shape, axis))


_take.vjp(data=lambda g, index, data_shape, axis: _take_add(g, index, axis=axis, n=data_shape[axis]))
_take_add.vjp(data=lambda g, index, axis: _take(g, index, axis=axis))


def take_axis(data: NDArray, index: np.ndarray | NDArray, axis: int) -> NDArray:
    """``numpy.take`` for indices that are known to be in range."""
    if isinstance(index, NDArray):
        return _take(data, index, axis=axis)
    return _take(data, _outside(index, data), axis=axis)


def add_axis(data: NDArray, index: np.ndarray | NDArray, axis: int, n: int) -> NDArray:
    """Zeros of length `n` along an axis, with the slices of `data` added at `index` (1-d, known to be in range)."""
    return _take_add(data, index if isinstance(index, NDArray) else _outside(index, data), axis=axis, n=n)


def _outside(index: np.ndarray, data: NDArray) -> NDArray:
    """NumPy's integers as an array that goes with `data`."""
    return from_host_values(np.asarray(index), tracing.outside_kind(data._kind, int64))


@_take.lower
def _(graph, x, index, *, axis):
    return graph.take(x, index, axis) if index.value.dtype is int64 else None


@_take_add.lower
def _(graph, x, index, *, axis, n):
    return graph.scatter(x, index, axis, n) if index.value.dtype is int64 and x.value.dtype.is_float else None


def integers(indices, op: str, beside: NDArray | None = None) -> Any:
    """Indices as int64; floats are truncated, as MXNet's float32 indices require.

    A NumPy array. While tracing, a traced one, and if they are on a GPU `beside` an array, one there; what is not
    finite goes unnoticed in those.
    """
    traced = tracing.current.graph is not None
    if isinstance(indices, NDArray) and (traced or (beside is not None and _together(indices._kind, beside._kind))):
        if traced:
            (indices,) = tracing.capture_outside([indices])
        kind = indices._kind.of(int64)
        return indices.detach() if indices._kind is kind else cast(indices.detach(), kind)
    values = indices._view() if isinstance(indices, NDArray) else np.asarray(indices)
    if values.dtype.kind not in "fiub":
        raise DTypeError(f"{op}: indices must be numbers, got {values.dtype}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise AttrError(f"{op}: indices must be finite")
    return values.astype(np.int64)


def _together(a: Kind, b: Kind) -> bool:
    return a.gpu and a.ctx == b.ctx


def in_range(index: Any, n: int, mode: str, op: str) -> Any:
    """What :func:`integers` gave brought into range, or checked, as `mode` says."""
    if mode not in ("clip", "wrap", "raise"):
        raise AttrError(f"{op}: mode must be 'clip', 'wrap' or 'raise', got {mode!r}")
    if n == 0 and index.size:
        raise RangeError(f"{op}: cannot take from an axis of length 0")
    if isinstance(index, NDArray):
        return traced_index.in_range(index, n, mode, op)
    if mode == "clip":
        return np.minimum(np.maximum(index, 0), n - 1)  # a fifth of the time of np.clip
    if mode == "wrap":
        return index % max(n, 1)
    low, high = (index.min(), index.max()) if index.size else (0, 0)
    if index.size and (low < -n or high >= n):
        bad = index[(index < -n) | (index >= n)].flat[0]
        raise RangeError(f"{op}: index {bad} is out of range for an axis of length {n}")
    return np.where(index < 0, index + n, index) if low < 0 else index


@composite(
    method=True,
    samples=sample_table(
        lambda a, i, axis=0, mode="clip": np.take(a, i.astype(int), axis, mode=mode),
        [(3, 2), _at([2, 0, 2, 9, -1])],
        [(2, 3), _at([[0, -1], [5, 1]]), {"axis": -1, "mode": "wrap"}],
        [(3,), _at(1), {"mode": "raise"}],
        [(3, 2), _at([])],
    ),
)
def take(a, indices, axis=0, mode="clip"):
    """Slices of `a` along an axis, in the order `indices` says.

    Parameters
    ----------
    a : NDArray
    indices : NDArray
        Any shape; it takes the place of the axis in the result's shape.
    axis : int
    mode : {'clip', 'wrap', 'raise'}
        What an index out of range means: the nearest end (also for negative ones), counting on from the other end, an
        error.

    Returns
    -------
    NDArray
        Shape ``a.shape[:axis] + indices.shape + a.shape[axis + 1:]``.

    Notes
    -----
    Gradient: every slice of g is added at its index.

    The gradient of an element taken several times is the sum.
    """
    a = as_array(a, "take", "a")
    k = resolve_axis(axis, a.ndim, "take")
    return take_axis(a, in_range(integers(indices, "take", a), a.shape[k], mode, "take"), k)


@composite(
    method=True,
    samples=sample_table(
        lambda a, i: a[np.arange(len(a)), i.astype(int)], [(3, 2), _at([1, 0, 1])], [(1, 1), _at([0])]
    ),
)
def batch_take(a, indices):
    """``a[i, indices[i]]`` for each row i of a matrix; indices are clipped.

    Returns
    -------
    NDArray
        Shape (n,).

    Notes
    -----
    Gradient: g is added at its places, 0 elsewhere.
    """
    a = as_array(a, "batch_take", "a")
    if a.ndim != 2:
        raise ShapeError(f"batch_take: a matrix is needed, got shape {a.shape}")
    return pick(a, indices, axis=1)


@composite(
    aliases=("choose_element_0index",),
    method=True,
    samples=sample_table(
        lambda a, i, axis=-1, keepdims=False, mode="clip": _picked(a, i.astype(int), axis, keepdims, mode),
        [(2, 3), _at([2, 0])],
        [(2, 3), _at([1, 7, -1]), {"axis": 0}],
        [(2, 3, 2), _at([[2, 0], [-1, 4]]), {"axis": 1, "keepdims": True, "mode": "wrap"}],
        [(3,), _at(1)],
    ),
)
def pick(data, index, axis=-1, keepdims=False, mode="clip"):
    """One element along an axis for every position of the other axes: ``data[..., index[...], ...]``.

    Parameters
    ----------
    data : NDArray
    index : NDArray
        In the shape of `data` without the axis (or with length 1 there).
    axis : int or None
        None: of the flattened array.
    keepdims : bool
    mode : {'clip', 'wrap'}

    Returns
    -------
    NDArray
        Shape of `data` without `axis`, or with length 1 there.

    Notes
    -----
    Gradient: g is added at its places, 0 elsewhere.
    """
    data = as_array(data, "pick")
    if axis is None:
        data, axis = reshape(data, (data.size,)), 0
    k = resolve_axis(axis, data.ndim, "pick")
    rest = data.shape[:k] + data.shape[k + 1 :] or data._kind.conventions.scalar
    values = in_range(integers(index, "pick", data), data.shape[k], mode, "pick")
    if values.size != size(rest):
        raise ShapeError(
            f"pick: index of shape {values.shape} does not fit data of shape {data.shape} without axis {k}"
        )
    if not (isinstance(values, NDArray) and values._kind.traced):
        found = read_along(data, values.reshape(data.shape[:k] + (1,) + data.shape[k + 1 :]), k)
        return found if keepdims else reshape(found, rest)
    outer, n, inner = _parts(data.shape, k)
    if n <= traced_index.FEW:
        found = traced_index.picked(data, reshape(values, data.shape[:k] + (1,) + data.shape[k + 1 :]), k)
        return found if keepdims else reshape(found, rest)
    flat = (np.arange(outer)[:, None] * n + values.reshape(outer, inner)) * inner + np.arange(inner)
    out = take_axis(reshape(data, (data.size,)), flat.reshape(-1), 0)
    return reshape(out, data.shape[:k] + (1,) + data.shape[k + 1 :] if keepdims else rest)


@composite(
    method=False,
    samples=sample_table(
        lambda i, w, **sizes: np.take(w, i.astype(int), 0, mode="clip"),
        [_at([[1, 0], [1, 9]]), (3, 2)],
        [_at([2]), (3, 2), {"input_dim": 3, "output_dim": 2}],
    ),
)
def Embedding(data, weight, input_dim=None, output_dim=None, dtype=None, sparse_grad=False):
    """Rows of `weight` (input_dim, output_dim) for the indices in `data`; indices are clipped.

    Returns
    -------
    NDArray
        Shape ``data.shape + (output_dim,)``, of weight's dtype.

    Notes
    -----
    Gradient: rows of g are added to the rows of `weight` that were read.
    """
    weight = as_array(weight, "Embedding", "weight")
    expected = tuple(given or n for given, n in zip((input_dim, output_dim), weight.shape, strict=False))
    if weight.ndim != 2 or weight.shape != expected:
        raise ShapeError(f"Embedding: weight has shape {weight.shape}, expected {(input_dim, output_dim)}")
    return take(weight, as_array(data, "Embedding"), axis=0)


def flat_positions(indices: np.ndarray, sizes: tuple[int, ...], op: str) -> np.ndarray:
    """Positions in leading axes of these `sizes`, from one row of indices per axis (negative: from the end)."""
    total = np.zeros(indices.shape[1:], np.int64)
    for row, n in zip(indices, sizes, strict=False):
        total = total * n + in_range(row, n, "raise", op)
    return total


def _positions(rows: Any, sizes: tuple[int, ...], op: str) -> Any:
    """:func:`flat_positions` of what :func:`integers` gave."""
    if not isinstance(rows, NDArray) or not sizes:
        return computed(flat_positions, rows, shape=rows.shape[1:], sizes=sizes, op=op)
    total: Any = 0
    for k, n in enumerate(sizes):
        total = total * n + in_range(reshape(rows[k], rows.shape[1:]), n, "raise", op)
    return total


@composite(
    method=True,
    samples=sample_table(
        lambda a, i: a[tuple(i.astype(int))],
        [(3, 2), _at([[0, 2, 2], [1, 0, 0]])],
        [(3, 2), _at([[-1, 0]])],
        [(3, 2), _at([[1], [1]])],
    ),
)
def gather_nd(data, indices):
    """Elements (or blocks) of `data` at ``indices[:, i, ...]``: one row of indices per leading axis.

    Returns
    -------
    NDArray
        Shape ``indices.shape[1:] + data.shape[indices.shape[0]:]``.

    Raises
    ------
    IndexError
        For an index out of range.

    Notes
    -----
    Gradient: ``scatter_nd`` of g.
    """
    data = as_array(data, "gather_nd")
    rows = integers(indices, "gather_nd", data)
    if rows.ndim < 1 or rows.shape[0] > data.ndim:
        raise ShapeError(
            f"gather_nd: indices of shape {rows.shape} for data of shape {data.shape}: at most {data.ndim} rows"
        )
    m = rows.shape[0]
    flat = reshape(data, (size(data.shape[:m]), *data.shape[m:]))
    positions = _positions(rows, data.shape[:m], "gather_nd")
    return take_axis(flat, positions, 0)


@composite(
    method=False,
    samples=sample_table(
        _scattered,
        [(3,), _at([[0, 2, 2], [1, 0, 0]]), {"shape": (3, 2)}],
        [(2, 2), _at([[1, 0]]), {"shape": (3, 2)}],
        ulp=1,
    ),
)
def scatter_nd(data, indices, shape):
    """Zeros of `shape` with ``data[i, ...]`` added at ``indices[:, i, ...]``: the adjoint of ``gather_nd``.

    Where indices repeat, values add up (MXNet leaves that undefined).

    Returns
    -------
    NDArray
        Of `shape`.

    Notes
    -----
    Gradient: ``gather_nd`` of g.
    """
    data = as_array(data, "scatter_nd")
    rows, shape = integers(indices, "scatter_nd", data), tuple(int(n) for n in shape)
    m = rows.shape[0] if rows.ndim else 0
    if not 1 <= m <= len(shape) or data.shape != rows.shape[1:] + shape[m:]:
        raise ShapeError(f"scatter_nd: data {data.shape} and indices {rows.shape} do not fit shape {shape}")
    many = size(rows.shape[1:])
    positions = _positions(rows, shape[:m], "scatter_nd")
    flat = reshape(data, (many, *shape[m:]))
    return reshape(add_axis(flat, positions.reshape((many,)), 0, size(shape[:m])), shape)
