"""Functions and pullbacks that leave their arguments alone: what an operation on arrays is made of."""

from __future__ import annotations

from ..analysis.activity import Plan, survey
from ..arguments import outputs
from ..ir.statements import Function, Swap, walk
from .module_source import module
from .printer import definition
from .reverse_sweep import Reverse
from .tangent import Forward

__all__ = ["Pullback", "function"]


def function(f: Function) -> tuple[str, str]:
    """The name and the file of `f` without effects: the arrays that it writes are copied, and returned at the end."""
    made = Forward(f, survey(f, set()), [])
    changed = f.written
    names = {n: n for n in changed}
    head = [f"{n} = {n}.copy()" for n in changed]
    moving = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    for n in set(changed) & moving:
        names[n] = made.fresh(f"{n}_array")
        head.append(f"{names[n]} = {n}")
    results = list(f.results or [])
    found = [*results, *(names[n] for n in changed if n not in results)]
    lines = [*head, *made.block(f.body), f"return {', '.join(found)}"]
    entry = made.fresh(f.name)
    return entry, module(definition(entry, f.parameters, lines), f, made.free)


class Pullback(Reverse):
    """Writes ``f_vjp(cotangents..., arguments...)``, which returns the gradients with respect to `wrt`.

    Attributes
    ----------
    cotangents : list of str
        The outputs whose cotangents are arguments, in this order.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str]) -> None:
        super().__init__(f, plan, wrt)
        self.wrt = wrt
        self.cotangents = [n for n in outputs(f) if n in plan.active]
        arrays = [n for n in self.cotangents if n in self.arrays]
        self.given = {n: self.fresh(f"{self.bars[n]}_given") for n in arrays}
        self.entry = self.fresh(f"{f.name}_vjp")

    def source(self) -> str:
        f = self.f
        head, found = self.begun(self.given)
        parameters = [*(self.given.get(n) or self.seed(n) for n in self.cotangents), *f.parameters]
        lines = [*head, *self.sweeps(), f"return {', '.join(found)}"]
        return definition(self.entry, parameters, lines)

    def begun(self, given: dict[str, str]) -> tuple[list[str], list[str]]:
        """Code for copies of what is written, and for the cotangents of arguments: those `given`, or zeros; the names
        of the gradients."""
        f = self.f
        head = [f"{n} = {n}.copy()" for n in f.written]
        for n in self.arrays:
            head.append(f"{self.bars[n]} = {f'{given[n]}.copy()' if n in given else f'np.zeros_like({n})'}")
        found = []
        for n in self.wrt:
            if n not in self.bars:
                self.bars[n] = self.fresh(f"{n}_bar")
                head.append(f"{self.bars[n]} = {f'np.zeros_like({n})' if f.ranks[n] else '0.0'}")
            found.append(self.bars[n])
        return head, found

    def put_aside(self) -> list[str]:
        return []  # everything here is a copy
