"""Freeze what a function reads, for code that runs it again later."""

from __future__ import annotations

from functools import partial
from types import CellType, FunctionType
from typing import Any

from ..arrays.ndarray import NDArray
from ..arrays.sharing import snapshot
from ..core.conventions import MXNET

__all__ = ["frozen_closure"]


def frozen_closure(function: Any, contents: bool = True, held: list[NDArray] | None = None) -> Any:
    """`function` with copies of the variables that it captured, which keep their present values.

    It runs again for derivatives, when ``h = cond(p, lambda: h, ...)`` has rebound `h`. Functions that it captured are
    frozen as well; arrays and other objects are not copied.

    Parameters
    ----------
    function : callable
    contents : bool
        Copy captured lists and dicts, too. A function that runs more than once is frozen anew for each run, since a
        run may change these copies.
    held : list, optional
        Keep captured arrays of NumPy's conventions, which writes redefine, as they are now, and append these here.
    """
    return _frozen(function, {}, contents, held)


def _frozen(value: Any, known: dict[int, Any], contents: bool, held: list | None) -> Any:
    """The copy of a value; `known` are the copies made so far, by the ids of the originals."""
    kind = type(value)
    if id(value) in known:
        return known[id(value)]
    if kind is list and contents:
        items = known[id(value)] = []
        items += [_frozen(v, known, contents, held) for v in value]
        return items
    if kind is dict and contents:
        pairs = known[id(value)] = {}
        pairs |= {key: _frozen(v, known, contents, held) for key, v in value.items()}
        return pairs
    if held is not None and isinstance(value, NDArray) and value._kind.conventions is not MXNET:
        found = known[id(value)] = snapshot(value)
        held.append(found)
        return found
    if kind is tuple:
        return tuple([_frozen(v, known, contents, held) for v in value])
    if kind is partial:
        keywords = {key: _frozen(v, known, contents, held) for key, v in value.keywords.items()}
        return partial(
            _frozen(value.func, known, contents, held),
            *[_frozen(v, known, contents, held) for v in value.args],
            **keywords,
        )
    if kind is not FunctionType or not value.__closure__:
        return value
    cells = tuple([CellType() for _ in value.__closure__])
    frozen = known[id(value)] = FunctionType(
        value.__code__, value.__globals__, value.__name__, value.__defaults__, cells
    )
    frozen.__kwdefaults__ = value.__kwdefaults__
    frozen.__dict__.update(value.__dict__)
    for cell, old in zip(cells, value.__closure__, strict=True):
        try:
            cell.cell_contents = _frozen(old.cell_contents, known, contents, held)
        except ValueError:  # an empty cell
            continue
    return frozen
