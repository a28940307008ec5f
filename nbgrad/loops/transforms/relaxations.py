"""Relaxations: ``d[v] = min(d[v], d[u] + w)`` becomes ``if d[u] + w < d[v]: d[v] = d[u] + w``.

Where one iteration may write what another one reads (`u` and `v` from a list of edges, or row `k` read while row `i`
is written), the compiler cannot vectorize the loop, and a branch is the better code: its tape has one bit of
information per iteration instead of the element that was there, and where it is not taken, as mostly in shortest paths,
no cotangent moves.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.dependence import DependenceTests
from ..ir.linear_inequalities import less_or_equal, linear
from ..ir.statements import (
    Block,
    Function,
    If,
    Loop,
    Store,
    enclosing_loops,
    nested_blocks,
    terms_of,
    walk,
    writes,
)
from ..ir.terms import Call, Compare, Element, Select, Term, Unary, subterms

__all__ = ["branch_on_relaxations"]

#: How the first operand of these functions of Python compares with the second one, if they return the second.
_COMPARISONS = {min: ">", max: "<"}


def branch_on_relaxations(f: Function) -> None:
    """Make branches of the relaxations in the innermost loops of `f` that cannot be vectorized."""
    tests: DependenceTests | None = None
    for loop in list(walk(f.body)):
        if not isinstance(loop, Loop) or loop.parallel or any(isinstance(s, Loop) for s in walk(loop.body)):
            continue
        stores = [s for s in walk(loop.body) if isinstance(s, Store) and _change(f, s)]
        if stores:
            tests = tests or DependenceTests(f, enclosing_loops(f.body))
            found = {s for s in stores if _meets(loop, s, tests)}
            _branch(f, loop.body, found)


def _change(f: Function, s: Store) -> tuple[Term, Term] | None:
    """When a relaxation of a float changes the element, and to what; None for other statements."""
    if f.kinds.get(s.array) != "float":
        return None
    match s.value:
        case Select(Compare() as test, value, other) if other is s.target and other in test.operands:
            return test, value
        case Call(function, (first, second)) if function.value in _COMPARISONS:
            test = Compare((_COMPARISONS[function.value],), (first, second))
            if first is s.target:
                return test, second
            if second is s.target:
                return Unary("not", test), first
    return None


def _meets(loop: Loop, s: Store, tests: DependenceTests) -> bool:
    """Whether an iteration may read what another one stores, at no distance that all of them have in common."""
    varying = {loop.index, *(n for t in walk(loop.body) for n in writes(t))}
    around = tests.enclosing[s][:-1]
    for reader in walk(loop.body):
        for t in subterms(*terms_of(reader)):
            if isinstance(t, Element) and t.array == s.array and not _is_at_distance(t, s.target, varying):
                one, other = (reader, t.index), (s, s.index)
                if not all(tests.never_precedes(*a, *b, outer=around) for a, b in ((one, other), (other, one))):
                    return True
    return False


def _is_at_distance(a: Element, b: Element, varying: set[str]) -> bool:
    """Whether the difference of two places does not depend on names that vary."""
    symbols: dict[str, Term] = {}

    def name(term: Term) -> str:
        return str(symbols.setdefault(str(term), term))

    for i, j in zip(a.index, b.index, strict=True):
        one, other = linear(i, name), linear(j, name)
        if one is None or other is None or any(symbols[n].reads & varying for n in less_or_equal(one, other) if n):
            return False
    return True


def _branch(f: Function, block: Block, found: set[Store]) -> None:
    """Replace statements in a block by branches."""
    for k, s in enumerate(block):
        for inner in nested_blocks(s):
            _branch(f, inner, found)
        if isinstance(s, Store) and s in found:
            test, value = _change(f, s) or (s.value, s.value)
            block[k] = If(test, [replace(s, value=value, line="")], [], line=s.line, source_location=s.source_location)
