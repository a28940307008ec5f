"""Captured values: the globals and closure variables that a function reads.

Scalars and small arrays become constants of generated code, so a change of any of them makes that code stale.
"""

from __future__ import annotations

import decimal
import fractions
import functools
import math
import types
from collections.abc import Mapping

import numpy as np

from ...core.source_text import constant_source
from .views import NUMBERS

__all__ = ["MAX_CONSTANT_ELEMENTS", "CapturedSnapshot", "identical_scalars", "unsupported_constant"]

#: The largest number of elements of a captured array that becomes a constant of generated code.
MAX_CONSTANT_ELEMENTS = 4096


def unsupported_constant(value: object) -> tuple[str, str] | None:
    """Why a value cannot be a constant of generated code, and what to do instead; None if it can."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        if not -(1 << 63) <= int(value) < 1 << 63:
            return "an integer of more than 64 bits", "write it as a float"
    elif isinstance(value, complex | np.complexfloating):
        return "a complex number", "write the real and imaginary parts separately"
    elif isinstance(value, decimal.Decimal | fractions.Fraction | np.longdouble | np.timedelta64):
        return f"a number of the type {type(value).__name__}", "set it outside of the function: K = float(...)"
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.dtype.itemsize not in (4, 8):
        return f"an array of {value.dtype}", "convert it with astype(np.float64)"
    return None


class CapturedSnapshot:
    """A snapshot of what a function captures: globals, closure variables, attributes of these, items of dictionaries,
    elements of arrays."""

    def __init__(self, function: types.FunctionType) -> None:
        code, module = function.__code__, function.__globals__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self._cells = [(cell, cell.cell_contents) for cell in cells.values() if _filled(cell)]
        values = [module[n] for n in code.co_names if n in module] + [value for _, value in self._cells]
        namespaces = [module, *(namespace for value in values for namespace in _attributes(value))]
        self._names = [(namespace, n, namespace.get(n, _MISSING)) for namespace in namespaces for n in code.co_names]
        values += [value for namespace, _, value in self._names if namespace is not module]
        self._tables = [(v, dict(v)) for v in values if isinstance(v, dict) and len(v) <= MAX_CONSTANT_ELEMENTS]
        values += [value for _, items in self._tables for value in items.values()]
        values += [a for v in values if isinstance(v, functools.partial) for a in (*v.args, *v.keywords.values())]
        arrays = [v for v in values if isinstance(v, np.ndarray) and v.size <= MAX_CONSTANT_ELEMENTS]
        self._arrays = [(v, v.tobytes()) for v in arrays]
        self.constants = any(
            v is not _MISSING and not callable(v) and not isinstance(v, types.ModuleType) for v in values
        )

    def still_current(self) -> bool:
        """Whether all captured values are still the same."""
        return (
            all(namespace.get(n, _MISSING) is value for namespace, n, value in self._names)
            and all(_filled(cell) and cell.cell_contents is value for cell, value in self._cells)
            and all(len(table) == len(items) for table, items in self._tables)
            and all(table.get(k, _MISSING) is v for table, items in self._tables for k, v in items.items())
            and all(array.tobytes() == content for array, content in self._arrays)
        )


_MISSING = object()


def _filled(cell: types.CellType) -> bool:
    """Whether a closure variable is set."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _attributes(value: object) -> list[Mapping[str, object]]:
    """The dictionaries in which ``value.name`` is looked up, as far as they may change."""
    if isinstance(value, type):
        return [vars(c) for c in value.__mro__ if c is not object]
    return [] if callable(value) or value is np or value is math else [getattr(value, "__dict__", {})]


def identical_scalars(a: object, b: object) -> bool:
    """Whether two scalars are identical in value and type: 0.0 and -0.0 are not, nor are 1 and 1.0."""
    return isinstance(a, NUMBERS) and isinstance(b, NUMBERS) and constant_source(a) == constant_source(b)
