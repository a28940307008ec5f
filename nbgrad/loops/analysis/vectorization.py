"""Vectorization: call functions of this library in loops that LLVM can vectorize.

A call of the C library keeps a loop scalar. Loops whose iterations are independent, and consist of arithmetic and calls
of functions that :mod:`nbgrad.vmath` implements as arithmetic, call the latter: several iterations are computed at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.affine import distance, offset
from ..ir.algebra import FUNCTIONS, VECTORIZABLE
from ..ir.statements import (
    Assign,
    Function,
    Loop,
    Statement,
    Store,
    walk,
)
from ..ir.terms import ONE, Binary, Call, Compare, Global, Logical, Select, Term, Variable, elements_in, subterms
from ..ir.type_inference import kind_of
from .cost_model import CHEAP, is_expensive

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["vectorize_calls"]

#: Loops that are known to have at most this many iterations are left as they are.
_MAX_SHORT_TRIPS = 8


def vectorize_calls(f: Function, plan: Plan) -> set[Statement]:
    """Replace the calls in eligible loops. Returns the statements of these loops."""
    statements: set[Statement] = set()
    for loop in [s for s in walk(f.body) if isinstance(s, Loop)]:
        names = _functions(loop, f, plan) if _is_vectorizable(loop, plan) else {}
        if names:
            ours = {called: _imported(called, name, f) for called, name in names.items()}
            for s in loop.body:
                s.value = _with_functions(s.value, ours)  # type: ignore[attr-defined]
                statements.add(s)
    return statements


def _imported(called: object, name: str, f: Function) -> Global:
    """Our function in `f`."""
    function = FUNCTIONS[called].helpers[name]  # type: ignore[attr-defined]
    return Global(f.names.imported(name, function, function), function)


def _with_functions(term: Term, ours: dict[object, Global]) -> Term:
    """`term` with calls of our functions."""
    operands = tuple([_with_functions(t, ours) for t in term.operands])
    if isinstance(term, Call):
        return Call(ours.get(term.function.value, term.function), operands)
    return term.rebuilt(operands) if operands else term


def _is_vectorizable(loop: Loop, plan: Plan) -> bool:
    """Whether iterations are independent and write scalars and adjacent elements of their own."""
    if not loop.index or loop.trip_counter or loop.exit_flag or loop.step is not ONE:
        return False
    if (iterations := distance(loop.stop, loop.start)) is not None and iterations <= _MAX_SHORT_TRIPS:
        return False
    if not all(isinstance(s, Store) or (isinstance(s, Assign) and s in plan.defined) for s in loop.body):
        return False
    loops = (*plan.enclosing[loop], loop)
    for s in (s for s in loop.body if isinstance(s, Store)):
        last = s.index[-1]
        if offset(last)[0] is not Variable(loop.index) or not plan.dependence_tests.provably_nonnegative(last, loops):
            return False
        indices = [t.index for t in loop.body if isinstance(t, Store) and t.array == s.array]
        indices += [index for t in loop.body for index in elements_in(t.value, s.array)]  # type: ignore[attr-defined]
        if any(plan.dependence_tests.may_conflict(loop, s.index, index, True) for index in indices):
            return False
    return True


def _functions(loop: Loop, f: Function, plan: Plan) -> dict[object, str]:
    """The functions called, with the names of ours; empty if the loop cannot be vectorized."""
    functions: dict[object, str] = {}
    for term in (t for s in loop.body for t in subterms(s.value)):  # type: ignore[attr-defined]
        if isinstance(term, Select | Logical | Compare):
            return {}
        if isinstance(term, Call) and term.function.value not in CHEAP:
            called = term.function.value
            name = getattr(FUNCTIONS.get(called), "name", "")
            if name not in VECTORIZABLE or any(kind_of(t, f) != "float" for t in term.operands):
                return {}
            functions[called] = name
        elif isinstance(term, Binary) and is_expensive(term):
            return {}
    return functions
