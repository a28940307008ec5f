"""Views: which arrays NumPy would have on the memory of others, where that is not possible here.

Memory is flat, and arrays are contiguous on it. So a slice of columns, a transpose or a reversed array is a copy here,
and a view in NumPy. Such a copy knows which elements of which array it has, and that array knows its copies. Each write
into one of them updates the others (:mod:`.assignment`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..arrays.sharing import References
from ..core.fork_safety import lock
from .arrays import ndarray

__all__ = ["NoViewError", "Source", "check_writable", "copies_of", "link", "source_of", "view", "viewing"]


_creating = lock("memory")
Geometry = tuple[int, tuple[int, ...], tuple[int, ...]]


class NoViewError(Exception):
    """NumPy copies here."""


class Source:
    """The elements of `base` that an array has: those that `select` takes from an array of NumPy's like `base`, or like
    the one with these elements that `of` describes."""

    __slots__ = ("_geometry", "_select", "base", "readonly")

    def __init__(self, base: ndarray, select: Callable, readonly: bool = False, of: Source | None = None) -> None:
        self.base, self.readonly, self._select = base, readonly, select
        self._geometry = None if of is None else self._found(of)  # at once: chains stay short

    @property
    def geometry(self) -> Geometry:
        """Where the elements are in the flat base: the first one, the shape, and the strides in elements."""
        if self._geometry is None:
            self._geometry = self._found(None)
        return self._geometry

    def _found(self, of: Source | None) -> Geometry:
        memory = np.empty(self.base.size, np.int8)  # only looked at from outside
        found = self._select(_laid_out(memory, of, self.base.shape))
        if not np.may_share_memory(found, memory):
            raise NoViewError
        return _address(found) - _address(memory), found.shape, found.strides

    def positions(self) -> np.ndarray:
        """The positions in the flat base of the elements, in the order of the array."""
        first, shape, strides = self.geometry
        flat = np.arange(self.base.size)
        strides = tuple([n * flat.itemsize for n in strides])
        return np.ndarray(shape, flat.dtype, flat, first * flat.itemsize, strides).reshape(-1)


def _address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def _laid_out(memory: np.ndarray, source: Source | None, shape: tuple[int, ...]) -> np.ndarray:
    """Memory of one byte an element, as NumPy would have an array on it."""
    if source is None:
        return memory.reshape(shape)
    first, shape, strides = source.geometry
    return np.ndarray(shape, memory.dtype, memory, first, strides)


def view(result: Any, x: Any, select: Callable, readonly: bool = False, version: int | None = None) -> Any:
    """`result`, which NumPy would have as a view of `x`: ``select(x)``. From now on both follow writes into the other;
    so does what other threads wrote since `x` had this version.

    Raises
    ------
    NoViewError
        If NumPy copies, since `x` is a view already.
    """
    if result is x or not isinstance(x, ndarray) or not result.size:
        return result
    of = source_of(x)
    if of is None and result._cell is x._cell:  # on the same memory: a view here, too
        return result
    source = Source(x, select, readonly) if of is None else Source(of.base, select, readonly or of.readonly, of)
    link(result, source)
    while version is not None and x._cell[0] != version and result._node is None:
        version = x._cell[0]
        result._buf[:] = source.base._buf[source.positions()]
    return result


def link(x: Any, source: Source) -> None:
    """Let `x` be a view that has these elements."""
    x._source = source
    if getattr(source.base, "_copies", None) is None:
        with _creating:
            if getattr(source.base, "_copies", None) is None:
                source.base._copies = References(16)
    source.base._copies.add(x)


def viewing(function: Callable, selecting: Callable, readonly: bool = False) -> Callable:
    """`function` of an array and more, whose result NumPy has as a view if it can: by its function `selecting`."""

    first = next(iter(inspect.signature(function).parameters))

    @wraps(function)
    def call(*args, **kwargs) -> ndarray:
        given = args[0] if args else kwargs[first]
        version = given._cell[0] if isinstance(given, ndarray) else None
        result = function(*args, **kwargs)
        x, others = (args[0], args[1:]) if args else (kwargs.pop(first), ())
        try:
            return view(result, x, lambda x: selecting(x, *others, **kwargs), readonly, version)
        except NoViewError:
            return result.copy()

    return call


def source_of(x: Any) -> Source | None:
    """What a copy that is a view in NumPy has its elements of; None for other arrays."""
    return getattr(x, "_source", None)


def copies_of(x: Any) -> list[ndarray]:
    """The copies of elements of `x` that are views in NumPy."""
    copies = getattr(x, "_copies", None)
    return [y for r in copies if (y := r()) is not None] if copies else []


def check_writable(*arrays: Any) -> None:
    """Raise if one of the arrays is a view that NumPy does not let anyone write."""
    if any((source := source_of(x)) and source.readonly for x in arrays):
        raise ValueError(
            "assignment destination is read-only: what broadcast_to, diagonal and sliding_window_view give are views "
            "of other arrays in NumPy, which must not be written; write into a copy"
        )
