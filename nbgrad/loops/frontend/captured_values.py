"""Captured values: the globals and closure variables that a function reads.

Scalars and small arrays become constants of generated code, so a change of any of them makes that code stale.
"""

from __future__ import annotations

import ast
import contextlib
import decimal
import fractions
import functools
import math
import operator
import types
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from ...backends.numba.wrapped_functions import package_of
from ...core.source_text import constant_source
from .syntax import bound_to, subtrees
from .views import NUMBERS

__all__ = [
    "MAX_CONSTANT_ELEMENTS",
    "CapturedObject",
    "CapturedSnapshot",
    "ClassSnapshot",
    "as_it_is",
    "attribute_path",
    "captured_attributes",
    "identical_scalars",
    "is_plain_object",
    "unsupported_constant",
]  # fmt: skip

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


class CapturedObject(NamedTuple):
    """An object from outside, by its name, whose attributes are read."""

    name: str
    value: object


def is_plain_object(value: object) -> bool:
    """Whether a value is an instance of a class of Python's, with attributes of its own, as that of a data class."""
    kind = type(value)
    own = "__dict__" in dir(value) and package_of(kind) not in ("builtins", "numpy", "numba", "types")
    return own and not callable(value) and not isinstance(value, type | tuple | list | dict | str | int | float | bool)


class CapturedSnapshot:
    """A snapshot of what a function captures: globals, closure variables, attributes of these, items of dictionaries
    and arguments of partials, elements of arrays."""

    def __init__(self, function: types.FunctionType) -> None:
        code, module = function.__code__, function.__globals__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self._cells = [(cell, cell.cell_contents) for cell in cells.values() if _filled(cell)]
        values = [module[n] for n in code.co_names if n in module] + [value for _, value in self._cells]
        namespaces = [module, *(namespace for value in values for namespace in _attributes(value))]
        self._names = [(namespace, n, namespace.get(n, _MISSING)) for namespace in namespaces for n in code.co_names]
        values = _reachable(values + [value for namespace, _, value in self._names if namespace is not module])
        self._tables = [(v, dict(v)) for v in values if isinstance(v, dict)]
        self._tables += [(vars(v), dict(vars(v))) for v in values if is_plain_object(v)]
        self._lists = [(v, list(v)) for v in values if isinstance(v, list)]
        partials = [v for v in values if isinstance(v, functools.partial)]
        self._tables += [(v.keywords, dict(v.keywords)) for v in partials]
        values += [a for v in partials for a in (*v.args, *v.keywords.values())]
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
            and all(len(v) == len(items) and all(map(_is, v, items)) for v, items in self._lists)
            and all(array.tobytes() == content for array, content in self._arrays)
        )


class ClassSnapshot:
    """A snapshot of what classes have: methods and constants."""

    def __init__(self, kinds: Collection[type]) -> None:
        self._tables = [(vars(c), dict(vars(c))) for c in kinds]

    def still_current(self) -> bool:
        """Whether they have the same."""
        return all(len(t) == len(held) and all(t.get(k) is v for k, v in held.items()) for t, held in self._tables)


def _reachable(values: list) -> list:
    """These values, and what is in dictionaries, lists, tuples and objects of Python's own classes among them, as far
    as they are no larger than what becomes a constant."""
    found, seen = list(values), {id(v) for v in values}
    for value in found:
        inner: Collection = ()
        if isinstance(value, dict):
            inner = value.values()
        elif isinstance(value, list | tuple):
            inner = value
        elif is_plain_object(value):
            inner = vars(value).values()
        new = [] if len(inner) > MAX_CONSTANT_ELEMENTS else [v for v in inner if id(v) not in seen]
        seen |= set(map(id, new))
        found += new
    return found


_MISSING = object()
_is = operator.is_


def as_it_is(value: object) -> object:
    """What a name stands for, with the elements, items of dictionaries and arguments of partials that it has now."""
    if isinstance(value, np.ndarray) and value.size <= MAX_CONSTANT_ELEMENTS:
        return value.copy(order="K")
    if isinstance(value, list) and len(value) <= MAX_CONSTANT_ELEMENTS:
        return tuple(map(as_it_is, value))  # which is what it is in a function that does not change it
    if isinstance(value, tuple):
        items = [as_it_is(v) for v in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, functools.partial):
        keywords = {k: as_it_is(v) for k, v in value.keywords.items()}
        return functools.partial(value.func, *map(as_it_is, value.args), **keywords)
    if isinstance(value, dict):
        return {k: v if v is value else as_it_is(v) for k, v in value.items()}
    return value


def captured_attributes(tree: ast.AST, outer: Mapping[str, object]) -> dict[tuple[str, ...], object]:
    """The values that ``a.b.c`` has now, by the names in it, where `outer` has the first one."""
    found: dict[tuple[str, ...], object] = {}
    for node in subtrees(tree):
        path = attribute_path(node)
        if path and path[0] in outer:
            with contextlib.suppress(Exception):  # of a property of the user's
                found[path] = as_it_is(functools.reduce(getattr, path[1:], outer[path[0]]))
    return found


def attribute_path(node: ast.AST) -> tuple[str, ...]:
    """The names in ``a.b.c``; () for other expressions."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    plain = names and isinstance(node, ast.Name) and bound_to(node) is None
    return (node.id, *reversed(names)) if plain else ()  # type: ignore[attr-defined]


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
