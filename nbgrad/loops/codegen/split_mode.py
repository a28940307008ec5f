"""Split mode: the forward and reverse sweeps as two functions.

The forward function returns the state that the backward function reads, which a liveness analysis determines.
"""

from __future__ import annotations

from ..analysis.liveness import control_names, definitely_bound, live_before
from ..ir.effects import Bind, Return
from ..ir.printer import Definition, definition
from ..ir.reverse_ir import Item, Step, bound_by, loops_over, walk_items
from ..ir.statements import Swap, walk
from ..ir.terms import Copy, Element, Term, Variable, variables
from .pure_functions import Pullback

__all__ = ["SplitAdjointBuilder"]


class SplitAdjointBuilder(Pullback):
    """Makes ``f_forward(arguments...)`` and ``f_backward(state..., cotangents...)``.

    After that, `state_always_defined` says whether every forward sweep defines all of the state.
    """

    state_always_defined = True

    def split_sources(self) -> tuple[Definition, Definition]:
        """The two functions."""
        f, changed = self.f, self.f.modified_parameters
        self.entries = self.fresh(f"{f.name}_forward"), self.fresh(f"{f.name}_backward")
        moving = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
        head, gradients = self.begin_gradients({})
        arrays, bars = dict(zip(changed, changed)), {n: self.bars[n] for n in self.cotangent_args}
        for names in (arrays, bars):  # names that stay bound to the arrays when variables are swapped
            for n in moving & set(names):
                kept = self.fresh(f"{names[n]}_array")
                head.append(Bind((kept,), Variable(names[n])))
                names[n] = kept
        there, back = self.both_sweeps()
        there = [*head, *there]
        given = [self.cotangent_args.get(n) or self.seed(n) for n in self.cotangents]
        begun: list[Item] = []
        for n, bar in bars.items():
            counters = self.counters(n)
            index = variables(counters)
            begun.append(
                loops_over(bar, counters, Step(Element(bar, index), "=", Element(self.cotangent_args[n], index)))
            )
        back = [*begun, *back, Return(variables(gradients), parenthesized=True)]
        found = {n for item in walk_items(there) for n in bound_by(item)}
        live = live_before(back, frozenset())
        state = sorted(live & {*found, *f.parameters} - set(given))
        steering = control_names(back) & {p for p in f.parameters if f.ranks[p]} - set(changed)
        self.state_always_defined = not self.calls and set(state) <= {*definitely_bound(there), *f.parameters}
        results: list[Term] = [_handed(n, bool(f.ranks.get(n)) and n in live) for n in f.results or []]
        state_values = [_handed(n, n in steering) for n in state]  # the caller may modify arrays between the sweeps
        there.append(Return((*results, *variables(arrays.values()), *state_values), parenthesized=True))
        return (
            definition(self.entries[0], f.parameters, there),
            definition(self.entries[1], [*state, *given], back),
        )


def _handed(name: str, copied: bool) -> Term:
    return Copy(Variable(name)) if copied else Variable(name)
