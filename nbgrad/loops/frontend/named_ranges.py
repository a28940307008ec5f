"""Names that are bound to ranges alone: ``rows = range(1, n)`` and ``for i in rows`` become ``rows_stop = n`` and
``for i in range(1, rows_stop)``."""

from __future__ import annotations

import ast
from collections.abc import Collection

from ..ir.names import Names
from .structured_control import assignment, with_location
from .syntax import Transformer, all_names, bound_name, copy_tree, own_nodes, subtrees, unparse

__all__ = ["NamedRanges"]

_PARTS = "start", "stop", "step"


class NamedRanges(Transformer):
    """Rewrites each function."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """``r = range(3) if c else range(n)`` as a branch."""
        match node:
            case ast.Assign([ast.Name()], ast.IfExp(test, first, second)) if _bounds(first) and _bounds(second):
                branches = [[assignment(node, copy_tree(node.targets[0]), v)] for v in (first, second)]
                return with_location(ast.If(test, *branches), node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        nodes = own_nodes(node)
        made: dict[str, list[ast.Assign]] = {}
        for n in nodes:
            match n:
                case ast.Assign([ast.Name(id=name)], value) if (bounds := _bounds(value)) is not None:
                    n.bounds = bounds  # type: ignore[attr-defined]
                    made.setdefault(name, []).append(n)
        if made:
            free = Names(all_names(node))
            iterated = _iterated(nodes)
            for name, assignments in made.items():
                others = [n for n in subtrees(node) if isinstance(n, ast.Name) and n.id == name and n not in iterated]
                arguments = [a.arg for a in subtrees(node) if isinstance(a, ast.arg)]
                if len(others) == len(assignments) and name not in arguments:
                    _Named(name, assignments, free).visit(node)
        return node


def _bounds(value: ast.expr) -> list[ast.expr] | None:
    """The start, stop and step of ``range(...)``; None for other expressions."""
    match value:
        case ast.Call(ast.Name("range"), [stop], []):
            return [ast.Constant(0), stop, ast.Constant(1)]
        case ast.Call(ast.Name("range"), [start, stop, *step], []) if len(step) < 2:
            return [start, stop, *(step or [ast.Constant(1)])]
    return None


def _iterated(nodes: Collection[ast.AST]) -> list[ast.Name]:
    """The names that loops and comprehensions are over, as they are or by way of a function, and those in ``len``."""
    found: list[ast.Name] = []
    for n in nodes:
        over = n.iter if isinstance(n, ast.For | ast.comprehension) else None
        match over or n:
            case ast.Name() as name if over is not None:
                found.append(name)
            case ast.Call(ast.Name("reversed" | "enumerate" | "len"), [ast.Name() as name, *_]):
                found.append(name)
    return found


class _Named(Transformer):
    """Puts the bounds of one name in its place. Constants that are the same wherever it is bound need no names."""

    def __init__(self, name: str, assignments: list[ast.Assign], free: Names) -> None:
        self.name = name
        bounds = [s.bounds for s in assignments]  # type: ignore[attr-defined]
        self.names: dict[str, str] = {}
        self.parts: list[ast.expr] = []
        for part, values in zip(_PARTS, zip(*bounds, strict=True), strict=True):
            same = len(set(map(unparse, values))) == 1 and isinstance(values[0], ast.Constant)
            if not same:
                self.names[part] = free.fresh(f"{name}_{part}")
            self.parts.append(values[0] if same else ast.Name(self.names[part], ast.Load()))

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        match node:
            case ast.Assign([ast.Name(id=name)]) if name == self.name:
                pairs = zip(_PARTS, node.bounds, strict=True)  # type: ignore[attr-defined]
                held = [(self.names[p], v) for p, v in pairs if p in self.names]
                done = [assignment(node, ast.Name(n, ast.Store()), v) for n, v in held]
                return done or ast.copy_location(ast.Pass(), node)  # type: ignore[return-value]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != self.name:
            return node
        return with_location(ast.Call(bound_name(range, "range"), copy_tree(self.parts), []), node)
