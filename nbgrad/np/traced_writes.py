"""Writes under tracing: an array that the traced function has made may be written, and its views follow.

Values of a graph do not change. So the array is bound to a new one, and so are all arrays that have its elements: those
on its memory, its views, and what it is a view of.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, wrap
from ..arrays.sharing import is_exported, memory_sharers
from ..autodiff import tracing
from ..autodiff.state import recording
from ..autodiff.writes import element_offset
from ..errors import TraceError
from ..ir.graph import Graph, current
from ..kernels.shape import reshape
from ..operators.cast import cast
from .arrays import as_stored, ndarray
from .at import At
from .selection import take, where
from .views import Source, check_writable, copies_of, link, source_of

__all__ = ["mark_made", "traced_setitem", "write_traced"]

_OF_OTHERS = (
    "{what}: a traced function writes into an array that it has not made (an argument, an array from outside, or in a "
    "loop or branch one from around it), or into a view of one. Under jit such arrays do not change: write into a copy "
    "(x = x.copy()), and return it"
)

_BESIDE_DETACHED = (
    "{what}: a traced function writes into an array that has the elements of another one, of which one is detached and "
    "one is recorded. Detach a copy: x.detach().copy()"
)
_PAUSED = (
    "{what}: a traced function writes into a recorded array where nothing is recorded (autograd.pause()). Write where "
    "it is recorded, or into a copy: x = x.copy()"
)


def _graph() -> Graph:
    assert current.graph is not None
    return current.graph


def mark_made(x: Any) -> Any:
    """`x`, made of constants by the function that is traced: it may write into it."""
    if isinstance(x, NDArray) and not x._kind.traced:
        _graph().made[id(x)] = x
    return x


def traced_setitem(x: ndarray, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    source = source_of(value)
    if source is not None and source.base is x and np.array_equal(source.positions(), At(x)[key].positions):
        return  # x[key] *= 2, which has written into the view already
    _take_over(x, "assignment")
    write_traced(x, _changed(x, key, value), "assignment")


def _changed(x: ndarray, key: Any, value: Any) -> ndarray:
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if not (isinstance(mask, NDArray) and mask._kind.traced and mask._kind.dtype.name == "bool"):
        return At(x)[key].set(as_stored(value, "assignment", x._kind).astype(x.dtype))
    number = as_stored(value, "assignment", x._kind)
    if number.size != 1 or mask.shape != x.shape[: mask.ndim]:
        raise TraceError(
            "assignment: under jit x[mask] = value takes a single number where the mask is computed, and a mask of the "
            f"shape of x, or of its first axes; got values of shape {number.shape} and a mask of shape {mask.shape} "
            f"for x of shape {x.shape}. Write x = np.where(mask, values, x)"
        )
    mask = reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
    return where(mask, reshape(number, ()).astype(x.dtype), x)


def write_traced(x: Any, new: NDArray, what: str) -> None:
    """Bind `x` to `new`, of its shape, and all arrays that have its elements to what they are now.

    Raises
    ------
    ValueError
        If NumPy has the array as a view that cannot be written.
    TraceError
        If the function that is traced has not made the array, or what it is a view of.
    """
    check_writable(x, *memory_sharers(x))
    reached = _reached(x)
    histories = {y._node is not None for y in reached}
    if True in histories and (len(histories) > 1 or not recording()):
        raise TraceError((_BESIDE_DETACHED if len(histories) > 1 else _PAUSED).format(what=what))
    for y in reached:
        _take_over(y, what)
    _rebind(x, new if new._kind.dtype is x._kind.dtype else cast(new, x._kind))
    done: list[Any] = [x, *_same(x)]
    for z in done:  # which grows
        source = source_of(z)
        if source is not None and not _among(source.base, done):
            base = source.base
            places = np.unravel_index(source.positions(), base.shape)
            _rebind(base, At(base)[places].set(_flat(z)))
            done += [base, *_same(base)]
        for copy in copies_of(z):
            if not _among(copy, done):
                _rebind(copy, _selected(z, source_of(copy), copy))
                done += [copy, *_same(copy)]


def _flat(x: Any) -> Any:
    return reshape(x, (x.size,))


def _selected(base: Any, source: Source | None, view: Any) -> Any:
    """What a view of `base` has."""
    assert source is not None
    return reshape(take(_flat(base), source.positions()), view.shape)


def _same(x: Any) -> list[NDArray]:
    """The other arrays that have the elements of `x`, in other shapes."""
    return [y for y in memory_sharers(x) if y._buf is x._buf]


def _reached(x: Any) -> list[Any]:
    """All arrays that a write into `x` changes."""
    found: list[Any] = [x]
    for y in found:  # which grows
        source = source_of(y)
        beside = [*_same(y), *copies_of(y), *([source.base] if source else ())]
        found += [z for z in beside if not _among(z, found)]
    return found


def _among(x: Any, arrays: list) -> bool:
    return any(x is y for y in arrays)


# From arrays of constants to traced ones.


def _take_over(x: Any, what: str) -> None:
    """Make `x`, and what is on its memory, traced arrays, if the function that is traced has made them."""
    graph = _graph()
    if x._kind.traced:
        if x._buf.graph is not graph or x._buf.given:
            raise TraceError(_OF_OTHERS.format(what=what))
        return
    source = source_of(x)
    if source is not None:
        _take_over(source.base, what)  # and with it its views
        return
    arrays = [x, *memory_sharers(x)]
    made = [y for y in arrays if graph.made.get(id(y)) is y]
    if not made or is_exported(x):
        raise TraceError(_OF_OTHERS.format(what=what))
    base: Any = made[0]
    offsets = {id(y): element_offset(y, base) for y in arrays}
    _trace(base, _captured(base))
    for y in arrays:
        if y is base:
            continue
        first = offsets[id(y)]
        if (first, y.size) == (0, base.size):
            _bind(y, base._buf, base)
            continue
        source = Source(base, partial(_part, first=first, shape=y.shape))
        _trace(y, _selected(base, source, y))
        link(y, source)
    for y in arrays:
        for copy in copies_of(y):
            if not copy._kind.traced:
                _trace(copy, _selected(y, source_of(copy), copy))


def _part(x: np.ndarray, first: int, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape(-1)[first : first + int(np.prod(shape))].reshape(shape)


def _captured(x: NDArray) -> NDArray:
    """The traced array for an array of constants as it is now, which reads of it so far have, too."""
    graph = _graph()
    before = wrap(x._buf, x._shape, x._kind)
    for k, (outside, inside) in enumerate(graph.captured):
        if outside is x:
            graph.captured[k] = before, inside
    return tracing.captured(before)


def _trace(x: Any, value: NDArray) -> None:
    _bind(x, value._buf.copy(), value)


def _rebind(x: Any, new: NDArray) -> None:
    others = _same(x)
    _trace(x, new)
    for y in others:
        _bind(y, x._buf, reshape(new, y._shape))


def _bind(x: Any, buf: Any, like: NDArray) -> None:
    _graph().undo.append(partial(_set, x, x._buf, x._kind, x._node))
    _set(x, buf, like._kind, like._node)


def _set(x: Any, buf: Any, kind: Any, node: Any) -> None:
    x._buf, x._kind, x._node = buf, kind, node
