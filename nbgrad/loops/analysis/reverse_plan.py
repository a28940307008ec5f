"""The plan of the reverse sweep: how each value that it reads is made available again.

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

from ...ir.expr import Expr, free_variables
from ..ir.algebra import COTANGENT, VALUE, Algebra
from ..ir.statements import (
    Assign,
    Block,
    Call,
    Function,
    Loop,
    Statement,
    Store,
    Swap,
    enclosing_loops,
    nested_blocks,
    union_over_nested,
    uses,
    walk,
    writes,
)
from ..ir.terms import Element, Term, Variable, reads
from .dependence import DependenceTests
from .index_bounds import IndexBounds
from .iteration_local_reversal import IterationLocalReversal
from .private_names import PrivateNames

__all__ = ["Plan", "StatementAdjoint", "collect_facts", "is_never_overwritten", "reassigned_names"]


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
    strip_mined_loops: set[Loop] = field(default_factory=set)
    dependence_tests: DependenceTests = None  # type: ignore[assignment]  # set once the statements have been collected
    private_names: PrivateNames = None  # type: ignore[assignment]  # likewise
    local_reversal: IterationLocalReversal = None  # type: ignore[assignment]
    bounds: IndexBounds | None = None  # set on first use

    def index_checks(self, f: Function) -> IndexBounds:
        """The bounds checks, computed on first use."""
        if self.bounds is None:
            self.bounds = IndexBounds(f, self)
        return self.bounds


def collect_facts(f: Function, plan: Plan) -> None:
    """Collect enclosing loops, definitions and stores, and set up the dependence tests."""
    plan.enclosing |= enclosing_loops(f.body)
    find_definitions(f, plan)
    plan.reassigned = reassigned_names(f) - {s.name for s in plan.defined if isinstance(s, Assign)}
    plan.stores = [s for s in walk(f.body) if isinstance(s, Store)]
    plan.stores_by_element = {}
    for s in plan.stores:
        plan.stores_by_element.setdefault(s.target, []).append(s)
    plan.dependence_tests = DependenceTests(f, plan.enclosing)
    plan.private_names = PrivateNames(f, plan.dependence_tests)


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


def is_never_overwritten(s: Statement, plan: Plan) -> bool:
    """Whether what `s` writes is provably never overwritten."""
    if not isinstance(s, Store):
        return False
    same_element = plan.stores_by_element.get(s.target, [])  # the most likely conflicts come first
    stores = (t for t in plan.stores if t.array == s.array)
    return plan.dependence_tests.no_output_dependence(s, chain(reversed(same_element), stores))
