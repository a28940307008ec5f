"""Assignments to slices, and sums, as loops."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import numpy as np

from ..errors import TraceError
from .algebra import FUNCTIONS, PASSIVE
from .arrays import Arrays
from .indices import distance, minus, plus
from .ir import Assign, Block, Check, Loop, Store, parse, unparse

if TYPE_CHECKING:
    from .lower import Lowering

__all__ = ["Slices"]

_SUMS = (np.sum, np.dot, np.mean)


class Slices:
    """Lowers one statement with slices, into the lowering's output.

    `axes` are the loops: the counter of each, where it starts and stops.
    """

    def __init__(self, lowering: Lowering) -> None:
        self.low = lowering
        self.axes: list[tuple[str, ast.expr, ast.expr]] = []
        self.target: tuple[str, list[ast.expr]] = "", []
        self.checked: set[str] = set()
        self.overlap = False  # elements are read that the statement writes for another turn

    def refuse(self, node: ast.expr, what: str, instead: str) -> TraceError:
        return self.low.source.refuse(node, what, instead)

    def store(self, s: ast.stmt, target: ast.Subscript, value: ast.expr) -> None:
        name, bounds = self.bounds(target)
        line, self.low.line = self.low.line, ""
        self.axes = [(self.low.names.fresh("k"), *b) for b in bounds if isinstance(b, tuple)]
        counters = iter(self.axes)
        index = [ast.Name(next(counters)[0], ast.Load()) if isinstance(b, tuple) else b for b in bounds]
        self.target = name, index
        element = self.value(value)
        if not self.overlap:
            self.loops([Store(name, _index(index), element)], line)
            return
        held = self.low.names.fresh("held")  # NumPy reads everything before it writes
        f = self.low.made
        shape = [parse(f"max({unparse(minus(stop, start))}, 0)") for _, start, stop in self.axes]
        Arrays(self.low).allocate(held, target, shape, f.kinds[name], f"{name}.dtype", name, None)
        place = _index([minus(ast.Name(counter, ast.Load()), start) for counter, start, _ in self.axes])
        self.loops([Store(held, place, element)], line)
        self.loops([Store(name, _index(index), ast.Subscript(ast.Name(held, ast.Load()), place, ast.Load()))], "")

    def reduce(self, node: ast.Call, called: object) -> ast.expr:
        """The sum of an expression of slices."""
        method = called is None
        if node.keywords or len(node.args) != (0 if method else 2 if called is np.dot else 1):
            raise self.refuse(node, "a sum along an axis", "write a loop")
        body: ast.expr = node.func.value if method else node.args[0]  # type: ignore[attr-defined]
        if called is np.dot:
            body = ast.copy_location(ast.BinOp(node.args[0], ast.Mult(), node.args[1]), node)
        first = self.first(body)
        ranks = [self.rank(a) for a in node.args] if called is np.dot else []
        if first is None or any(r != 1 for r in ranks):
            raise self.refuse(
                node, "this sum or product", "np.sum takes arrays and slices, np.dot two vectors; write loops"
            )
        _, bounds = self.bounds(first)
        for b in bounds:
            if isinstance(b, tuple):
                self.axes.append((self.low.names.fresh("k"), *b))
        total = self.low.names.fresh("total")
        self.low.made.ranks[total] = 0
        line, self.low.line = self.low.line, ""
        self.low.out.append(Assign(total, ast.Constant(0.0), line=line))
        element = self.value(body)
        self.loops([Assign(total, ast.BinOp(ast.Name(total, ast.Load()), ast.Add(), element))], "")
        if called is not np.mean:
            return ast.Name(total, ast.Load())
        count = " * ".join(f"({unparse(minus(stop, start))})" for _, start, stop in self.axes)
        return ast.BinOp(ast.Name(total, ast.Load()), ast.Div(), parse(count))

    def loops(self, inner: Block, line: str) -> None:
        for counter, start, stop in reversed(self.axes):
            self.low.made.ranks[counter], self.low.made.kinds[counter] = 0, "int"
            inner = [Loop(counter, start, stop, ast.Constant(1), None, inner)]
        inner[0].line = line
        self.low.out += inner

    # Which elements.

    def array(self, node: ast.expr) -> str:
        """The name of an array, "" for anything else."""
        if isinstance(node, ast.Name) and node.id in self.low.locals:
            name = self.low.local(node)
            return name if self.low.made.ranks.get(name) else ""
        return ""

    def rank(self, node: ast.expr) -> int:
        """The number of axes of a named array or a subscript of it."""
        if self.array(node):
            return self.low.made.ranks[self.array(node)]
        if isinstance(node, ast.Subscript) and self.array(node.value):
            return sum(isinstance(b, tuple) for b in self.bounds(node)[1])
        return 0

    def first(self, node: ast.expr) -> ast.expr | None:
        """The array or slice with the most axes in an expression."""
        found = [n for n in self.operands(node) if self.rank(n)]
        return max(found, key=self.rank) if found else None

    def operands(self, node: ast.expr) -> list[ast.expr]:
        """Named arrays and subscripts in elementwise arithmetic, not those inside of subscripts, sums or calls."""
        match node:
            case ast.Name() | ast.Subscript():
                return [node]
            case ast.Attribute():
                return []
            case ast.Call():
                reduced = isinstance(node.func, ast.Attribute) and node.func.attr in ("sum", "dot", "mean", "copy")
                named = isinstance(node.func, ast.Name) and node.func.id == "len"
                if reduced or named or self.low.callee(node) is not None:
                    return []
                return [n for a in node.args for n in self.operands(a)]
        return [n for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr) for n in self.operands(c)]

    def bounds(self, node: ast.expr) -> tuple[str, list]:
        """The array of a subscript, and for each axis its index, or the start and stop of its slice."""
        whole = isinstance(node, ast.Name)
        name = self.array(node if whole else node.value)  # type: ignore[attr-defined]
        if not name:
            raise self.refuse(node, f"the subscript {unparse(node)}", "index a named array with all indices at once")
        parts: list[ast.expr] = []
        if not whole:
            given = node.slice  # type: ignore[attr-defined]
            parts = list(given.elts) if isinstance(given, ast.Tuple) else [given]
        parts += [ast.Slice()] * (self.low.made.ranks[name] - len(parts))
        return name, [self.part(node, name, d, p) for d, p in enumerate(parts)]

    def part(self, node: ast.expr, name: str, axis: int, part: ast.expr):
        if not isinstance(part, ast.Slice):
            return self.low.value(part)
        if part.step is not None and unparse(part.step) != "1":
            raise self.refuse(node, "a slice with a step", "write a loop over range with this step")
        size = parse(self.low.shapes.get(name, {}).get(axis, f"{name}.shape[{axis}]"))
        start = ast.Constant(0) if part.lower is None else self.end(part.lower, size, False)
        return start, size if part.upper is None else self.end(part.upper, size, True)

    def end(self, node: ast.expr, size: ast.expr, last: bool) -> ast.expr:
        """One end of a slice, as NumPy understands it: negative ones count from the end, and there are no elements
        outside. (A start past the end and an end before the start need no care: the loop has no turns.)"""
        value = self.low.value(node)
        text = unparse(value)
        if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
            found = plus(size, -value.operand.value)  # type: ignore[operator, arg-type]
            return found if last else parse(f"max({unparse(found)}, 0)")
        if isinstance(value, ast.Constant):
            return parse(f"min({text}, {unparse(size)})") if last else value
        return parse(f"min(max({text} if ({text}) >= 0 else {text} + {unparse(size)}, 0), {unparse(size)})")

    # Elements.

    def value(self, node: ast.expr) -> ast.expr:
        """The element of an expression at the counters."""
        match node:
            case ast.Name() | ast.Subscript() if self.rank(node):
                return self.element(node)
            case ast.Subscript() if self.array(node.value) == self.target[0]:
                held = self.low.names.fresh("held")  # read before anything is written
                self.low.made.ranks[held] = 0
                self.low.out.append(Assign(held, self.low.value(node)))
                return ast.Name(held, ast.Load())
            case ast.BinOp():
                return ast.BinOp(self.value(node.left), node.op, self.value(node.right))
            case ast.UnaryOp():
                return ast.UnaryOp(node.op, self.value(node.operand))
            case ast.Compare():
                return ast.Compare(self.value(node.left), node.ops, [self.value(c) for c in node.comparators])
            case ast.Call() if self.first(node) is not None:
                called = self.low.source.resolve(node.func)
                if called in _SUMS or called is None:
                    return self.low.value(node)
                if not (called in FUNCTIONS or called in PASSIVE) or node.keywords:
                    raise self.refuse(node, f"the call {unparse(node)}", "write a loop")
                holes: list[ast.expr] = [ast.Name(f"hole{k}", ast.Load()) for k in range(len(node.args))]
                self.low.locals |= {f"hole{k}" for k in range(len(holes))}
                made = self.low.value(ast.copy_location(ast.Call(node.func, holes, []), node))
                made.args = [self.value(a) for a in node.args]  # type: ignore[attr-defined]
                return made
        if self.first(node) is not None:
            raise self.refuse(node, f"{unparse(node)} with slices", "write a loop")
        return self.low.value(node)

    def check(self, test: str, message: str) -> None:
        if test not in self.checked:
            self.checked.add(test)
            self.low.out.append(Check(parse(test), message))

    def element(self, node: ast.expr) -> ast.expr:
        name, bounds = self.bounds(node)
        sliced = [b for b in bounds if isinstance(b, tuple)]
        if len(sliced) > len(self.axes):
            raise self.refuse(node, f"{unparse(node)} has more axes than what it is assigned to", "write a loop")
        axes = iter(self.axes[len(self.axes) - len(sliced) :])
        index = []
        for b in bounds:
            if not isinstance(b, tuple):
                index.append(b)
                continue
            counter, start, stop = next(axes)
            index.append(_shifted(counter, start, b[0]))
            mine, other = unparse(minus(b[1], b[0])), unparse(minus(stop, start))
            if mine != other:
                message = f"{self.low.made.name}: slices of different lengths in '{unparse(node)}'"
                self.check(f"max({mine}, 0) != max({other}, 0)", message)
        if name == self.target[0]:
            pairs = list(zip(index, self.target[1], strict=True))
            apart = any(
                isinstance(a, ast.Constant) and isinstance(b, ast.Constant) and distance(a, b) for a, b in pairs
            )
            self.overlap |= not apart and any(unparse(a) != unparse(b) for a, b in pairs)
        return ast.Subscript(ast.Name(name, ast.Load()), _index(index), ast.Load())


def _shifted(counter: str, start: ast.expr, other: ast.expr) -> ast.expr:
    """The index in a slice from `other` for a counter that runs from `start`."""
    name = ast.Name(counter, ast.Load())
    if unparse(start) == unparse(other):
        return name
    (base, p), (mine, q) = _constant(start), _constant(other)
    return plus(name, q - p) if base == mine else ast.BinOp(minus(name, start), ast.Add(), other)


def _constant(node: ast.expr) -> tuple[str, int]:
    """``min(3, n)``, the start of a slice, as a number that is 3 wherever there are elements."""
    if isinstance(node, ast.Constant):
        return "", node.value  # type: ignore[return-value]
    if isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant):
        return "", node.args[0].value  # type: ignore[return-value]
    return unparse(node), 0


def _index(parts: list) -> ast.expr:
    return ast.Tuple(parts, ast.Load()) if len(parts) > 1 else parts[0]
