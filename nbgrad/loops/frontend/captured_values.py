"""Values from outside of a function: which of them can stand in what is generated."""

from __future__ import annotations

import decimal
import fractions
import math
import types
from collections.abc import Mapping

import numpy as np

from ...core.source_text import constant
from .views import NUMBERS

__all__ = ["LARGEST", "Moment", "same_number", "unfit"]

#: The elements that an array from outside may have that is written into the code.
LARGEST = 4096


def unfit(value: object) -> tuple[str, str] | None:
    """What keeps a number (or an array of numbers) from being a constant, and what to do; None if nothing does."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        if not -(1 << 63) <= int(value) < 1 << 63:
            return "an integer of more than 64 bits", "write it as a float"
    elif isinstance(value, complex | np.complexfloating):
        return "a complex number", "write real and imaginary parts apart"
    elif isinstance(value, decimal.Decimal | fractions.Fraction | np.longdouble | np.timedelta64):
        return f"a number of the type {type(value).__name__}", "set it outside of the function: K = float(...)"
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.dtype.itemsize not in (4, 8):
        return f"an array of {value.dtype}", "give it astype(np.float64)"
    return None


class Moment:
    """What the names from outside that a function reads stand for at a moment: those of its module and of closures, and
    attributes of what they stand for."""

    def __init__(self, function: types.FunctionType) -> None:
        code, names = function.__code__, function.__globals__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self._cells = [(cell, cell.cell_contents) for cell in cells.values() if _filled(cell)]
        values = [names[n] for n in code.co_names if n in names] + [value for _, value in self._cells]
        read = [names, *(place for value in values for place in _attributes(value))]
        self._names = [(place, n, place.get(n, _MISSING)) for place in read for n in code.co_names]
        values += [value for place, _, value in self._names if place is not names]
        arrays = [v for v in values if isinstance(v, np.ndarray) and v.size <= LARGEST]
        self._arrays = [(v, v.tobytes()) for v in arrays]
        self.constants = any(
            v is not _MISSING and not callable(v) and not isinstance(v, types.ModuleType) for v in values
        )

    def lasts(self) -> bool:
        """Whether all of them still stand for the same."""
        return (
            all(place.get(n, _MISSING) is value for place, n, value in self._names)
            and all(_filled(cell) and cell.cell_contents is value for cell, value in self._cells)
            and all(array.tobytes() == then for array, then in self._arrays)
        )


_MISSING = object()


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _attributes(value: object) -> list[Mapping[str, object]]:
    """Where ``value.name`` is looked for, as far as somebody may set it there."""
    if isinstance(value, type):
        return [vars(c) for c in value.__mro__ if c is not object]
    return [] if callable(value) or value is np or value is math else [getattr(value, "__dict__", {})]


def same_number(a: object, b: object) -> bool:
    """Whether two values are the same number, and of the same kind: 0.0 and -0.0 are not, nor are 1 and 1.0."""
    return isinstance(a, NUMBERS) and isinstance(b, NUMBERS) and constant(a) == constant(b)
