"""Arrays that have bools in one place and numbers in another: a name that is bound to a mask here and to numbers there.

Here they are arrays of numbers. In NumPy they are arrays of bools there, for which operators are others (``+`` is
"or"), and as indices they select. Such an operator is refused; whatever is the same for both is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...errors import TraceError
from .functions import FUNCTIONS
from .statements import Alloc, Assign, Function, Like, Store, walk
from .terms import Binary, Call, Element, Logical, Select, Term, Variable

__all__ = ["find_mixed_arrays", "refuse_mixed_kinds"]

Kind = Callable[[Term], str]


def find_mixed_arrays(f: Function, stores: Iterable[Store], kind: Kind) -> None:
    """Set ``f.mixed_arrays``. `stores` are those by which arrays got their kinds."""
    rebinding = dict(f.rebinding_stores)
    kinds: dict[str, dict[object, set[str]]] = {s.array: {} for s in rebinding}
    stores = list(stores)
    for s in [*stores, *rebinding]:
        if s.array in kinds:
            kinds[s.array].setdefault(rebinding.get(s), set()).add(kind(s.value))
    for made in walk(f.body):
        if isinstance(made, Alloc) and made.kind and made.name in kinds:  # it has a kind from the start
            kinds[made.name][None] = {f.kinds[made.name]}
    for name, bindings in kinds.items():
        of_bools = [found == {"bool"} for found in bindings.values()]
        if any(of_bools) and not all(of_bools):
            f.mixed_arrays.add(name)
    values = [(s.array, s.value) for s in stores]
    values += [(s.name, s.value) for s in walk(f.body) if isinstance(s, Assign)]
    likes = list(f.reshaped_from.items())
    likes += [(s.name, s.kind.name) for s in walk(f.body) if isinstance(s, Alloc) and isinstance(s.kind, Like)]
    grew = True
    while grew:
        new = {name for name, value in values if _may_be_bools(value, f, kind)}
        new |= {name for name, of in likes if of in f.mixed_arrays}
        grew = not new <= f.mixed_arrays
        f.mixed_arrays |= new


def _may_be_bools(term: Term, f: Function, kind: Kind) -> bool:
    """Whether an element is a number here, and may be a bool in NumPy."""
    match term:
        case Element(name) | Variable(name):
            return name in f.mixed_arrays
        case Select(test, body, orelse) if test in f.choices:
            of_bools = [kind(t) == "bool" for t in (body, orelse)]
            may_be = any(_may_be_bools(t, f, kind) for t in (body, orelse))
            return may_be or (any(of_bools) and not all(of_bools))
        case Select(_, body, orelse):
            return _all_may_be_bools((body, orelse), f, kind)
        case Logical(_, operands):
            return _all_may_be_bools(operands, f, kind)
        case Binary("&" | "|" | "^", left, right):
            return _all_may_be_bools((left, right), f, kind)
        case Call(function, operands):
            row = FUNCTIONS.get(function.value)
            widest = row is not None and not row.kind and function.value is not np.square
            return widest and _all_may_be_bools(operands, f, kind)
    return False


def _all_may_be_bools(terms: Iterable[Term], f: Function, kind: Kind) -> bool:
    """Whether all of these are bools or may be, and some only may be."""
    may_be = [_may_be_bools(t, f, kind) for t in terms]
    return any(may_be) and all(m or kind(t) == "bool" for m, t in zip(may_be, terms, strict=True))


def refuse_mixed_kinds(f: Function, kind: Kind) -> None:
    """Refuse operators that were lowered for bools, where the operands may be numbers, and the other way round."""
    for terms, of_bools, refused in f.operations:
        mixed = [_may_be_bools(t, f, kind) for t in terms]
        kinds = [kind(t) for t in terms]
        if of_bools:
            wrong = any(mixed) or set(kinds) != {"bool"}
        else:
            wrong = any(mixed) and all(m or k == "bool" for m, k in zip(mixed, kinds, strict=True))
        if wrong:
            raise refused
    if not f.mixed_arrays:
        return
    line = ""
    for s in walk(f.body):
        line = s.line or s.source_location or line
        if isinstance(s, Store) and s.array in f.mixed_arrays and s in f.element_writes and kind(s.value) != "bool":
            what = "a number as an element of an array that has bools here and numbers there"
            raise TraceError(f"adjoint: {f.where}: {what} in '{line}'; use another name for each, or give it a dtype")
