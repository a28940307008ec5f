"""Activity analysis, and a plan for the reverse sweep: how each value that it reads is made available again.

The reverse sweep visits the statements in reverse order and needs, at each of them, the values that its derivative
reads. There are three ways to provide them. A *definition*, a scalar that is assigned once per execution of a block,
before all its uses, is recomputed when the sweep enters the block (`recomputed_definitions`) or, if its operands have
changed by the end of the block, stored (`stored_definitions`). Everything else is *restored*: a statement that
overwrites a value which the derivative of an earlier statement reads saves it first (`saved_overwrites`), and the
reverse sweep restores it. A loop whose derivatives read nothing that is overwritten stores nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from ...ir.expr import ONE, ZERO, Expr, free_variables, var
from ..ir.algebra import COTANGENT, VALUE, Algebra
from ..ir.passes import Pass, checked, enabled, run_pass
from ..ir.statements import (
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
    union_over_nested,
    uses,
    walk,
    writes,
)
from ..ir.terms import Element, Term, Variable, reads
from .cost_model import name_expensive_values
from .dependence import DependenceTests
from .if_conversion import convert_branches
from .index_bounds import IndexBounds
from .iteration_local_reversal import IterationLocalReversal
from .privatization import privatize_arrays, rename_private_scalars
from .scalar_replacement import replace_elements
from .ssa import defer_update, hoist_factors, rename_reassigned
from .sums_of_squares import sums_of_squares
from .tbr import adjoint_element_reads, adjoint_reads, cheaper_to_store, choose_storage, saves_before_loops
from .vectorization import vectorize_calls

__all__ = ["Plan", "StatementAdjoint", "plan", "plan_tangents"]


@dataclass
class StatementAdjoint:
    """The adjoint of one statement.

    `target_factor` is the factor by which the cotangent of the target is multiplied (ZERO: cleared; ONE: unchanged),
    `parts` are the contributions to the cotangents of the operands.
    """

    target_factor: Expr
    parts: list[tuple[Variable | Element, Expr]]

    @cached_property
    def variables_read(self) -> list[Term]:
        """The variables in it."""
        return free_variables(self.target_factor, *(p for _, p in self.parts))

    @property
    def value(self) -> bool:
        """Whether it reads what the statement wrote."""
        return VALUE.name in self.variables_read

    @cached_property
    def nodes(self) -> list[Term]:
        """The expressions of the program that it evaluates."""
        return [t for t in self.variables_read if t not in (COTANGENT.name, VALUE.name)]

    @cached_property
    def indices(self) -> list[tuple[Term, ...]]:
        """The indices of the elements whose cotangents it accumulates into."""
        return [atom.index for atom, _ in self.parts if isinstance(atom, Element)]

    @cached_property
    def reads(self) -> set[str]:
        """The names whose values it reads."""
        return reads(*self.nodes, *(t for index in self.indices for t in index))


@dataclass
class Plan:
    """What is differentiated, and how the reverse sweep gets the values it needs.

    `enclosing` has the loops around each statement, outermost first; `scalar_copies` the scalar that holds what a
    statement in `saved_overwrites` overwrites; `inverse_increments` the expression that inverts an increment of an
    integer.
    """

    algebra: Algebra
    active: set[str]
    statement_adjoints: dict[Statement, StatementAdjoint] = field(default_factory=dict)
    saved_overwrites: set[Statement] = field(default_factory=set)
    stored_definitions: set[Statement] = field(default_factory=set)
    recomputed_definitions: set[Statement] = field(default_factory=set)
    scalar_copies: dict[Statement, str] = field(default_factory=dict)
    inverse_increments: dict[Statement, Term] = field(default_factory=dict)
    defined: dict[Statement, Block] = field(default_factory=dict)
    enclosing: dict[Statement, tuple[Loop, ...]] = field(default_factory=dict)
    restored: set[str] = field(default_factory=set)
    reassigned: set[str] = field(default_factory=set)
    stores: list[Store] = field(default_factory=list)
    stores_by_element: dict[Element, list[Store]] = field(default_factory=dict)
    deferred_updates: set[Statement] = field(default_factory=set)
    vectorized_statements: set[Statement] = field(default_factory=set)
    dependence_tests: DependenceTests = None  # type: ignore[assignment]  # set once the statements have been collected
    local_reversal: IterationLocalReversal = None  # type: ignore[assignment]
    bounds: IndexBounds | None = None  # set on first use

    def index_checks(self, f: Function) -> IndexBounds:
        """The bounds checks, computed on first use."""
        if self.bounds is None:
            self.bounds = IndexBounds(f, self)
        return self.bounds


def plan_tangents(f: Function, wrt: set[str], carried: tuple[Statement, ...] = ()) -> Plan:
    """Analyze `f` for differentiation with respect to the parameters `wrt`: all that tangents need.

    Inserts definitions for expensive calls, and for tests and loop bounds that change in what they control.
    """
    algebra = Algebra(set())
    rename_private_scalars(f)
    checked(f, "privatization of scalars")
    run_pass(Pass.PRIVATIZATION, privatize_arrays, f)
    if not f.single_precision:
        run_pass(Pass.IF_CONVERSION, convert_branches, f)
    run_pass(Pass.RENAMING, rename_reassigned, f)
    outputs = {*(f.results or []), *(s.array for s in walk(f.body) if isinstance(s, Store) and s.array in f.parameters)}
    outputs |= {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second) if n in f.parameters}
    algebra.active = active_names(f, algebra, wrt, outputs)
    run_pass(Pass.INVARIANT_FACTORS, hoist_factors, f, algebra)
    result = Plan(algebra, algebra.active, deferred_updates=set(carried))
    _define_controls(f, f.body, reassigned_names(f))
    _collect_facts(f, result)
    if not carried and run_pass(Pass.NAMED_VALUES, name_expensive_values, f, algebra, _with_named_values(f, result)):
        _collect_facts(f, result)
    result.vectorized_statements = run_pass(Pass.VECTORIZATION, vectorize_calls, f, result) or set()
    algebra.square_sums = sums_of_squares(f, algebra)
    return result


def plan(f: Function, wrt: set[str], carried: tuple[Statement, ...] = (), fused: bool = True) -> Plan:
    """Plan the reverse sweep.

    Inserts further definitions: `carried` ones, and values saved before loops. Without `fused`, no loop is reversed
    iteration by iteration.
    """
    result = plan_tangents(f, wrt, carried)
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
            break
        refused |= wrong
    carries = _updates_to_defer(f, result) if enabled(Pass.DEFERRED_UPDATES) and not carried else []
    if carries:
        return plan(f, wrt, tuple(defer_update(f, loop, s) for loop, s in carries), fused)
    saved_before = saves_before_loops(f, result) if enabled(Pass.SAVES_BEFORE_LOOPS) else []
    for loop, names in saved_before:
        _save_before_loop(f, f.body, loop, names)
    replaced = not saved_before and run_pass(
        Pass.SCALAR_REPLACEMENT, replace_elements, f, result, adjoint_element_reads
    )
    if saved_before or replaced:
        return plan(f, wrt, carried, fused)
    checked(f, "storage planning")
    return result


def _with_named_values(f: Function, plan: Plan) -> set[Statement]:
    """The statements whose values derivatives can read from a name or an element."""
    return {s for s in walk(f.body) if s in plan.defined or _never_overwritten(s, plan)}


def _collect_facts(f: Function, plan: Plan) -> None:
    """Collect enclosing loops, definitions and stores, and set up the dependence tests."""
    _enclose(f.body, (), plan)
    find_definitions(f, plan)
    plan.reassigned = reassigned_names(f) - {s.name for s in plan.defined if isinstance(s, Assign)}
    swapped = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    plan.stores = [s for s in walk(f.body) if isinstance(s, Store)]
    plan.stores_by_element = {}
    for s in plan.stores:
        plan.stores_by_element.setdefault(s.target, []).append(s)
    plan.dependence_tests = DependenceTests(f, plan.enclosing, swapped)


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


def active_names(f: Function, algebra: Algebra, wrt: set[str], outputs: set[str]) -> set[str]:
    """Names that depend on `wrt` and on which `outputs` depend."""
    varied, useful = set(wrt), set(outputs)
    statements = list(walk(f.body))
    grew = True
    while grew:  # each in the direction of its data flow, so that few rounds suffice
        before = len(varied) + len(useful)
        for s in statements:
            _propagate_varied(s, varied, f, algebra)
        for s in reversed(statements):
            _propagate_useful(s, useful, algebra)
        grew = len(varied) + len(useful) > before
    return varied & useful


def _propagate_varied(s: Statement, varied: set[str], f: Function, algebra: Algebra) -> None:
    """Propagate `varied` forward through a statement."""
    match s:
        case Swap() if {s.first, s.second} & varied:
            varied |= {s.first, s.second}
        case Call() if reads(*s.operands) & varied:
            varied |= {r for r in s.results if f.kinds[r] == "float"}
        case Assign() | Store():
            target = s.name if isinstance(s, Assign) else s.array
            if target not in varied and f.kinds.get(target, "float") == "float" and algebra.depends(s.value, varied):
                varied.add(target)


def _propagate_useful(s: Statement, useful: set[str], algebra: Algebra) -> None:
    """Propagate `useful` backward through a statement."""
    match s:
        case Swap() if {s.first, s.second} & useful:
            useful |= {s.first, s.second}
        case Call() if useful & set(s.results):
            useful |= reads(*s.operands)
        case Assign() | Store() if (s.name if isinstance(s, Assign) else s.array) in useful:
            useful |= {n for n in reads(s.value) if n not in useful and algebra.depends(s.value, {n})}


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


def reassigned_names(f: Function) -> set[str]:
    """Scalars that are assigned in several places, and arrays that are written."""
    seen: set[str] = set()
    changed: set[str] = set()
    for s in walk(f.body):
        for n in writes(s) if isinstance(s, Assign | Store | Swap | Call) else ():
            if n in seen or f.ranks.get(n) or n in f.parameters:
                changed.add(n)
            seen.add(n)
    return changed


def _define(f: Function, block: Block, k: int, name: str, value: Term, s: Statement, purpose: ScalarOrigin) -> Variable:
    name = f.names.fresh(name, plain=False)
    f.ranks[name], f.kinds[name] = 0, "bool" if purpose is ScalarOrigin.BRANCH else "int"
    block.insert(k, Assign(name, value, line=s.line, scalar_origin=purpose))
    s.line = ""
    return Variable(name)


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


def _enclose(block: Block, loops: tuple[Loop, ...], plan: Plan) -> None:
    for s in block:
        plan.enclosing[s] = loops
        for inner in nested_blocks(s):
            _enclose(inner, (*loops, s) if isinstance(s, Loop) else loops, plan)


# Definitions.

#: The statements of a block that read or write each name.
_Occurrences = dict[str, list[Statement]]


def find_definitions(f: Function, plan: Plan) -> None:
    fixed = {*f.parameters, *(f.results or []), *(s.index for s in walk(f.body) if isinstance(s, Loop)), *f.constants}
    names = union_over_nested(f.body, lambda s: {*writes(s), *uses(s)})
    touching: dict[int, _Occurrences] = {}  # by the id of the block
    for block in (f.body, *(inner for s in walk(f.body) for inner in nested_blocks(s))):
        occurrences = touching[id(block)] = {}
        for s in block:
            for name in names[s]:
                occurrences.setdefault(name, []).append(s)
    for name in sorted({s.name for s in walk(f.body) if isinstance(s, Assign)} - fixed):
        blocks: dict[Statement, Block] = {}
        if _covering_blocks(name, f.body, blocks, touching):
            plan.defined |= blocks


def _covering_blocks(
    name: str, block: Block, blocks: dict[Statement, Block], occurrences: dict[int, _Occurrences]
) -> bool:
    """Find blocks, with all occurrences of `name` in them, in which it is assigned once before its uses."""
    touching = occurrences[id(block)].get(name)
    if not touching:
        return True
    first = touching[0]
    if isinstance(first, Assign) and first.name == name and name not in reads(first.value):
        assignments = sum(name in writes(t) for s in touching for t in walk([s]))
        if assignments == 1:
            blocks[first] = block
            return True
        return False
    if any(name in writes(s) or name in uses(s) for s in touching):
        return False
    return all(_covering_blocks(name, inner, blocks, occurrences) for s in touching for inner in nested_blocks(s))


# Derivatives.


def _statement_adjoint(s: Assign | Store, plan: Plan) -> StatementAdjoint:
    name = s.name if isinstance(s, Assign) else s.array
    if name not in plan.active or not plan.algebra.depends(s.value):
        return StatementAdjoint(ZERO, [])
    target = Variable(name) if isinstance(s, Assign) else s.target
    own, parts = ZERO, []
    known = var(target) if s in plan.defined else VALUE if _never_overwritten(s, plan) else None
    for atom, part in plan.algebra.pull(s.value, COTANGENT, known):
        if atom is target:
            own = ONE if part is COTANGENT else part
        else:
            parts.append((atom, part))
    return StatementAdjoint(own, parts)


def _never_overwritten(s: Statement, plan: Plan) -> bool:
    """Whether what `s` writes is provably never overwritten."""
    if not isinstance(s, Store):
        return False
    same_element = plan.stores_by_element.get(s.target, [])  # the most likely conflicts come first
    stores = (t for t in plan.stores if t.array == s.array)
    return plan.dependence_tests.no_output_dependence(s, chain(reversed(same_element), stores))
