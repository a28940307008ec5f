"""Names that stand for one thing after another, in the text of a function: each gets a name of its own, where that is
what decides whether the function can be lowered.

A use may see what several places have set, which then belong together, however often loops turn, and whichever branches
are taken.
"""

from __future__ import annotations

import ast
import copy

from ..ir.names import Names, all_names
from ..ir.statements import subtrees

__all__ = ["Mixed", "meanings", "separated", "variable_of"]

#: What has set a name: a place in the text, the beginning of turns of a loop, or None for a parameter.
Origin = ast.AST | None
State = dict[str, frozenset[Origin]]


class Mixed(Exception):
    """A name stands for several things, which could have names of their own; or, `moving`, for an array parameter that
    is written, and then for another array."""

    def __init__(self, name: str, moving: bool = False) -> None:
        super().__init__(name)
        self.name = name
        self.moving = moving


def meanings(node: ast.FunctionDef, name: str) -> int:
    """For how many things a name stands."""
    return len(set(_Meanings(node, {name}).leaders(name).values()))


def separated(node: ast.FunctionDef, names: set[str], taken: set[str]) -> ast.FunctionDef:
    """The function with several names for each of `names`; the first thing that it stands for keeps it. Loops know what
    their variables were called (:func:`variable_of`)."""
    node = copy.deepcopy(node)
    for loop in subtrees(node):
        if isinstance(loop, ast.For):
            loop.written = variable_of(loop)  # type: ignore[attr-defined]
    found, free = _Meanings(node, names), Names(all_names(node) | taken)
    for name in sorted(names):
        leaders = found.leaders(name)
        called: dict[Origin, str] = {leaders[next(iter(leaders))]: name} if leaders else {}
        for place, leader in leaders.items():
            if leader not in called:
                called[leader] = free.fresh(name)
            if isinstance(place, ast.Name):
                place.id = called[leader]
    return node


def variable_of(loop: ast.For) -> str:
    """What a loop goes over its turns with, as its author wrote it: ``i``, or ``k, x``."""
    return getattr(loop, "written", "") or ast.unparse(loop.target).strip("()")


class _Meanings:
    def __init__(self, node: ast.FunctionDef, names: set[str]) -> None:
        inner = [n for s in node.body for n in subtrees(s)
                 if isinstance(n, ast.FunctionDef | ast.Lambda | ast.ListComp | ast.GeneratorExp)]  # fmt: skip
        self.parameters = {a.arg for a in subtrees(node.args) if isinstance(a, ast.arg)}
        self.names = names - {n for f in inner for n in (*all_names(f), getattr(f, "name", ""))}  # those have scopes
        self.before: dict[tuple[Origin, str], frozenset[Origin]] = {}  # of what a name is when a turn begins
        self.seen: list[tuple[ast.Name, frozenset[Origin]]] = []
        self.loops: list[tuple[list[State], list[State]]] = []  # what is known at the breaks and continues of each
        self.block(node.body, self.all_from(None))

    def block(self, body: list[ast.stmt], state: State | None) -> State | None:
        """What is known at the end; None if that is not reached."""
        for s in body:
            if state is None:
                state = self.all_from(None)  # a dead statement
            state = self.statement(s, state)
        return state

    def statement(self, s: ast.stmt, state: State) -> State | None:
        match s:
            case ast.If():
                self.expression(s.test, state)
                return joined(self.block(s.body, dict(state)), self.block(s.orelse, dict(state)))
            case ast.For() | ast.While():
                return self.loop(s, state)
            case ast.Break() | ast.Continue():
                if self.loops:
                    self.loops[-1][isinstance(s, ast.Continue)].append(state)
                return None
            case ast.AugAssign():
                self.expression(s.value, state)
                if isinstance(s.target, ast.Name):  # what is changed in place remains what it is
                    self.see(s.target, state)
                else:
                    self.expression(s.target, state)
                return state
            case ast.Assign() | ast.AnnAssign() if s.value is not None:
                self.expression(s.value, state)
                for t in s.targets if isinstance(s, ast.Assign) else [s.target]:
                    self.expression(t, state)
                return state
        self.expression(s, state)
        return None if isinstance(s, ast.Return | ast.Raise) else state

    def loop(self, s: ast.For | ast.While, state: State) -> State | None:
        if isinstance(s, ast.For):
            self.expression(s.iter, state)
        before, head = state, self.all_from(s)
        state = dict(head)
        self.expression(s.test if isinstance(s, ast.While) else s.target, state)
        if isinstance(s, ast.While):
            head = dict(state)
        self.loops.append(([], []))
        end = self.block(s.body, dict(state))
        breaks, continues = self.loops.pop()
        for n in self.names:
            ends = [e.get(n, frozenset()) for e in (before, end or {}, *continues)]
            self.before[s, n] = frozenset().union(*ends)
        found: State | None = head
        for b in breaks:
            found = joined(found, b)
        return found

    def all_from(self, origin: Origin) -> State:
        return dict.fromkeys(self.names, frozenset([origin]))

    def expression(self, node: ast.AST, state: State) -> None:
        nodes = [n for n in subtrees(node) if isinstance(n, ast.Name) and n.id in self.names]
        for n in nodes:
            if isinstance(n.ctx, ast.Load):
                self.see(n, state)
        for n in nodes:
            if isinstance(n.ctx, ast.Store):
                state[n.id] = frozenset([n])
                self.see(n, state)

    def see(self, node: ast.Name, state: State) -> None:
        self.seen.append((node, state.get(node.id, frozenset())))

    def leaders(self, name: str) -> dict[Origin, Origin]:
        """For the places with a name, in the order of the text, one that stands for all that belong to it."""
        parents: dict[Origin, Origin] = {}

        def top(origin: Origin) -> Origin:
            while origin in parents:
                origin = parents[origin]
            return origin

        places = [(n, origins) for n, origins in self.seen if n.id == name]
        stack = [frozenset([n]) | origins for n, origins in places]
        known: set[Origin] = set()
        while stack:
            origins = stack.pop()
            first, *others = {top(o) for o in origins}
            parents |= dict.fromkeys(others, first)
            stack += [frozenset([o]) | self.before[o, name] for o in origins - known if (o, name) in self.before]
            known |= origins
        found = {None: top(None)} if None in known or name in self.parameters else {}
        return found | {n: top(n) for n, _ in sorted(places, key=lambda p: (p[0].lineno, p[0].col_offset))}


def joined(a: State | None, b: State | None) -> State | None:
    """What is known where two ways meet."""
    if a is None or b is None:
        return b if a is None else a
    return {n: a.get(n, frozenset()) | b.get(n, frozenset()) for n in {*a, *b}}
