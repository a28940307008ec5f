"""``x[key] = values``, and what writes into an array change besides it: views of it, and what it is a view of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..arrays.sharing import is_exported, memory_sharers
from ..autodiff.state import recording
from ..autodiff.tracing import current
from ..autodiff.writes import (
    IN_GRAPH,
    SHARED,
    element_offset,
    is_variable,
    leave_to_tape,
    on_tape,
    overlapping,
    redefine,
)
from ..errors import NBGradError
from ..kernels import subscript
from ..kernels.shape import reshape
from ..operators.cast import reinterpreted
from .arrays import is_recorded, ndarray
from .at import At
from .traced_writes import traced_setitem
from .views import check_writable, copies_of, source_of

__all__ = ["check_index", "setitem", "single_bool", "update_views", "write"]


def single_bool(key: Any) -> bool | None:
    """Whether a subscript is a single bool, which selects everything, along a new axis, or nothing; None for others."""
    if isinstance(key, tuple):
        if any(isinstance(part, bool | np.bool_) for part in key):
            raise IndexError("a bool beside other indices is not supported; give it alone, or a mask")
        return None
    return bool(key) if isinstance(key, bool | np.bool_) else None


def check_index(part: Any) -> None:
    """Raise if a part of a subscript is an array of floats."""
    if isinstance(part, NDArray | np.ndarray) and np.dtype(part.dtype).kind == "f":
        raise IndexError("arrays used as indices must be of integer or bool dtype, not float")


def setitem(self: ndarray, key, value) -> None:
    """Set the elements that a subscript selects; recorded, and seen in views."""
    truth = single_bool(key)
    for part in key if key.__class__ is tuple else (key,):
        check_index(part)
    kind = self._kind.dtype
    if not kind.is_float and not isinstance(value, NDArray | np.ndarray):
        value = np.asarray(value, kind.np) if _plain(value) else value  # which NumPy checks to be in range
    if truth is False:
        return
    key = ... if truth else key
    if current.graph is not None:
        traced_setitem(self, key, value)
        return
    if _linked(self):
        positions = At(self)[key].positions
        write(self, is_recorded(value), lambda: _store(self, key, value), positions)
    else:
        _store(self, key, value)
        update_views(self)  # that another thread made meanwhile


def _store(x: ndarray, key: Any, value: Any) -> None:
    """Set elements of an array, and of those on its memory."""
    whole = subscript.is_whole(key)
    lent = is_exported(x) and whole  # what another library sees must stay where it is
    if recording() and (on_tape(x) or (is_recorded(value) and not lent)):
        given = reinterpreted(value, x._kind.conventions) if isinstance(value, NDArray) else value
        elements = At(x)[key]
        redefine(x, reinterpreted(elements.set(given), x._kind.conventions), elements.positions)
        return
    leave_to_tape(x)
    subscript.setitem(x, key, value)
    if whole and not (recording() and is_recorded(value)):  # nothing is left of a history
        for y in (x, *overlapping(x)):
            if 0 <= element_offset(y, x) <= x._buf.size - y._buf.size and not is_variable(y):
                y._node = None


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, list | tuple) and all(map(_plain, value)))


def _linked(x: ndarray) -> bool:
    """Whether a write into an array changes more than its memory."""
    if source_of(x) or copies_of(x):
        return True
    return len(x._cell) > 1 and any(source_of(y) or copies_of(y) for y in memory_sharers(x))


def _reached(x: ndarray) -> list[NDArray]:
    """All arrays that a write into an array may change."""
    found: list[NDArray] = [x]
    for y in found:
        source = source_of(y)
        beside = [*overlapping(y), *copies_of(y), *([source.base] if source else ())]
        found += [z for z in beside if not _among(z, found)]
    return found


def _among(x: NDArray, arrays: list[NDArray]) -> bool:
    return any(x is y for y in arrays)


def write(x: ndarray, recorded: bool, change: Callable[[], Any], written: np.ndarray | None = None) -> None:
    """Write into an array by `change`, elements at these positions, or all, and into its views, and what it is one of.

    Raises
    ------
    ValueError
        If NumPy has the array as a view that cannot be written.
    NBGradError
        While recording, if it is a view of a marked variable, or of memory that another library has.
    """
    if not _linked(x):
        change()
        return
    _check_views(x, recorded)
    try:
        change()
        _update(x, written)
    except BaseException:  # also when a signal interrupts it: its views have what it has
        with suppress(Exception):
            _update(x)
        raise


def _check_views(x: ndarray, recorded: bool) -> None:
    check_writable(x, *overlapping(x))
    if not recording():
        return
    reached = _reached(x)
    recorded = recorded or any(y._node is not None for y in reached)
    for y in reached[1:]:
        if is_variable(y) or (recorded and (is_exported(y) or y._kind is not x._kind)):
            raise NBGradError(IN_GRAPH + SHARED.format(shape=y._shape))


def update_views(x: ndarray) -> None:
    """Update the views of an array, and what it is a view of, after a write."""
    if _linked(x):
        _update(x)


def _update(x: ndarray, written: np.ndarray | None = None) -> None:
    queue: list[tuple[Any, np.ndarray]] = [(x, np.arange(x.size) if written is None else written)]
    done: list[NDArray] = [x]
    for y, places in queue:  # which grows
        for z in (y, *overlapping(y)):
            done.append(z)
            here = places - element_offset(z, y)
            here = here[(here >= 0) & (here < z.size)]
            source = source_of(z)
            if source is not None and not _among(source.base, done):
                _copy(z, here, source.base, source.positions()[here], queue, done)
            for copy in copies_of(z):
                if not _among(copy, done):
                    selected = source_of(copy).positions()  # type: ignore[union-attr]
                    changed = np.zeros(z.size, bool)
                    changed[here] = True
                    there = np.flatnonzero(changed[selected])
                    _copy(z, selected[there], copy, there, queue, done)


def _copy(x: Any, places: np.ndarray, y: Any, there: np.ndarray, queue: list, done: list) -> None:
    """Copy elements of `x` to those of `y` at the positions `there`."""
    if not there.size:
        return
    values = subscript.getitem(reshape(x, (x.size,)), places)
    whole = there.size == y.size and bool((there == np.arange(y.size)).all())
    _store(y, ... if whole else np.unravel_index(there, y.shape), reshape(values, y.shape) if whole else values)
    queue.append((y, there))
    done.append(y)
    if whole:
        done += [z for z in overlapping(y) if 0 <= element_offset(z, y) <= y.size - z.size]
