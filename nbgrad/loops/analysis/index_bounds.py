"""Which indices are surely in range, and where the others are looked at.

An index is *proven* if the bounds of the loops around it, the tests that led to it, and what is known of the lengths of
arrays leave it nowhere else to be. Any other is looked at before the outermost loop at which all is known that says
what it will be: a nest of the same loops and tests, with nothing in it but the comparison (a :class:`Guard`). Where
the index is linear in the loops' variables, its ends say whether that nest has to run at all: it runs only if they are
not in range, and then finds out whether the turns that would go there exist. So nothing valid is refused: no turn of an
empty loop, no branch that is not taken. What is only known in the turn itself (an index that is counted up, an array
that the loop changes, what follows a ``break``) is looked at there, right before the statement.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..ir.affine import length as _is_length
from ..ir.affine import offset
from ..ir.linear_inequalities import Form, less, linear
from ..ir.names import first_name
from ..ir.statements import (
    Assign,
    Check,
    Function,
    If,
    Loop,
    Put,
    Statement,
    duplicate,
    parse,
    reads,
    unparse,
    walk,
    writes,
)
from ..ir.type_inference import kind_of
from .accesses import Access, Path, Test
from .index_facts import Facts, choices, stops

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["Guard", "IndexBounds"]

#: Code for what leads to an index is not longer than this; else the index is looked at in the turn.
_LONG = 1000
#: So many linear forms for one end of an index are enough.
_ENDS = 4


@dataclass(eq=False)
class Guard:
    """What is looked at before a statement: `path` are the loops, with names for their variables and with their bounds,
    and the tests, around the comparisons of `accesses`, with what their indices and lengths are there. If `enough` is
    given, and holds, all of them are in range."""

    path: tuple[tuple[Loop, str, list[ast.expr]] | tuple[ast.expr, bool], ...]
    accesses: list[tuple[Access, ast.expr, ast.expr]]
    enough: list[str] | None


class IndexBounds(Facts):
    """The outcome for a function: what goes before a statement, and at the end of each turn of a loop; `inside` are the
    loops in whose turns something is looked at."""

    def __init__(self, f: Function, plan: Plan) -> None:
        self.before: dict[Statement, list[Guard]] = {}
        self.after_turn: dict[Loop, list[Guard]] = {}
        self.inside: set[Loop] = set()
        if not f.checked:
            return
        super().__init__(f, plan)
        self.variables: dict[Loop, str] = {}
        self.elements = False  # whether elements may be read to find the ends of an index
        every = list(walk(f.body))
        order = {s: k for k, s in enumerate(every)}
        seen: set[tuple] = set()
        for a in self.accesses:
            key: tuple = (
                unparse(a.size),
                unparse(a.index),
                a.path,
                None if a.path or a.statement in f.body else a.statement,
            )
            if (a.path and isinstance(a.path[-1], Test)) or self._carried(a) or self._sized(a.size):
                key = (*key, a.statement)
            if key in seen:
                continue
            seen.add(key)
            at = self.early.get(a.statement, a.statement)
            self.met = {s for s in self.checks if order[s] < order[at]}
            if self._proven(a):
                continue
            self._place(a)

    @property
    def none(self) -> bool:
        """Whether nothing is looked at."""
        return not self.before and not self.after_turn

    # Where the others are looked at.

    def _place(self, a: Access) -> None:
        found: list[tuple[Loop, Guard]] = []
        for k, p in enumerate(a.path):
            if isinstance(p, Loop) and (guard := self._ahead(a, a.path[k:], p)) is not None:
                found.append((p, guard))
                if guard.enough is not None:
                    found = [(p, guard)]
                    break
        ahead = any(isinstance(p, Loop) and p.parallel for p in a.path) or self._of_bounds(a.statement)
        if found and (ahead or found[0][1].enough is not None):
            loop, guard = found[0]
            self._add(self.before.setdefault(loop, []), guard)
            return
        s = a.statement
        own = tuple((p.node, p.holds) for p in a.path if isinstance(p, Test) and p.at is s and not isinstance(s, If))
        if isinstance(s, If):
            own = tuple((p.node, p.holds) for p in a.path if isinstance(p, Test) and p.at is s)
        plain = not own and not any(isinstance(n, ast.Subscript) and not _is_length(n) for n in ast.walk(a.index))
        low = ast.Compare(a.index, [ast.GtE()], [ast.UnaryOp(ast.USub(), a.size)])
        high = ast.Compare(a.index, [ast.Lt()], [a.size])
        enough = [unparse(low)] * a.low + [unparse(high)] * a.high if plain else None  # several are asked at once
        guard = Guard(own, [(a, a.index, a.size)], enough)
        self.inside |= {p for p in a.path if isinstance(p, Loop)}
        if isinstance(s, Loop) and s.test is not None:
            self._add(self.after_turn.setdefault(s, []), guard)
        self._add(self.before.setdefault(self._first(a), []), guard)

    def _of_bounds(self, s: Statement) -> bool:
        """Whether it says how often a loop runs: turns may be counted before the loops."""
        return isinstance(s, Loop) or (isinstance(s, Assign) and s.name in self.bounds)

    @cached_property
    def bounds(self) -> set[str]:
        """The numbers that bounds of loops are made of."""
        found: set[str] = set()
        new = {n for p in self.written for n in reads(p.start, p.stop, p.step)}
        while new - found:
            found |= new
            new = {n for name in found for d in self.definitions.get(name, ()) for n in reads(d.value)}
        return found

    def _first(self, a: Access) -> Statement:
        """Before which statement an index is looked at: if that is undone before a loop, before the loop."""
        s = a.statement
        loop = self.early.get(s)
        if loop is None:
            return s
        block = self.blocks[s][-1]
        between = block[block.index(loop) : block.index(s)]
        changed = {n for t in walk(between) for n in writes(t)}
        read = reads(a.index, a.size, *(p.node for p in a.path if isinstance(p, Test) and p.at is s))
        return s if (read | self._sized(a.index, a.size)) & changed else loop

    @staticmethod
    def _add(guards: list[Guard], new: Guard) -> None:
        """With others on the same path, where that makes no difference."""
        for old in guards:
            same = len(old.path) == len(new.path) and all(map(_same, old.path, new.path))
            if same and (old.enough is None) == (new.enough is None):
                old.accesses += new.accesses
                if old.enough is not None and new.enough is not None:
                    old.enough += [t for t in new.enough if t not in old.enough]
                return
        guards.append(new)

    def _ahead(self, a: Access, path: Path, first: Loop) -> Guard | None:
        """What tells before the loop `first` whether an index will be in range; None if nothing does."""
        inside = list(walk(first.body))
        loops = [p for p in path if isinstance(p, Loop)]
        if any(not p.index or p.until or p.count for p in loops):
            return None
        if any(isinstance(s, Check) for s in inside):
            return None
        made: list = []
        tests: list[Form] = []
        for p in path:
            if isinstance(p, Test):
                test = self._then(p.node, p.at, first)
                if test is None:
                    return None
                made.append((test, p.holds))
                tests += self._told(test, p.holds, self._form)
            else:
                bounds = [self._then(n, p, first) for n in (p.start, p.stop, p.step)] if p is not first else [
                    p.start, p.stop, p.step]  # fmt: skip
                if None in bounds:
                    return None
                made.append((p, self._variable(p), bounds))
        index, size = (self._then(n, a.statement, first) for n in (a.index, a.size))
        if index is None or size is None:
            return None
        return Guard(tuple(made), [(a, index, size)], self._enough(a, index, size, made, tests))

    def _variable(self, loop: Loop) -> str:
        """What a loop's variable is called where indices are looked at."""
        if loop not in self.variables:
            name = self.variables[loop] = self.f.names.fresh(loop.index)
            self.f.ranks[name], self.f.kinds[name] = 0, "int"
        return self.variables[loop]

    def _then(self, node: ast.expr, at: Statement, first: Loop) -> ast.expr | None:
        """What `node` will be at a statement in the loop `first`, by what is known before it."""
        names: dict[str, ast.expr] = {}
        if self._sized(node) & set(self.written[first]):
            return None
        for n in sorted(reads(node)):
            if not self.written[first][n]:
                continue
            value = self._known(n, at, first)
            if value is None:
                return None
            names[n] = value
        if any(isinstance(n, ast.Call) and first_name(n.func) in self.f.names.imports for n in ast.walk(node)):
            return None
        made = Put(names).visit(duplicate(node)) if names else node
        return made if len(unparse(made)) < _LONG else None

    def _known(self, name: str, at: Statement, first: Loop) -> ast.expr | None:
        """The same for a name that the loop `first` writes."""
        if self.f.ranks.get(name):
            return None
        inner = at if isinstance(at, Loop) else None
        around = [p for p in self.enclosing[at] if p is not inner]
        loop = next((p for p in reversed(around) if p.index == name), None)
        if loop is not None:
            known = first in (*self.enclosing[loop], loop) and self.written[loop][name] == 1
            return ast.Name(self._variable(loop), ast.Load()) if known else None
        found = self._definition(name, at)
        return None if found is None else self._then(found.value, found, first)

    # The ends of what an index can be.

    def _enough(self, a: Access, index: ast.expr, size: ast.expr, path: list, tests: list[Form]) -> list[str] | None:
        """What suffices for an index to be in range in all turns; None if that cannot be said."""
        self.elements = not any(isinstance(p, Test) for p in a.path)
        x, length = linear(index, self._fixed), unparse(size)
        if x is None or not self._same(size):
            return None
        found = []
        for side, up in ((a.low, False), (a.high, True)):
            if not side:
                continue
            around = self._within(x, up)
            ends = [] if around is None else self._ends(around[0], path, tests, up)
            if not ends or around is None:
                return None
            found += [test for test in around[1] if test not in found]
            texts = list(dict.fromkeys(map(_text, ends)))
            end = texts[0] if len(texts) == 1 else f"{'min' if up else 'max'}({', '.join(texts)})"
            found.append(f"{end} < {length}" if up else f"{end} >= -({length})")
        return found if all(self._same(parse(test)) for test in found) else None  # a bound may be of a loop around it

    def _within(self, x: Form, up: bool) -> tuple[Form, list[str]] | None:
        """`x`, with the ends of remainders that differ from turn to turn in their places, and what must hold for them;
        None where something else differs."""
        made: Form = {}
        tests: list[str] = []
        for name, c in x.items():
            node = self.made_of.get(name)
            end: Form | None = {name: 1}
            if node is not None and not self._same(node):
                end = None
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and self._same(node.right):
                    right = self._form(node.right)
                    end = right if right is None else less({"": 1}, right) if (c > 0) == up else {}
                    tests.append(f"{unparse(node.right)} > 0")
            if end is None:
                return None
            made = less({n: -c * k for n, k in end.items()}, made)
        return made, tests

    def _same(self, node: ast.expr) -> bool:
        """Whether it has one value in all turns of the loops, which can be asked for before them."""
        inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        elements = any(isinstance(n, ast.Subscript) and not _is_length(n) for n in ast.walk(node))
        return not inside & set(self.variables.values()) and (self.elements or not elements)

    def _ends(self, x: Form, path: list, tests: list[Form], up: bool) -> list[Form]:
        """Linear forms that an index does not exceed, or below which it is not, in no variable of a loop."""
        forms = [x]
        loops = [p for p in path if len(p) == 3]
        for k in range(len(loops) - 1, -1, -1):
            name = loops[k][1]
            inner = {p[1] for p in loops[k:]}
            made: list[Form] = []
            for form in forms:
                c = form.get(name, 0)
                if not c:
                    made.append(form)
                    continue
                for end in self._ends_of(loops[k], tests, inner, (c > 0) == up):
                    rest = {n: v for n, v in form.items() if n != name}
                    made.append(less({n: -c * v for n, v in end.items()}, rest))
            forms = made[:_ENDS]
        return forms

    def _ends_of(self, p: tuple[Loop, str, list[ast.expr]], tests: list[Form], inner: set[str], up: bool) -> list[Form]:
        """The same for the variable of a loop, in variables of loops around it."""
        _, name, (start, stop, step) = p
        by = offset(step)
        found: list[Form] = []
        if not by[0] and by[1]:
            last = (by[1] > 0) == up
            kind = "min" if up else "max"
            ends = stops(Loop("", start, stop, step, None, [])) if last else choices(start, kind)
            for node in ends:
                form = linear(node, self._fixed)
                if form is not None and all(self._same(self.made_of.get(n, ast.Name(""))) for n in form):
                    found.append(less({"": 1 if up else -1}, form) if last else form)
        for test in tests:
            c = test.get(name, 0)
            if c == (-1 if up else 1):
                rest = {n: v for n, v in test.items() if n != name}
                found.append(rest if up else less(rest, {}))
        return [form for form in found if not inner & set(form)]

    def _fixed(self, node: ast.expr) -> str | None:
        """The name of a symbol; there is none for elements, whose own indices are to be looked at before."""
        if isinstance(node, ast.Subscript) and not _is_length(node):
            return self._symbol(node) if self._same(node) else None
        known = self._symbol(node)
        if known is not None or not self._same(node) or kind_of(node, self.f) != "int":
            return known
        return f"({unparse(node)})"


def _same(a: tuple, b: tuple) -> bool:
    if len(a) != len(b):
        return False
    return a[0] is b[0] if len(a) == 3 else a[1] == b[1] and unparse(a[0]) == unparse(b[0])


def _text(form: Form) -> str:
    """Code for a linear form."""
    made = ""
    for name, c in sorted(form.items(), key=lambda item: (not item[0], item[0])):
        size = str(abs(c)) if not name else name if abs(c) == 1 else f"{abs(c)} * {name}"
        made += (f" {'-' if c < 0 else '+'} " if made else "-" * (c < 0)) + size
    return made or "0"
