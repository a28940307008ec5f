"""Pure versions of functions, and their pullbacks: neither modifies its arguments, as operations on arrays require."""

from __future__ import annotations

import numpy as np

from ..analysis.reverse_plan import Plan
from ..arguments import output_names
from ..ir.effects import Bind, Return
from ..ir.names import called
from ..ir.printer import Definition, definition
from ..ir.reverse_ir import FLOAT_ZERO, Item
from ..ir.statements import Function, Swap, walk
from ..ir.terms import Copy, Variable, variables
from ..planning import plan_tangents
from .module_source import module
from .reverse_sweep import AdjointBuilder
from .tangent import TangentBuilder

__all__ = ["Pullback", "function"]


def function(f: Function) -> tuple[str, str]:
    """The name and source of a pure version of `f`: arrays that it modifies are copied first and returned as well."""
    made = TangentBuilder(f, plan_tangents(f, set()), [])
    changed = f.modified_parameters
    names = {n: n for n in changed}
    head = _copied(changed)
    moving = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    for n in set(changed) & moving:
        names[n] = made.fresh(f"{n}_array")
        head.append(Bind((names[n],), Variable(n)))
    results = list(f.results or [])
    found = [*results, *(names[n] for n in changed if n not in results)]
    items = [*head, *made.block(f.body), Return(variables(found))]
    entry = made.fresh(f.name)
    return entry, module(definition(entry, f.parameters, items), f, made.free)


def _copied(names: list[str]) -> list[Item]:
    """Copy arrays."""
    return [Bind((n,), Copy(Variable(n))) for n in names]


class Pullback(AdjointBuilder):
    """Makes ``f_vjp(cotangents..., arguments...)``, which returns the gradients with respect to `wrt`.

    Attributes
    ----------
    cotangents : list of str
        The outputs whose cotangents are arguments, in this order.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str]) -> None:
        super().__init__(f, plan, wrt)
        self.wrt = wrt
        self.cotangents = [n for n in output_names(f) if n in plan.active]
        arrays = [n for n in self.cotangents if n in self.arrays]
        self.cotangent_args = {n: self.fresh(f"{self.bars[n]}_given") for n in arrays}
        self.entry = self.fresh(f"{f.name}_vjp")

    def source(self) -> Definition:
        f = self.f
        head, found = self.begin_gradients(self.cotangent_args)
        parameters = [*(self.cotangent_args.get(n) or self.seed(n) for n in self.cotangents), *f.parameters]
        items = [*head, *self.sweeps(), Return(variables(found))]
        return definition(self.entry, parameters, items)

    @property
    def known_names(self) -> set[str]:
        return {*(self.bars[n] for n in self.arrays), *(self.bars[n] for n in self.wrt)}

    def begin_gradients(self, given: dict[str, str]) -> tuple[list[Item], list[str]]:
        """Copy the modified arrays and initialize the cotangents of the arguments, from `given` or with zeros; return
        that, and the names of the gradients."""
        f = self.f
        head = _copied(f.modified_parameters)
        for n in self.arrays:
            begun = Copy(Variable(given[n])) if n in given else called(np.zeros_like, Variable(n))
            head.append(Bind((self.bars[n],), begun))
        gradients = []
        for n in self.wrt:
            if n not in self.bars:
                self.bars[n] = self.fresh(f"{n}_bar")
                zero = called(np.zeros_like, Variable(n)) if f.ranks[n] else FLOAT_ZERO
                head.append(Bind((self.bars[n],), zero))
            gradients.append(self.bars[n])
        return head, gradients

    def save_results(self) -> list[Item]:
        return []  # everything here is a copy
