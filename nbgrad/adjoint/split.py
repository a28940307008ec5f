"""Numbers that are set anew in the same block get a name for each value, so that each is a definition."""

from __future__ import annotations

import ast
import copy

from .ir import Assign, Block, Check, Function, If, Loop, Statement, Store, below, reads, walk, writes

__all__ = ["carry", "split"]


def split(f: Function, fixed: set[str]) -> None:
    """Rename in `f`; names in `fixed` stay."""
    taken = {*f.ranks, *f.parameters, *f.constants, *(s.name for s in walk(f.body) if isinstance(s, Assign))}
    for name in sorted({s.name for s in walk(f.body) if isinstance(s, Assign)} - fixed):
        blocks: list[list[Statement]] = []
        if _cover(name, f.body, blocks):
            for touching in blocks:
                _rename(name, touching, f, taken)


def carry(f: Function, loop: Loop, s: Assign) -> Assign:
    """Let a number keep its value to the end of a turn: ``x = x + k`` becomes ``x_next = x + k``, and ``x = x_next``
    the end of the turn, which is returned."""
    name, new, count = s.name, f"{s.name}_next", 1
    while new in f.ranks or any(new in writes(t) for t in walk(f.body)):
        count += 1
        new = f"{s.name}_next{count}"
    f.ranks[new], f.kinds[new] = 0, f.kinds.get(name, "float")
    s.name = new
    for t in walk(loop.body[loop.body.index(s) + 1 :]):
        _exchange(t, name, new)
    last = Assign(name, ast.Name(new, ast.Load()))
    loop.body.append(last)
    return last


def _cover(name: str, block: Block, blocks: list[list[Statement]]) -> bool:
    """Find blocks that hold all occurrences of `name`, each beginning with setting it."""
    touching = [s for s in block if any(_mentions(name, t) for t in walk([s]))]
    if not touching:
        return True
    first = touching[0]
    if isinstance(first, Assign) and first.name == name and name not in reads(first.value):
        blocks.append(touching)
        inside = (t for s in touching for inner in below(s) for t in walk(inner))
        return not any(isinstance(t, Assign) and t.name == name for t in inside)
    if any(_mentions(name, s) for s in touching):
        return False
    return all(_cover(name, inner, blocks) for s in touching for inner in below(s))


def _rename(name: str, touching: list[Statement], f: Function, taken: set[str]) -> None:
    current, count = name, 1
    for s in touching:
        for t in walk([s]):
            _exchange(t, name, current)
        if isinstance(s, Assign) and s.name == name and s is not touching[0]:
            while f"{name}{count + 1}" in taken:
                count += 1
            current = f"{name}{count + 1}"
            taken.add(current)
            f.ranks[current] = 0
            f.kinds[current] = f.kinds.get(name, "float")
            s.name = current


def _mentions(name: str, s: Statement) -> bool:
    match s:
        case Assign():
            return s.name == name or name in reads(s.value)
        case Store():
            return name in reads(s.index, s.value)
        case If() | Check():
            return name in reads(s.test)
        case Loop():
            return name in reads(s.start, s.stop, s.step, s.test) or name in (s.index, s.until, s.count)
    return any(name in reads(n) for n in getattr(s, "shape", ()))


def _exchange(s: Statement, old: str, new: str) -> None:
    if old == new:
        return
    for part in ("value", "index", "test", "start", "stop", "step"):
        node = getattr(s, part, None)
        if isinstance(node, ast.expr):
            setattr(s, part, _Rename(old, new).visit(copy.deepcopy(node)))


class _Rename(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old = old
        self.new = new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.new, node.ctx) if node.id == self.old else node
