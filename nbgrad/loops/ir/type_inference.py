"""Type inference: the kind of each variable (float, int or bool), as far as allocating storage for it requires.

Also checks what depends on kinds: operators, indices, loop bounds, and integers to negative powers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from ...backends.numba.internals import NumbaError
from ...errors import TraceError
from ..custom_rules import Kind
from .functions import FUNCTIONS
from .integer_powers import guard_powers
from .mixed_kinds import find_possible_kinds
from .names import called
from .statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Check,
    Function,
    If,
    InRange,
    Like,
    Loop,
    Statement,
    Store,
    Swap,
    map_terms,
    nested_blocks,
    terms_of,
    walk,
)
from .terms import (
    Binary,
    Compare,
    Constant,
    DType,
    Element,
    Global,
    Length,
    Logical,
    Prefix,
    Select,
    Term,
    Unary,
    Variable,
    reads,
    subterms,
)
from .terms import Call as CallTerm
from .unsigned_integers import read_unsigned

__all__ = ["DTYPES", "ZEROS", "IntegerExpected", "infer", "kind_of", "kinds_of"]

_BITWISE = ("&", "|", "^", "<<", ">>", "~")
_ORDER = ["bool", "int", "float"]
#: The zero of each kind.
ZEROS = {"float": Constant(0.0), "int": Constant(0), "bool": Constant(False)}
#: The dtype of each kind.
DTYPES = {
    "float": Global("np.float64", np.float64),
    "int": Global("np.int64", np.int64),
    "bool": Global("np.bool_", np.bool_),
}

_CONVERTED = (float, max, min)

#: The file and line of a statement, and what is written there.
_LOCATION = re.compile(r"(.*?, line \d+): (.*)", re.DOTALL)


class IntegerExpected(TraceError):
    """The error for a float as an index or a bound; `names` are those in it, and those that they are floats by."""

    def __init__(self, message: str, names: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.names = names


def infer(f: Function) -> None:
    """Fill in the kinds of the scalars in `f`, and of arrays whose kind is that of what is stored into them.

    A name that is assigned several kinds gets the widest. Also makes allocations explicit and checks the types.
    """
    allocations = [s for s in walk(f.body) if isinstance(s, Alloc)]
    for s in allocations:
        if not s.kind:
            f.kinds[s.name] = "bool"
    open_arrays = {s.name for s in allocations if not s.kind}
    assignments = [
        s
        for s in walk(f.body)
        if isinstance(s, Assign) or (isinstance(s, Store) and s.array in open_arrays and s not in f.element_writes)
    ]
    rebound: dict[str, list[Term]] = {}
    for store, _ in f.rebinding_stores:
        rebound.setdefault(store.array, []).append(store.value)
    grew = True
    while grew or _infer_call_results(f) or _widen(f, allocations, rebound):
        grew = False
        for s in allocations:
            if isinstance(s.kind, Like):
                f.kinds[s.name] = f.kinds[s.kind.name]
        for name, of in f.reshaped_from.items():
            f.kinds[name] = f.kinds[of]
        for t in assignments:
            name = t.array if isinstance(t, Store) else t.name
            widest = max(kind_of(t.value, f), f.kinds.get(name, "bool"), key=_ORDER.index)
            if f.kinds.get(name) != widest:
                f.kinds[name] = widest
                grew = True
    for name, values, error in f.assumed_kinds:
        if max((kind_of(v, f) for v in values), key=_ORDER.index) != f.kinds[name]:
            raise error
    for name, value, error in f.refilled_arrays:
        if _ORDER.index(kind_of(value, f)) > _ORDER.index(f.kinds[name]):
            raise error
    for terms, of_bools, refused in f.operations:
        if of_bools and any(kind_of(t, f) == "float" for t in terms):
            raise refused
    find_possible_kinds(f, assignments, lambda t: kind_of(t, f))
    for t in assignments:
        match t:
            case Assign(name, Constant(number)) if name in f.accumulators and f.kinds[name] == "float":
                t.value = Constant(float(number))
            case Assign(name) if t.reassociable and f.kinds[name] != "float":
                t.reassociable = False  # sums of integers are the same in any order
    by_name = {s.name: s for s in allocations}
    swapped = {name for s in walk(f.body) if isinstance(s, Swap) for name in (s.first, s.second)}
    values_of: dict[str, list[Term]] = {}
    for t in assignments:
        if isinstance(t, Store) and t.array in swapped:
            values_of.setdefault(t.array, []).append(t.value)
    for s, dtype in [(s, _dtype(s, by_name, values_of, f)) for s in allocations]:
        s.dtype, s.kind = dtype, f.kinds[s.name]
    for every in walk(f.body):
        match every:
            case Assign() | Store():
                _check_operators(every.value, every, f, True)
            case If() | Check():
                _check_operators(every.test, every, f, False)
            case InRange():
                _check_operators(every.index, every, f, False)
            case Loop() if every.test is not None:
                _check_operators(every.test, every, f, False)
        if isinstance(every, Loop) and every.index:
            rounded = ("bool", "float") if f.rounds_bounds else ("bool",)  # which have no differences and no max
            for part in ("start", "stop", "step"):
                if kind_of(bound := getattr(every, part), f) in rounded:
                    setattr(every, part, called(int, bound))
            _require_integers((every.start, every.stop, every.step), every, f)
        elif isinstance(every, Store):
            for part_of_index in every.index:
                _check_operators(part_of_index, every, f, False)
            _require_integers(every.index, every, f, of_array=True)
    guard_powers(f, lambda t: kind_of(t, f) == "float")
    read_unsigned(f, lambda t: kind_of(t, f) == "int")
    for every in walk(f.body):
        if any(
            isinstance(t, CallTerm) and t.function.value in _CONVERTED
            for root in terms_of(every)
            for t in subterms(root)
        ):
            map_terms(every, lambda t: _convertible(t, f))


def _convertible(term: Term, f: Function) -> Term:
    """`term` without ``float``, ``max`` and ``min`` of truth values, which Numba does not have."""
    operands = tuple([_convertible(t, f) for t in term.operands])
    if isinstance(term, CallTerm) and term.function.value is float and kind_of(operands[0], f) == "bool":
        return called(np.float64, *operands)
    if isinstance(term, CallTerm) and term.function.value in (max, min):
        if _widest(operands, f) == "bool":
            return Logical("or" if term.function.value is max else "and", operands)
        operands = tuple([called(int, t) if kind_of(t, f) == "bool" else t for t in operands])
    return term.rebuilt(operands) if operands else term


def _widen(f: Function, allocations: list[Alloc], rebound: dict[str, list[Term]]) -> bool:
    """Make floats of arrays of integers whose names are bound to arrays of floats later; whether there are any."""
    changed = False
    for s in allocations:
        if s.kind == "int" and any(kind_of(v, f) == "float" for v in rebound.get(s.name, ())):
            s.kind, s.dtype, f.kinds[s.name], changed = "float", DTYPES["float"], "float", True
            f.widened.add(s.name)
    return changed


def _dtype(s: Alloc, allocations: dict[str, Alloc], values_of: dict[str, list[Term]], f: Function) -> Term:
    """The dtype of an array; for one like another array, which may be allocated later, that of the other.

    Integers have 64 bits, but for the copy of an argument that is swapped (and so in `values_of`): it has its dtype.
    """
    other = s.kind.name if isinstance(s.kind, Like) else ""
    if other in allocations:
        return _dtype(allocations[other], allocations, values_of, f)
    if s.kind or f.kinds[s.name] == "float":
        return s.dtype
    copied = {v.array if isinstance(v, Element) else "" for v in values_of.get(s.name, [])}
    copied_array = copied.pop() if len(copied) == 1 else ""
    if copied_array in values_of:  # a copy itself
        others = {name: values for name, values in values_of.items() if name != s.name}
        return _dtype(allocations[copied_array], allocations, others, f)
    narrow = copied_array in f.parameters and f.kinds[copied_array] == "int" and copied_array not in f.unsigned
    return DType(copied_array) if narrow else DTYPES[f.kinds[s.name]]


def _infer_call_results(f: Function) -> bool:
    """Give the results of calls the kinds that follow from those of their arguments; whether any changed."""
    changed = False
    for s in walk(f.body):
        if not isinstance(s, Call):
            continue
        try:
            forms = s.rule.result_types(kinds_of(s, f))
            wrong = forms.type_error or ("" if [r for r, _ in forms.results] == [f.ranks[n] for n in s.results] else
                                    "its results have other axes")  # fmt: skip
        except NumbaError as err:
            wrong = str(err).strip().splitlines()[0]
        if wrong:
            raise TraceError(f"adjoint: {f.where}: {s.rule.name} in '{s.line}': {wrong}; pass it other arguments")
        for name, (_, kind) in zip(s.results, forms.results, strict=True):
            changed |= f.kinds[name] != kind
            f.kinds[name] = kind
    return changed


def kinds_of(s: Call, f: Function) -> tuple[Kind, ...]:
    """The ranks and kinds of the arguments of a call."""

    def rank(t: Term) -> int:
        name = t.name if isinstance(t, Variable) else t.array if isinstance(t, Prefix) else ""
        return f.ranks.get(name, 0)

    return tuple([(rank(t), kind_of(t, f)) for t in s.operands])


def _check_operators(term: Term, s: Statement, f: Function, value: bool) -> None:
    """Refuse floats as operands of bitwise operators, and of ``and`` and ``or`` where these give a value."""
    bits = isinstance(term, Binary | Unary) and term.op in _BITWISE
    choice = value and isinstance(term, Logical)
    if (bits or choice) and any(kind_of(t, f) == "float" for t in term.operands):
        location, line = _location(f.body, s, "") or ("", "")
        raise TraceError(
            f"adjoint: {location or f.where}: {'bit operations' if bits else 'and, or'} of floats in "
            f"'{line or s.line or term}'; " + ("use integers" if bits else "write a if ... else b, or compare")
        )
    if isinstance(term, Element):
        _require_integers(term.index, s, f, of_array=True)
    if isinstance(term, CallTerm) and term.function.value is np.round and kind_of(term.operands[0], f) == "bool":
        location, line = _location(f.body, s, "") or ("", "")
        raise TraceError(f"adjoint: {location or f.where}: np.round of bools in '{line or s.line}'; leave it out")
    for operand in term.operands:
        _check_operators(operand, s, f, value and not (isinstance(term, Select) and operand is term.test))


def _require_integers(terms: Iterable[Term], s: Statement, f: Function, of_array: bool = False) -> None:
    """Refuse floats as indices (`of_array`) and as bounds of loops, and truth values, which add an axis, as indices."""
    for t in terms:
        kind = kind_of(t, f)
        if kind == "float" or (kind == "bool" and of_array):
            what = f"the {'float' if kind == 'float' else 'truth value'} {t} where an integer is expected"
            location, line = _location(f.body, s, "") or ("", "")
            what += f" in '{line}'" if line else ""
            message = f"adjoint: {location or f.where}: {what}; pass an integer, or write int(...)"
            raise IntegerExpected(message, _float_sources(f, t.named))


def _location(block: Block, s: Statement, where: str) -> tuple[str, str] | None:
    """The file and line of a statement, and what is written there; None if the statement is not in this block."""
    for t in block:
        where = t.source_location or where
        if t is s:
            found = _LOCATION.fullmatch(where)
            return (found[1], found[2]) if found else ("", s.line)
        for inner in nested_blocks(t):
            if (inside := _location(inner, s, where)) is not None:
                return inside
    return None


def _float_sources(f: Function, names: Iterable[str]) -> set[str]:
    """Names, and the floats from which they are computed."""
    found, new = set[str](), set(names)
    while new:
        found |= new
        values = [s.value for s in walk(f.body) if isinstance(s, Assign) and s.name in new]
        new = {n for n in reads(*values) if f.kinds.get(n) == "float" and not f.ranks.get(n)} - found
    return found


def kind_of(term: Term, f: Function) -> str:
    """The kind of an expression, with the kinds of names known so far."""
    match term:
        case Constant(value):
            return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        case Variable(name):
            return f.kinds.get(name, "bool")
        case Element(array) | Prefix(array):
            return f.kinds[array]
        case Length():
            return "int"
        case Compare() | Unary("not"):
            return "bool"
        case Logical(_, operands):
            return _widest(operands, f)
        case Unary(_, operand):
            return max("int", kind_of(operand, f), key=_ORDER.index)
        case Binary("/"):
            return "float"
        case Binary(op, left, right):
            both = _widest((left, right), f)
            return both if op in ("&", "|", "^") else max("int", both, key=_ORDER.index)
        case Select(_, body, orelse):
            return _widest((body, orelse), f)
        case CallTerm(function, operands):
            row = FUNCTIONS.get(function.value)
            if function.value is np.square:  # of bools an integer
                return max("int", _widest(operands, f), key=_ORDER.index)
            if function.value is round and len(operands) == 1:
                return "int"
            return "float" if row is None else row.kind or _widest(operands, f)
    return "float"


def _widest(terms: Iterable[Term], f: Function) -> str:
    return max([kind_of(t, f) for t in terms], key=_ORDER.index)
