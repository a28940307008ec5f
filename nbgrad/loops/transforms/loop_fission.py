"""Loop fission: a nest in which several things are computed becomes a nest for each, where dependences permit.

Statements that share a scalar stay together. Of the others, one group goes before another if some iteration of a
statement of the first one must precede an iteration of one of the second; groups that must precede each other are one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from ..analysis.dependence import DependenceTests, element_accesses
from ..ir.matrix_products import accumulated, factors
from ..ir.statements import (
    Assign,
    Block,
    Function,
    Loop,
    Statement,
    Store,
    enclosing_loops,
    mentions,
    walk,
)
from ..ir.terms import Binary, Element, Term, Unary, Variable, elements_in, reads, subterms

__all__ = ["fission", "is_sum", "split_sums"]

#: Nests with more statements than this stay as they are: every two of them are compared.
_MAX_STATEMENTS = 12


def split_sums(f: Function, loop: Loop) -> list[tuple[Block, list[Statement], Store]]:
    """Split the statements ``c += a * b + d * e`` in a nest, in place; where, into what, and what each was."""
    done: list[tuple[Block, list[Statement], Store]] = []
    names = {p.index for p in walk([loop]) if isinstance(p, Loop)}
    for p in [s for s in walk([loop]) if isinstance(s, Loop)]:
        for s in [s for s in p.body if isinstance(s, Store) and f.kinds.get(s.array) == "float"]:
            terms: list[Statement] = [*_terms_of_sum(s, names)]
            if terms:
                at = p.body.index(s)
                p.body[at : at + 1] = terms
                done.append((p.body, terms, s))
    return done


def _terms_of_sum(s: Store, names: set[str]) -> list[Store]:
    """The statements that add the products in a sum to an element, one after the other; none if it is no such sum."""
    products: list[tuple[str, Term]] = []
    stack: list[tuple[str, Term]] = [("+", s.value)]
    while stack:
        sign, term = stack.pop()
        match term:
            case Binary("+" | "-" as op, left, right):
                stack += [("+" if sign == op else "-", right), (sign, left)]
            case Unary("-", operand):
                stack.append(("-" if sign == "+" else "+", operand))
            case _:
                products.append((sign, term))
    if len(products) < 3 or products[0] != ("+", s.target):
        return []
    inner = names - reads(*s.index)
    if any(s.array in t.reads or factors(t, inner) is None for _, t in products[1:]):
        return []
    return [replace(s, value=Binary(sign, s.target, t)) for sign, t in products[1:]]


def is_sum(s: Statement) -> bool:
    """Whether a statement adds a product of elements to a scalar or an element."""
    if not isinstance(s, Assign | Store):
        return False
    total = accumulated(Variable(s.name) if isinstance(s, Assign) else s.target, s.value)
    return total is not None and sum(isinstance(t, Element) for t in subterms(total[1])) > 1


def fission(f: Function, loop: Loop) -> list[Loop]:
    """The nests for the groups of statements in `loop`, in an order that keeps dependences; only `loop` if there is one
    group."""
    statements = [s for s in walk([loop]) if not isinstance(s, Loop)]
    plain = all(isinstance(s, Assign | Store) for s in statements) and len(statements) <= _MAX_STATEMENTS
    loops = [s for s in walk([loop]) if isinstance(s, Loop)]
    if not plain or len(statements) < 2 or any(p.trip_counter or p.exit_flag or p.values_before_loop for p in loops):
        return [loop]
    assigned = {s.name for s in statements if isinstance(s, Assign)}
    if any(reads(p.start, p.stop, p.step) & assigned or not p.index for p in loops):
        return [loop]
    groups: list[list[Statement]] = []
    for s in statements:
        names = {n for n in assigned if mentions(s, n)}
        same = [g for g in groups if any(mentions(t, n) for t in g for n in names)]
        groups = [*(g for g in groups if g not in same), [*(t for g in same for t in g), s]]
    if len(groups) < 2:
        return [loop]
    tests = DependenceTests(f, enclosing_loops(f.body))
    ordered = _in_order(groups, lambda s, t: _may_precede(s, t, tests, tests.enclosing[loop]), statements)
    return [loop] if len(ordered) < 2 else [_only(loop, group) for group in ordered]


def _in_order(
    groups: list[list[Statement]], may_precede: Callable[[Statement, Statement], bool], statements: list[Statement]
) -> list[set[Statement]]:
    """The groups, those that must precede each other as one, in an order that keeps dependences."""
    number = range(len(groups))
    before = {(k, k) for k in number}
    for k, m in combinations(number, 2):
        for one, other in ((k, m), (m, k)):
            if any(may_precede(s, t) for s in groups[one] for t in groups[other]):
                before.add((one, other))
    for middle in number:
        before |= {(k, m) for k in number for m in number if {(k, middle), (middle, m)} <= before}
    placed: list[set[Statement]] = []
    left = sorted(number, key=lambda k: statements.index(groups[k][0]))
    while left:
        first = next(k for k in left if all((m, k) not in before or (k, m) in before for m in left))
        same = [m for m in left if {(first, m), (m, first)} <= before]
        placed.append({s for m in same for s in groups[m]})
        left = [m for m in left if m not in same]
    return placed


def _may_precede(first: Statement, later: Statement, tests: DependenceTests, outer: tuple[Loop, ...]) -> bool:
    """Whether an iteration of one statement may access an element before one of another accesses it, and one of them
    writes it, in the same iteration of the `outer` loops."""
    for a in element_accesses(first):
        for b in element_accesses(later):
            if a.array != b.array or not (a.writes or b.writes) or _commute(first, later, a.array):
                continue
            if a.array in tests.swapped or not tests.never_precedes(first, a.index, later, b.index, outer=outer):
                return True
    return False


def _commute(a: Statement, b: Statement, array: str) -> bool:
    """Whether two statements only add products to elements of an array."""
    return all(isinstance(s, Store) and s.array == array and is_sum(s) and _reads_once(s) for s in (a, b))


def _reads_once(s: Store) -> bool:
    return len(elements_in(s.value, s.array)) == 1


def _only(loop: Loop, kept: set[Statement]) -> Loop:
    """A loop with some of its statements."""
    body: Block = []
    for s in loop.body:
        if isinstance(s, Loop):
            inner = _only(s, kept)
            body += [inner] if inner.body else []
        elif s in kept:
            body.append(s)
    return replace(loop, body=body)
