"""Names that stand for bools, integers and floats in different places, as for a mask here and for numbers there.

Here a name has one kind, the widest. In NumPy it has that of what it is bound to, and much depends on that: ``+`` of
bools is "or", as indices they select, integers truncate what is stored into them. Type inference therefore finds all
kinds that each name may have in NumPy; what lowering took for granted must hold for each of them, or it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import numpy as np

from ...errors import TraceError
from .functions import FUNCTIONS
from .statements import Alloc, Assign, Function, Like, Store, terms_of, walk
from .terms import Binary, Call, Constant, Element, Logical, Prefix, Select, Term, Unary, Variable, subterms

__all__ = ["ENGLISH", "find_possible_kinds", "refuse_mixed_kinds", "settled"]

Kinds = frozenset[str]
Kind = Callable[[Term], str]  # that of an expression here

#: From the narrowest to the widest. "literal" is an integer that is written there, which is a float beside floats: the
#: ``s = 0`` before ``s += x[i]``.
_ORDER = ("bool", "literal", "int", "float")
ENGLISH = {"bool": "bools", "int": "integers", "float": "floats"}


def find_possible_kinds(f: Function, assignments: Iterable[Assign | Store], kind: Kind) -> None:
    """Set ``f.possible_kinds``. `assignments` are those by which names got their kinds here."""
    bindings = _bindings(f, assignments, kind)
    as_here = all(kind(v) == f.kinds[name] for name, groups in bindings.items() for g in groups for v in g)
    if as_here and not f.choices:
        return
    same = list(f.reshaped_from.items())
    same += [(s.name, s.kind.name) for s in walk(f.body) if isinstance(s, Alloc) and isinstance(s.kind, Like)]
    names = f.possible_kinds = dict.fromkeys([*bindings, *(name for name, _ in same)], frozenset[str]())

    def add(name: str, kinds: Kinds) -> bool:
        if f.ranks.get(name):
            kinds = frozenset(["int" if k == "literal" else k for k in kinds])
        before = names[name]
        names[name] = before | kinds
        return not kinds <= before

    grew = True
    while grew:
        grew = False
        for name, groups in bindings.items():
            grew |= add(name, frozenset[str]().union(*(_joined([_possible(v, f, kind) for v in g]) for g in groups)))
        for name, of in same:
            grew |= add(name, names.get(of, frozenset([f.kinds[of]])))
    f.possible_kinds = {name: kinds for name, kinds in names.items() if kinds}


def _bindings(f: Function, assignments: Iterable[Assign | Store], kind: Kind) -> dict[str, list[list[Term]]]:
    """For each name the expressions that it is bound to, those of the elements of one array together."""
    rebinding = dict(f.rebinding_stores)
    found: dict[str, dict[object, list[Term]]] = {}
    for s in rebinding:
        found.setdefault(s.array, {}).setdefault(rebinding[s], []).append(s.value)
    for a in assignments:
        if isinstance(a, Assign):
            found.setdefault(a.name, {})[a] = [a.value]
        elif a not in rebinding:  # one list may have bools, and the next one of that name numbers
            flags = "bools" if a.array in f.lists and kind(a.value) == "bool" else None
            found.setdefault(a.array, {}).setdefault(flags, []).append(a.value)
    for t in walk(f.body):
        if isinstance(t, Alloc) and isinstance(t.kind, str) and t.kind and t.name in found:
            found[t.name][None] = [_SAMPLE["int" if t.name in f.widened else t.kind]]
    for p in f.parameters:
        if p in found and f.kinds[p] in _SAMPLE:
            found[p][None] = [_SAMPLE[f.kinds[p]]]
    return {name: list(groups.values()) for name, groups in found.items()}


def _possible(term: Term, f: Function, kind: Kind) -> Kinds:
    """The kinds that an expression may have in NumPy."""

    def joined(operands: Iterable[Term]) -> Kinds:
        return _joined([_possible(t, f, kind) for t in operands])

    match term:
        case Element(name) | Variable(name) | Prefix(name):
            return f.possible_kinds.get(name, frozenset([kind(term)]))
        case Constant(int() as value) if not isinstance(value, bool):
            return frozenset(["literal"])
        case Select(test, body, orelse) if test in f.choices:
            return _possible(body, f, kind) | _possible(orelse, f, kind)
        case Select(_, body, orelse):
            return joined((body, orelse))
        case Logical() | Binary("&" | "|" | "^"):
            return joined(term.operands)
        case Unary("-" | "+" | "~") | Binary("+" | "-" | "*" | "//" | "%" | "**"):
            return frozenset(["int" if k == "bool" else k for k in joined(term.operands)])
        case Call(function, operands):
            row = FUNCTIONS.get(function.value)
            if row is not None and not row.kind and function.value is not np.square:
                return joined(operands)
    return frozenset([kind(term)])


_SAMPLE = {"bool": Constant(False), "int": Constant(0), "float": Constant(0.0)}


def _joined(operands: Iterable[Kinds]) -> Kinds:
    """The kinds of what is computed from operands of these kinds."""
    return reduce(lambda a, b: frozenset([_wider(k, n) for k in a for n in b]), operands)


def _wider(a: str, b: str) -> str:
    if {a, b} == {"bool", "literal"}:
        return "int"
    return max(a, b, key=_ORDER.index)


def settled(kinds: Kinds) -> Kinds:
    """Kinds in which integers that are written there are those of the others."""
    if "literal" not in kinds:
        return kinds
    others = kinds - {"literal"}
    return others if others & {"int", "float"} else others | {"int"}


def refuse_mixed_kinds(f: Function, kind: Kind) -> None:
    """Refuse what was lowered for one kind, where names may have another one in NumPy."""
    for terms, of_bools, refused in f.operations:
        kinds = [_possible(t, f, kind) for t in terms]
        if of_bools is None:
            wrong = all("bool" in k for k in kinds)
        elif of_bools:
            wrong = any(k != {"bool"} for k in kinds)
        else:
            wrong = any(len(settled(k)) > 1 for k in kinds) and all("bool" in k for k in kinds)
        if wrong:
            raise refused
    for term, kind_then, certain, error in f.relied_on_kinds:
        found = _possible(term, f, kind)
        if (frozenset(["int" if k == "literal" else k for k in found]) if certain else settled(found)) != {kind_then}:
            raise error()
    for s in walk(f.body):
        for term in (t for root in terms_of(s) for t in subterms(root)):
            if isinstance(term, Binary) and term.op in ("//", "%"):  # by 0
                several = [settled(_possible(t, f, kind)) for t in term.operands]
                if frozenset(["float"]) not in several and any("float" in k for k in several):
                    what = f"{term.op} of integers here and of floats there"
                    raise TraceError(f"adjoint: {f.where}: {what}, which differ in divisions by 0; use a name for each")
            truncates = isinstance(term, Call) and term.function.value is np.reciprocal
            if truncates and settled(_possible(term.operands[0], f, kind)) != {"float"}:
                what = "np.reciprocal of what may be integers, which it truncates"
                raise TraceError(f"adjoint: {f.where}: {what}; write 1 / x")
    mixed = {n: found for n, found in f.possible_kinds.items() if f.ranks.get(n) and len(settled(found)) > 1}
    line = ""
    for s in walk(f.body) if mixed else ():
        line = s.line or s.source_location or line
        if isinstance(s, Store) and s.array in mixed and s in f.element_writes:
            all_kinds, f.possible_kinds[s.array] = f.possible_kinds[s.array], mixed[s.array] - {"float"}
            stored = _possible(s.value, f, kind)  # if it is an array of the narrowest
            f.possible_kinds[s.array] = all_kinds
            if stored != {"bool"} if "bool" in mixed[s.array] else "float" in stored:
                what = f"elements of an array {of_kinds(mixed[s.array])}"
                raise TraceError(
                    f"adjoint: {f.where}: {what} in '{line}'; use another name for each, or give it a dtype"
                )
    for name in f.results or ():
        if "bool" in mixed.get(name, ()):
            what = f"a result {of_kinds(mixed[name])}, {name}"
            raise TraceError(f"adjoint: {f.where}: {what}; return numbers (x * 1.0), or bools (x != 0), in both places")


def of_kinds(kinds: Kinds) -> str:
    """As in "an array of bools here and of numbers there"."""
    first, *_ = words = [ENGLISH[k] for k in _ORDER if k in kinds]
    return f"of {first} here and of {'numbers' if first == 'bools' else words[-1]} there"
