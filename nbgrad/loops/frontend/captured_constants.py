"""Constants from outside: numbers, arrays and tuples of modules and closures, where the function reads them."""

from __future__ import annotations

import ast

import numpy as np

from ...core.source_text import identifier
from ..ir.names import literal
from ..ir.terms import Variable
from .array_expressions import ArrayExpr, Leaf, Scalar, Static, TupleExpr
from .captured_values import (
    MAX_CONSTANT_ELEMENTS,
    CapturedObject,
    identical_scalars,
    is_plain_object,
    unsupported_constant,
)
from .dictionaries import Dictionary
from .scope import Scope
from .views import NUMBERS

__all__ = ["CapturedConstants"]


class CapturedConstants(Scope):
    """Lowers them to constants of the lowered function."""

    def captured_value(self, node: ast.expr, name: str, value: object) -> ArrayExpr:
        """A value of the module or closure, as a constant of the lowered function."""
        for part in value if isinstance(value, tuple) else [value]:
            if wrong := unsupported_constant(part):
                raise self.source.refuse(node, f"{name}, {wrong[0]}", wrong[1])
        if isinstance(value, bool | int | float | np.number | np.bool_):
            return Scalar(Variable(self.constant(name, value)))
        if isinstance(value, tuple):
            if len({type(v) for v in value}) != 1 or not isinstance(value[0], NUMBERS + (np.generic,)):
                return self.captured_items(node, name, value)
            value = np.array(value)
        if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "fiub":
            if value.size > MAX_CONSTANT_ELEMENTS:
                raise self.source.refuse(node, f"{name}, an array of {value.size} elements", "pass it as an argument")
            variable = self.constant(name, value)
            self.lowered_function.ranks[variable] = value.ndim
            return Leaf(self.whole_view(variable))
        raise self.source.refuse(
            node, f"{name} is not a variable, a number, or an array or tuple of numbers", "pass it as an argument"
        )

    def captured_items(self, node: ast.expr, name: str, value: tuple) -> TupleExpr:
        """The items of a tuple from outside, each as a constant."""
        return TupleExpr([self.captured_item(node, f"{name}_{k}", v) for k, v in enumerate(value)], type(value))

    def captured_item(self, node: ast.expr, name: str, value: object) -> ArrayExpr:
        """An item of a tuple or dictionary from outside."""
        if isinstance(value, tuple):
            return self.captured_items(node, name, value)
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return TupleExpr([self.captured_item(node, f"{name}_{k}", v) for k, v in enumerate(parts)], slice)
        if isinstance(value, str | None) or callable(value):
            return Static(value)
        if isinstance(value, dict) and all(type(k) in (str, int) for k in value):
            return Static(Dictionary({k: self.captured_item(node, f"{name}_{k}", v) for k, v in value.items()}))
        if is_plain_object(value):
            return Static(CapturedObject(name, value))
        return Scalar(literal(value)) if type(value) is int else self.captured_value(node, name, value)

    def constant(self, name: str, value: object) -> str:
        """Add a constant from outside, under its own name if that is free; its name."""
        for known, other in self.lowered_function.constants.items():
            if known == name and (other is value or identical_scalars(other, value)):
                return known
        variable = self.names.claim_free_name(identifier(name))
        self.lowered_function.constants[variable] = value
        self.lowered_function.ranks.setdefault(variable, 0)
        kind = np.asarray(value).dtype.kind
        self.lowered_function.kinds[variable] = {"b": "bool", "i": "int", "u": "int"}.get(kind, "float")
        return variable
