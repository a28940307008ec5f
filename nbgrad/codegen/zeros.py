"""Strong products in compiled programs, of which more is known than of single operators, that can be plain ones.

A strong product matters where a cotangent is zero and a partial derivative is infinite or NaN. Two things tell that
this cannot be:

* A partial derivative without poles is finite where the program's arguments are. If one of those is not, then so is
  what the function computes of it, unless a condition chooses something else: where a cotangent may be zero by choice,
  its products stay strong.
* A cotangent that is zero is finite, and so is all that it is the sum or the product of: infinities and NaN go through
  both. Where it is chosen, each choice is looked at by itself; what is chosen for the other choice does not count.

For both the values of a program are seen as formulas of those that they are computed from, element by element.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..expr import ONE, ZERO, Expr, Fn, const, eq, free, is_pole, le, lt, ne, order, rebuild, select, substitute, var

if TYPE_CHECKING:
    from ..dtypes import DType
    from ..shapes import Shape
    from .graph import Seen, Value

__all__ = ["Formulas", "chooses"]

#: Formulas of more nodes are not looked into, nor are cotangents with more choices.
_NODES, _CHOICES = 400, 3


#: Tests of numbers, such as an exponent, choose nothing.
_TESTS: dict[Fn, Callable] = {eq: operator.eq, ne: operator.ne, lt: operator.lt, le: operator.le}


def _decided(name: str, e: Expr) -> Expr:
    """``and``, ``or`` or ``not``, of which a side may be decided: compiled code has no numbers among truth values."""
    known = [a for a in e.args if a.value is not None]
    if not known:
        return e
    if name == "not":
        return ZERO if known[0].value else ONE
    if any(bool(a.value) is (name == "or") for a in known):
        return ONE if name == "or" else ZERO
    return next((a for a in e.args if a.value is None), known[0])


class Formulas:
    """What the values of a graph are computed from."""

    def __init__(self) -> None:
        self._known: dict[Value, Expr] = {}
        self.values: dict[Expr, Value] = {}  # of the variables in formulas

    def plain(self, e: Expr, inputs: dict[Expr, Seen], shape: Shape, compute: DType, look: Callable) -> Expr:
        """`e` without strong products that need not be, with reciprocals that are there and tests of numbers decided.

        `inputs` are what the variables stand for; those that the result needs are added.
        """
        step = _Step(self, inputs, shape, compute, look)
        made: dict[Expr, Expr] = {}
        for node in order([e]):
            if node.fn is None:
                made[node] = node
                continue
            args = tuple(made[a] for a in node.args)
            made[node] = node if args == node.args else rebuild(node.fn, args)
            if node.fn in _TESTS and all(a.value is not None for a in args):
                made[node] = const(int(_TESTS[node.fn](*(a.value for a in args))))
            elif node.fn.name in ("and", "or", "not"):
                made[node] = _decided(node.fn.name, made[node])
            elif node.fn.name == "strong" and made[node].fn is node.fn:
                made[node] = step.product(made[node])
            elif node.fn.name == "div":
                made[node] = step.quotient(made[node])
        return made[e]

    def of(self, x: Seen, shape: Shape, compute: DType) -> Expr:
        """The formula of an input of a step with results of `shape`."""
        v = x.value
        found = self._formula(v) if v.dtype is compute else self._variable(f"{v} {compute.name}", v)
        return found if x.shape == shape else self._elsewhere(found, f"{x.shape} {shape}")

    def _elsewhere(self, formula: Expr, where: str) -> Expr:
        """The formula of elements at other places than those of the result."""
        there = {var(n): self._variable(f"{n} {where}", self.values[var(n)]) for n in free(formula)}
        return substitute(formula, there)

    def _variable(self, name: str, value: Value) -> Expr:
        self.values[var(name)] = value
        return var(name)

    def _formula(self, value: Value) -> Expr:
        """Of the values that it is computed from without rounding to another dtype; where that is large, itself."""
        stack = [value]
        while stack:
            v = stack[-1]
            inputs = v.inputs if v.op == "look" or _is_exact(v) else ()
            missing = [x.value for x in inputs if x.value not in self._known]
            stack += missing
            if missing:
                continue
            stack.pop()
            found = itself = self._variable(f"{v}", v)
            if inputs and v.op == "look":
                found = self._elsewhere(self._known[inputs[0].value], f"{v.attrs} {inputs[0].shape} {v.shape}")
            elif inputs:
                made = {var(f"x{k}"): self.of(x, v.shape, v.dtype) for k, x in enumerate(inputs)}
                found = substitute(v.attrs[0], made)
            self._known[v] = found if len(order([found])) <= _NODES else itself
        return self._known[value]

    def finite_where_zero(self, factor: Expr, partial: Expr, choices: int = _CHOICES) -> bool:
        """Whether `partial` is finite where `factor` is zero."""
        test = next((n.args[0] for n in order([factor]) if n.fn is not None and n.fn.name == "select"), None)
        if test is not None and choices:
            sides = ((substitute(factor, {test: side}), substitute(partial, {test: side})) for side in (ONE, ZERO))
            return all(self.finite_where_zero(f, p, choices - 1) for f, p in sides)
        if factor.value is not None and factor.value != 0:
            return True
        known = _implied(factor)
        if _chosen(factor, self.values) or any(n.value == 0 for n in order([factor])):
            return partial in known or (partial.value is not None and math.isfinite(partial.value))
        return _finite(partial, known, self.values)


class _Step(NamedTuple):
    """What the variables of an expression stand for."""

    formulas: Formulas
    inputs: dict[Expr, Seen]
    shape: Shape
    compute: DType
    look: Callable  # that makes a step

    def formula(self, e: Expr) -> Expr:
        made = {var(n): self.formulas.of(self.inputs[var(n)], self.shape, self.compute) for n in free(e)}
        return substitute(e, made)

    def product(self, e: Expr) -> Expr:
        """A strong product; a plain one if that is the same."""
        body, factor, _ = e.args
        partial = substitute(body, {factor: ONE})
        values = {name: x.value for name, x in self.inputs.items()}
        if _finite(partial, set(), values) and not _chosen(factor, values):
            return body
        zero, p = self.formula(factor), self.formula(partial)
        if self.formulas.finite_where_zero(zero, p):
            return body
        if zero.fn is not None and zero.fn.name == "select":  # then the product can be chosen instead of the factor
            test, *sides = zero.args
            for taken, side, other in zip((ONE, ZERO), sides, sides[::-1], strict=True):
                world = {test: taken}
                if other.value == 0 and self.formulas.finite_where_zero(substitute(side, world), substitute(p, world)):
                    return self._choose(e, taken) or e
        return e

    def _choose(self, e: Expr, taken: Expr) -> Expr | None:
        """The strong product `e`, whose factor an earlier step chooses, as a choice of this step: zero if the test is
        not `taken`."""
        body, factor, _ = e.args
        x = self.inputs.get(factor)
        if x is None:
            return None
        there = x.value.inputs[0] if x.value.op == "look" else x
        v = there.value
        if not _is_exact(v) or v.dtype is not self.compute or any(i.shape != v.shape for i in v.inputs):
            return None
        expr = v.attrs[0]
        if expr.fn is None or expr.fn.name != "select" or any(side.fn is not None for side in expr.args[1:]):
            return None
        made = {}
        for k, i in enumerate(v.inputs):
            seen = i._replace(shape=there.shape)
            if there is not x:
                seen = x._replace(value=self.look(seen, x.value.attrs, x.value.shape))
            found = (name for name, other in self.inputs.items() if other == seen)
            made[var(f"x{k}")] = name = next(found, var(f"{factor}{k}_"))
            self.inputs[name] = seen
        test, *sides = (substitute(a, made) for a in expr.args)
        products = [substitute(body, {factor: side}) for side in sides]
        return select(test, products[0], ZERO) if taken is ONE else select(test, ZERO, products[1])

    def quotient(self, e: Expr) -> Expr:
        """``y/b`` is ``y*y`` where y is 1/b: a division less, and no pole of its own."""
        y = _unsigned(e.args[0])
        if y in self.inputs:
            of = self.formula(y)
            if of.fn is e.fn and of.args[0].value == 1 and of.args[1] is self.formula(e.args[1]):
                return y * y if y is e.args[0] else -(y * y)
        return e


def _is_exact(v: Value) -> bool:
    """Whether it is an expression that is kept as it is calculated."""
    return v.op == "map" and v.dtype.is_float and v.attrs[1] is v.dtype


def _unsigned(e: Expr) -> Expr:
    return e.args[0] if e.fn is not None and e.fn.name == "neg" else e


def _implied(e: Expr) -> set[Expr]:
    """What is finite if `e` is."""
    found: set[Expr] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if node.fn is not None and node.fn.name in ("add", "sub", "mul", "neg"):
            stack += node.args
        elif node.fn is not None and node.fn.name in ("div", "power"):
            a, b = node.args  # something else divided by what is infinite is zero, and so is its power -1
            stack += [a] if node.fn.name == "div" or (b.value is not None and b.value > 0) else []
    return found


def _finite(e: Expr, known: set[Expr], values: dict[Expr, Value]) -> bool:
    """Whether `e` is finite if `known` and all arguments of the program are; products do not overflow."""
    stack, seen = [e], set(known)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if is_pole(node) or (node.name is not None and not values[node].finite):
            return False
        stack += () if node.fn is not None and node.fn.boolean else node.args
    return True


def _chosen(e: Expr, values: dict[Expr, Value]) -> bool:
    """Whether a condition chooses zeros in `e`, or has chosen those of its variables."""
    return chooses(e) or any(values[var(name)].chosen for name in free(e))


def chooses(e: Expr) -> bool:
    """Whether a condition in `e` chooses."""
    return any(node.fn is not None and node.fn.name == "select" for node in order([e]))
