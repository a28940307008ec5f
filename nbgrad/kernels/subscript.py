"""``x[key]``: reading and writing by index.

Every kind of reading with integer arrays becomes a ``_take`` of a reshaped array. Reading with slices alone
is :mod:`.shape`'s ``slice`` or, where the elements are neighbours in memory, an array on the same memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..arrays.launch import cast_into, fill
from ..arrays.ndarray import NDArray, from_host_values
from ..arrays.sharing import alias, update_sharers
from ..autodiff import tape, tracing
from ..autodiff.cotangents import own_cotangent
from ..autodiff.observers import observers
from ..autodiff.state import recording
from ..autodiff.writes import IN_PLACE, check_target, overwrite
from ..backends.buffer_pool import extend_in_place
from ..core.dtypes import convertible, int64, without_subclass
from ..core.shapes import size, strides_of
from ..errors import DTypeError, MaskWarning, NBGradError, RangeError, ShapeError
from ..operators.call_plan import Plan
from ..operators.cast import cast
from .broadcasting import broadcast_to
from .host import demand_shape
from .indexing import flat_positions, in_range, integers, take_axis
from .shape import reshape, transpose
from .slices import block_slices, embed, slice_

__all__ = ["check_write", "getitem", "is_whole", "setitem", "slice_assign", "slice_assign_scalar"]

# x[key].


class _View(tape.Rule):
    """Neighbouring elements of an array, on its memory."""

    name = "slice_view"

    def grads(self, node, g, useful):
        begin, counts, shape = node.attrs
        block = reshape(g, counts)
        return [embed(block, begin=begin, step=(1,) * len(shape), shape=shape)]

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        (p,) = node.parents
        begin, _, shape = node.attrs
        kind = node.kind
        start = sum([b * s for b, s in zip(begin, strides_of(shape), strict=True)])
        stop = start + g.size
        old = cotangents.get(p)
        if old is None:
            n = size(shape)
            out = (
                extend_in_place(g, n) if start == 0 and node not in borrowed else None
            )  # x[:-1]: then g is where it belongs
            if out is None:
                out = kind.empty(n, kind.storage)
                out[:start] = 0
                out[start:stop] = g
            out[stop:] = 0
            cotangents[p] = out
        else:
            if p in borrowed:
                old = own_cotangent(p, kind, cotangents, borrowed)
            kind.accumulate(g, old[start:stop])


_VIEW = _View()


_ARRAYS = np.ndarray | NDArray


def _axes_used(item) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


_MASK = (
    "the index has the shape of a mask and holds nothing but zeros and ones, as comparisons give, but its dtype is {}: "
    "it is read as positions, as in MXNet. For a mask write x[(x > 0).astype(bool)] or nd.boolean_mask(x, x > 0); for "
    "positions, x[index.asnumpy().astype(int)]"
)


def _like_mask(index: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether positions on axes of this shape may be a mask of them: zeros and ones, but no order of all of them."""
    if index.shape != shape or index.size < 2 or index.min() < 0 or index.max() > 1:
        return False
    return index.size > 2 or index.flat[0] == index.flat[1]


def _normalise(key, x: NDArray, beside: NDArray | None = None) -> list:
    """The key for `x` as a list with one entry per axis (ints, slices, int or bool arrays) and None for new axes.

    Integers on a GPU `beside` an array stay there.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    out: list = []
    read: list[tuple[int, NDArray]] = []  # arrays of ours that are read as positions
    for item in items:
        item = item.to_numpy() if convertible(item) and not isinstance(item, NDArray) else item  # a pandas Series
        if item is None or item is Ellipsis or isinstance(item, slice):
            out.append(item)
        elif isinstance(item, int | np.integer | np.bool_):
            out.append(int(item))
        elif isinstance(item, NDArray | np.ndarray | list | tuple | range):
            if isinstance(item, NDArray) and tracing.current.graph is not None:
                if item._kind.dtype.name == "bool":
                    demand_shape("indexing", "the mask", item)
                out.append(integers(item, "indexing"))
                continue
            if isinstance(item, NDArray) and item._kind.dtype.name != "bool":
                given, item = item, integers(item, "indexing", beside)
                if isinstance(item, NDArray):
                    out.append(item)
                    continue
                read.append((len(out), given))
            values = item._view() if isinstance(item, NDArray) else np.asarray(without_subclass(item, "indexing"))
            if values.size == 0 and not isinstance(item, np.ndarray | NDArray):
                values = values.astype(np.int64)
            if values.dtype.kind not in "iub":
                raise ValueError(
                    f"indexing with an array of dtype {values.dtype} is not supported; use integers or bools"
                )
            out.append(values if values.dtype.kind == "b" else values.astype(np.int64))
        else:
            raise ValueError(f"indexing with {item!r} is not supported; use integers, slices, arrays, None or Ellipsis")
    ndim, used = x.ndim, sum(map(_axes_used, out))
    if used > ndim:
        raise RangeError(f"too many indices: {used} for an array with {ndim} dimension(s)")
    dots = [k for k, i in enumerate(out) if i is Ellipsis]
    if len(dots) > 1:
        raise RangeError("an index can have one Ellipsis ('...') only")
    at = dots[0] if dots else len(out)
    if len(read) == 1 and sum(isinstance(i, _ARRAYS) for i in out) == 1:
        ((k, index),) = read
        axis, dtype = sum(map(_axes_used, out[:k])) + (ndim - used) * (k > at), index._kind.dtype
        compared = dtype.is_float or dtype is x._kind.dtype  # as comparisons give, of integers too
        if compared and _like_mask(out[k], x._shape[axis : axis + index.ndim]):
            warnings.warn(_MASK.format(dtype), MaskWarning, stacklevel=3)
    if used < ndim or not dots or not _separates(out, at):
        out[at : at + 1] = [slice(None)] * (ndim - used)
    return out


def _separates(items: list, at: int) -> bool:
    """Whether the Ellipsis at `at`, even of no axes, stands between arrays or ints, so that their axes come first."""
    sides = items[:at], items[at + 1 :]
    indices = all(any(isinstance(i, _ARRAYS | int) for i in side) for side in sides)
    return indices and any(isinstance(i, _ARRAYS) for i in items)


def _position(i: int, n: int, axis: int) -> int:
    if not -n <= i < n:
        raise RangeError(f"index {i} is out of range for axis {axis} with length {n}")
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

    Warns
    -----
    MaskWarning
        If an index of another dtype than bool, which is read as positions, looks like a mask.
    """
    if type(key) is int and self._shape:  # the short way for x[i]
        begin, n = _position(key, self._shape[0], 0), self._shape[0]
        return (
            _view(
                self,
                (begin,) + (0,) * (self.ndim - 1),
                (1,) + self._shape[1:],
                self._shape[1:] or self._kind.conventions.scalar,
            )
            if n
            else self
        )
    known = None if tracing.current.graph is not None else _plain_key(self, key)
    if known is not None and (read := _prepared.get(known)) is not None:
        return read(self)
    items = _normalise(key, self, self)
    if any(isinstance(i, NDArray) for i in items):
        return _traced(self, items)
    if any(isinstance(i, np.ndarray) for i in items):
        return _advanced(self, items)
    return _basic(self, items, known)


#: Reading by slices and ints, prepared: :func:`_plain_key` -> function of the array.
_prepared: dict[tuple, Callable[[NDArray], NDArray]] = {}
_MAX_PREPARED = 1024
_INDEX = frozenset({int, type(None)})


def _plain_key(x: NDArray, key) -> tuple | None:
    """Shape, kind and key as a hashable tuple, if the key has ints, None, Ellipsis and slices of ints alone."""
    parts: list = [x._shape, x._kind]
    for item in key if key.__class__ is tuple else (key,):
        if item.__class__ is slice:
            triple = item.start, item.stop, item.step
            for part in triple:
                if part.__class__ not in _INDEX:
                    return None
            parts.append(triple)
        elif item.__class__ is int or item is None or item is Ellipsis:
            parts.append(item)
        else:
            return None
    return tuple(parts)


def _basic(x: NDArray, items: list, known: tuple | None = None) -> NDArray:
    """Slices, ints and None. `known`: keep what is prepared under this key."""
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
    final = tuple(shape) or (() if not x._shape else x._kind.conventions.scalar)
    if all(s == 1 for s in step) and _neighbours(x._shape, counts):
        read = partial(_view, begin=tuple(begin), counts=tuple(counts), shape=final)
    else:
        attrs = {"begin": tuple(begin), "step": tuple(step), "shape": tuple(counts)}
        if known is None:
            return reshape(slice_.invoke((x,), attrs), final)
        plan = slice_.plan((x,), attrs)
        assert plan is not None, "no key where a function is traced"
        read = partial(_copy, plan=plan, shape=final)
    if known is not None:
        if len(_prepared) >= _MAX_PREPARED:
            _prepared.clear()
        _prepared[known] = read
    return read(x)


def _copy(x: NDArray, plan: Plan, shape: tuple[int, ...]) -> NDArray:
    (out,) = slice_.execute((x,), plan)
    return out if out._shape == shape else reshape(out, shape)


def _neighbours(shape: tuple[int, ...], counts: list[int]) -> bool:
    """Whether a block is one run of memory: single places, then one range, then whole axes."""
    k = 0
    while k < len(counts) and counts[k] == 1:
        k += 1
    return all(c == n for c, n in zip(counts[k + 1 :], shape[k + 1 :], strict=True))


def _view(x: NDArray, begin: tuple[int, ...], counts: tuple[int, ...], shape: tuple[int, ...]) -> NDArray:
    if observers and tracing.current.graph is not None:  # a compiler knows nothing of flat memory
        return reshape(slice_(x, begin=begin, step=(1,) * len(begin), shape=counts), shape)
    start = sum(b * s for b, s in zip(begin, strides_of(x._shape), strict=True))
    out = alias(x, x._buf[start : start + size(counts)], shape)
    if recording() and x._node is not None:
        out._node = tape.node(_VIEW, (x._node,), (), (begin, counts, x._shape), shape, x._kind)
    return out


def _advanced(x: NDArray, items: list) -> NDArray:
    if _leads(items):
        return _leading_arrays(x, items)
    # Slices between arrays: let NumPy say where the elements are.
    positions = np.arange(x.size).reshape(x._shape)[tuple(items)]
    return reshape(take_axis(reshape(x, (x.size,)), positions, 0), positions.shape or x._kind.conventions.scalar)


def _traced(x: NDArray, items: list) -> NDArray:
    """The same for arrays that are traced or on a GPU: the axes they index are brought together and read as one."""
    parts: list = []
    for item in items:
        masked = isinstance(item, np.ndarray) and item.dtype.kind == "b"
        parts += np.nonzero(item) if masked else [item]
    places = [k for k, item in enumerate(parts) if isinstance(item, _ARRAYS | int)]
    together = places[-1] - places[0] == len(places) - 1
    parts = [item for item in parts if item is not Ellipsis]
    places = [k for k, item in enumerate(parts) if isinstance(item, _ARRAYS | int)]
    block = _basic(x, [slice(None) if isinstance(item, _ARRAYS | int) else item for item in parts])
    indices = [parts[k] for k in places]
    try:
        np.broadcast_shapes(*[np.shape(i) for i in indices])
    except ValueError:
        shapes = [np.shape(i) for i in indices]
        raise RangeError(f"index arrays of shapes {shapes} do not broadcast together") from None
    positions: NDArray | None = None
    for item, k in zip(indices, places, strict=True):
        row = in_range(item if isinstance(item, NDArray) else np.asarray(item), block._shape[k], "raise", "indexing")
        row = row if isinstance(row, NDArray) else from_host_values(row, tracing.outside_kind(x._kind, int64))
        positions = row if positions is None else positions * block._shape[k] + row
    assert positions is not None
    if not together:  # the axes that they index come first
        block = transpose(block, axes=(*places, *[k for k in range(block.ndim) if k not in places]))
        places = list(range(len(places)))
    first, last, shape = places[0], places[-1] + 1, block._shape
    found = take_axis(reshape(block, (*shape[:first], size(shape[first:last]), *shape[last:])), positions, first)
    return found if found._shape else reshape(found, x._kind.conventions.scalar)


def _leads(items: list) -> bool:
    """Whether arrays and ints come first, and whole axes after them."""
    k = 0
    while k < len(items) and isinstance(items[k], np.ndarray | int):
        k += 1
    return all(isinstance(i, slice) and i == slice(None) for i in items[k:])


def _leading_arrays(x: NDArray, items: list) -> NDArray:
    rows: list[np.ndarray] = []
    lengths: list[int] = []  # what the rows index: an axis each, or as many axes as a mask has, seen as one
    axis = 0
    for item in items:
        if isinstance(item, slice):
            break
        if isinstance(item, np.ndarray) and item.dtype.kind == "b":
            lengths_here = x._shape[axis : axis + item.ndim]
            if not item.size and all(n in (0, m) for n, m in zip(item.shape, lengths_here, strict=False)):
                item = np.zeros(lengths_here, bool)  # selects nothing, as in NumPy
            if item.shape != lengths_here:
                raise RangeError(
                    f"boolean index of shape {item.shape} does not match array shape {x._shape} at axis {axis}"
                )
            rows.append(np.flatnonzero(item))
            lengths.append(item.size)
            axis += item.ndim
        else:
            rows.append(np.asarray(item))
            lengths.append(x._shape[axis])
            axis += 1
    try:
        index = np.stack(np.broadcast_arrays(*rows))
    except ValueError:
        raise RangeError(f"index arrays of shapes {[r.shape for r in rows]} do not broadcast together") from None
    positions = flat_positions(index, tuple(lengths), "indexing")
    flat = reshape(x, (size(x._shape[:axis]), *x._shape[axis:]))
    if not positions.shape + x._shape[axis:]:
        positions = positions.reshape(x._kind.conventions.scalar)
    return take_axis(flat, positions, 0)


# x[key] = value.


def check_write(target: NDArray, source) -> None:
    """Refuse, while recording, writes that would make gradients wrong."""
    if not recording():
        return
    check_target(target)
    if isinstance(source, NDArray) and source._node is not None:
        raise NBGradError(IN_PLACE)


def is_whole(key) -> bool:
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
    tracing.check_write("assignment")
    if is_whole(key) and recording() and isinstance(value, NDArray) and value._node is not None:
        check_target(self)
        lead = max(0, value.ndim - self.ndim)
        if value._shape[:lead] == (1,) * lead:  # of `x[None] = value`, for example
            value = reshape(value, value._shape[lead:])
        recorded = value if value._shape == self._shape else broadcast_to(value, shape=self._shape)
        overwrite(self, recorded if recorded._kind is self._kind else cast(recorded, self._kind))
        return
    check_write(self, value)
    if value is None:
        raise DTypeError("assignment: None is not a number")
    numpy_key = ... if is_whole(key) else tuple(_normalise(key, self))
    if self._kind.gpu:
        block = self if numpy_key is ... else _together(self, list(numpy_key))
        if block is not None and _write_there(block, value):
            self._cell[0] += 1
            update_sharers(self)
            return
    source = value._view() if isinstance(value, NDArray) else value
    try:
        with self._written() as view, np.errstate(invalid="ignore", over="ignore"):
            if isinstance(source, np.ndarray) and np.shares_memory(source, view):
                source = source.copy()
            values = np.asarray(without_subclass(source, "assignment"))
            if values.dtype.kind not in "fiub":
                raise DTypeError(f"assignment: a value of dtype {values.dtype} cannot be stored in {self._kind.dtype}")
            if values.size == 1:  # fits anywhere, whatever its rank, as results of shape (1,) must
                values = values.reshape(())
            view[numpy_key] = values.astype(view.dtype)
    except ValueError as err:
        if isinstance(err, NBGradError):
            raise
        raise ShapeError(f"assignment: {err}") from None
    self._cell[0] += 1
    if len(self._cell) > 1:
        update_sharers(self)


def _together(x: NDArray, items: list) -> NDArray | None:
    """The elements that slices and ints select, on the array's memory, if they are neighbours there."""
    if any(isinstance(i, np.ndarray) for i in items):
        return None
    whole = alias(x, x._buf, x._shape)
    block = _basic(whole, items)
    return block if block._cell is x._cell else None


def _write_there(block: NDArray, value) -> bool:
    """Write a number, an array on the same GPU, or the host's, into an array; False if that is for NumPy to refuse."""
    there = isinstance(value, NDArray) and value._kind.ctx == block._kind.ctx
    values = (
        value
        if there
        else np.asarray(value._view() if isinstance(value, NDArray) else without_subclass(value, "assignment"))
    )
    shape = values.shape if values.size != 1 else ()
    while len(shape) > block.ndim and shape[0] == 1:
        shape = shape[1:]
    fits = len(shape) <= block.ndim and all(n in (1, m) for n, m in zip(shape[::-1], block.shape[::-1], strict=False))
    if not fits or (not there and values.dtype.kind not in "fiub"):
        return False
    if there:
        source = reshape(value.detach(), shape)
        source = source if shape == block._shape else broadcast_to(source, shape=block._shape)
        buffer: Any = source._buf
        target: Any = block._buf
        if buffer.lease is target.lease:
            buffer = buffer.copy()
        cast_into(buffer, source._kind, target, block._kind)
    elif values.size == 1:
        fill(block._buf, block._kind.dtype, values.reshape(()))
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            full = np.broadcast_to(values.reshape(shape), block._shape).astype(block._kind.dtype.np)
        block._buf[:] = np.ascontiguousarray(full).reshape(-1).view(block._kind.dtype.storage)
    return True


def slice_assign(self: NDArray, rhs, begin, end, step=None) -> NDArray:
    """Assign to the block ``self[begin[0]:end[0]:step[0], ...]``; returns the array itself.

    Raises
    ------
    NBGradError, ShapeError
        As for assignment by index.
    """
    setitem(self, tuple(block_slices(self.shape, begin, end, step, "slice_assign")), rhs)
    return self


def slice_assign_scalar(self: NDArray, value, begin, end, step=None) -> NDArray:
    """Fill the block ``self[begin[0]:end[0]:step[0], ...]`` with a number; returns the array itself."""
    return slice_assign(self, float(value), begin, end, step)
