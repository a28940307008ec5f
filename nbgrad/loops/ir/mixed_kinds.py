"""Arrays that have bools in one place and numbers in another: a name that is bound to a mask here and to numbers there.

Here they are arrays of numbers. In NumPy they are arrays of bools there, for which operators are others (``+`` is
"or"), and as indices they select. Such an operator is refused; whatever is the same for both is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .functions import FUNCTIONS
from .statements import Alloc, Function, Store, walk
from .terms import Call, Element, Logical, Select, Term

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
    grew = True
    while grew:
        new = {s.array for s in stores if s.array not in f.mixed_arrays and _may_be_bools(s.value, f, kind)}
        f.mixed_arrays |= new
        grew = bool(new)


def _may_be_bools(term: Term, f: Function, kind: Kind) -> bool:
    """Whether an element is a number here, and may be a bool in NumPy."""
    match term:
        case Element(array):
            return array in f.mixed_arrays
        case Select(_, body, orelse):
            branches = (body, orelse)
            of_bools = [kind(t) == "bool" for t in branches]
            return any(_may_be_bools(t, f, kind) for t in branches) or (any(of_bools) and not all(of_bools))
        case Logical(_, operands):
            return any(_may_be_bools(t, f, kind) for t in operands)
        case Call(function, operands):
            row = FUNCTIONS.get(function.value)
            widest = row is not None and not row.kind and function.value is not np.square
            return widest and all(kind(t) == "bool" or _may_be_bools(t, f, kind) for t in operands)
    return False


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
