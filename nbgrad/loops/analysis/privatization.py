"""What belongs to a turn of a loop over ``prange`` gets a place of its own: numbers a name, arrays one more axis."""

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
from ..ir.tapes import trips, turn_of
from .parallelization import private
from .ssa import rename

__all__ = ["turns_apart"]


def turns_apart(f: Function) -> None:
    """Give numbers of turns names that are not used elsewhere, and arrays that are made in turns one more axis."""
    for loop in (s for s in walk(f.body) if isinstance(s, Loop) and s.parallel):
        inside = set(walk(loop.body))
        for name in sorted({s.name for s in inside if isinstance(s, Assign)}):
            if any(mentions(s, name) for s in walk(f.body) if s not in inside) and private(f, loop, name):
                rename(f, loop.body, name)
        for made in [s for s in f.body if isinstance(s, Alloc)]:
            others = [s for s in walk(f.body) if s is not made and _has(s, made.name)]
            if others and set(others) <= inside and made.name not in (f.results or []):
                _expand(f, loop, made, others)


def _expand(f: Function, loop: Loop, made: Alloc, users: list[Statement]) -> None:
    """Let each turn of `loop` have elements of its own in an array, if it is known before how many turns there are."""
    at = next(k for k, s in enumerate(f.body) if loop in walk([s]))
    outer = f.body[at]
    known = unparse(loop.step) == "1" and not loop.count
    known = known and not reads(loop.start, loop.stop) & {n for s in walk([outer]) for n in writes(s)}
    expand = _Expand(made.name, parse(turn_of(loop)))
    if not known or any(isinstance(s, Swap | Alloc) for s in users) or not all(expand.fits(s) for s in users):
        return
    if all(expand.has_turn(index) for s in users for index in expand.indices(s)):
        return  # each turn has its own already
    f.body.remove(made)
    f.body.insert(f.body.index(outer), made)
    made.shape.insert(0, parse(trips(loop)))
    made.value = copy.deepcopy(made.value)
    sizes = ", ".join(unparse(n) for n in made.shape)
    made.value.args[0] = parse(f"({sizes})")  # type: ignore[attr-defined]
    made.rank += 1
    f.ranks[made.name] += 1
    for s in users:
        expand.rewrite(s)


def _nodes(s: Statement) -> dict[str, ast.expr]:
    parts = {part: getattr(s, part, None) for part in ("value", "index", "test", "start", "stop", "step")}
    return {part: node for part, node in parts.items() if isinstance(node, ast.expr)}


def _has(s: Statement, name: str) -> bool:
    """Whether a statement has something to do with an array."""
    nodes = [*_nodes(s).values(), *getattr(s, "shape", ()), *getattr(s, "given", ())]
    return name in writes(s) or any(isinstance(n, ast.Name) and n.id == name for e in nodes for n in subtrees(e))


class _Expand(ast.NodeTransformer):
    """Puts the turn in front of the indices of an array."""

    def __init__(self, name: str, turn: ast.expr) -> None:
        self.name = name
        self.turn = turn

    def fits(self, s: Statement) -> bool:
        """Whether a statement reads elements and lengths only."""
        found = [n for e in _nodes(s).values() for n in subtrees(e)]
        names = sum(isinstance(n, ast.Name) and n.id == self.name for n in found)
        good = sum(isinstance(n, ast.Subscript) and self.of(n) for n in found)
        return isinstance(s, Assign | Store | If | Loop) and names == good

    def of(self, node: ast.Subscript) -> bool:
        """Whether it is an element, or a length."""
        return unparse(node.value) in (self.name, f"{self.name}.shape")

    def indices(self, s: Statement) -> list[ast.expr]:
        """Those of elements."""
        found = [n for e in _nodes(s).values() for n in subtrees(e) if isinstance(n, ast.Subscript)]
        read = [n.slice for n in found if unparse(n.value) == self.name]
        return [*read, s.index] if isinstance(s, Store) and s.array == self.name else read

    def has_turn(self, index: ast.expr) -> bool:
        return unparse(index.elts[0] if isinstance(index, ast.Tuple) else index) == unparse(self.turn)

    def rewrite(self, s: Statement) -> None:
        for part, node in _nodes(s).items():
            setattr(s, part, self.visit(parse(unparse(node))))  # parts of it may be there twice
        if isinstance(s, Store) and s.array == self.name:
            s.index = self.at(s.index)

    def at(self, index: ast.expr) -> ast.expr:
        return ast.Tuple([self.turn, *(index.elts if isinstance(index, ast.Tuple) else [index])], ast.Load())

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if self.of(node):
            whole = isinstance(node.value, ast.Name)
            node.slice = self.at(node.slice) if whole else ast.Constant(node.slice.value + 1)  # type: ignore[attr-defined]
        return node
