"""The pipeline before code is written: passes over a function, and the plan of its reverse sweep.

Each pass rewrites the function, or collects facts about it, and computes the same results; the optional ones are named
in :mod:`.ir.passes`.
"""

from __future__ import annotations

from ..ir.expr import ONE, ZERO, var
from .analysis.activity import active_names
from .analysis.infinities import may_hold_infinities, overflowing_divisors
from .analysis.iteration_local_reversal import IterationLocalReversal
from .analysis.reverse_plan import Plan, StatementAdjoint, collect_facts, is_never_overwritten, reassigned_names
from .analysis.sums_of_squares import sums_of_squares
from .analysis.tbr import adjoint_element_reads, adjoint_reads, cheaper_to_store, choose_storage, saves_before_loops
from .ir.algebra import COTANGENT, VALUE, Algebra
from .ir.passes import Pass, checked, enabled, run_pass
from .ir.statements import (
    Assign,
    Block,
    Call,
    Function,
    If,
    Loop,
    ScalarOrigin,
    Statement,
    Store,
    Swap,
    nested_blocks,
    walk,
    writes,
)
from .ir.terms import Term, Variable, reads
from .transforms.common_subexpressions import name_expensive_values
from .transforms.counted_loops import count_loops
from .transforms.if_conversion import convert_branches
from .transforms.loop_interchange import interchange_loops
from .transforms.matrix_products import isolate_products
from .transforms.privatization import privatize_arrays, rename_private_scalars
from .transforms.relaxations import branch_on_relaxations
from .transforms.scalar_replacement import replace_elements
from .transforms.selection_sinking import sink_selections
from .transforms.ssa import defer_update, hoist_factors, rename_reassigned
from .transforms.vectorization import vectorize_calls

__all__ = ["plan", "plan_tangents"]


def plan_tangents(f: Function, wrt: set[str]) -> Plan:
    """Analyze `f` for differentiation with respect to the parameters `wrt`: all that tangents need.

    Inserts definitions for expensive calls, and for tests and loop bounds that change in what they control.
    """
    _prepare(f, wrt)
    return _collect(f, wrt, ())


def _prepare(f: Function, wrt: set[str]) -> None:
    """The passes whose form of the function later ones keep: they run once."""
    run_pass(Pass.COUNTED_LOOPS, count_loops, f)
    run_pass(Pass.RENAMING, rename_reassigned, f)  # sums of several loops may have one name
    run_pass(Pass.MATRIX_PRODUCTS, isolate_products, f)
    run_pass(Pass.LOOP_INTERCHANGE, interchange_loops, f)
    rename_private_scalars(f)
    checked(f, "privatization of scalars")
    run_pass(Pass.PRIVATIZATION, privatize_arrays, f)
    run_pass(Pass.SELECTION_SINKING, sink_selections, f, wrt)
    if not f.single_precision:
        run_pass(Pass.IF_CONVERSION, convert_branches, f)
    run_pass(Pass.RELAXATIONS, branch_on_relaxations, f)
    run_pass(Pass.RENAMING, rename_reassigned, f)


def _collect(f: Function, wrt: set[str], deferred: tuple[Statement, ...]) -> Plan:
    """Activity, names for expensive values, and the facts about each statement."""
    algebra = Algebra(set())
    outputs = {*(f.results or []), *(s.array for s in walk(f.body) if isinstance(s, Store) and s.array in f.parameters)}
    outputs |= {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second) if n in f.parameters}
    algebra.active = active_names(f, algebra, wrt, outputs)
    run_pass(Pass.INVARIANT_FACTORS, hoist_factors, f, algebra)
    result = Plan(algebra, algebra.active, deferred_updates=set(deferred))
    _define_controls(f, f.body, reassigned_names(f))
    collect_facts(f, result)
    if not deferred and run_pass(Pass.NAMED_VALUES, name_expensive_values, f, algebra, _with_named_values(f, result)):
        collect_facts(f, result)
    result.vectorized_statements = run_pass(Pass.VECTORIZATION, vectorize_calls, f, result) or set()
    algebra.square_sums = sums_of_squares(f, algebra)
    algebra.infinite, algebra.overflowing = may_hold_infinities(f), overflowing_divisors(f)
    return result


def plan(f: Function, wrt: set[str], fused: bool = True) -> Plan:
    """Plan the reverse sweep. Without `fused`, no loop is reversed iteration by iteration.

    Where a plan shows that another form of the function would store less (an update at the end of an iteration, a
    scalar saved before a loop, an element in a scalar), the function is rewritten, and the plan is made again for it.
    """
    _prepare(f, wrt)
    deferred: tuple[Statement, ...] = ()
    while True:
        result = _storage_plan(f, wrt, deferred, fused)
        updates = _updates_to_defer(f, result) if enabled(Pass.DEFERRED_UPDATES) and not deferred else []
        if updates:
            deferred = tuple(defer_update(f, loop, s) for loop, s in updates)
        elif not run_pass(Pass.SAVES_BEFORE_LOOPS, _save_before_loops, f, result) and not run_pass(
            Pass.SCALAR_REPLACEMENT, replace_elements, f, result, adjoint_element_reads
        ):
            checked(f, "storage planning")
            return result


def _storage_plan(f: Function, wrt: set[str], deferred: tuple[Statement, ...], fused: bool) -> Plan:
    """A plan for `f` as it is, in which updates are `deferred` already."""
    result = _collect(f, wrt, deferred)
    for s in walk(f.body):
        if isinstance(s, Assign | Store):
            result.statement_adjoints[s] = _statement_adjoint(s, result)
    fused = fused and enabled(Pass.LOCAL_REVERSAL) and not any(isinstance(s, Call) for s in walk(f.body))
    refused = {s for s in walk(f.body) if isinstance(s, Loop) and (s.parallel or not fused)}
    while True:
        result.local_reversal = IterationLocalReversal(f, result, adjoint_reads, refused)
        result.saved_overwrites, result.stored_definitions, result.recomputed_definitions = set(), set(), set()
        choose_storage(f, result)
        if not (wrong := result.local_reversal.illegal_loops()):
            return result
        refused |= wrong


def _with_named_values(f: Function, plan: Plan) -> set[Statement]:
    """The statements whose values derivatives can read from a name or an element."""
    return {s for s in walk(f.body) if s in plan.defined or is_never_overwritten(s, plan)}


def _updates_to_defer(f: Function, plan: Plan) -> list[tuple[Loop, Assign]]:
    """Scalars updated in the middle of an iteration, so that scalars computed from them would be stored.

    If the update came at the end of the iteration, these could be recomputed.
    """
    carries = []
    for loop in walk(f.body):
        if not isinstance(loop, Loop) or all(
            cheaper_to_store(s, f, plan) for s in plan.stored_definitions & set(loop.body)
        ):
            continue
        written = [n for s in walk(loop.body) for n in writes(s)]
        saved = [s for s in loop.body if isinstance(s, Assign) and s in plan.saved_overwrites and s.name in plan.active]
        carries += [(loop, s) for s in saved if written.count(s.name) == 1]
    return carries


def _define_controls(f: Function, block: Block, moving: set[str]) -> None:
    """Give tests and loop bounds a definition of their own if what they control writes names that they read."""
    for k in range(len(block) - 1, -1, -1):
        s = block[k]
        for inner in nested_blocks(s):
            _define_controls(f, inner, moving)
        written = {n for inner in nested_blocks(s) for t in walk(inner) for n in writes(t)}
        if isinstance(s, If) and (f.single_precision or reads(s.test) & (written | moving)):
            s.test = _define(f, block, k, "branch", s.test, s, ScalarOrigin.BRANCH)
        if isinstance(s, Loop) and s.index:
            for part in ("start", "stop", "step"):
                if reads(getattr(s, part)) & written:
                    setattr(s, part, _define(f, block, k, part, getattr(s, part), s, ScalarOrigin.BOUND))


def _define(f: Function, block: Block, k: int, name: str, value: Term, s: Statement, purpose: ScalarOrigin) -> Variable:
    name = f.names.fresh(name, plain=False)
    f.ranks[name], f.kinds[name] = 0, "bool" if purpose is ScalarOrigin.BRANCH else "int"
    made = Assign(name, value, line=s.line, source_location=s.source_location, scalar_origin=purpose)
    block.insert(k, made)
    s.line = ""
    return Variable(name)


def _save_before_loops(f: Function, plan: Plan) -> bool:
    """Save scalars before loops where that replaces tapes in the loops; whether any were."""
    found = saves_before_loops(f, plan)
    for loop, names in found:
        _save_before_loop(f, f.body, loop, names)
    return bool(found)


def _save_before_loop(f: Function, block: Block, loop: Loop, names: set[str]) -> None:
    """Save the values of scalars under new names before `loop`."""
    if loop not in block:
        for s in block:
            for inner in nested_blocks(s):
                _save_before_loop(f, inner, loop, names)
        return
    for name in sorted(names):
        before = f.names.fresh(f"{name}_before", 2)
        f.ranks[before], f.kinds[before] = 0, f.kinds.get(name, "float")
        loop.values_before_loop[name] = before
        block.insert(block.index(loop), Assign(before, Variable(name)))


def _statement_adjoint(s: Assign | Store, plan: Plan) -> StatementAdjoint:
    name = s.name if isinstance(s, Assign) else s.array
    if name not in plan.active or not plan.algebra.depends(s.value):
        return StatementAdjoint(ZERO, [])
    target = Variable(name) if isinstance(s, Assign) else s.target
    own, parts = ZERO, []
    known = var(target) if s in plan.defined else VALUE if is_never_overwritten(s, plan) else None
    for atom, part in plan.algebra.pull(s.value, COTANGENT, known, target=name):
        if atom is target:
            own = ONE if part is COTANGENT else part
        else:
            parts.append((atom, part))
    return StatementAdjoint(own, parts)
