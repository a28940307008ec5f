"""Arrays of unsigned integers: their elements are read as int64.

In NumPy and Numba, differences of unsigned integers wrap around at 0, and elements of new arrays of them at 256 or so.
What may do so is refused, and so is what is stored in them, but flags; everything else is the same in int64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import TraceError
from .names import called
from .statements import Alloc, Assign, Call, Function, Loop, Statement, Store, Swap, map_terms, terms_of, walk
from .terms import (
    Binary,
    Compare,
    Constant,
    DType,
    Element,
    Logical,
    Select,
    Term,
    Unary,
    Variable,
    named,
    subterms,
)
from .terms import Call as CallTerm

__all__ = ["read_unsigned"]

_WRAPS = {"-": "differences", "*": "products", "**": "powers", "<<": "shifts", "~": "complements"}
_INSTEAD = "convert them before, as in np.int64(a) - np.int64(b), or pass the array as a.astype(np.int64)"
_SIGNED = (np.int64, np.int32, np.int16, np.int8)


def read_unsigned(f: Function, is_integer: Callable[[Term], bool]) -> None:
    """Refuse what NumPy and Numba calculate in another way than int64, and read the elements as int64."""
    arrays = set(f.unsigned)
    for s in walk(f.body):
        if isinstance(s, Alloc) and isinstance(s.dtype, DType) and s.dtype.array in arrays:
            arrays.add(s.name)
    if not arrays:
        return
    _UnsignedValues(f, arrays, is_integer).check()
    for s in walk(f.body):
        if any(isinstance(t, Element) and t.array in arrays for root in terms_of(s) for t in subterms(root)):
            map_terms(s, lambda t: _signed(t, arrays))


def _signed(term: Term, arrays: set[str]) -> Term:
    operands = tuple([_signed(t, arrays) for t in term.operands])
    term = term.rebuilt(operands) if operands else term
    return called(np.int64, term) if isinstance(term, Element) and term.array in arrays else term


def _fits(value: Term) -> bool:
    """Whether a value is one of every unsigned type, as those of flags are."""
    known = isinstance(value, Constant) and isinstance(value.value, int) and 0 <= value.value < 256
    return known or isinstance(value, Compare | Logical)


class _UnsignedValues:
    """The scalars and arrays of a function that may be unsigned in Numba."""

    def __init__(self, f: Function, arrays: set[str], is_integer: Callable[[Term], bool]) -> None:
        self.f, self.arrays, self.is_integer = f, arrays, is_integer
        self.names = set(arrays)
        self.statements = list(walk(f.body))
        grew = True
        while grew:
            before = len(self.names)
            for s in self.statements:
                self.names |= self.set_by(s)
            grew = len(self.names) > before

    def set_by(self, s: Statement) -> set[str]:
        """The names that a statement may set to what is unsigned."""
        match s:
            case Assign(name=name) | Store(array=name) if self.holds(s.value, name):
                return {name}
            case Loop(index=name) if name and (self.holds(s.start) or self.holds(s.stop)):
                return {name}
            case Swap(first=a, second=b) if {a, b} & self.names:
                return {a, b}
        return set()

    def holds(self, term: Term, target: str = "") -> bool:
        """Whether a term may be unsigned; with an operand of another kind it is signed, or a float. `target`: the name
        that is set to it, which may be a sum that begins with 0."""
        match term:
            case Variable(name) | Element(name):
                return name in self.names
            case Select(_, body, orelse):
                return self.holds(body) or self.holds(orelse)
            case Binary(_, left, right) if self.is_integer(term):
                sides = [self.holds(left), self.holds(right)]
                adds = any(isinstance(t, Variable | Element) and target in t.reads for t in (left, right))
                return all(sides) or (adds and any(sides))
            case Unary() | CallTerm() if self.is_integer(term):
                converted = isinstance(term, CallTerm) and term.function.value in _SIGNED
                return not converted and any(map(self.holds, term.operands))
        return False

    def wraps(self, term: Binary | Unary) -> bool:
        """Whether an operation of unsigned integers may wrap around."""
        return term.op in _WRAPS and self.is_integer(term) and all(map(self.holds, term.operands))

    def check(self) -> None:
        """Refuse what may wrap around. Indices and lengths are left: where these do, they are out of range."""
        allocated = {s.name for s in self.statements if isinstance(s, Alloc)}
        stores = [s for s in self.statements if isinstance(s, Store)]
        filled = {s for s in stores if s.array in allocated and s not in self.f.element_writes}  # new arrays
        copies = {s.array for s in filled if self.holds(s.value)}
        for s in self.statements:
            value = s.value if isinstance(s, Assign | Store) else getattr(s, "test", None)
            for t in subterms(value) if value is not None else ():
                if isinstance(t, Binary | Unary) and self.wraps(t):
                    raise self.refuse(s, _WRAPS[t.op], t)
            if isinstance(s, Call) and named(*s.operands) & self.arrays:
                raise self.refuse(s, f"an array as an argument of {s.rule.name},", s.function)
        for s in stores:
            copied = self.holds(s.value) and not isinstance(s.value, Binary)
            elsewhere = s.array in copies and s not in filled and not copied
            if (s.array in self.f.unsigned and not _fits(s.value)) or elsewhere:
                raise self.refuse(s, "an array that is written,", s.value)
            if s in filled and self.holds(s.value) and not copied:
                raise self.refuse(s, "a new array of sums", s.value)

    def refuse(self, s: Statement, what: str, term: object) -> TraceError:
        return TraceError(f"adjoint: {self.f.where}: {what} of unsigned integers in '{s.line or term}'; {_INSTEAD}")
