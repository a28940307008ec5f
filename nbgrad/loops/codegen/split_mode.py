"""The two sweeps as functions of their own; what the second one reads of the first is handed over."""

from __future__ import annotations

import ast

from ..ir.reverse_ir import elements, flat
from ..ir.statements import Swap, children, subtrees, walk
from .printer import definition
from .pure_functions import Pullback

__all__ = ["Sweeps"]


class Sweeps(Pullback):
    """Writes ``f_forward(arguments...)`` and ``f_backward(state..., cotangents...)``; then, `whole` says whether all
    of the state is there after any forward sweep."""

    whole = True

    def halves(self) -> tuple[str, str]:
        f, changed = self.f, self.f.written
        self.entries = self.fresh(f"{f.name}_forward"), self.fresh(f"{f.name}_backward")
        moving = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
        head, gradients = self.begun({})
        arrays, bars = dict(zip(changed, changed)), {n: self.bars[n] for n in self.given}
        for names in (arrays, bars):  # other names for what changes places
            for n in moving & set(names):
                kept = self.fresh(f"{names[n]}_array")
                head.append(f"{kept} = {names[n]}")
                names[n] = kept
        there, back = self.there_and_back()
        there = [*head, *there]
        given = [self.given.get(n) or self.seed(n) for n in self.cotangents]
        begun = [elements(bar, self.counters(n), f"{bar}[", "=", f"{self.given[n]}[") for n, bar in bars.items()]
        back = [*flat(begun), *back, _returned(gradients)]
        found = {n.id for n in subtrees(_parsed(there)) if isinstance(n, ast.Name) and _set(n)}
        live = _live(_parsed(back).body, set(), set())
        state = sorted(live & {*found, *f.parameters} - set(given))
        steering = _steering(_parsed(back)) & {p for p in f.parameters if f.ranks[p]} - set(changed)
        self.whole = not self.calls and set(state) <= {*_made(_parsed(there).body), *f.parameters}
        results = [f"{n}.copy()" if f.ranks.get(n) and n in live else n for n in f.results or []]
        handed = [f"{n}.copy()" if n in steering else n for n in state]  # the caller may change them in between
        there.append(_returned([*results, *arrays.values(), *handed]))
        return (
            definition(self.entries[0], f.parameters, there),
            definition(self.entries[1], [*state, *given], back),
        )


def _returned(names: list[str]) -> str:
    return f"return ({''.join(f'{n}, ' for n in names)})"


def _parsed(lines: list[str]) -> ast.FunctionDef:
    return ast.parse(definition("sweep", [], lines)).body[0]  # type: ignore[return-value]


def _made(body: list[ast.stmt]) -> set[str]:
    """The names that surely have values after `body`."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, ast.If):
            found |= _made(s.body) & _made(s.orelse)
        elif not isinstance(s, ast.For | ast.While):
            found |= {n.id for n in subtrees(s) if isinstance(n, ast.Name) and _set(n)}
    return found


def _live(body: list[ast.stmt], after: set[str], exits: set[str]) -> set[str]:
    """The names whose values `body` may use, or what follows it, where those in `after` are used; `exits`: those that
    are used after the loop around."""
    live = set(after)
    for s in reversed(body):
        match s:
            case ast.For():
                inside = _live(s.body, live, live)
                live |= (inside - {n.id for n in subtrees(s.target) if isinstance(n, ast.Name)}) | _read(s.iter)
            case ast.While():
                live |= _live(s.body, live | _read(s.test), live) | _read(s.test)
            case ast.If():
                live = _live(s.body, live, exits) | _live(s.orelse, live, exits) | _read(s.test)
            case ast.Assign():
                live -= {n.id for t in s.targets for n in subtrees(t) if isinstance(n, ast.Name) and _set(n)}
                live |= _read(s)
            case ast.AugAssign():
                live |= _read(s) | ({s.target.id} if isinstance(s.target, ast.Name) else set())
            case ast.Break() | ast.Continue():
                live |= exits
            case _:
                live |= _read(s)
    return live


def _steering(sweep: ast.FunctionDef) -> set[str]:
    """The names that say where `sweep` goes, or which elements it takes: what tests, bounds of loops and indices are
    made of."""
    asked: list[ast.AST] = []
    made: dict[str, list[ast.expr]] = {}
    for node in subtrees(sweep):
        match node:
            case ast.If() | ast.While():
                asked.append(node.test)
            case ast.IfExp() if any(isinstance(n, ast.Subscript) for n in subtrees(node.body) + subtrees(node.orelse)):
                asked.append(node.test)
            case ast.For():
                asked.append(node.iter)
            case ast.Subscript():
                asked.append(node.slice)
            case ast.Assign() | ast.AugAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]:
                    name = target.value if isinstance(target, ast.Subscript) else target
                    made.setdefault(name.id, []).append(node.value)  # type: ignore[attr-defined]
    found: set[str] = set()
    new = {n for node in asked for n in _elements(node)}
    while new:
        found |= new
        new = {m for n in new for value in made.get(n, ()) for m in _elements(value)} - found
    return found


def _elements(node: ast.AST) -> set[str]:
    """The names in an expression of which more than a length is meant."""
    match node:
        case ast.Name():
            return {node.id}
        case ast.Attribute(attr="shape" | "size" | "dtype"):
            return set()
    return {n for child in children(node) for n in _elements(child)}


def _set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in subtrees(node) if isinstance(n, ast.Name) and not _set(n)}
