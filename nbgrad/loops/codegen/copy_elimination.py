"""New values that wait in an array of their own until the old ones have been read, and are then copied back.

After ``new[i] = u[i] + c * flow`` in one loop comes ``u[i] = new[i]`` in the next. Where the sweep forward stores
`flow` anyway, the second loop can make the new values itself, and nobody needs those of `new`: one array less is
written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ..analysis.activity import Plan
from ..analysis.tbr import sweep_reads
from ..ir.affine import offset, parts
from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Check,
    Function,
    Loop,
    Put,
    Statement,
    Store,
    Swap,
    below,
    changed,
    duplicate,
    elements_in,
    parse,
    reads,
    subtrees,
    unparse,
    uses,
    walk,
    writes,
)
from ..ir.tapes import Tape

__all__ = ["Updates"]

#: How many elements a new value may be made of.
_FEW = 4


class Updates:
    """What the sweep forward writes otherwise than the function.

    Attributes
    ----------
    values : dict
        What is stored instead of the copy of an element, by the statement that would copy it.
    unread : set of Statement
        What is not needed then.
    """

    def __init__(self, f: Function, plan: Plan, tapes: dict[Statement, Tape]) -> None:
        self.f = f
        self.plan = plan
        self.tapes = tapes
        self.values: dict[Statement, ast.expr] = {}
        self.unread: set[Statement] = set()
        if f.narrow or any(isinstance(s, Alloc) and unparse(_dtype(s)) == "np.float32" for s in walk(f.body)):
            return  # an array may round what it holds
        for block in (f.body, *(b for s in walk(f.body) for b in below(s))):
            for first, between, second in _neighbours(block):
                self._look(first, between, second)
        loops = [s for s in walk(f.body) if isinstance(s, Loop)]
        self.unread |= {p for p in loops if all(s in self.unread or isinstance(s, Loop) for s in walk(p.body))}

    def _look(self, first: Loop, between: Block, second: Loop) -> None:
        """Note what is copied in `second`, if it can be made there."""
        later, copy = _nest(second, lambda s: isinstance(s, Store))
        if not isinstance(copy, Store) or len(later[-1].body) > 1 or not isinstance(copy.value, ast.Subscript):
            return
        array = unparse(copy.value.value)
        loops, store = _nest(first, lambda s: isinstance(s, Store) and s.array == array)
        moving = {n for s in walk([first, *between, second]) for n in writes(s)}
        names, stores = self._same_turns(loops, later, moving), self._only_copied(array, copy)
        if not isinstance(store, Store) or store not in stores or names is None or copy.array in changed(first):
            return
        place, turns = unparse(copy.index), [offset(p)[0] for p in parts(copy.index)]
        own = place == unparse(copy.value.slice) == unparse(_put(names, store.index))
        value = self._there(store.value, loops, moving)
        if value is None or not own or any(turns.count(p.index) != 1 for p in later):
            return
        value = _put(names, value)
        old = {unparse(n) for n in elements_in(value, copy.array)}
        hidden = reads(value, copy.index) & (moving - {copy.array} - {p.index for p in later})
        if not hidden and old <= {place} and _cheap(value):
            self.values[copy] = value
            self.unread |= stores

    def _only_copied(self, array: str, copy: Store) -> set[Statement]:
        """The statements that write elements of a local array which `copy` alone reads; none if it is another one."""
        every = list(walk(self.f.body))
        made = [s for s in every if isinstance(s, Alloc) and s.name == array]
        stores: set[Statement] = {s for s in every if isinstance(s, Store) and s.array == array}
        read = any(array in uses(s) | sweep_reads(s, self.plan) for s in every if s is not copy)
        read |= array in sweep_reads(copy, self.plan) or any(self.plan.pulls[s].value for s in stores)
        moves = any(array in writes(s) for s in every if isinstance(s, Swap)) or array in (self.f.results or [])
        exact = all(_is_dtype(_dtype(s)) or unparse(_dtype(s)) == "np.float64" for s in made)
        exact &= self.f.kinds.get(array) == self.f.kinds.get(copy.array) == "float"
        return stores if made and exact and not read and not moves and not stores & self.tapes.keys() else set()

    def _same_turns(self, first: list[Loop], second: list[Loop], moving: set[str]) -> dict[str, ast.expr] | None:
        """What the variables of loops are called in loops with the same turns; None if they have others."""
        names: dict[str, ast.expr] = {}
        for a, b in zip(first, second, strict=False):
            bounds = [(unparse(_put(names, p)), unparse(q)) for p, q in zip(_range(a), _range(b), strict=True)]
            odd = any(not p.index or p.until or p.count or p in self.plan.fusion.loops for p in (a, b))
            if odd or any(p != q for p, q in bounds) or reads(*_range(a)) & (moving - names.keys()):
                return None
            names[a.index] = ast.Name(b.index, ast.Load())
        return names if first and len(first) == len(second) else None

    def _there(self, value: ast.expr, loops: list[Loop], moving: set[str]) -> ast.expr | None:
        """An expression of a turn, made of what is still there after the loops; None if something is not. `moving` are
        the names that change."""
        names: dict[str, ast.expr] = {}
        for n in reads(value) & (moving - {p.index for p in loops}):
            if self.f.ranks.get(n):
                continue
            found = [s for s in self.plan.defined if isinstance(s, Assign) and s.name == n]
            if len(found) != 1 or not any(found[0] in p.body for p in loops):
                return None
            tape = self.tapes.get(found[0]) if found[0] in self.plan.keep else None
            if tape is not None and tape.sizes:
                again: ast.expr | None = parse(f"{tape.name}[{tape.index}]")
            else:
                again = self._there(found[0].value, loops, moving)
            if again is None:
                return None
            names[n] = again
        return _put(names, value)


def _dtype(s: Alloc) -> ast.expr:
    """Code for the dtype of a new array."""
    return s.value.args[1]  # type: ignore[attr-defined]


def _is_dtype(node: ast.expr) -> bool:
    """Whether it is that of another array."""
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _neighbours(block: Block) -> Iterator[tuple[Loop, Block, Loop]]:
    """Loops that follow each other, with what sets numbers between them."""
    for k, first in enumerate(block):
        if not isinstance(first, Loop):
            continue
        for later, second in enumerate(block[k + 1 :], k + 1):
            if isinstance(second, Loop):
                yield first, block[k + 1 : later], second
            if not isinstance(second, Assign | Check):
                break


def _nest(loop: Loop, wanted: Callable[[Statement], bool]) -> tuple[list[Loop], Statement | None]:
    """The loops from `loop` on around the one statement that is wanted, and that; None if there are others, or tests
    around it."""
    found = [s for s in walk(loop.body) if wanted(s)]
    loops = [loop]
    while len(found) == 1:
        if found[0] in loops[-1].body:
            return loops, found[0]
        inner = [s for s in loops[-1].body if isinstance(s, Loop) and found[0] in walk(s.body)]
        if not inner:
            break
        loops.append(inner[0])
    return loops, None


def _range(loop: Loop) -> tuple[ast.expr, ast.expr, ast.expr]:
    return loop.start, loop.stop, loop.step


def _put(names: dict[str, ast.expr], node: ast.expr) -> ast.expr:
    return Put(names).visit(duplicate(node))


def _cheap(value: ast.expr) -> bool:
    nodes = subtrees(value)
    calls = any(isinstance(n, ast.Call | ast.IfExp) for n in nodes)
    return not calls and sum(isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) for n in nodes) <= _FEW
