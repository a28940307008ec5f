"""Privatization: give each iteration of a loop over ``prange`` its own copy of the scalars and arrays it works in.

Scalars get a name of their own, arrays one more axis.
"""

from __future__ import annotations

import ast
import copy

from ..ir.statements import (
    Alloc,
    Assign,
    Function,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    mentions,
    parse,
    reads,
    subtrees,
    unparse,
    walk,
    writes,
)
from ..ir.tapes import iteration_number, trip_count
from .parallelization import is_private
from .ssa import rename_scalar

__all__ = ["privatize"]


def privatize(f: Function) -> None:
    """Rename scalars private to an iteration that also occur elsewhere, and expand arrays used only in the loop."""
    for loop in (s for s in walk(f.body) if isinstance(s, Loop) and s.parallel):
        inside = set(walk(loop.body))
        for name in sorted({s.name for s in inside if isinstance(s, Assign)}):
            if any(mentions(s, name) for s in walk(f.body) if s not in inside) and is_private(f, loop, name):
                rename_scalar(f, loop.body, name)
        for alloc in [s for s in f.body if isinstance(s, Alloc)]:
            users = [s for s in walk(f.body) if s is not alloc and _mentions_array(s, alloc.name)]
            if users and set(users) <= inside and alloc.name not in (f.results or []):
                _expand_array(f, loop, alloc, users)


def _expand_array(f: Function, loop: Loop, alloc: Alloc, users: list[Statement]) -> None:
    """Add an axis to an array, so that each iteration of `loop` has its own elements.

    Requires that the trip count is known before the outermost loop.
    """
    at = next(k for k, s in enumerate(f.body) if loop in walk([s]))
    outer = f.body[at]
    known = unparse(loop.step) == "1" and not loop.trip_counter
    known = known and not reads(loop.start, loop.stop) & {n for s in walk([outer]) for n in writes(s)}
    expand = _ArrayExpansion(alloc.name, parse(iteration_number(loop)))
    if not known or any(isinstance(s, Swap | Alloc) for s in users) or not all(expand.fits(s) for s in users):
        return
    if all(expand.has_iteration_axis(index) for s in users for index in expand.indices(s)):
        return  # each iteration has its own already
    f.body.remove(alloc)
    f.body.insert(f.body.index(outer), alloc)
    alloc.shape.insert(0, parse(trip_count(loop)))
    alloc.value = copy.deepcopy(alloc.value)
    sizes = ", ".join(unparse(n) for n in alloc.shape)
    alloc.value.args[0] = parse(f"({sizes})")  # type: ignore[attr-defined]
    alloc.rank += 1
    f.ranks[alloc.name] += 1
    for s in users:
        expand.rewrite(s)


def _nodes(s: Statement) -> dict[str, ast.expr]:
    parts = {part: getattr(s, part, None) for part in ("value", "index", "test", "start", "stop", "step")}
    return {part: node for part, node in parts.items() if isinstance(node, ast.expr)}


def _mentions_array(s: Statement, name: str) -> bool:
    """Whether a statement mentions an array."""
    nodes = [*_nodes(s).values(), *getattr(s, "shape", ()), *getattr(s, "operands", ())]
    return name in writes(s) or any(isinstance(n, ast.Name) and n.id == name for e in nodes for n in subtrees(e))


class _ArrayExpansion(ast.NodeTransformer):
    """Prepends the iteration number to the indices of an array."""

    def __init__(self, name: str, iteration: ast.expr) -> None:
        self.name = name
        self.iteration_index = iteration

    def fits(self, s: Statement) -> bool:
        """Whether a statement accesses the array only by its elements and lengths."""
        nodes = [n for e in _nodes(s).values() for n in subtrees(e)]
        mentioned = sum(isinstance(n, ast.Name) and n.id == self.name for n in nodes)
        allowed = sum(isinstance(n, ast.Subscript) and self.of(n) for n in nodes)
        return isinstance(s, Assign | Store | If | Loop) and mentioned == allowed

    def of(self, node: ast.Subscript) -> bool:
        """Whether `node` is an element or a length of the array."""
        return unparse(node.value) in (self.name, f"{self.name}.shape")

    def indices(self, s: Statement) -> list[ast.expr]:
        """The indices of its elements in a statement."""
        nodes = [n for e in _nodes(s).values() for n in subtrees(e) if isinstance(n, ast.Subscript)]
        read = [n.slice for n in nodes if unparse(n.value) == self.name]
        return [*read, s.index] if isinstance(s, Store) and s.array == self.name else read

    def has_iteration_axis(self, index: ast.expr) -> bool:
        return unparse(index.elts[0] if isinstance(index, ast.Tuple) else index) == unparse(self.iteration_index)

    def rewrite(self, s: Statement) -> None:
        for part, node in _nodes(s).items():
            setattr(s, part, self.visit(parse(unparse(node))))  # a copy, since its nodes may be shared
        if isinstance(s, Store) and s.array == self.name:
            s.index = self.at(s.index)

    def at(self, index: ast.expr) -> ast.expr:
        return ast.Tuple([self.iteration_index, *(index.elts if isinstance(index, ast.Tuple) else [index])], ast.Load())

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if self.of(node):
            whole = isinstance(node.value, ast.Name)
            node.slice = self.at(node.slice) if whole else ast.Constant(node.slice.value + 1)  # type: ignore[attr-defined]
        return node
