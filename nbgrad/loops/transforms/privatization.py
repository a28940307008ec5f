"""Privatization: give each iteration of a loop over ``prange`` its own copy of the scalars and arrays it works in.

Scalars get a name of their own, arrays one more axis.
"""

from __future__ import annotations

from ..analysis.dependence import Index
from ..analysis.parallelization import is_private
from ..ir.statements import (
    Alloc,
    Assign,
    Function,
    If,
    InRange,
    Loop,
    Statement,
    Store,
    map_terms,
    mentions,
    terms_of,
    walk,
    writes,
)
from ..ir.tapes import iteration_number, trip_count
from ..ir.terms import ONE, DType, Element, Length, Shape, Term, Variable, elements_in, named, reads, subterms
from .ssa import rename_scalar

__all__ = ["privatize_arrays", "rename_private_scalars"]


def rename_private_scalars(f: Function) -> None:
    """Rename scalars private to an iteration of a parallel loop that also occur elsewhere.

    What is stored for them at the end of an iteration is then all that is needed: their value from before the loop is
    that of another scalar.
    """
    for loop in _parallel_loops(f):
        inside = set(walk(loop.body))
        for name in sorted({s.name for s in inside if isinstance(s, Assign)}):
            if any(mentions(s, name) for s in walk(f.body) if s not in inside) and is_private(f, loop, name):
                rename_scalar(f, loop.body, name)


def privatize_arrays(f: Function) -> None:
    """Expand arrays that are used in one parallel loop only: each iteration gets elements of its own."""
    for loop in _parallel_loops(f):
        inside = set(walk(loop.body))
        for alloc in [s for s in f.body if isinstance(s, Alloc)]:
            users = [
                s
                for s in walk(f.body)
                if s is not alloc and (alloc.name in writes(s) or alloc.name in named(*terms_of(s)))
            ]
            if users and set(users) <= inside and alloc.name not in (f.results or []):
                _expand_array(f, loop, alloc, users)


def _parallel_loops(f: Function) -> list[Loop]:
    return [s for s in walk(f.body) if isinstance(s, Loop) and s.parallel]


def _expand_array(f: Function, loop: Loop, alloc: Alloc, users: list[Statement]) -> None:
    """Add an axis to an array, so that each iteration of `loop` has its own elements.

    Requires that the trip count is known before the outermost loop.
    """
    at = next(k for k, s in enumerate(f.body) if loop in walk([s]))
    outer = f.body[at]
    known = loop.step is ONE and not loop.trip_counter
    known = known and not reads(loop.start, loop.stop) & {n for s in walk([outer]) for n in writes(s)}
    iteration = iteration_number(loop)
    if not known or not all(_has_elements_only(s, alloc.name) for s in users):
        return
    if all(index[0] is iteration for s in users for index in _indices(s, alloc.name)):
        return  # each iteration has its own already
    f.body.remove(alloc)
    f.body.insert(f.body.index(outer), alloc)
    alloc.shape = (trip_count(loop), *alloc.shape)
    f.ranks[alloc.name] += 1
    for s in users:
        map_terms(s, lambda term: _expanded(term, alloc.name, iteration))
        if isinstance(s, Store) and s.array == alloc.name:
            s.index = (iteration, *s.index)


def _has_elements_only(s: Statement, array: str) -> bool:
    """Whether a statement accesses the array only by its elements and lengths."""
    whole = (Variable(array), Shape(array), DType(array), Length(array, None))
    return isinstance(s, Assign | Store | If | InRange | Loop) and not any(t in whole for t in subterms(*terms_of(s)))


def _indices(s: Statement, array: str) -> list[Index]:
    """The indices of elements of the array in a statement."""
    read = [index for t in terms_of(s) for index in elements_in(t, array)]
    return [*read, s.index] if isinstance(s, Store) and s.array == array else read


def _expanded(term: Term, array: str, iteration: Term) -> Term:
    """`term`, with the iteration number before the indices of the array."""
    if array not in term.named:
        return term
    if isinstance(term, Length):
        return Length(array, None if term.axis is None else term.axis + 1)
    operands = tuple([_expanded(t, array, iteration) for t in term.operands])
    if isinstance(term, Element) and term.array == array:
        return Element(array, (iteration, *operands))
    return term.rebuilt(operands)
