"""Split mode: the forward and reverse sweeps as two functions.

The forward function returns the state that the backward function reads, which a liveness analysis determines.
"""

from __future__ import annotations

import ast

from ...core.source_text import parsed
from ..frontend.syntax import children, subtrees
from ..ir.printer import definition
from ..ir.reverse_ir import Item, Step, flatten_items, loops_over
from ..ir.statements import Swap, walk
from ..ir.terms import Element, variables
from .pure_functions import Pullback

__all__ = ["SplitAdjointPrinter"]


class SplitAdjointPrinter(Pullback):
    """Prints ``f_forward(arguments...)`` and ``f_backward(state..., cotangents...)``.

    After that, `state_always_defined` says whether every forward sweep defines all of the state.
    """

    state_always_defined = True

    def split_sources(self) -> tuple[str, str]:
        """The sources of the two functions."""
        f, changed = self.f, self.f.modified_parameters
        self.entries = self.fresh(f"{f.name}_forward"), self.fresh(f"{f.name}_backward")
        moving = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
        head, gradients = self.begin_gradients({})
        arrays, bars = dict(zip(changed, changed)), {n: self.bars[n] for n in self.cotangent_args}
        for names in (arrays, bars):  # names that stay bound to the arrays when variables are swapped
            for n in moving & set(names):
                kept = self.fresh(f"{names[n]}_array")
                head.append(f"{kept} = {names[n]}")
                names[n] = kept
        there, back = self.sweep_lines()
        there = [*head, *there]
        given = [self.cotangent_args.get(n) or self.seed(n) for n in self.cotangents]
        begun: list[Item] = []
        for n, bar in bars.items():
            counters = self.counters(n)
            index = variables(counters)
            begun.append(
                loops_over(bar, counters, Step(Element(bar, index), "=", Element(self.cotangent_args[n], index)))
            )
        back = [*flatten_items(begun), *back, _returned(gradients)]
        forward_sweep, reverse_sweep = _parsed(there), _parsed(back)
        found = {n.id for n in subtrees(forward_sweep) if isinstance(n, ast.Name) and _set(n)}
        live = _live(reverse_sweep.body, set(), set())
        state = sorted(live & {*found, *f.parameters} - set(given))
        steering = _control_names(reverse_sweep) & {p for p in f.parameters if f.ranks[p]} - set(changed)
        self.state_always_defined = not self.calls and set(state) <= {
            *_definitely_assigned(forward_sweep.body),
            *f.parameters,
        }
        results = [f"{n}.copy()" if f.ranks.get(n) and n in live else n for n in f.results or []]
        handed = [f"{n}.copy()" if n in steering else n for n in state]  # the caller may modify them between the sweeps
        there.append(_returned([*results, *arrays.values(), *handed]))
        return (
            definition(self.entries[0], f.parameters, there),
            definition(self.entries[1], [*state, *given], back),
        )


def _returned(names: list[str]) -> str:
    return f"return ({''.join(f'{n}, ' for n in names)})"


def _parsed(lines: list[str]) -> ast.FunctionDef:
    return parsed(definition("sweep", [], lines)).body[0]


def _definitely_assigned(body: list[ast.stmt]) -> set[str]:
    """The names that are definitely assigned after `body`."""
    names: set[str] = set()
    for s in body:
        if isinstance(s, ast.If):
            names |= _definitely_assigned(s.body) & _definitely_assigned(s.orelse)
        elif not isinstance(s, ast.For | ast.While):
            names |= {n.id for n in subtrees(s) if isinstance(n, ast.Name) and _set(n)}
    return names


def _live(body: list[ast.stmt], after: set[str], exits: set[str]) -> set[str]:
    """The names that are live before `body`. `after` are those live after it, `exits` those live after a break or
    continue."""
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


def _control_names(sweep: ast.FunctionDef) -> set[str]:
    """The names that the control flow or the indices of `sweep` depend on: those in tests, loop bounds and indices, and
    those that these are computed from."""
    controls: list[ast.AST] = []
    assigned: dict[str, list[ast.expr]] = {}
    for node in subtrees(sweep):
        match node:
            case ast.If() | ast.While():
                controls.append(node.test)
            case ast.IfExp() if any(isinstance(n, ast.Subscript) for n in subtrees(node.body) + subtrees(node.orelse)):
                controls.append(node.test)
            case ast.For():
                controls.append(node.iter)
            case ast.Subscript():
                controls.append(node.slice)
            case ast.Assign() | ast.AugAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]:
                    name = target.value if isinstance(target, ast.Subscript) else target
                    assigned.setdefault(name.id, []).append(node.value)  # type: ignore[attr-defined]
    steering: set[str] = set()
    new = {n for node in controls for n in _value_names(node)}
    while new:
        steering |= new
        new = {m for n in new for value in assigned.get(n, ()) for m in _value_names(value)} - steering
    return steering


def _value_names(node: ast.AST) -> set[str]:
    """The names in an expression whose values it reads, not only their shape, size or dtype."""
    match node:
        case ast.Name():
            return {node.id}
        case ast.Attribute(attr="shape" | "size" | "dtype"):
            return set()
    return {n for child in children(node) for n in _value_names(child)}


def _set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in subtrees(node) if isinstance(n, ast.Name) and not _set(n)}
