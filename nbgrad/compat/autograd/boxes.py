"""What is recorded, and the values of it."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, ValuesView
from typing import Any

from ... import np as _np
from ...arrays.ndarray import NDArray
from ...functional.pytrees import map_leaves

__all__ = ["Box", "getval", "holds_box", "isbox", "without_iterators"]

#: Recorded arrays are of this class; so are all arrays of nbgrad.np.
Box = _np.ndarray


Box._value = property(lambda x: getval(x))  # type: ignore[attr-defined]


def isbox(x: Any) -> bool:
    """Whether `x` is an array of nbgrad's, which a function that is differentiated gets for a NumPy array."""
    return isinstance(x, NDArray)


def without_iterators(args: tuple) -> tuple:
    """Arguments with lists for iterators and the views of dicts, which functions of NumPy's take as well."""
    return tuple([list(a) if isinstance(a, Iterator | ValuesView | KeysView) else a for a in args])


def holds_box(x: Any) -> bool:
    """Whether `x` is such an array, or a nested list, tuple or dict with one in it."""
    if isinstance(x, list | tuple):
        return any(map(holds_box, x))
    return isinstance(x, NDArray) or (isinstance(x, dict) and any(map(holds_box, x.values())))


def getval(x: Any) -> Any:
    """The values, as NumPy arrays, and numbers for arrays without axes."""

    def plain(leaf: Any) -> Any:
        if not isinstance(leaf, NDArray):
            return leaf
        values = leaf.asnumpy()
        return values if leaf.shape else values[()]

    return map_leaves(x, plain)
