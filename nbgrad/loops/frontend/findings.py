"""What attempts to lower a function found, for the attempts after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ir.mixed_kinds import refuse_mixed_kinds, settled
from ..ir.statements import Function
from ..ir.type_inference import kind_of
from .live_range_splitting import NeedsSplitting, VaryingAxis, count_webs
from .rewrites import Rewrites

__all__ = ["Findings"]

Scope = tuple[ast.FunctionDef, dict[str, str]]


@dataclass
class Findings:
    """What lowering begins again with."""

    rewrites: Rewrites = field(default_factory=Rewrites)  # of the sources of all functions
    writable_copies: set[str] = field(default_factory=set)  # parameters that are written, then rebound
    written_reshaped: set[str] = field(default_factory=set)  # parameters that are reshaped and written
    varying_axes: set[VaryingAxis] = field(default_factory=set)
    fixed_axes: set[VaryingAxis] = field(default_factory=set)  # those along which lengths must not change
    operations_on_bools: set[tuple] = field(default_factory=set)  # where the code has operators on arrays of bools
    operations_on_numbers: set[tuple] = field(default_factory=set)  # where it only seemed so
    scopes: list[Scope] = field(default_factory=list)  # of the last attempt: functions, with the variables of names

    def add(self, asked: NeedsSplitting) -> bool:
        """Add what an attempt asked for; whether that is new."""
        if asked.varying or asked.written:
            known = len(self.varying_axes), len(self.written_reshaped)
            self.varying_axes |= {*asked.varying} - self.fixed_axes
            self.written_reshaped.update(asked.written)
            return (len(self.varying_axes), len(self.written_reshaped)) != known
        elif asked.writable_copy:
            self.writable_copies.add(asked.name)
        else:
            return self.rewrites.add(asked)
        return True

    def fix_axes(self) -> bool:
        """Let arrays keep their lengths, which is checked, as there is no room for others; whether any changed."""
        axes = {axis for axis in self.varying_axes if not axis.of_result}
        self.varying_axes -= axes
        self.fixed_axes |= axes
        return bool(axes)

    def learn_kinds(self, f: Function) -> bool:
        """Learn from inferred kinds which operators have arrays of bools; whether that is new.

        Those of integers may be so only because they were taken for operators on integers (``m = m + m``): once they
        are taken for the others. One that has both in one place (a loop that is unrolled) is refused.
        """
        several = {n for n in self._names_of_several_kinds(f) if self.rewrites.add(NeedsSplitting(n))}
        if several:
            return True
        kinds: dict[tuple, list[set[str]]] = {}
        for place, terms, _ in f.may_be_bools:
            kinds.setdefault(place, []).append({kind_of(t, f) for t in terms})
        wrong = {place for place in self.operations_on_bools & kinds.keys() if any(k != {"bool"} for k in kinds[place])}
        self.operations_on_bools -= wrong
        self.operations_on_numbers |= wrong
        perhaps = {place for place, found in kinds.items() if all(k <= {"bool", "int"} for k in found)}
        perhaps -= self.operations_on_bools | self.operations_on_numbers
        self.operations_on_bools |= perhaps
        if wrong or perhaps:
            return True
        for place, _, refused in f.may_be_bools:
            if place not in self.operations_on_bools and {"bool"} in kinds[place]:
                raise refused
        refuse_mixed_kinds(f, lambda t: kind_of(t, f))
        return False

    def _names_of_several_kinds(self, f: Function) -> Iterator[str]:
        """Names that stand for values of several kinds, one after the other."""
        mixed = {variable for variable, kinds in f.possible_kinds.items() if len(settled(kinds)) > 1}
        for function, variables in self.scopes if mixed else ():
            for name, variable in variables.items():
                if variable in mixed and name not in self.rewrites.split_names and count_webs(function, name) > 1:
                    yield name
