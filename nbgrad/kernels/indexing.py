"""Reading and writing by index.

The family. ``_take`` reads whole slices of one axis, in the order an integer array says; ``_take_add``
adds slices into zeros at those places. They are each other's adjoint, and every kind of reading with
integer arrays becomes a ``_take`` of a reshaped array. Reading with slices alone is :mod:`.shape`'s
``slice`` or, where the elements are neighbours in memory, an array on the same memory.
"""

from __future__ import annotations

import numpy as np

from .. import tape
from ..codegen.compile import kernel
from ..codegen.launch import kind_of
from ..dtypes import as_dtype, int64
from ..entry import IN_GRAPH, IN_PLACE, as_array
from ..errors import AttrError, DTypeError, NBGradError, ShapeError
from ..ndarray import NDArray, alias, from_value, wrap
from ..shapes import axis as resolve_axis
from ..shapes import size
from ..state import state
from ..structured import REQUIRED, Spec, composite, structured
from .move import strides_of
from .shape import broadcast_to, embed, reshape, slice_

__all__ = ["getitem", "setitem", "take_axis"]

# Kernels: x (outer, n, inner), index (m) -> out (outer, m, inner).


@kernel
def _take_kernel(x, index, out, outer, n, inner):
    m, width = np.uint64(index.size), np.uint64(inner)
    for o in range(np.uint64(outer)):
        for k in range(m):
            source = (o * np.uint64(n) + np.uint64(index[k])) * width
            target = (o * m + k) * width
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


@structured("_take", method=False, samples=({"kind": "take_axis"},))
def _take(data, index, axis=REQUIRED):
    """``data`` read along one axis at `index` (int64, checked)."""
    shape = data._shape[:axis] + index._shape + data._shape[axis + 1 :]
    return Spec(shape, data._kind.dtype, axis=axis)


@_take.run
def _(data, index, out, *, axis):
    _take_kernel(data._buf, index._buf, out._buf, *_parts(data._shape, axis))


@structured("_take_add", method=False, samples=({"kind": "take_add"},))
def _take_add(data, index, axis=REQUIRED, n=REQUIRED):
    """Zeros of length `n` along one axis, with the slices of `data` added at `index`."""
    shape = data._shape[:axis] + (n,) + data._shape[axis + index.ndim :]
    return Spec(shape, data._kind.dtype, axis=axis, n=n)


@_take_add.run
def _(data, index, out, *, axis, n):
    _take_add_kernel(data._buf, index._buf, out._buf, *_parts(out._shape, axis))


_take.vjp(data=lambda g, index, data_shape, axis: _take_add(g, index, axis=axis, n=data_shape[axis]))
_take_add.vjp(data=lambda g, index, axis: _take(g, index, axis=axis))


def take_axis(data: NDArray, index: np.ndarray, axis: int) -> NDArray:
    """``numpy.take`` for indices that are known to be in range."""
    where = wrap(
        np.ascontiguousarray(index, dtype=np.int64).reshape(-1), np.shape(index), kind_of(int64, data._kind.ctx)
    )
    return _take(data, where, axis=axis)


def _integers(indices, op: str) -> np.ndarray:
    """Indices as int64; floats are truncated, as MXNet's float32 indices require."""
    values = indices._view() if isinstance(indices, NDArray) else np.asarray(indices)
    if values.dtype.kind not in "fiub":
        raise DTypeError(f"{op}: indices must be numbers, got {values.dtype}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise AttrError(f"{op}: indices must be finite")
    return values.astype(np.int64)


def _in_range(index: np.ndarray, n: int, mode: str, op: str) -> np.ndarray:
    if mode not in ("clip", "wrap", "raise"):
        raise AttrError(f"{op}: mode must be 'clip', 'wrap' or 'raise', got {mode!r}")
    if n == 0 and index.size:
        raise IndexError(f"{op}: cannot take from an axis of length 0")
    if mode == "clip":
        return np.clip(index, 0, n - 1)
    if mode == "wrap":
        return index % max(n, 1)
    if index.size and (index.min() < -n or index.max() >= n):
        bad = index[(index < -n) | (index >= n)].flat[0]
        raise IndexError(f"{op}: index {bad} is out of range for an axis of length {n}")
    return index % max(n, 1)


@composite(method=True, samples=({"kind": "take"},))
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

    Notes
    -----
    The gradient of an element taken several times is the sum.
    """
    a = as_array(a, "take", "a")
    k = resolve_axis(axis, a.ndim, "take")
    return take_axis(a, _in_range(_integers(indices, "take"), a.shape[k], mode, "take"), k)


@composite(method=True, samples=({"kind": "batch_take"},))
def batch_take(a, indices):
    """``a[i, indices[i]]`` for each row i of a matrix; indices are clipped."""
    a = as_array(a, "batch_take", "a")
    if a.ndim != 2:
        raise ShapeError(f"batch_take: a matrix is needed, got shape {a.shape}")
    return pick(a, indices, axis=1)


@composite(aliases=("choose_element_0index",), method=True, samples=({"kind": "pick"},))
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
    """
    data = as_array(data, "pick")
    if axis is None:
        data, axis = reshape(data, (data.size,)), 0
    k = resolve_axis(axis, data.ndim, "pick")
    rest = data.shape[:k] + data.shape[k + 1 :]
    values = _in_range(_integers(index, "pick"), data.shape[k], mode, "pick")
    if values.size != size(rest):
        raise ShapeError(f"pick: index of shape {values.shape} does not fit data of shape {data.shape} without axis {k}")
    outer, n, inner = _parts(data.shape, k)
    flat = (np.arange(outer)[:, None] * n + values.reshape(outer, inner)) * inner + np.arange(inner)
    out = take_axis(reshape(data, (data.size,)), flat.reshape(-1), 0)
    return reshape(out, data.shape[:k] + (1,) + data.shape[k + 1 :] if keepdims else rest or (1,))


@composite(aliases=("onehot_encode",), method=True, samples=({"kind": "one_hot"},), differentiable=False)
def one_hot(indices, depth, on_value=1.0, off_value=0.0, dtype="float32"):
    """A new last axis of length `depth` with `on_value` at the index and `off_value` elsewhere.

    An index out of range gives `off_value` throughout. Gradient: 0.
    """
    values = _integers(indices, "one_hot")
    out = np.where(values[..., None] == np.arange(int(depth)), on_value, off_value)
    return from_value(out, like=indices._kind if isinstance(indices, NDArray) else None, dtype=as_dtype(dtype))


@composite(method=False, samples=({"kind": "embedding"},))
def Embedding(data, weight, input_dim=None, output_dim=None, dtype=None, sparse_grad=False):
    """Rows of `weight` (input_dim, output_dim) for the indices in `data`; indices are clipped."""
    weight = as_array(weight, "Embedding", "weight")
    if weight.ndim != 2 or weight.shape[0] != (input_dim or weight.shape[0]) or weight.shape[1] != (output_dim or weight.shape[1]):  # fmt: skip
        raise ShapeError(f"Embedding: weight has shape {weight.shape}, expected {(input_dim, output_dim)}")
    return take(weight, as_array(data, "Embedding"), axis=0)


def _flat_positions(indices: np.ndarray, shape: tuple[int, ...], op: str) -> np.ndarray:
    """Positions in the leading axes of `shape`, from one row of indices per axis (negative ones count from the end)."""
    total = np.zeros(indices.shape[1:], np.int64)
    for row, n in zip(indices, shape, strict=False):
        total = total * n + _in_range(row, n, "raise", op)
    return total


@composite(method=True, samples=({"kind": "gather_nd"},))
def gather_nd(data, indices):
    """Elements (or blocks) of `data` at ``indices[:, i, ...]``: one row of indices per leading axis.

    Raises
    ------
    IndexError
        For an index out of range.
    """
    data = as_array(data, "gather_nd")
    rows = _integers(indices, "gather_nd")
    if rows.ndim < 1 or rows.shape[0] > data.ndim:
        raise ShapeError(f"gather_nd: indices of shape {rows.shape} for data of shape {data.shape}: at most {data.ndim} rows")
    m = rows.shape[0]
    flat = reshape(data, (size(data.shape[:m]), *data.shape[m:]))
    return take_axis(flat, _flat_positions(rows, data.shape[:m], "gather_nd"), 0)


@composite(method=False, samples=({"kind": "scatter_nd"},))
def scatter_nd(data, indices, shape):
    """Zeros of `shape` with ``data[i, ...]`` added at ``indices[:, i, ...]``: the adjoint of ``gather_nd``.

    Where indices repeat, values add up (MXNet leaves that undefined).
    """
    data = as_array(data, "scatter_nd")
    rows, shape = _integers(indices, "scatter_nd"), tuple(int(n) for n in shape)
    m = rows.shape[0] if rows.ndim else 0
    if not 1 <= m <= len(shape) or data.shape != rows.shape[1:] + shape[m:]:
        raise ShapeError(f"scatter_nd: data {data.shape} and indices {rows.shape} do not fit shape {shape}")
    positions = _flat_positions(rows, shape[:m], "scatter_nd")
    index = wrap(positions.reshape(-1), (positions.size,), kind_of(int64, data._kind.ctx))
    flat = reshape(data, (positions.size, *shape[m:]))
    return reshape(_take_add(flat, index, axis=0, n=size(shape[:m])), shape)


# x[key].


class _View(tape.Rule):
    """Neighbouring elements of an array, on its memory."""

    name = "slice_view"

    def grads(self, node, g, useful):
        begin, counts, shape = node.attrs
        block = reshape(g, counts)
        return [embed(block, begin=begin, step=(1,) * len(shape), shape=shape)]


_VIEW = _View()


def _normalise(key, ndim: int) -> list:
    """The key as a list with one entry per axis (ints, slices, int or bool arrays) and None for new axes."""
    items = list(key) if isinstance(key, tuple) else [key]
    out: list = []
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice):
            out.append(item)
        elif isinstance(item, bool | np.bool_):
            out.append(int(item))
        elif isinstance(item, int | np.integer):
            out.append(int(item))
        elif isinstance(item, NDArray | np.ndarray | list | tuple | range):
            values = item._view() if isinstance(item, NDArray) else np.asarray(item)
            if isinstance(item, NDArray) and values.dtype.kind == "f":
                values = _integers(item, "indexing")  # MXNet's index arrays are float32
            if values.size == 0 and not isinstance(item, np.ndarray | NDArray):
                values = values.astype(np.int64)
            if values.dtype.kind not in "iub":
                raise ValueError(f"indexing with an array of dtype {values.dtype} is not supported; use integers or bools")
            out.append(values if values.dtype.kind == "b" else values.astype(np.int64))
        else:
            raise ValueError(f"indexing with {item!r} is not supported; use integers, slices, arrays, None or Ellipsis")
    used = sum(0 if i is None or i is Ellipsis else i.ndim if isinstance(i, np.ndarray) and i.dtype.kind == "b" else 1 for i in out)  # fmt: skip
    if used > ndim:
        raise IndexError(f"too many indices: {used} for an array with {ndim} dimension(s)")
    dots = [k for k, i in enumerate(out) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have one Ellipsis ('...') only")
    at = dots[0] if dots else len(out)
    out[at : at + 1] = [slice(None)] * (ndim - used)
    return out


def _position(i: int, n: int, axis: int) -> int:
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of range for axis {axis} with length {n}")
    return i % n


def getitem(self: NDArray, key) -> NDArray:
    """Read by index, as in NumPy: ints, slices, None, Ellipsis, integer arrays, boolean masks, and mixtures.

    One element has shape (1,). Elements that are neighbours in memory (``x[2]``, ``x[1:5]``) share it;
    everything else is a copy. Recorded.

    Raises
    ------
    IndexError
        For an index out of range, or too many of them.
    ValueError
        For a key of another type.
    """
    if type(key) is int and self._shape:  # the short way for x[i]
        begin, n = _position(key, self._shape[0], 0), self._shape[0]
        return _view(self, (begin,) + (0,) * (self.ndim - 1), (1,) + self._shape[1:], self._shape[1:] or (1,)) if n else self
    items = _normalise(key, self.ndim)
    if any(isinstance(i, np.ndarray) for i in items):
        return _advanced(self, items)
    return _basic(self, items)


def _basic(x: NDArray, items: list) -> NDArray:
    begin, step, counts, shape = [], [], [], []
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        n = x._shape[axis]
        if isinstance(item, slice):
            if item.step is not None and item.step == 0:
                raise ValueError("slice step cannot be zero")
            walk = range(*item.indices(n))
            begin.append(walk.start if len(walk) else 0)
            step.append(walk.step if len(walk) > 1 else 1)
            counts.append(len(walk))
            shape.append(len(walk))
        else:
            begin.append(_position(item, n, axis))
            step.append(1)
            counts.append(1)
        axis += 1
    final = tuple(shape) or (() if not x._shape else (1,))
    if all(s == 1 for s in step) and _neighbours(x._shape, counts):
        return _view(x, tuple(begin), tuple(counts), final)
    return reshape(slice_(x, begin=tuple(begin), step=tuple(step), shape=tuple(counts)), final)


def _neighbours(shape: tuple[int, ...], counts: list[int]) -> bool:
    """Whether a block is one run of memory: single places, then one range, then whole axes."""
    k = 0
    while k < len(counts) and counts[k] == 1:
        k += 1
    return all(c == n for c, n in zip(counts[k + 1 :], shape[k + 1 :], strict=True))


def _view(x: NDArray, begin: tuple[int, ...], counts: tuple[int, ...], shape: tuple[int, ...]) -> NDArray:
    start = sum(b * s for b, s in zip(begin, strides_of(x._shape), strict=True))
    out = alias(x, x._buf[start : start + size(counts)], shape)
    if state.recording and x._node is not None:
        out._node = tape.node(_VIEW, (x._node,), (), (begin, counts, x._shape), shape, x._kind)
    return out


def _advanced(x: NDArray, items: list) -> NDArray:
    if _leads(items):
        return _leading_arrays(x, items)
    # Slices between arrays: let NumPy say where the elements are.
    positions = np.arange(x.size).reshape(x._shape)[tuple(items)]
    return reshape(take_axis(reshape(x, (x.size,)), positions, 0), positions.shape or (1,))


def _leads(items: list) -> bool:
    """Whether arrays and ints come first, and whole axes after them."""
    k = 0
    while k < len(items) and isinstance(items[k], np.ndarray | int):
        k += 1
    return all(isinstance(i, slice) and i == slice(None) for i in items[k:])


def _leading_arrays(x: NDArray, items: list) -> NDArray:
    rows: list[np.ndarray] = []
    axis = 0
    for item in items:
        if isinstance(item, slice):
            break
        if isinstance(item, np.ndarray) and item.dtype.kind == "b":
            if item.shape != x._shape[axis : axis + item.ndim]:
                raise IndexError(f"boolean index of shape {item.shape} does not match array shape {x._shape} at axis {axis}")
            rows += item.nonzero() if item.ndim else [np.zeros(int(item), np.int64)]
            axis += item.ndim
        else:
            rows.append(np.asarray(item))
            axis += 1
    try:
        index = np.stack(np.broadcast_arrays(*rows))
    except ValueError:
        raise IndexError(f"index arrays of shapes {[r.shape for r in rows]} do not broadcast together") from None
    positions = _flat_positions(index, x._shape[:axis], "indexing")
    flat = reshape(x, (size(x._shape[:axis]), *x._shape[axis:]))
    return take_axis(flat, positions, 0) if positions.shape + x._shape[axis:] else take_axis(flat, positions.reshape(1), 0)


# x[key] = value.


def check_write(target: NDArray, source) -> None:
    """Refuse, while recording, writes that would make gradients wrong."""
    if not state.recording:
        return
    if target._node is not None:
        raise NBGradError(IN_GRAPH)
    if isinstance(source, NDArray) and source._node is not None:
        raise NBGradError(IN_PLACE)


def _is_whole(key) -> bool:
    return key is None or key is Ellipsis or (isinstance(key, slice) and key == slice(None))


def setitem(self: NDArray, key, value) -> None:
    """Assign by index, as in NumPy: scalars, lists, NumPy arrays and NDArrays, broadcast and converted.

    Raises
    ------
    NBGradError
        While recording, for an array that is in a graph, or a recorded value into part of an array.
    ShapeError
        If the value does not broadcast to what the key selects.
    """
    if _is_whole(key) and state.recording and isinstance(value, NDArray) and value._node is not None:
        if self._node is not None:
            raise NBGradError(IN_GRAPH)
        recorded = value if value._shape == self._shape else broadcast_to(value, shape=self._shape)
        recorded = recorded.astype(self.dtype)  # type: ignore[attr-defined]
        self._buf[:] = recorded._buf
        self._cell[0] += 1
        self._node = recorded._node
        return
    check_write(self, value)
    if value is None:
        raise DTypeError("assignment: None is not a number")
    numpy_key = key if _is_whole(key) else tuple(_normalise(key, self.ndim))
    source = value._view() if isinstance(value, NDArray) else value
    view = self._view()
    if isinstance(source, np.ndarray) and np.shares_memory(source, view):
        source = source.copy()
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.asarray(source)
            if values.dtype.kind not in "fiub":
                raise DTypeError(f"assignment: a value of dtype {values.dtype} cannot be stored in {self._kind.dtype}")
            view[numpy_key] = values.astype(view.dtype)
    except ValueError as err:
        if isinstance(err, NBGradError):
            raise
        raise ShapeError(f"assignment: {err}") from None
    self._cell[0] += 1
