"""Variables that may hold infinities: those that a constant like ``np.inf``, or a logarithm of 0, may reach.

What the caller's arrays hold is not known, and not assumed to be infinite.
"""

from __future__ import annotations

from ...kernels import scalar as vm
from ..ir.functions import FUNCTIONS
from ..ir.statements import Assign, Function, Store, Swap, walk
from ..ir.terms import Binary, Call, Constant, Element, Global, Item, Select, Term, Unary, Variable

__all__ = ["may_hold_infinities"]

#: From this magnitude on, constants stand for infinity, as sentinels do.
_SENTINEL = 1e300
#: Functions whose results are finite, or whose infinities are overflows.
_FINITE = {
    vm.exp, vm.expm1, vm.tanh, vm.sigmoid, vm.erf, vm.erfc, vm.ndtr, vm.arctan, vm.arctan2, vm.sin, vm.cos, vm.arcsin,
    vm.arccos,
}  # fmt: skip
_LOGARITHMS = {vm.log, vm.log2, vm.log10, vm.log1p}


def may_hold_infinities(f: Function) -> frozenset[str]:
    """The names of the scalars and arrays of `f` that may hold infinities, wherever control goes."""
    values: dict[str, list[Term]] = {}
    for s in walk(f.body):
        if isinstance(s, Assign):
            values.setdefault(s.name, []).append(s.value)
        elif isinstance(s, Store):
            values.setdefault(s.array, []).append(s.value)
        elif isinstance(s, Swap):
            values.setdefault(s.first, []).append(Variable(s.second))
            values.setdefault(s.second, []).append(Variable(s.first))
    found: set[str] = set()
    while True:
        more = {n for n, every in values.items() if any(_may_be_infinite(t, found) for t in every)}
        if more <= found:
            return frozenset(found)
        found |= more


def _may_be_infinite(term: Term, names: set[str]) -> bool:
    match term:
        case Constant(value):
            return _is_infinity(value)
        case Global(_, value):
            return isinstance(value, float) and _is_infinity(value)
        case Variable(name) | Element(name):
            return name in names
        case Unary(op, operand):
            return op in ("-", "+") and _may_be_infinite(operand, names)
        case Binary("+" | "-" | "*" | "**", left, right):
            return _may_be_infinite(left, names) or _may_be_infinite(right, names)
        case Binary("/", left):
            return _may_be_infinite(left, names)
        case Select(_, body, orelse):
            return _may_be_infinite(body, names) or _may_be_infinite(orelse, names)
        case Call(function, operands):
            row = FUNCTIONS.get(function.value)
            if row is not None and (row.expression is None or row.expression in _FINITE):
                return False
            found = row is not None and row.expression in _LOGARITHMS
            return found or any(_may_be_infinite(t, names) for t in operands)
        case Item(whole):
            return any(_may_be_infinite(t, names) for t in whole.operands)
    return False


def _is_infinity(value: object) -> bool:
    return isinstance(value, float) and not abs(value) < _SENTINEL
