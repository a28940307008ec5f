"""Which places that set a number belong together, since a use may see what either has set.

A number that is used for one thing after another, in loops inside of each other, has several such webs, which can have
a name each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.statements import Assign, Block, Function, If, Loop, Statement, reads, touched, uses, walk, writes

__all__ = ["Web", "webs"]

#: What has set a number: a statement; what was before the function; one of those before a loop or at the end of a turn.
Origin = Assign | tuple[Loop | None, str]


@dataclass
class Web:
    """The statements that set a number, and those that use what these have set."""

    setters: list[Assign] = field(default_factory=list)
    users: list[Statement] = field(default_factory=list)


def webs(f: Function, names: set[str]) -> dict[str, list[Web]]:
    """The webs of those of `names` that have several. What a parameter is at the start, or a result at the end, is in
    the first."""
    found = _Webs(f, names)
    state: dict[str, set[Origin]] = {n: {(None, n)} for n in names}
    found.block(f.body, state)
    ends = {n: state[n] for n in names & set(f.results or [])}
    for n in names & set(f.parameters):
        ends[n] = ends.get(n, set()) | {(None, n)}
    return {n: parts for n in sorted(names) if len(parts := found.parts(n, ends.get(n, set()))) > 1}


class _Webs:
    def __init__(self, f: Function, names: set[str]) -> None:
        self.f = f
        self.names = names
        self.written = touched(f.body, lambda s: set(writes(s)) & names)
        self.leaders: dict[Origin, Origin] = {}
        self.before: dict[Origin, set[Origin]] = {}  # of what a number is at the beginning of turns
        self.users: dict[str, list[tuple[Statement, set[Origin]]]] = {n: [] for n in names}

    def block(self, block: Block, state: dict[str, set[Origin]]) -> None:
        """Follow what has set each number; afterwards `state` is that at the end."""
        for s in block:
            if isinstance(s, Loop) and s.test is not None:
                self.begin(s, state)
            for n in {*uses(s), *reads(*getattr(s, "shape", ()))} & self.names:
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
                    self.begin(s, state)
                end = dict(state)
                self.block(s.body, end)
                for n in self.written[s]:
                    self.before[s, n] = self.before[s, n] | end[n]

    def begin(self, s: Loop, state: dict[str, set[Origin]]) -> None:
        for n in self.written[s]:
            self.before[s, n], state[n] = state[n], {(s, n)}

    def top(self, origin: Origin) -> Origin:
        while origin in self.leaders:
            origin = self.leaders[origin]
        return origin

    def parts(self, name: str, ends: set[Origin]) -> list[Web]:
        """The webs of a name; those with `ends` are one."""
        stack = [ends, *(origins for _, origins in self.users[name])]
        known: set[Origin] = set()
        while stack:
            origins = stack.pop()
            first, *others = {self.top(o) for o in origins} or {(None, name)}
            self.leaders |= dict.fromkeys(others, first)
            stack += [{o, *self.before[o]} for o in origins - known if o in self.before]
            known |= origins
        found: dict[Origin, Web] = {self.top(o): Web() for o in list(ends)[:1]}
        for s in walk(self.f.body):
            if isinstance(s, Assign) and s.name == name:
                found.setdefault(self.top(s), Web()).setters.append(s)
        for s, origins in self.users[name]:
            top = self.top(next(iter(origins)))
            if top not in found:
                return []  # it is used where it was not set
            found[top].users.append(s)
        return list(found.values())
