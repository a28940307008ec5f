"""Memory that NumPy arrays are on: its version counter, and where it was read from.

There is one counter for a memory, however many arrays it is reached through: an NDArray on the memory of a NumPy array
has the version cell of that memory. A memory is found by the array that owns it (the last of the chain of ``base``),
or, where another library does, by its addresses.
"""

from __future__ import annotations

import functools
import weakref
from bisect import bisect_left, insort

import numpy as np

from ..errors import NBGradError

__all__ = ["Source", "cell_of", "register"]

#: By the id of an owner: itself, weakly, the version cell of its memory, and its entry in `_ranges`.
_owners: dict[int, tuple[weakref.ref, list, tuple[int, int, int]]] = {}
#: (begin, end, id of the owner) of the same, and of some that are gone, in order. None is longer than `_longest`.
_ranges: list[tuple[int, int, int]] = []
_longest = 0
#: Ranges of owners that are gone are dropped when there are this many more than twice those of the others.
_SLACK = 64

_DIVIDED = (
    "the memory of this array overlaps with that of two others that were taken separately, whose changes are counted "
    "separately: take the array that contains all of them first, or take a copy"
)


def cell_of(values: np.ndarray) -> list:
    """The version cell of the memory that an array is on; the same for every array on it."""
    owner = _owner(values)
    found = _owners.get(id(owner))
    if found is not None and found[0]() is owner:
        return found[1]
    low, high = _bounds(owner)
    begin = bisect_left(_ranges, (low - _longest,))
    near = _ranges[begin : bisect_left(_ranges, (high,))]
    known = [(_owners.get(entry[2]), entry) for entry in near if entry[1] > low]
    cells = [k[1] for k, entry in known if k is not None and k[2] is entry]  # another array may have the id by now
    cell: list = cells[0] if cells else [0]
    if any(c is not cell for c in cells):
        raise NBGradError(_DIVIDED)
    _add(owner, low, high, cell)
    return cell


def register(values: np.ndarray, cell: list) -> None:
    """Say which version cell the memory of `values` has, before others get hold of it."""
    owner = _owner(values)
    if id(owner) not in _owners:
        _add(owner, *_bounds(owner), cell)


def _owner(values: np.ndarray) -> np.ndarray:
    base = values.base
    while isinstance(base, np.ndarray | _Piece):
        values = base if isinstance(base, np.ndarray) else base.owner
        base = values.base
    return values


def _bounds(values: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte and of that after the last one."""
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
    _owners[key] = weakref.ref(owner, functools.partial(_owners.pop, key)), cell, entry  # no Python in it
    _longest = max(_longest, high - low)
    insort(_ranges, entry)
    if len(_ranges) > _SLACK + 2 * len(_owners):
        _ranges[:] = sorted(k[2] for k in list(_owners.values()))
        _longest = max(end - begin for begin, end, _ in _ranges)


class Source:
    """Where the values of an array came from that a traced function made of a NumPy array.

    If it is still there after the trace, it is from outside of the function, and every call reads it anew; an array
    that the function made for itself is gone by then, and a constant. So is one that it wrote into itself.
    """

    def __init__(self, values: np.ndarray) -> None:
        owner = _owner(values)
        self._owner = weakref.ref(owner)
        self._interface = values.__array_interface__
        self._values = values.copy()

    def found(self) -> np.ndarray | None:
        """The array, if it is from outside."""
        owner = self._owner()
        if owner is None:
            return None
        array = np.asarray(_Piece(owner, self._interface))
        same = np.array_equal(array, self._values, equal_nan=array.dtype.kind == "f")
        return array if same else None


class _Piece:
    """Part of an array, as NumPy takes it."""

    def __init__(self, owner: np.ndarray, interface: dict) -> None:
        self.owner = owner
        self.__array_interface__ = interface
