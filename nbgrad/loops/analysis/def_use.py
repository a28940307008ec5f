"""Def-use webs: group the definitions of a scalar that may reach a common use.

A scalar that serves several purposes, in nested loops, has several webs, each of which can have a name of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.statements import Assign, Block, Function, If, Loop, Statement, union_over_nested, uses, walk, writes

__all__ = ["Web", "webs"]

#: A reaching definition of a scalar: a statement; its value on entry (None); a merge (phi) at the head of a loop.
Origin = Assign | tuple[Loop | None, str]


@dataclass
class Web:
    """Definitions of a scalar that share uses, and the statements that use them."""

    setters: list[Assign] = field(default_factory=list)
    users: list[Statement] = field(default_factory=list)


def webs(f: Function, names: set[str]) -> dict[str, list[Web]]:
    """The webs of those `names` that have several.

    The first web has the value of a parameter on entry and that of a result on exit.
    """
    analysis = _WebBuilder(f, names)
    state: dict[str, set[Origin]] = {n: {(None, n)} for n in names}
    analysis.block(f.body, state)
    ends = {n: state[n] for n in names & set(f.results or [])}
    for n in names & set(f.parameters):
        ends[n] = ends.get(n, set()) | {(None, n)}
    return {n: parts for n in sorted(names) if len(parts := analysis.partition_webs(n, ends.get(n, set()))) > 1}


class _WebBuilder:
    def __init__(self, f: Function, names: set[str]) -> None:
        self.f = f
        self.names = names
        self.written = union_over_nested(f.body, lambda s: set(writes(s)) & names)
        self.leaders: dict[Origin, Origin] = {}
        self.before: dict[Origin, set[Origin]] = {}  # the definitions merged at the heads of loops
        self.users: dict[str, list[tuple[Statement, set[Origin]]]] = {n: [] for n in names}

    def block(self, block: Block, state: dict[str, set[Origin]]) -> None:
        """Propagate reaching definitions through `block`; afterwards `state` is that at its end."""
        for s in block:
            if isinstance(s, Loop) and s.test is not None:
                self.enter_loop(s, state)
            for n in uses(s) & self.names:
                self.users[n].append((s, state[n]))
            if isinstance(s, Assign) and s.name in self.names:
                state[s.name] = {s}
            elif isinstance(s, If):
                other = dict(state)
                self.block(s.body, state)
                self.block(s.orelse, other)
                state |= {n: state[n] | other[n] for n in self.written[s]}
            elif isinstance(s, Loop):
                if s.test is None:
                    self.enter_loop(s, state)
                end = dict(state)
                self.block(s.body, end)
                for n in self.written[s]:
                    self.before[s, n] = self.before[s, n] | end[n]

    def enter_loop(self, s: Loop, state: dict[str, set[Origin]]) -> None:
        for n in self.written[s]:
            self.before[s, n], state[n] = state[n], {(s, n)}

    def web_representative(self, origin: Origin) -> Origin:
        while origin in self.leaders:
            origin = self.leaders[origin]
        return origin

    def partition_webs(self, name: str, ends: set[Origin]) -> list[Web]:
        """The webs of a name; those that contain `ends` are merged."""
        stack = [ends, *(origins for _, origins in self.users[name])]
        known: set[Origin] = set()
        while stack:
            origins = stack.pop()
            first, *others = {self.web_representative(o) for o in origins} or {(None, name)}
            self.leaders |= dict.fromkeys(others, first)
            stack += [{o, *self.before[o]} for o in origins - known if o in self.before]
            known |= origins
        merged: dict[Origin, Web] = {self.web_representative(o): Web() for o in list(ends)[:1]}
        for s in walk(self.f.body):
            if isinstance(s, Assign) and s.name == name:
                merged.setdefault(self.web_representative(s), Web()).setters.append(s)
        for s, origins in self.users[name]:
            top = self.web_representative(next(iter(origins)))
            if top not in merged:
                return []  # it is used where it is undefined
            merged[top].users.append(s)
        return list(merged.values())
