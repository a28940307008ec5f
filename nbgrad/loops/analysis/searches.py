"""Loops that search: scalars that tests move, such as the bounds of a bisection.

Such a scalar is set to others in branches, and no arithmetic of the loop brings differentiated values into it: they
only enter the tests. Its derivative is then that of where the search began, whatever the result depends on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from ...core.callsite import stack_level
from ...errors import DerivativeWarning
from ..ir.algebra import Algebra
from ..ir.statements import Assign, Block, Call, Function, If, Loop, Store, Swap, nested_blocks, walk, writes
from ..ir.terms import ONE, Binary, Compare, Logical, Select, Term, Unary, Variable, reads
from .activity import useful_names, varied_names

__all__ = ["searches", "warn_of_searches"]


def searches(f: Function, wrt: set[str]) -> list[str]:
    """What is found by the loops of `f`, as it was lowered, that search: a sentence for each of these loops."""
    algebra = Algebra(set())
    outputs = {*(f.results or []), *f.modified_parameters}
    useful, varied = useful_names(f, algebra, outputs), varied_names(f, algebra, wrt)
    useful = {n for n in useful if f.kinds.get(n) == "float"}
    loops = [s for s in walk(f.body) if isinstance(s, Loop)]
    bools = {n for n, kind in f.kinds.items() if kind == "bool"}
    found = [(loop, _searched(loop, useful, varied, bools, f.set_once)) for loop in loops]
    return [f"{' and '.join(names)} in '{loop.line}' are moved by tests alone" for loop, names in found if names]


def warn_of_searches(searched: list[str], f: Function) -> None:
    for found in searched:
        warnings.warn(
            f"{f.where}: {found}, so the derivative is not that of what the loop finds; "
            "nb.fixed_point(residual=...) differentiates the equation that it solves",
            DerivativeWarning,
            stacklevel=stack_level(),
        )


def _searched(loop: Loop, useful: set[str], varied: set[str], bools: set[str], unnamed: set[str]) -> list[str]:
    inner = list(walk(loop.body))
    arrays = {s.array for s in inner if isinstance(s, Store)} | {
        n for s in inner if isinstance(s, Swap | Call) for n in writes(s)
    }
    values: dict[str, list[Assign]] = {}
    for s in inner:
        if isinstance(s, Assign):
            values.setdefault(s.name, []).append(s)
    tests = dict(_tests(loop.body, ()))
    choices = {s: _choice(s.value, bools) for assigned in values.values() for s in assigned}

    def sources(names: set[str]) -> tuple[set[str], set[str]]:
        """What the loop computes `names` from: names that it assigns, and others."""
        inside, outside, new = set(), set(), set(names)
        while new:
            name = new.pop()
            if name in values and name not in inside:
                inside.add(name)
                new |= {n for s in values[name] for n in reads(*(choices[s] or ([s.value],))[0])}
            elif name not in values:
                outside.add(name)
        return inside, outside

    result = []
    for name, assigned in values.items():
        chosen = [choices[s] for s in assigned]
        by = [*(test for s in assigned for test in tests[s]), *(test for c in chosen if c for test in c[1])]
        # It keeps its value where it is not set, or where it is chosen itself.
        moves = [c and (Variable(name) in c[0] if c[1] else tests[s]) for s, c in zip(assigned, chosen, strict=True)]
        if name not in useful or not all(moves):
            continue
        own, outside = sources({name})
        if outside & (varied | arrays) or not own <= useful:
            continue
        asked, given = sources(reads(*by))
        if asked & own and given & varied and name not in unnamed:
            result.append(name)
    return result


def _choice(value: Term, bools: set[str]) -> tuple[list[Term], list[Term]] | None:
    """The variables of which `value` is one, and the tests that choose it; None if it is anything else. Bools choose as
    factors, too: ``a + (b - a) * test``, ``a * test + b * (not test)``."""
    match value:
        case Variable():
            return [value], []
        case Select(test, body, orelse):
            sides = [_choice(body, bools), _choice(orelse, bools)]
            if sides[0] is None or sides[1] is None:
                return None
            return sides[0][0] + sides[1][0], [test, *sides[0][1], *sides[1][1]]
        case Binary("+", left, right):
            (a, first), (b, second) = _with_test(left, bools), _with_test(right, bools)
            if second and first is None and isinstance(b, Binary) and (b.op, b.right) == ("-", a):
                b, first = b.left, second
            if first and second and isinstance(a, Variable) and isinstance(b, Variable):
                return [a, b], [first, second]
    return None


def _with_test(value: Term, bools: set[str]) -> tuple[Term, Term | None]:
    """A product with a bool as its other factor and the bool; None for the bool if it is no such product."""

    def tests(t: Term) -> bool:
        negated = isinstance(t, Binary) and t.op == "-" and t.left is ONE and tests(t.right)
        return isinstance(t, Compare | Logical) or (isinstance(t, Variable) and t.name in bools) or negated or (
            isinstance(t, Unary) and t.op == "not")  # fmt: skip

    if isinstance(value, Binary) and value.op == "*":
        for factor, test in ((value.left, value.right), (value.right, value.left)):
            if tests(test):
                return factor, test
    return value, None


def _tests(block: Block, around: tuple) -> Iterator[tuple[Assign, tuple]]:
    """The scalar assignments of a block, each with the tests that it depends on."""
    for s in block:
        if isinstance(s, Assign):
            yield s, around
        for inner in nested_blocks(s):
            yield from _tests(inner, (*around, s.test) if isinstance(s, If) else around)
