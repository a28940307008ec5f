"""Version counters of memory that NumPy arrays own, and the origin of values read from them.

There is one counter per memory, however many arrays refer to it: an NDArray on the memory of a NumPy array has the
version cell of that memory. A memory is identified by the array that owns it (the end of the chain of ``base``), or, if
another library owns it, by its addresses.
"""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_left, insort

import numpy as np

from ..errors import NBGradError

__all__ = ["ConversionSource", "cell_of", "register"]

#: By the id of an owner: a weak reference to it, the version cell of its memory, and its entry in `_ranges`.
_owners: dict[int, tuple[weakref.ref, list, tuple[int, int, int]]] = {}
#: (begin, end, id of the owner) of these, and of some dead ones, in order. None is longer than `_longest`.
_ranges: list[tuple[int, int, int]] = []
_longest = 0
#: Ranges of dead owners are dropped when there are this many more ranges than twice the number of owners.
_SLACK = 64

_DIVIDED = (
    "the memory of this array overlaps with that of two others that were taken separately, whose changes are counted "
    "separately: take the array that contains all of them first, or take a copy"
)


def cell_of(values: np.ndarray) -> list:
    """The version cell of an array's memory; the same for every array on it."""
    owner = _owner(values)
    entry_of_owner = _owners.get(id(owner))
    if entry_of_owner is not None and entry_of_owner[0]() is owner:
        return entry_of_owner[1]
    low, high = _bounds(owner)
    begin = bisect_left(_ranges, (low - _longest,))
    nearby = _ranges[begin : bisect_left(_ranges, (high,))]
    candidates = [(_owners.get(entry[2]), entry) for entry in nearby if entry[1] > low]
    cells = [k[1] for k, entry in candidates if k is not None and k[2] is entry]  # another array may have got that id
    cell: list = cells[0] if cells else [0]
    if any(c is not cell for c in cells):
        raise NBGradError(_DIVIDED)
    _add(owner, low, high, cell)
    return cell


def register(values: np.ndarray, cell: list) -> None:
    """Set the version cell of the memory of `values`, before it is exported."""
    owner = _owner(values)
    if id(owner) not in _owners:
        _add(owner, *_bounds(owner), cell)


def _owner(values: np.ndarray) -> np.ndarray:
    """The array at the end of the chain of ``base``."""
    base = values.base
    while isinstance(base, np.ndarray | _MemoryView):
        values = base if isinstance(base, np.ndarray) else base.owner
        base = values.base
    return values


def _bounds(values: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte and of the byte after the last."""
    begin = end = values.ctypes.data
    if values.size:
        for n, stride in zip(values.shape, values.strides, strict=True):
            begin += min(0, (n - 1) * stride)
            end += max(0, (n - 1) * stride)
        end += values.itemsize
    return begin, end


def _add(owner: np.ndarray, low: int, high: int, cell: list) -> None:
    global _longest
    key = id(owner)
    entry = low, high, key
    _owners[key] = (
        weakref.ref(owner, functools.partial(_owners.pop, key)),
        cell,
        entry,
    )  # a C callback: cannot be interrupted
    _longest = max(_longest, high - low)
    insort(_ranges, entry)
    if len(_ranges) > _SLACK + 2 * len(_owners):
        _ranges[:] = sorted(k[2] for k in list(_owners.values()))
        _longest = max(end - begin for begin, end, _ in _ranges)


class ConversionSource:
    """The NumPy array that a traced function converted to an NDArray.

    If it is still alive after the trace, it comes from outside of the function, and every call reads it again. An array
    that the function created is dead by then, and a constant; so is one that the function has written into.
    """

    def __init__(self, values: np.ndarray) -> None:
        owner = _owner(values)
        self._owner = weakref.ref(owner)
        self._interface = values.__array_interface__
        self._values = values.copy()

    def found(self) -> np.ndarray | None:
        """The array, if it comes from outside of the function."""
        owner = self._owner()
        if owner is None:
            return None
        array = np.asarray(_MemoryView(owner, self._interface))
        same = np.array_equal(array, self._values, equal_nan=array.dtype.kind == "f")
        return array if same else None


class _MemoryView:
    """A view of an array, for NumPy's array interface."""

    def __init__(self, owner: np.ndarray, interface: dict) -> None:
        self.owner = owner
        self.__array_interface__ = interface
