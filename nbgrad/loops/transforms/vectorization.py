"""Vectorization: call functions of this library in loops that LLVM can vectorize.

A call of the C library keeps a loop scalar. Loops whose iterations are independent, and consist of arithmetic and calls
of functions that :mod:`nbgrad.vmath` implements as arithmetic, call the latter: several iterations are computed at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..analysis.cost_model import is_expensive
from ..analysis.dependence import Index
from ..ir.affine import distance, offset
from ..ir.functions import is_cheap, vectorized
from ..ir.passes import Pass, enabled
from ..ir.statements import (
    Assign,
    Function,
    Loop,
    Statement,
    Store,
    mentions,
    terms_of,
    walk,
)
from ..ir.terms import ONE, Binary, Call, Global, Logical, Select, Term, Variable, elements_in, subterms
from ..ir.type_inference import kind_of
from .strip_mining import summands

if TYPE_CHECKING:
    from ..analysis.reverse_plan import Plan

__all__ = ["is_sequential", "vectorize_calls"]

#: Loops that are known to have at most this many iterations are left as they are.
_MAX_SHORT_TRIPS = 8


def vectorize_calls(f: Function, plan: Plan) -> set[Statement]:
    """Replace the calls in eligible loops. Returns the statements of these loops."""
    statements: set[Statement] = set()
    for loop in [s for s in walk(f.body) if isinstance(s, Loop)]:
        sums = {s for s in loop.body if enabled(Pass.STRIP_MINING) and _is_sum(s, loop, f)}
        equivalents = _functions(loop, f) if _is_vectorizable(loop, plan, sums) else {}
        if equivalents:
            if sums:
                plan.strip_mined_loops.add(loop)
            names = {called: f.names.imported(*ours, ours[1]) for called, ours in equivalents.items()}
            ours = {called: Global(name, f.names.bound_to(name)) for called, name in names.items()}
            for s in loop.body:
                s.value = _with_functions(s.value, ours)  # type: ignore[attr-defined]
                statements.add(s)
    return statements


def _with_functions(term: Term, ours: dict[object, Global]) -> Term:
    """`term` with calls of our functions."""
    operands = tuple([_with_functions(t, ours) for t in term.operands])
    if isinstance(term, Call):
        return Call(ours.get(term.function.value, term.function), operands)
    return term.rebuilt(operands) if operands else term


def _is_vectorizable(loop: Loop, plan: Plan, sums: set[Statement]) -> bool:
    """Whether iterations are independent but for `sums`, and write scalars and adjacent elements of their own."""
    if not loop.index or loop.trip_counter or loop.exit_flag or loop.step is not ONE:
        return False
    if (iterations := distance(loop.stop, loop.start)) is not None and iterations <= _MAX_SHORT_TRIPS:
        return False
    if not all(isinstance(s, Store) or s in plan.defined or s in sums for s in loop.body):
        return False
    loops = (*plan.enclosing[loop], loop)
    if sums and any(p.parallel for p in loops):
        return False  # threads would share the buffers of the sums
    for s in (s for s in loop.body if isinstance(s, Store)):
        last = s.index[-1]
        if offset(last)[0] is not Variable(loop.index) or not plan.dependence_tests.provably_nonnegative(last, loops):
            return False
    return not _carries_elements(loop, plan)


def _is_sum(s: Statement, loop: Loop, f: Function) -> bool:
    """Whether a statement adds to a float, in a fixed order, that nothing else in the loop reads or sets."""
    if not isinstance(s, Assign) or s.reassociable or f.single_precision:
        return False
    total = Variable(s.name)
    terms = summands(total, s.value)
    floats = all(kind_of(t, f) == "float" for t in (total, *terms))
    return bool(terms) and floats and not any(mentions(t, s.name) for t in loop.body if t is not s)


def is_sequential(loop: Loop, plan: Plan) -> bool:
    """Whether LLVM cannot vectorize a loop: it has loops in it, or iterations read what others write."""
    body = list(walk(loop.body))
    if loop in plan.strip_mined_loops:
        return False
    carried = any(isinstance(s, Assign) and s not in plan.defined and not s.reassociable for s in body)
    return carried or any(isinstance(s, Loop) for s in body) or _carries_elements(loop, plan)


def _carries_elements(loop: Loop, plan: Plan) -> bool:
    """Whether an element that an iteration stores may be read or stored in another one."""
    body = list(walk(loop.body))
    accesses: dict[str, list[Index]] = {}
    for s in body:
        if isinstance(s, Store):
            accesses.setdefault(s.array, []).append(s.index)
    for array, stored in accesses.items():
        every = [*stored, *(index for s in body for t in terms_of(s) for index in elements_in(t, array))]
        if any(plan.dependence_tests.may_conflict(loop, a, b, True) for a in stored for b in every):
            return True
    return False


def _functions(loop: Loop, f: Function) -> dict[object, tuple[str, object]]:
    """The functions called, each with ours and its name; empty if the loop cannot be vectorized."""
    functions: dict[object, tuple[str, object]] = {}
    for term in (t for s in loop.body for t in subterms(s.value)):  # type: ignore[attr-defined]
        if isinstance(term, Select | Logical) and any(map(_is_expensive_call, subterms(*term.operands))):
            return {}  # which would be evaluated in each iteration
        if isinstance(term, Call) and not is_cheap(term.function.value):
            ours = vectorized(term.function.value)
            if ours is None or any(kind_of(t, f) != "float" for t in term.operands):
                return {}
            functions[term.function.value] = ours
        elif isinstance(term, Binary) and is_expensive(term):
            return {}
    return functions


def _is_expensive_call(term: Term) -> bool:
    return isinstance(term, Call) and not is_cheap(term.function.value)
