"""Live-range splitting: rename a variable per def-use web in the source of a function.

It is applied on demand, where a function can only be lowered if a name that is reused (first a scalar, then an array)
becomes several names. Definitions that reach a common use are one web, whatever the number of iterations and whichever
branches are taken.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..ir.names import Names
from .syntax import all_names, bound_to, copy_tree, subtrees

__all__ = ["NeedsSplitting", "VaryingAxis", "count_webs", "is_attempt", "loop_target_text", "split_live_ranges"]

#: A definition of a name: its node, a loop (the merge of definitions at its head), or None for a parameter.
Definition = ast.AST | None
State = dict[str, frozenset[Definition]]


class VaryingAxis(NamedTuple):
    """An axis along which the length of an array changes, by the place where the array is created."""

    place: tuple
    axis: int
    of_result: bool = False  # the place is that of an array among the results of a function
    grows: bool = False  # the array grows as it needs to, since no length is known to be the largest


class NeedsSplitting(Exception):
    """Lower again with the live ranges of a name split; `writable_copy`: with a writable copy of an array parameter
    that is written and then rebound; `varying`: with lengths that change, along these axes of arrays;
    `numbered`: with numbers for the strings that it stands for; `written_out`: with the iterations of a loop, which has
    these items, one by one in the source; `unrolled`: with those of a loop over a range lowered one by one;
    `list_of_arrays`: with a tuple for a list, known by where its function is defined and its name; `rows`: with an
    array for a list or comprehension, whose items are its rows, or else it is `refused`; `decided`: with the branches
    that these tests, which are known, choose; `filled`: with an array for a number, the loop that makes it one;
    `written`: knowing that these parameters are written, of which a copy was made when the function began; `optional`:
    with a flag beside a name that holds None until it is set; `returns`: with branches for the conditional expressions
    that a function returns; `grown`: with a list that grows for one that is a tuple at first."""

    def __init__(
        self,
        name: str,
        writable_copy: bool = False,
        varying: Iterable[VaryingAxis] = (),
        numbered: bool = False,
        written_out: tuple[tuple, int | list[int]] | None = None,
        unrolled: tuple = (),
        list_of_arrays: tuple = (),
        rows: tuple = (),
        refused: Exception | None = None,
        decided: Mapping[tuple, bool] | None = None,
        filled: tuple = (),
        copied: tuple = (),
        written: Iterable[str] = (),
        optional: tuple = (),
        returns: tuple = (),
        grown: tuple = (),
    ) -> None:
        super().__init__(name)
        self.name = name
        self.writable_copy = writable_copy
        self.varying = varying
        self.numbered = numbered
        self.written_out = written_out
        self.unrolled = unrolled
        self.list_of_arrays = list_of_arrays
        self.rows = rows
        self.refused = refused
        self.decided = decided
        self.filled = filled
        self.copied = copied
        self.written = written
        self.optional = optional
        self.grown = grown
        self.returns = returns


def count_webs(node: ast.FunctionDef, name: str) -> int:
    """The number of def-use webs of a name."""
    return len(set(_DefUseWebs(node, {name}).web_representatives(name).values()))


def split_live_ranges(
    node: ast.FunctionDef, names: set[str], taken: set[str]
) -> tuple[ast.FunctionDef, dict[str, str]]:
    """The function with a name for each web of `names`, and what the new ones were; the first web keeps the name. Loops
    remember what their variables were called (:func:`loop_target_text`)."""
    node = copy_tree(node)
    for loop in subtrees(node):
        if isinstance(loop, ast.For):
            loop.written = loop_target_text(loop)  # type: ignore[attr-defined]
    webs, free = _DefUseWebs(node, names), Names(all_names(node) | taken)
    earlier: dict[str, str] = {}
    for name in sorted(names):
        leaders = webs.web_representatives(name)
        new_names: dict[Definition, str] = {leaders[next(iter(leaders))]: name} if leaders else {}
        for occurrence, leader in leaders.items():
            if leader not in new_names:
                new_names[leader] = free.fresh(name)
                earlier[new_names[leader]] = name
            if isinstance(occurrence, ast.Name):
                occurrence.id = new_names[leader]
    return node, earlier


def loop_target_text(loop: ast.For) -> str:
    """The target of a loop as its author wrote it: ``i``, or ``k, x``."""
    return getattr(loop, "written", "") or ast.unparse(loop.target).strip("()")


class _DefUseWebs:
    """The def-use webs of `names`, by a forward data-flow pass over the body."""

    def __init__(self, node: ast.FunctionDef, names: set[str]) -> None:
        inner: list[ast.AST] = []
        for n in (n for s in node.body for n in subtrees(s)):
            if isinstance(n, ast.FunctionDef | ast.Lambda):
                inner.append(n)
            elif isinstance(n, ast.comprehension):  # what it reads, it reads here
                inner.append(n.target)
        self.parameters = {a.arg for a in subtrees(node.args) if isinstance(a, ast.arg)}
        # Names in nested functions have a scope of their own.
        self.names = names - {n for f in inner for n in (*all_names(f), getattr(f, "name", ""))}
        self.loop_head_definitions: dict[
            tuple[Definition, str], frozenset[Definition]
        ] = {}  # definitions that reach a loop head
        self.name_occurrences: list[tuple[ast.Name, frozenset[Definition]]] = []
        self.loops: list[tuple[list[State], list[State]]] = []  # states at the breaks and continues of each
        self.attempts: list[list[State]] = []  # states between the statements of the bodies of try around
        self.block(node.body, self.uniform_state(None))

    def block(self, body: list[ast.stmt], state: State | None) -> State | None:
        """The state after `body`; None if its end is not reached."""
        for s in body:
            if state is None:
                state = self.uniform_state(None)  # dead code
            for states in self.attempts:
                states.append(dict(state))
            state = self.statement(s, state)
        return state

    def statement(self, s: ast.stmt, state: State) -> State | None:
        """The state after a statement; None if control does not pass it."""
        match s:
            case ast.If():
                self.expression(s.test, state)
                raised: list[State] = []
                self.attempts += [raised] if is_attempt(s) else []  # any statement of its body may be the last one
                after = self.block(s.body, dict(state))
                del self.attempts[len(self.attempts) - is_attempt(s) :]
                for before in raised:
                    after = merge_states(after, before)
                return merge_states(after, self.block(s.orelse, dict(state)))
            case ast.For() | ast.While():
                return self.loop(s, state)
            case ast.Break() | ast.Continue():
                if self.loops:
                    self.loops[-1][isinstance(s, ast.Continue)].append(state)
                return None
            case ast.AugAssign():
                self.expression(s.value, state)
                if isinstance(s.target, ast.Name):  # an update in place is no new definition
                    self.record_occurrence(s.target, state)
                else:
                    self.expression(s.target, state)
                return state
            case ast.Assign():
                self.expression(s.value, state)
                for t in s.targets:
                    self.expression(t, state)
                return state
        self.expression(s, state)
        return None if isinstance(s, ast.Return | ast.Raise) else state

    def loop(self, s: ast.For | ast.While, state: State) -> State | None:
        """The state after a loop; what reaches its head is recorded in `before`."""
        if isinstance(s, ast.For):
            self.expression(s.iter, state)
        before, head = state, self.uniform_state(s)
        state = dict(head)
        self.expression(s.test if isinstance(s, ast.While) else s.target, state)
        if isinstance(s, ast.While):
            head = dict(state)
        self.loops.append(([], []))
        end = self.block(s.body, dict(state))
        breaks, continues = self.loops.pop()
        for n in self.names:
            ends = [e.get(n, frozenset()) for e in (before, end or {}, *continues)]
            self.loop_head_definitions[s, n] = frozenset().union(*ends)
        after: State | None = head
        for b in breaks:
            after = merge_states(after, b)
        return after

    def uniform_state(self, origin: Definition) -> State:
        """The state in which all names are defined at `origin`."""
        return dict.fromkeys(self.names, frozenset([origin]))

    def expression(self, node: ast.AST, state: State) -> None:
        """Record the uses of names, then their definitions."""
        nodes = [n for n in subtrees(node) if isinstance(n, ast.Name) and n.id in self.names]
        for n in nodes:
            if isinstance(n.ctx, ast.Load):
                self.record_occurrence(n, state)
        for n in nodes:
            if isinstance(n.ctx, ast.Store):
                state[n.id] = frozenset([n])
                self.record_occurrence(n, state)

    def record_occurrence(self, node: ast.Name, state: State) -> None:
        """Record an occurrence of a name with the definitions that reach it."""
        if node.id in self.names:
            self.name_occurrences.append((node, state.get(node.id, frozenset())))

    def web_representatives(self, name: str) -> dict[Definition, Definition]:
        """The representative of the web of each definition and use of a name, in source order."""
        parents: dict[Definition, Definition] = {}

        def top(origin: Definition) -> Definition:
            while origin in parents:
                origin = parents[origin]
            return origin

        occurrences = [(n, origins) for n, origins in self.name_occurrences if n.id == name]
        stack = [frozenset([n]) | origins for n, origins in occurrences]
        visited: set[Definition] = set()
        while stack:
            origins = stack.pop()
            first, *others = {top(o) for o in origins}
            parents |= dict.fromkeys(others, first)
            stack += [
                frozenset([o]) | self.loop_head_definitions[o, name]
                for o in origins - visited
                if (o, name) in self.loop_head_definitions
            ]
            visited |= origins
        representatives = {None: top(None)} if None in visited or name in self.parameters else {}
        return representatives | {
            n: top(n) for n, _ in sorted(occurrences, key=lambda p: (p[0].lineno, p[0].col_offset))
        }


def is_attempt(s: ast.If) -> bool:
    """Whether a branch is the body of a ``try`` (:mod:`.exception_handling`)."""
    return hasattr(bound_to(s.test), "handlers")


def merge_states(a: State | None, b: State | None) -> State | None:
    """The state where two paths merge."""
    if a is None or b is None:
        return b if a is None else a
    return {n: a.get(n, frozenset()) | b.get(n, frozenset()) for n in {*a, *b}}
