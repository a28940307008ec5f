"""Sums of a fixed order, four side by side.

Each addition of such a sum waits for the one before. Where the turns of a loop only add up numbers of their own, four
turns run at once: the additions of four sums take turns, and each sum has its order still.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable

from ..analysis.activity import Plan
from ..analysis.tbr import sweep_reads
from ..ir.affine import plus
from ..ir.statements import (
    Assign,
    Block,
    Function,
    Loop,
    Put,
    Statement,
    Store,
    changed,
    mentions,
    parse,
    reads,
    unparse,
    uses,
    walk,
)
from ..ir.tapes import trips

__all__ = ["jammed"]

#: How many turns run at once.
_WIDTH = 4


def jammed(loop: Loop, f: Function, made: Plan, fresh: Callable[[str, int], str]) -> tuple[Loop, Loop] | None:
    """The loop with four turns at once, and the rest of its turns; None if that does not do the same or is no use."""
    own = [s for s in walk(loop.body) if isinstance(s, Assign)]
    if not _plain(loop) or unparse(loop.step) != "1" or not _sums(loop) or loop in made.fusion.loops:
        return None
    if (made.save | made.keep) & set(walk(loop.body)) or not _apart(loop) or not _private(loop, f, made):
        return None
    names = list(dict.fromkeys(s.name for s in own))
    body: Block = []
    others: list[dict[str, ast.expr]] = [{n: ast.Name(fresh(n, k)) for n in names} for k in range(1, _WIDTH)]
    replaced: list[dict[str, ast.expr]] = [
        {},
        *({**other, loop.index: parse(f"{loop.index} + {k}")} for k, other in enumerate(others, 1)),
    ]
    for s in loop.body:
        if isinstance(s, Loop):
            inner = [_copy(s.body[0], r) for r in replaced]
            body.append(Loop(s.index, s.start, s.stop, s.step, None, inner))
        else:
            body += [_copy(s, r) for r in replaced]
    step = ast.Constant(_WIDTH)
    first = parse(f"{trips(loop)} // {_WIDTH} * {_WIDTH}")
    start = first if unparse(loop.start) == "0" else ast.BinOp(loop.start, ast.Add(), first)
    wide = Loop(loop.index, loop.start, plus(loop.stop, 1 - _WIDTH), step, None, body)
    return wide, Loop(loop.index, start, loop.stop, loop.step, None, loop.body)


def _plain(loop: Loop) -> bool:
    return bool(loop.index) and not (loop.count or loop.until or loop.resets)


def _sums(loop: Loop) -> bool:
    """Whether the loops in it only add to numbers, and everything else is assignments."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    moving = changed(loop)
    for s in inner:
        if not _plain(s) or reads(s.start, s.stop, s.step) & moving or len(s.body) != 1:
            return False
        (add,) = s.body
        if not isinstance(add, Assign) or add.free or not isinstance(add.value, ast.BinOp):
            return False
        left, right = add.value.left, add.value.right
        total = isinstance(left, ast.Name) and left.id == add.name and add.name not in reads(right)
        if not total or not isinstance(add.value.op, ast.Add | ast.Sub):
            return False
    long = [s for s in inner if not isinstance(s.stop, ast.Constant)]  # others are better left to the compiler
    return bool(long) and all(isinstance(s, Assign | Store | Loop) for s in loop.body)


def _apart(loop: Loop) -> bool:
    """Whether no turn reads elements that are stored, and each array is stored to by one statement."""
    stored = [s.array for s in walk(loop.body) if isinstance(s, Store)]
    return len(set(stored)) == len(stored) and not any(uses(s) & set(stored) for s in walk([loop]))


def _private(loop: Loop, f: Function, made: Plan) -> bool:
    """Whether the numbers that are set are floats, set anew in each turn, and needed nowhere else."""
    inside = set(walk(loop.body))
    outside = [s for s in walk(f.body) if s not in inside]
    for name in {s.name for s in inside if isinstance(s, Assign)}:
        first = next(s for s in loop.body if any(mentions(t, name) for t in walk([s])))
        anew = isinstance(first, Assign) and first.name == name and name not in reads(first.value)
        if not anew or name in (*f.parameters, *(f.results or [])) or f.kinds.get(name) != "float":
            return False
        if any(mentions(s, name) for s in outside) or any(name in sweep_reads(s, made) for s in walk(f.body)):
            return False
    return True


def _copy(s: Statement, names: dict[str, ast.expr]) -> Statement:
    """`s` with other expressions in the place of names."""
    put = Put(names)
    if isinstance(s, Store):
        return Store(s.array, put.visit(copy.deepcopy(s.index)), put.visit(copy.deepcopy(s.value)))
    assert isinstance(s, Assign)
    target = names.get(s.name, ast.Name(s.name))
    return Assign(target.id, put.visit(copy.deepcopy(s.value)))  # type: ignore[attr-defined]
