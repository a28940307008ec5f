"""Variables that may hold infinities: those that a constant like ``np.inf``, or a logarithm of 0, may reach.

What the caller's arrays hold is not known, and not assumed to be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Set

import numpy as np

from ...kernels import scalar as vm
from ..ir.functions import FUNCTIONS
from ..ir.statements import Assign, Check, Function, Store, Swap, terms_of, walk
from ..ir.strong_chains import OVERFLOWING
from ..ir.terms import (
    ZERO,
    Binary,
    Call,
    Compare,
    Constant,
    Element,
    Global,
    Item,
    Select,
    Term,
    Unary,
    Variable,
    subterms,
)

__all__ = ["may_hold_infinities", "overflowing_divisors"]

#: From this magnitude on, constants stand for infinity, as sentinels do.
_SENTINEL = 1e300
#: Functions whose results are finite, or whose infinities are overflows.
_FINITE = {
    vm.exp, vm.expm1, vm.tanh, vm.sigmoid, vm.erf, vm.erfc, vm.ndtr, vm.arctan, vm.arctan2, vm.sin, vm.cos, vm.arcsin,
    vm.arccos,
}  # fmt: skip
_LOGARITHMS = {vm.log, vm.log2, vm.log10, vm.log1p}


def may_hold_infinities(f: Function) -> frozenset[str]:
    """The names of the scalars and arrays of `f` that may hold infinities, wherever control goes.

    Where `f` looks for NaN, not to raise an error but to replace it or leave it out, that is every name: 0 times NaN is
    NaN, too.
    """
    values = _values(f)
    read = (t for s in walk(f.body) if not isinstance(s, Check) for t in subterms(*terms_of(s)))
    if any(map(_looks_for_nan, read)):
        return frozenset({*values, *f.parameters})
    return frozenset(_reached(values, set()))


def _looks_for_nan(term: Term) -> bool:
    """Whether a term is ``isnan(x)``, ``isfinite(x)``, ``x != x`` or ``x == x``."""
    match term:
        case Call(Global(value=function)):
            return function in (np.isnan, math.isnan, np.isfinite, math.isfinite)
        case Compare(("!=",) | ("==",), (a, b)):
            return a is b
    return False


def overflowing_divisors(f: Function) -> frozenset[str]:
    """The names that an overflow of ``exp`` or the like may reach, and that reach a divisor.

    So does ``e`` in ``1 / (1 + e)``, which is 0 there. Other overflows are not looked for.
    """
    values = _values(f)
    overflowing = _reached(values, OVERFLOWING)
    return frozenset(overflowing and overflowing & _dividing(values))


def _values(f: Function) -> dict[str, list[Term]]:
    """What each name is set to."""
    values: dict[str, list[Term]] = {}
    for s in walk(f.body):
        if isinstance(s, Assign):
            values.setdefault(s.name, []).append(s.value)
        elif isinstance(s, Store):
            values.setdefault(s.array, []).append(s.value)
        elif isinstance(s, Swap):
            values.setdefault(s.first, []).append(Variable(s.second))
            values.setdefault(s.second, []).append(Variable(s.first))
    return values


def _reached(values: dict[str, list[Term]], functions: Set[object]) -> set[str]:
    """The names with a value that may be infinite, also as a result of one of these functions."""
    found: set[str] = set()
    while True:
        more = {n for n, every in values.items() if any(_may_be_infinite(t, found, functions) for t in every)}
        if more <= found:
            return found
        found |= more


def _dividing(values: dict[str, list[Term]]) -> set[str]:
    """The names that something is divided by, or that these are computed from."""
    found = {n for every in values.values() for t in every for u in subterms(t) for n in _divisor(u).reads}
    pending = list(found)
    while pending:
        more = {n for t in values.get(pending.pop(), ()) for n in t.reads} - found
        found |= more
        pending += more
    return found


def _divisor(term: Term) -> Term:
    match term:
        case Binary("/", _, divisor):
            return divisor
        case Binary("**", base, exponent) if not (isinstance(exponent, Constant) and exponent.value >= 0):
            return base
    return ZERO


def _may_be_infinite(term: Term, names: set[str], functions: Set[object]) -> bool:
    match term:
        case Constant(value):
            return _is_infinity(value)
        case Global(_, value):
            return isinstance(value, float) and _is_infinity(value)
        case Variable(name) | Element(name):
            return name in names
        case Unary(op, operand):
            return op in ("-", "+") and _may_be_infinite(operand, names, functions)
        case Binary("+" | "-" | "*" | "**", left, right):
            return _may_be_infinite(left, names, functions) or _may_be_infinite(right, names, functions)
        case Binary("/", left):
            return _may_be_infinite(left, names, functions)
        case Select(_, body, orelse):
            return _may_be_infinite(body, names, functions) or _may_be_infinite(orelse, names, functions)
        case Call(function, operands):
            row = FUNCTIONS.get(function.value)
            if row is not None and row.expression in functions:
                return True
            if row is not None and (row.expression is None or row.expression in _FINITE):
                return False
            found = row is not None and row.expression in _LOGARITHMS
            return found or any(_may_be_infinite(t, names, functions) for t in operands)
        case Item(whole):
            return any(_may_be_infinite(t, names, functions) for t in whole.operands)
    return False


def _is_infinity(value: object) -> bool:
    return isinstance(value, float) and not abs(value) < _SENTINEL
