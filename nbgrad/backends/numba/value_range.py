"""What integers are at least: an index that is not below zero does not count from the end of an array."""

from __future__ import annotations

import operator
from math import inf
from typing import Any

from numba.core import ir

from .direct_calls import ORIGINAL

__all__ = ["Bounds"]

_PLUS, _MINUS = (operator.add, operator.iadd), (operator.sub, operator.isub)
_TIMES, _OVER = (operator.mul, operator.imul), (operator.floordiv, operator.ifloordiv)
_REST = operator.mod, operator.imod


class Bounds:
    """Answers for the variables of one function, by their names: `definitions` are the values that each is given."""

    def __init__(self, definitions: dict[str, list[Any]]) -> None:
        self.definitions = definitions
        self.known: dict[str, float] = {}

    def least(self, name: str) -> float:
        """A bound below; minus infinity if none is known."""
        if name not in self.known:
            self.known[name] = -inf  # where a variable depends on itself
            values = self.definitions.get(name, [])
            self.known[name] = min((self._value(v) for v in values), default=-inf)
        return self.known[name]

    def items(self, name: str, count: int) -> list[float]:
        """The same for each of the `count` items of a tuple, or for the one number that it is."""
        made = self._made(name)
        if isinstance(made, ir.Expr) and made.op == "build_tuple":
            return [self.least(item.name) for item in made.items]
        return [self.least(name) if count == 1 else -inf] * count

    def _made(self, name: str) -> Any:
        """What a variable is made by, if that is one place."""
        values = self.definitions.get(name, [])
        value = values[0] if len(values) == 1 else None
        if isinstance(value, ir.Expr) and value.op == "cast":
            value = value.value
        return self._made(value.name) if isinstance(value, ir.Var) else value

    def _value(self, value: Any) -> float:
        if isinstance(value, ir.Var):
            return self.least(value.name)
        if isinstance(value, ir.Const | ir.Global | ir.FreeVar):
            return value.value if type(value.value) is int else -inf
        if not isinstance(value, ir.Expr):
            return -inf
        match value.op:
            case "cast":
                return self.least(value.value.name)
            case "binop" | "inplace_binop":
                return self._operation(value)
            case "unary":
                number = self._number(value.value.name)
                return -number if number is not None and value.fn is operator.neg else -inf
            case "pair_first":
                return self._turn(value.value.name)
            case "static_getitem" | "getitem":
                made = self._made(value.value.name)
                return 0 if isinstance(made, ir.Expr) and made.op == "getattr" and made.attr == "shape" else -inf
            case "getattr":
                return 0 if value.attr == "size" else -inf
            case "call":
                return self._call(value)
        return -inf

    def _operation(self, value: ir.Expr) -> float:
        a, b = self.least(value.lhs.name), self.least(value.rhs.name)
        if value.fn in _PLUS:
            return a + b
        if value.fn in _MINUS:
            taken = self._number(value.rhs.name)
            return -inf if taken is None else a - taken
        if value.fn in _TIMES:
            return a * b if a >= 0 and b >= 0 else -inf
        if value.fn in _REST:
            return 0 if b >= 0 else -inf  # of a division by zero nothing remains, as in NumPy
        return 0 if value.fn in _OVER and a >= 0 and b > 0 else -inf

    def _number(self, name: str) -> int | None:
        """The value of a constant."""
        made = self._made(name)
        if isinstance(made, ir.Expr) and made.op == "unary" and made.fn is operator.neg:
            value = self._number(made.value.name)
            return None if value is None else -value
        constant = isinstance(made, ir.Const | ir.Global | ir.FreeVar) and type(made.value) is int
        return made.value if constant else None

    def _call(self, value: ir.Expr) -> float:
        made = self._made(value.func.name)
        function = made.value if isinstance(made, ir.Global | ir.FreeVar) else None
        if function is len:
            return 0
        bounds = [self.least(a.name) for a in value.args]
        function = ORIGINAL.get(function, function)
        return function(bounds) if len(bounds) > 1 and (function is max or function is min) else -inf

    def _turn(self, name: str) -> float:
        """The least value of a loop's variable."""
        following = self._made(name)
        over = self._made(following.value.name) if isinstance(following, ir.Expr) else None
        called = self._made(over.value.name) if isinstance(over, ir.Expr) and over.op == "getiter" else None
        if not isinstance(called, ir.Expr) or called.op != "call":
            return -inf
        function = self._made(called.func.name)
        if not isinstance(function, ir.Global | ir.FreeVar) or function.value is not range:
            return -inf
        bounds = [self.least(a.name) for a in called.args]
        if len(bounds) < 3:
            return bounds[0] if len(bounds) == 2 else 0
        step = self._number(called.args[2].name)
        return -inf if step is None else bounds[0] if step > 0 else bounds[1] + 1
