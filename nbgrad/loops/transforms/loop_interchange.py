"""Loop interchange: where an inner loop goes along columns, two loops change places, so that it goes along rows.

``for j: for i: b[i, j] = a[i, j]`` becomes ``for i: for j``, and ``for j: for k in range(j): a[i, j] -= a[i, k] *
a[k, j]`` becomes ``for k: for j in range(k + 1, n)``. What the outer loop does after the inner one, for an element that
is complete then, is done before the iterations that read it. Each element is computed from the same values in the same
order as before; the compiler can vectorize.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..analysis.dependence import DependenceTests, element_accesses
from ..analysis.parallelization import is_private
from ..ir.affine import minus, offset, plus
from ..ir.matrix_products import Range, shift, triangle
from ..ir.statements import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    Statement,
    Store,
    enclosing_loops,
    map_terms,
    names_written,
    nested_blocks,
    terms_of,
    uses,
    walk,
)
from ..ir.terms import Term, Variable, reads, substitute

__all__ = ["interchange_loops"]

#: Loops known to have fewer iterations than this stay outside.
_SHORT = 16


class _Order(NamedTuple):
    """The loops in their new order; `ends` if each iteration of what was the inner loop belongs to an earlier one of
    the outer loop, so that what the outer one does at the end of an iteration can come first."""

    outer: Loop
    inner: Loop
    ends: bool


def interchange_loops(f: Function) -> None:
    """Exchange loops of `f`, where dependences permit."""
    _interchange(f, f.body)


def _interchange(f: Function, block: Block) -> None:
    for k, s in enumerate(block):
        exchanged = _exchanged(f, s) if isinstance(s, Loop) and not s.product else None
        if exchanged is not None:
            block[k] = exchanged
        elif not (isinstance(s, Loop) and s.product):
            for inner in nested_blocks(s):
                _interchange(f, inner)


def _exchanged(f: Function, outer: Loop) -> Loop | None:
    """What replaces two loops; None where they are best left as they are, or have to be."""
    if not outer.body or not isinstance(inner := outer.body[0], Loop):
        return None
    body, after = list(walk(inner.body)), outer.body[1:]
    plain = all(isinstance(s, Assign | Store | If) for s in body) and all(isinstance(s, Store) for s in after)
    if not plain or not (outer.counts_up and inner.counts_up) or not _goes_along_columns(outer, inner):
        return None
    order = _exchanged_order(outer, inner)
    if order is None or (after and not order.ends):
        return None
    own = {s.name for s in body if isinstance(s, Assign)}
    bounds = reads(*terms_of(outer), *terms_of(inner))
    if bounds & (names_written(outer) - {outer.index}) or own & reads(*(t for s in after for t in terms_of(s))):
        return None
    enclosing = enclosing_loops(f.body)
    if not all(is_private(f, inner, n) for n in own) or _outlive(f, outer, inner, enclosing):
        return None
    tests = DependenceTests(f, enclosing)
    if names_written(outer) & tests.swapped or _depend_on_order(tests, outer, inner, body, after):
        return None
    renamed: dict[Term, Term] = {Variable(outer.index): Variable(inner.index)}
    for s in after:
        map_terms(s, lambda t: substitute(t, renamed))
    order.inner.body, order.outer.body = inner.body, [*after, order.inner]
    return order.outer


def _goes_along_columns(outer: Loop, inner: Loop) -> bool:
    """Whether the inner loop goes along columns of arrays, and the outer one only along rows, of elements that it
    writes, too."""
    base, trips = offset(minus(outer.stop, outer.start))
    if base is None and trips < _SHORT:
        return False
    accesses = [a for s in walk(inner.body) for a in element_accesses(s)]
    moving = [a for a in accesses if outer.index in reads(*a.index)]
    by_columns = any(inner.index in reads(*a.index[:-1]) for a in moving)
    elsewhere = any(outer.index in reads(*a.index[:-1]) for a in moving)
    along_rows = all(shift(a.index[-1], outer.index) is not None for a in moving)
    return by_columns and along_rows and not elsewhere and all(a in moving for a in accesses if a.writes)


def _exchanged_order(outer: Loop, inner: Loop) -> _Order | None:
    """The two loops in the other order, over the same iterations; None if that is not to be had without more loops."""
    found = triangle([Range(p.index, p.start, p.stop) for p in (outer, inner)])
    if found is None and outer.index in reads(inner.start, inner.stop):
        return None
    if found is None:
        return _Order(replace(inner), replace(outer), False)
    base, shifted = offset(found.shift)
    end = inner.start if found.below else inner.stop
    if base is not None or not 0 <= shifted <= 1 or end is not (outer.start if found.below else outer.stop):
        return None
    variable = Variable(inner.index)
    next_one = plus(variable, 1 - shifted)
    start, stop = (next_one, outer.stop) if found.below else (outer.start, next_one)
    first = replace(inner, start=outer.start, stop=outer.stop)
    return _Order(first, replace(outer, start=start, stop=stop), found.below and shifted == 0)


def _outlive(f: Function, outer: Loop, inner: Loop, enclosing: dict[Statement, tuple[Loop, ...]]) -> bool:
    """Whether a variable of the loops may be read after them."""
    own = set(walk([outer]))
    for s in walk(f.body):
        if s in own:
            continue
        for name in (outer.index, inner.index):
            counted = any(p.index == name for p in enclosing[s])
            if name in uses(s) and not counted:
                return True
    return any(p.index in (outer.index, inner.index) for p in enclosing[outer])


def _depend_on_order(
    tests: DependenceTests, outer: Loop, inner: Loop, body: list[Statement], after: list[Statement]
) -> bool:
    """Whether statements that will run in another order may access the same element, and one of them write it."""
    around = tests.enclosing[outer]
    inside, last = ([a for s in statements for a in element_accesses(s)] for statements in (body, after))
    exchanged = [(a, b, [(outer, outer)], [(inner, inner)]) for a in inside for b in inside]
    # What an iteration ends with comes before that iteration of the other loop now.
    exchanged += [(a, b, [(outer, outer)], [(outer, inner)]) for a in last for b in inside]
    return any(
        a.array == b.array
        and (a.writes or b.writes)
        and not tests.never_meet(a.statement, a.index, b.statement, b.index, around, less, greater)
        for a, b, less, greater in exchanged
    )
