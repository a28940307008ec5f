"""Functions that change the shape of arrays, join them, and split them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from ..core.registry import operators
from ..errors import AttrError, ShapeError
from ..kernels.shape import reshape as _to_shape
from .arrays import as_array, ndarray, stored, with_common_dtype
from .views import source_of, viewing

__all__ = ["append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "axis_of", "block",
           "broadcast_arrays", "broadcast_to", "column_stack", "concat", "concatenate", "dsplit",
           "dstack", "expand_dims", "expanded", "hsplit", "hstack", "matrix_transpose", "moveaxis", "permute_dims",
           "ravel", "reshape", "rollaxis", "split", "squeeze", "stack", "swapaxes", "together",
           "transpose", "unstack", "vsplit", "vstack"]  # fmt: skip


def axis_of(axis: Any, ndim: int, name: str) -> int:
    k = index(axis)
    if not -ndim <= k < ndim:
        raise np.exceptions.AxisError(f"{name}: axis {axis} is out of bounds for {ndim} axes")
    return k % ndim


def together(name: str, arrays: Sequence) -> list[ndarray]:
    """The arrays, with a common dtype."""
    found = [as_array(a, name) for a in arrays]
    if not found:
        raise ShapeError(f"{name}: at least one array is needed")
    return with_common_dtype(name, *found)


# Shapes.


def _in_order(name: str, call: Callable, x: ndarray, shape: Any, order: str) -> ndarray:
    """A reshape that takes the elements row by row, or, as in Fortran, column by column."""
    if order in ("A", "K") and source_of(x) is not None:
        raise AttrError(f"{name}: order={order!r} of a view depends on how NumPy stores it; give 'C' or 'F'")
    if order not in ("A", "C", "F", *("K" if name == "ravel" else "")):
        raise AttrError(f"{name}: order must be 'C', 'F' or 'A', got {order!r}")
    return transpose(call(transpose(x), shape[::-1])) if order == "F" else call(x, shape)


def reshape(a, /, shape, order="C", *, copy=None) -> ndarray:
    """The elements in another shape; one length may be -1: what is left. On the same memory."""
    x = as_array(a, "reshape")
    wanted = tuple(index(n) for n in shape) if isinstance(shape, tuple | list) else (index(shape),)
    free = [k for k, n in enumerate(wanted) if n == -1]
    known = math.prod(n for n in wanted if n != -1)
    if len(free) > 1 or any(n < -1 for n in wanted) or (free and (known == 0 or x.size % known)):
        raise ShapeError(f"reshape: an array of shape {x.shape} cannot be given the shape {wanted}")
    lengths: Any = tuple(x.size // known if n == -1 else n for n in wanted)
    found = _in_order("reshape", _reshaped, x, lengths, order)
    if copy is False and found._cell is not x._cell and source_of(found) is None and x.size and not x._kind.traced:
        raise ValueError("reshape: a copy is needed, which copy=False forbids; use copy=None")
    return found.copy() if copy else found


def ravel(a, order="C") -> ndarray:
    """The elements in one axis, on the same memory."""
    return _in_order("ravel", _raveled, x := as_array(a, "ravel"), (x.size,), order)


_reshaped: Any = viewing(_to_shape, np.reshape)
_raveled: Any = viewing(_to_shape, lambda x, shape: np.ravel(x))


def transpose(a, axes=None) -> ndarray:
    """The axes in another order, reversed by default."""
    x = as_array(a, "transpose")
    if axes is not None:
        axes = tuple(axis_of(k, x.ndim, "transpose") for k in axes)
    return operators["transpose"].call(x, axes=axes) if x.ndim > 1 else x


transpose = permute_dims = viewing(transpose, np.transpose)


def matrix_transpose(x, /) -> ndarray:
    """The last two axes exchanged."""
    return swapaxes(x, -1, -2)


def swapaxes(a, axis1, axis2) -> ndarray:
    """Two axes exchanged."""
    x = as_array(a, "swapaxes")
    return operators["swapaxes"].call(x, axis_of(axis1, x.ndim, "swapaxes"), axis_of(axis2, x.ndim, "swapaxes"))


swapaxes = viewing(swapaxes, np.swapaxes)


def moveaxis(a, source, destination) -> ndarray:
    """Axes moved to other places, the others in order."""
    return operators["moveaxis"].call(as_array(a, "moveaxis"), source, destination)


moveaxis = viewing(moveaxis, np.moveaxis)


def rollaxis(a, axis, start=0) -> ndarray:
    """An axis moved to before another one."""
    x = as_array(a, "rollaxis")
    axis, start = axis_of(axis, x.ndim, "rollaxis"), start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


def expand_dims(a, axis) -> ndarray:
    """New axes of length 1 at these places."""
    x = as_array(a, "expand_dims")
    places = axis if isinstance(axis, tuple | list) else (axis,)
    ndim = x.ndim + len(places)
    at = {axis_of(k, ndim, "expand_dims") for k in places}
    if len(at) < len(places):
        raise ShapeError(f"expand_dims: an axis is given twice in {axis}")
    rest = iter(x.shape)
    return reshape(x, tuple(1 if k in at else next(rest) for k in range(ndim)))


def squeeze(a, axis=None) -> ndarray:
    """Without axes of length 1: all, or those given."""
    x = as_array(a, "squeeze")
    if axis is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    if not x.ndim and axis in (0, -1):  # as in NumPy
        return reshape(x, ())
    at = {axis_of(k, x.ndim, "squeeze") for k in (axis if isinstance(axis, tuple) else (axis,))}
    if any(x.shape[k] != 1 for k in at):
        raise ShapeError(f"squeeze: axis {axis} of the shape {x.shape} has not length 1")
    return reshape(x, tuple(n for k, n in enumerate(x.shape) if k not in at))


def _at_least(name: str, ndim: int, shape: Callable) -> Callable:
    def function(*arys) -> Any:
        found = [as_array(a, name) for a in arys]
        found = [x if x.ndim >= ndim else reshape(x, shape(x.shape)) for x in found]
        return found[0] if len(found) == 1 else tuple(found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Arrays with at least {ndim} axes."
    return function


atleast_1d = _at_least("atleast_1d", 1, lambda s: (1,))
atleast_2d = _at_least("atleast_2d", 2, lambda s: (1,) * (2 - len(s)) + s)
atleast_3d = _at_least("atleast_3d", 3, lambda s: (1, *s, 1) if len(s) == 1 else (*s, 1) if s else (1, 1, 1))


def expanded(array, shape) -> ndarray:
    """An array repeated to a shape, in memory of its own unless it has that shape: no view of the array."""
    given = as_array(array, "broadcast_to")
    wanted = tuple(index(n) for n in shape) if isinstance(shape, tuple | list) else (index(shape),)
    x = reshape(given, (1,) * (len(wanted) - given.ndim) + given.shape)
    if x.ndim > len(wanted) or any(n < 0 or n != m != 1 for n, m in zip(wanted, x.shape, strict=True)):
        raise ShapeError(f"broadcast_to: an array of shape {given.shape} cannot be given the shape {wanted}")
    if 0 in wanted:  # which the operator reads as "the length that is there"
        x = x[tuple(slice(0, min(n, m)) for n, m in zip(wanted, x.shape, strict=True))]
    return x if x.shape == wanted else operators["broadcast_to"].call(x, shape=wanted)


def broadcast_to(array, shape) -> ndarray:
    """An array repeated to a shape; it cannot be written."""
    return expanded(array, shape)


broadcast_to = viewing(broadcast_to, np.broadcast_to, readonly=True)


def broadcast_arrays(*args) -> tuple[ndarray, ...]:
    """Arrays repeated to their common shape."""
    arrays = [as_array(a, "broadcast_arrays") for a in args]
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    return tuple(broadcast_to(x, shape) for x in arrays)


# Joining and splitting.


def concatenate(arrays, axis=0, out=None, *, dtype=None) -> ndarray:
    """Arrays joined along an axis; flattened for None."""
    parts = together("concatenate", arrays)
    if axis is None:
        parts, axis = [ravel(x) for x in parts], 0
    found = operators["concat"].call(*parts, dim=axis_of(axis, parts[0].ndim, "concatenate"))
    return stored(found if dtype is None else found.astype(dtype), out, "concatenate")


concat = concatenate


def stack(arrays, axis=0, out=None) -> ndarray:
    """Arrays of one shape along a new axis."""
    parts = together("stack", arrays)
    return stored(operators["stack"].call(*parts, axis=axis_of(axis, parts[0].ndim + 1, "stack")), out, "stack")


def unstack(x, /, *, axis=0) -> tuple[ndarray, ...]:
    """The slices along an axis."""
    return tuple(moveaxis(x, axis, 0))


def hstack(tup, *, dtype=None, casting="same_kind") -> ndarray:
    """Arrays joined along the second axis; vectors along the first."""
    arrays = [atleast_1d(a) for a in tup]
    return concatenate(arrays, 0 if arrays[0].ndim == 1 else 1, dtype=dtype)


def vstack(tup, *, dtype=None, casting="same_kind") -> ndarray:
    """Arrays joined along the first axis, as rows."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype)


def dstack(tup) -> ndarray:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2)


def column_stack(tup) -> ndarray:
    """Vectors as the columns of a matrix; matrices joined along the second axis."""
    arrays = [as_array(a, "column_stack") for a in tup]
    return concatenate([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in arrays], 1)


def block(arrays) -> ndarray:
    """An array from nested lists of blocks."""

    def depth(item) -> int:
        return 1 + depth(item[0]) if isinstance(item, list) else 0

    def ndim(item) -> int:
        return max(map(ndim, item)) if isinstance(item, list) else as_array(item, "block").ndim

    total = max(depth(arrays), ndim(arrays))

    def joined(item, axis: int) -> ndarray:
        if isinstance(item, list):
            return concatenate([joined(part, axis + 1) for part in item], axis)
        x = as_array(item, "block")
        return reshape(x, (1,) * (total - x.ndim) + x.shape)

    found = joined(arrays, -depth(arrays))
    return found if isinstance(arrays, list) else found.copy()


def append(arr, values, axis=None) -> ndarray:
    """Values joined to the end of an array."""
    return concatenate([arr, values], axis)


def array_split(ary, indices_or_sections, axis=0) -> list[ndarray]:
    """Parts of an array along an axis: so many of nearly equal lengths, or between these indices."""
    x = as_array(ary, "array_split")
    k = axis_of(axis, x.ndim, "array_split")
    n = x.shape[k]
    if isinstance(indices_or_sections, int | np.integer):
        whole, more = divmod(n, int(indices_or_sections))
        ends = np.cumsum([whole + (j < more) for j in range(indices_or_sections)]).tolist()
        ends = ends[:-1]
    else:
        ends = [slice(0, index(e)).indices(n)[1] for e in indices_or_sections]
    before: tuple = (slice(None),) * k
    return [x[(*before, slice(a, max(a, b)))] for a, b in zip([0, *ends], [*ends, n], strict=True)]


def split(ary, indices_or_sections, axis=0) -> list[ndarray]:
    """Parts of an array along an axis: so many of equal lengths, or between these indices."""
    x = as_array(ary, "split")
    if isinstance(indices_or_sections, int) and x.shape[axis] % indices_or_sections:
        raise ShapeError(f"split: {x.shape[axis]} elements cannot be cut into {indices_or_sections} equal parts")
    return array_split(x, indices_or_sections, axis)


def hsplit(ary, indices_or_sections) -> list[ndarray]:
    """:func:`split` along the second axis; of a vector along the first."""
    x = as_array(ary, "hsplit")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def vsplit(ary, indices_or_sections) -> list[ndarray]:
    """:func:`split` along the first axis."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary, indices_or_sections) -> list[ndarray]:
    """:func:`split` along the third axis."""
    return split(ary, indices_or_sections, 2)
