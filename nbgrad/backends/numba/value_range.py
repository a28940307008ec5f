"""Value-range analysis: lower bounds of integers. A non-negative index needs no wraparound from the end of an array."""

from __future__ import annotations

import operator
from math import inf
from typing import Any

from .direct_calls import REPLACED_FUNCTION
from .internals import ir

__all__ = ["LowerBounds"]

_PLUS, _MINUS = (operator.add, operator.iadd), (operator.sub, operator.isub)
_TIMES, _OVER = (operator.mul, operator.imul), (operator.floordiv, operator.ifloordiv)
_REST = operator.mod, operator.imod


class LowerBounds:
    """Lower bounds of the variables of one function, by name; `definitions` are the values assigned to each."""

    def __init__(self, definitions: dict[str, list[Any]]) -> None:
        self.definitions = definitions
        self.known: dict[str, float] = {}

    def least_value(self, name: str) -> float:
        """A lower bound; minus infinity if none is known."""
        if name not in self.known:
            self.known[name] = -inf  # for a variable that depends on itself
            values = self.definitions.get(name, [])
            self.known[name] = min((self._value(v) for v in values), default=-inf)
        return self.known[name]

    def items(self, name: str, count: int) -> list[float]:
        """Lower bounds of the `count` items of a tuple, or of the scalar that it is."""
        definition = self._unique_definition(name)
        if isinstance(definition, ir.Expr) and definition.op == "build_tuple":
            return [self.least_value(item.name) for item in definition.items]
        return [self.least_value(name) if count == 1 else -inf] * count

    def _unique_definition(self, name: str) -> Any:
        """The unique definition of a variable, through copies and casts; else None."""
        values = self.definitions.get(name, [])
        value = values[0] if len(values) == 1 else None
        if isinstance(value, ir.Expr) and value.op == "cast":
            value = value.value
        return self._unique_definition(value.name) if isinstance(value, ir.Var) else value

    def _value(self, value: Any) -> float:
        if isinstance(value, ir.Var):
            return self.least_value(value.name)
        if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
            return value.value if type(value.value) is int else -inf
        if not isinstance(value, ir.Expr):
            return -inf
        match value.op:
            case "cast":
                return self.least_value(value.value.name)
            case "binop" | "inplace_binop":
                return self._operation(value)
            case "unary":
                constant = self._constant_value(value.value.name)
                return -constant if constant is not None and value.fn is operator.neg else -inf
            case "pair_first":
                return self._induction_variable(value.value.name)
            case "static_getitem" | "getitem":
                definition = self._unique_definition(value.value.name)
                return (
                    0
                    if isinstance(definition, ir.Expr) and definition.op == "getattr" and definition.attr == "shape"
                    else -inf
                )
            case "getattr":
                return 0 if value.attr == "size" else -inf
            case "call":
                return self._call(value)
        return -inf

    def _operation(self, value: ir.Expr) -> float:
        a, b = self.least_value(value.lhs.name), self.least_value(value.rhs.name)
        if value.fn in _PLUS:
            return a + b
        if value.fn in _MINUS:
            subtrahend = self._constant_value(value.rhs.name)
            if subtrahend is None:
                return 0 if self._counts_from(value.lhs.name, value.rhs.name) else -inf
            return a - subtrahend
        if value.fn in _TIMES:
            return a * b if a >= 0 and b >= 0 else -inf
        if value.fn in _REST:
            return 0 if b >= 0 else -inf  # x % 0 is 0, as in NumPy
        return 0 if value.fn in _OVER and a >= 0 and b > 0 else -inf

    def _constant_value(self, name: str) -> int | None:
        """The value of an integer constant; None if it is none."""
        definition = self._unique_definition(name)
        if isinstance(definition, ir.Expr) and definition.op == "unary" and definition.fn is operator.neg:
            value = self._constant_value(definition.value.name)
            return None if value is None else -value
        constant = isinstance(definition, ir.Const | ir.Global | ir.FreeVar) and type(definition.value) is int
        return definition.value if constant else None

    def _call(self, value: ir.Expr) -> float:
        definition = self._unique_definition(value.func.name)
        function = definition.value if isinstance(definition, ir.Global | ir.FreeVar) else None
        if function is len:
            return 0
        bounds = [self.least_value(a.name) for a in value.args]
        function = REPLACED_FUNCTION.get(function, function)
        return function(bounds) if len(bounds) > 1 and (function is max or function is min) else -inf

    def _counts_from(self, name: str, start: str) -> bool:
        """Whether a variable is that of a loop over ``range(start, stop)``, with this start."""
        value, first = self._unique_definition(name), self._unique_definition(start)
        if first is None or not isinstance(value, ir.Expr) or value.op != "pair_first":
            return False
        bounds = self._range_of(value.value.name)
        return len(bounds) == 2 and self._unique_definition(bounds[0].name) is first

    def _induction_variable(self, name: str) -> float:
        """A lower bound of the induction variable of a loop over ``range``."""
        arguments = self._range_of(name)
        bounds = [self.least_value(a.name) for a in arguments]
        if len(bounds) < 3:
            return bounds[0] if len(bounds) == 2 else 0 if bounds else -inf
        step = self._constant_value(arguments[2].name)
        return -inf if step is None else bounds[0] if step > 0 else bounds[1] + 1

    def _range_of(self, name: str) -> list[Any]:
        """The arguments of the ``range`` that a loop is over; empty for other loops."""
        pair = self._unique_definition(name)
        iterator = self._unique_definition(pair.value.name) if isinstance(pair, ir.Expr) else None
        called = (
            self._unique_definition(iterator.value.name)
            if isinstance(iterator, ir.Expr) and iterator.op == "getiter"
            else None
        )
        if not isinstance(called, ir.Expr) or called.op != "call":
            return []
        function = self._unique_definition(called.func.name)
        known = isinstance(function, ir.Global | ir.FreeVar) and function.value is range
        return list(called.args) if known else []
