"""Parallelization: run the iterations of loops over ``prange`` on several threads where that is provably correct.

No iteration may use what another one writes. Scalars must be assigned in an iteration before they are read, and not be
read after the loop; an element that an iteration writes must belong to it alone. A total of the function to which all
iterations add is a reduction: each iteration sums into a scalar of its own, and these are stored in an array and added
in the order of the iterations when all have run, so the result does not depend on the number of threads, bit for bit.
For accumulation into cotangents see :mod:`..transforms.reduction_privatization`. Where correctness cannot be proven the
loop is serial, and a comment in the generated code says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..ir.effects import Bind
from ..ir.names import called
from ..ir.reverse_ir import Branch, For, Item, Nest, Opaque, Step, loop_head, replace_by_scalars, steps, walk_items
from ..ir.statements import (
    Assign,
    Block,
    Call,
    Check,
    Function,
    If,
    InRange,
    Loop,
    Statement,
    Store,
    mentions,
    nested_blocks,
    walk,
)
from ..ir.tapes import iteration_number, trip_count
from ..ir.terms import ONE, ZERO, Binary, Element, Term, Variable, elements_in, reads, substitute
from ..ir.type_inference import DTYPES
from .dependence import DependenceTests, Index

if TYPE_CHECKING:
    from .reverse_plan import Plan

__all__ = [
    "LoopReduction",
    "ParallelLegality",
    "final_value_stores",
    "first_access",
    "forward_legality",
    "is_private",
    "iteration_legality",
    "parallel_loop",
    "reduction_variables",
    "rename_in_items",
]


@dataclass
class ParallelLegality:
    """Whether the iterations of a loop may run in parallel.

    `serial_reason` is the reason if they may not; otherwise `reduction_names` are its reduction variables, and
    `privatized_arrays` the arrays that need private copies, with the lengths of a copy.
    """

    serial_reason: str = ""
    reduction_names: list[str] = field(default_factory=list)
    privatized_arrays: dict[str, list[Term]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = f", with parts of {', '.join(self.privatized_arrays)}" if self.privatized_arrays else ""
        return f"serial: {self.serial_reason}" if self.serial_reason else f"parallel{parts}"


@dataclass
class LoopReduction:
    """A reduction over the iterations of a loop.

    `partial_sum` is the scalar that an iteration sums into, `zero` its initial value, `array` holds the sums of all
    iterations.
    """

    partial_sum: str
    zero: Term
    array: str

    @property
    def dtype(self) -> Term:
        return DTYPES["int" if self.zero is ZERO else "float"]


# Legality.


def is_private(f: Function, loop: Loop, name: str) -> bool:
    """Whether each iteration assigns a scalar before it reads it, and nothing reads it after the loop."""
    return (
        first_access(_items(loop.body), name) != "read"
        and not _read_later(f.body, loop, name)
        and name not in _live_outside(f)
    )


def final_value_stores(f: Function, plan: Plan) -> dict[Assign, Loop]:
    """Scalars private to an iteration whose last value the reverse sweep needs, by the statement that stores it.

    In serial order the next iteration stores that value before it assigns the scalar. If an iteration begins with that
    assignment, the statement stores the last value instead, at the end of the iteration; otherwise one is added.
    """
    stores: dict[Assign, Loop] = {}
    for loop in (s for s in walk(f.body) if isinstance(s, Loop) and s.parallel):
        for name in sorted({s.name for s in walk(loop.body) if isinstance(s, Assign) and s in plan.saved_overwrites}):
            if not is_private(f, loop, name):
                continue
            last = next(s for s in loop.body if _occurs(s, name))
            if not isinstance(last, Assign) or last not in plan.saved_overwrites or last.name != name:
                last = Assign(name, Variable(name))
                plan.enclosing[last] = (*plan.enclosing[loop], loop)
            stores[last] = loop
    return stores


def forward_legality(
    f: Function, plan: Plan, loop: Loop, stored: Iterable[Statement] = (), grows: bool = False
) -> ParallelLegality:
    """Whether the iterations of a loop of the function itself may run in parallel.

    `stored` are the statements that store a scalar before they assign it; `grows` says that the loop pushes onto a
    stack.
    """
    if grows:
        return ParallelLegality("what is stored for the sweep back grows")
    if any(isinstance(s, Check) for s in walk(loop.body)):
        return ParallelLegality("an iteration may raise an error")
    if any(isinstance(s, Call) for s in walk(loop.body)):
        return ParallelLegality("a primitive with a vjp of its own makes arrays")
    if plan.bounds is not None and loop in plan.bounds.loops_with_checks:
        return ParallelLegality("an index is known in its iteration only")
    items = _items(loop.body, stored)
    names = {s.name for s in walk(loop.body) if isinstance(s, Assign)}
    sums = reduction_variables(items)
    for name in sorted(names - sums):
        if first_access(items, name) == "read" or not is_private(f, loop, name):
            return ParallelLegality(f"{name} is carried from iteration to iteration")
    return iteration_legality(plan, loop, items, sums)


def iteration_legality(plan: Plan, loop: Loop, items: list[Item], sums: Iterable[str], own: Iterable[str] = (),
              shares: dict[str, list[Term]] | None = None) -> ParallelLegality:  # fmt: skip
    """The same for the `items` of an iteration: checks the form of the loop and the arrays except those in `own`.

    `shares` are the arrays of which groups of iterations can have private copies, with the lengths of a copy.
    """
    if loop.step is not ONE or loop.trip_counter or loop.exit_flag:
        return ParallelLegality("its iterations are not counted one by one")
    if any(isinstance(item, Opaque) for item in walk_items(items)):
        return ParallelLegality("arrays change places or grow")
    met, shares = _conflicting_elements(plan.dependence_tests, loop, items, set(own)), shares or {}
    for name, element in met.items():
        if name not in shares:
            return ParallelLegality(f"{element} may be met in several iterations")
    return ParallelLegality(reduction_names=sorted(sums), privatized_arrays={name: shares[name] for name in met})


def _live_outside(f: Function) -> set[str]:
    return {*(f.results or []), *f.parameters}


def _items(block: Block, stored: Iterable[Statement] = ()) -> list[Item]:
    """Statements of the function in the form of the reverse sweep's."""
    items: list[Item] = []
    for s in block:
        match s:
            case Assign():
                if s in stored:
                    items.append(Branch(Variable(s.name)))  # storing it reads it
                rest = _added_term(s.value, s.name)
                items.append(Step(Variable(s.name), "=" if rest is None else "+=", s.value if rest is None else rest))
            case Store():
                items.append(Step(s.target, "=", s.value))
            case If():
                items += [Branch(s.test, body=_items(s.body, stored))]
                items += [Branch(s.test, otherwise=True, body=_items(s.orelse, stored))] if s.orelse else []
            case Loop():
                items.append(loop_head(s).with_body(_items(s.body, stored)))
            case Check() | InRange():
                pass
            case _:
                items.append(s)
    return items


def _added_term(value: Term, name: str) -> Term | None:
    """The sum added to a scalar in ``name + a + b``, if the scalar is read nowhere else in it."""
    match value:
        case Binary("+" | "-", Variable(own), rest) if own == name and name not in rest.reads:
            return rest
        case Binary("+", rest, Variable(own)) if own == name and name not in rest.reads:
            return rest
        case Binary("+" | "-" as op, left, right) if name not in right.reads:
            inner = _added_term(left, name)
            return None if inner is None else Binary(op, inner, right)
    return None


def _read_later(block: Block, loop: Loop, name: str) -> bool | None:
    """Whether a scalar is read after a loop before it is assigned.

    None if `loop` is not in `block`, or if the block does not decide it.
    """
    for k, s in enumerate(block):
        if s is loop:
            access = ""
        else:
            inside = [(inner, _read_later(inner, loop, name)) for inner in nested_blocks(s) if loop in walk(inner)]
            if not inside:
                continue
            ((inner, read),) = inside
            if read is not None:
                return read
            access = first_access(_items(inner), name) if isinstance(s, Loop) else ""
        if access != "read":
            access = first_access(_items(block[k + 1 :]), name)
        return True if access == "read" else False if access == "set" else None
    return None


def first_access(items: list[Item], name: str) -> str:
    """The first access to a scalar in `items`: "read", "set", or "" if there may be none.

    It is "read" if that holds on any path, and "set" if it holds on all.
    """
    branch = ""
    for item in items:
        access = ""
        if isinstance(item, Step):
            own = isinstance(item.target, Variable) and item.name == name
            read = name in reads(*item.evaluated()) or (own and item.assign_op != "=")
            access = "read" if read else "set" if own else ""
        elif isinstance(item, Nest):
            inner = "read" if name in _header_reads(item) else first_access(item.body, name)
            otherwise = isinstance(item, Branch) and item.otherwise
            access = inner if inner == "read" or (otherwise and branch == inner) else ""
            branch = inner if isinstance(item, Branch) else ""
        if access:
            return access
    return ""


def _header_reads(item: Nest) -> set[str]:
    """The names that the header of a loop or branch reads."""
    return reads(*(item.bounds if isinstance(item, For) else item.terms))


def _occurs(s: Statement, name: str) -> bool:
    return any(mentions(t, name) for t in walk([s]))


def _evaluated(items: list[Item]) -> list[Term]:
    """All terms that are evaluated."""
    terms: list[Term] = []
    for item in walk_items(items):
        terms += item.evaluated() if isinstance(item, Step) else item.terms if isinstance(item, Nest) else ()
    return terms


def reduction_variables(items: list[Item]) -> set[str]:
    """Scalars that are only accumulated into (reduction variables)."""
    scalar_steps = [s for s, _ in steps(items) if isinstance(s.target, Variable)]
    set_or_read = {s.name for s in scalar_steps if s.assign_op == "="} | reads(*_evaluated(items))
    return {s.name for s in scalar_steps} - set_or_read


def _conflicting_elements(
    independence: DependenceTests, loop: Loop, items: list[Item], own: set[str]
) -> dict[str, str]:
    """Elements that an iteration writes and another one may access, one for each array."""
    conflicts: dict[str, str] = {}
    written: dict[str, dict[Index, None]] = {}  # in order
    for s, _ in steps(items):
        if isinstance(s.target, Element) and s.name not in own:
            written.setdefault(s.name, {})[s.target.index] = None
    evaluated = _evaluated(items)
    for name, indices in written.items():
        others = dict.fromkeys([*indices, *(index for t in evaluated for index in elements_in(t, name))])
        for a in indices:
            if any(independence.may_conflict(loop, a, b, True) for b in others):
                conflicts[name] = str(Element(name, a))
                break
    return conflicts


# Code generation.


def rename_in_items(items: list[Item], names: dict[str, str]) -> None:
    """Rename scalars in place."""
    scalars: dict[Term, Term] = {Variable(old): Variable(new) for old, new in names.items()}
    for item in walk_items(items):
        if isinstance(item, Step):
            replace_by_scalars(item, scalars)
        elif isinstance(item, Branch):
            item.test = substitute(item.test, scalars)


def parallel_loop(loop: Loop, body: list[Item], sums: dict[str, LoopReduction], local: dict[str, Term]) -> list[Item]:
    """A parallel loop with `body` as its iteration; `local`: scalars of an iteration, with their initial values."""
    number = (iteration_number(loop),)
    begin = [Step(Variable(n), "=", zero) for n, zero in local.items()]
    begin += [Step(Variable(s.partial_sum), "=", s.zero) for s in sums.values()]
    end = [Step(Element(s.array, number), "=", Variable(s.partial_sum)) for s in sums.values()]
    items: list[Item] = [Bind((s.array,), called(np.empty, trip_count(loop), s.dtype)) for s in sums.values()]
    items.append(loop_head(loop, parallel=True).with_body([*begin, *body, *end]))
    total: list[Item] = [Step(Variable(name), "+=", Element(s.array, number)) for name, s in sums.items()]
    return [*items, loop_head(loop).with_body(total)] if sums else items
