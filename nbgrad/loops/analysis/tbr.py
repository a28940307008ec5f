"""TBR (to-be-recorded) analysis: recompute, store or restore each value that a derivative reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..ir.affine import offset, plus
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
    walk,
    writes,
)
from ..ir.tapes import pushes_per_iteration
from ..ir.terms import Call as CallTerm
from ..ir.terms import Element, Global, Term, Variable, elements_in, reads
from .cost_model import is_expensive
from .dependence import DependenceTests

if TYPE_CHECKING:
    from .reverse_plan import Plan

__all__ = [
    "adjoint_element_reads",
    "adjoint_reads",
    "cheaper_to_store",
    "choose_storage",
    "has_reverse_work",
    "saves_before_loops",
]


#: Any index: nothing can be proven about it.
_ANYWHERE = CallTerm(Global("any", any), ())


def adjoint_reads(s: Statement, plan: Plan) -> set[str]:
    """The names whose values the adjoint of `s` reads."""
    if isinstance(s, Assign | Store):
        names = plan.statement_adjoints[s].reads
        return names | reads(*s.index) if isinstance(s, Store) and s.array in plan.active else names
    if isinstance(s, Call):
        if not plan.active & set(s.results):
            return set()
        if s.value_name:
            return {*reads(*s.operands), *s.results}
        return {
            n for n in reads(*s.operands) if not plan.dependence_tests.f.ranks.get(n)
        }  # it retains its arrays itself
    if isinstance(s, If):
        return reads(s.test) if has_reverse_work(s, plan) else set()
    if isinstance(s, Loop):
        names = set(s.values_before_loop.values())
        if not has_reverse_work(s, plan):
            return names
        names |= reads(s.start, s.step, *([] if s.trip_counter else [s.stop])) if s.index else set()
        return names | {s.trip_counter} if s.trip_counter else names
    return set()


def adjoint_element_reads(s: Statement, array: str, plan: Plan) -> list[tuple[Term, ...]]:
    """The indices at which the adjoint of `s` reads `array`."""
    terms: list[Term] = []
    match s:
        case Assign() | Store():
            pull = plan.statement_adjoints[s]
            terms += [*pull.nodes, *(t for index in pull.indices for t in index)]
            terms += [s.value] if s in plan.recomputed_definitions else []
            terms += s.index if isinstance(s, Store) else ()
        case If():
            terms = [s.test]
        case Loop():
            terms = [s.start, s.stop, s.step]
        case Call() if array in adjoint_reads(s, plan):
            return [(_ANYWHERE,) * plan.dependence_tests.f.ranks[array]]
    return [index for t in terms for index in elements_in(t, array)]


def has_reverse_work(s: Statement, plan: Plan) -> bool:
    """Whether the blocks of `s` contain anything that the reverse sweep acts on."""
    return any(
        isinstance(t, Swap | Call)
        or t in plan.saved_overwrites
        or (isinstance(t, Assign | Store) and (writes(t)[0] in plan.active))
        for inner in nested_blocks(s)
        for t in walk(inner)
    )


def choose_storage(f: Function, plan: Plan) -> None:
    """Decide for each value that a derivative reads: recompute, store or restore.

    Scalars computed from array elements that would have to be saved are stored instead if that takes no more memory:
    nothing is then restored or recomputed for them.
    """
    plan.inverse_increments = {
        s: back for s in walk(f.body) if isinstance(s, Assign) and (back := _inverse_increment(f, s, plan))
    }
    _fixed_point(f, plan, set())
    saved = f.moved_with({s.array for s in plan.saved_overwrites if isinstance(s, Store)})
    costly: dict[Statement, set[str]] = {
        s: found for s in plan.recomputed_definitions if isinstance(s, Assign) and (found := reads(s.value) & saved)
    }
    if costly and not _store_if_smaller(f, plan, set(costly)):
        stored = set[Statement]()
        arrays = sorted(set().union(*costly.values()))
        for array in arrays if len(arrays) > 1 else ():
            more = {s for s, found in costly.items() if array in found}
            if _store_if_smaller(f, plan, stored | more):
                stored |= more
    plan.scalar_copies = _scalar_copies_of(plan)
    plan.restored = {writes(s)[0] for s in plan.saved_overwrites}
    plan.restored |= {n for s in walk(f.body) if isinstance(s, Loop) for n in s.values_before_loop}
    plan.restored |= {n for s in walk(f.body) if isinstance(s, Call) and plan.enclosing[s] and not s.value_name
                      for n in writes(s)}  # fmt: skip


def _store_if_smaller(f: Function, plan: Plan, stored: set[Statement]) -> bool:
    """Store these definitions if that takes no more memory than the plan does; whether it was changed."""
    before, size = (plan.saved_overwrites, plan.stored_definitions, plan.recomputed_definitions), _stored_values(plan)
    plan.saved_overwrites, plan.stored_definitions, plan.recomputed_definitions = set(), set(), set()
    _fixed_point(f, plan, stored)
    if _stored_values(plan) <= size:
        return True
    plan.saved_overwrites, plan.stored_definitions, plan.recomputed_definitions = before
    return False


def _inverse_increment(f: Function, s: Assign, plan: Plan) -> Term | None:
    """The expression that inverts a constant increment of an integer; None for other statements."""
    if f.kinds.get(s.name) != "int" or any(loop.parallel for loop in plan.enclosing[s]):
        return None
    base, step = offset(s.value)
    return plus(base, -step) if base is Variable(s.name) and step else None


def saves_before_loops(f: Function, plan: Plan) -> list[tuple[Loop, set[str]]]:
    """Loops with scalars that would be saved in each iteration though no derivative in the loop reads them.

    Saving them once before the loop is enough.
    """
    loops = []
    for loop in walk(f.body):
        if not isinstance(loop, Loop) or loop in plan.local_reversal.loops:
            continue
        inside = list(walk([loop]))
        saved = {s.name for s in inside if isinstance(s, Assign) and s in plan.saved_overwrites} - set(
            loop.values_before_loop
        )
        if saved and (names := saved - _reverse_sweep_reads(inside, plan)):
            loops.append((loop, names))
    return loops


def _reverse_sweep_reads(statements: Iterable[Statement], plan: Plan) -> set[str]:
    """The names that the reverse sweep through `statements` reads."""
    names: set[str] = set()
    for s in statements:
        names |= adjoint_reads(s, plan)
        if isinstance(s, Store) and s in plan.saved_overwrites:
            names |= reads(*s.index)
        if isinstance(s, Assign) and s in plan.recomputed_definitions:
            names |= reads(s.value)
    return names


def _stored_values(plan: Plan) -> int:
    """The number of values stored if each loop has 1000 iterations."""
    return sum(
        1000 ** len(plan.enclosing[s])
        for s in (
            *plan.saved_overwrites - _scalar_copies_of(plan).keys() - plan.inverse_increments.keys(),
            *plan.stored_definitions,
        )
    )


def _fixed_point(f: Function, plan: Plan, stored: set[Statement]) -> None:
    """Iterate to a fixed point.

    Restoring a saved value needs the loops and tests around it, whose own values may have to be saved in turn.
    """
    blocks_around = dict(_blocks_around(f.body, ()))
    while True:
        before = len(plan.saved_overwrites), len(plan.stored_definitions), len(plan.recomputed_definitions)
        _definitions_needed(f, plan, blocks_around, stored)
        required: dict[str, dict] = {}
        _record_required(f.body, required, plan, plan.dependence_tests)
        if before == (len(plan.saved_overwrites), len(plan.stored_definitions), len(plan.recomputed_definitions)):
            break


def _blocks_around(block: Block, around: tuple[int, ...]) -> Iterator[tuple[Statement, tuple[int, ...]]]:
    """The identities of the blocks around each statement."""
    around = (*around, id(block))
    for s in block:
        yield s, around
        for inner in nested_blocks(s):
            yield from _blocks_around(inner, around)


def _definitions_needed(
    f: Function, plan: Plan, blocks_around: dict[Statement, tuple[int, ...]], stored: set[Statement]
) -> None:
    """Choose recomputing or storing for the definitions that are read in their blocks; those in `stored` are stored."""
    needed: dict[int, set[str]] = {}

    def read(s: Statement, names: set[str]) -> None:
        for block in blocks_around[s]:
            needed.setdefault(block, set()).update(names)

    for s in blocks_around:
        read(s, _reverse_sweep_reads([s], plan))
    grew = True
    while grew:
        grew = False
        for s, block in reversed(plan.defined.items()):
            assert isinstance(s, Assign)
            if (
                s.name not in needed[id(block)]
                or s in plan.stored_definitions
                or s in plan.recomputed_definitions
                or plan.local_reversal.keeps_value(s, block)
            ):
                continue
            grew = True
            if (
                s not in stored
                and not cheaper_to_store(s, f, plan)
                and _operands_unchanged(s, block, plan, plan.dependence_tests)
            ):
                plan.recomputed_definitions.add(s)
                read(s, reads(s.value))
            else:
                plan.stored_definitions.add(s)


def cheaper_to_store(s: Statement, f: Function, plan: Plan) -> bool:
    """Whether to store a scalar rather than recompute it: it is expensive, and its tape does not grow one by one."""
    if not isinstance(s, Assign) or not is_expensive(s.value):
        return False
    loops = plan.local_reversal.without_local_reversal(plan.enclosing[s])
    return bool(loops) and not pushes_per_iteration(loops)


def _operands_unchanged(s: Assign, block: Block, plan: Plan, independence: DependenceTests) -> bool:
    """Whether everything that `s` reads has the same value at the end of `block`."""
    read = reads(s.value)
    if s.scalar_origin is ScalarOrigin.BRANCH and (independence.f.single_precision or read & plan.reassigned):
        return False  # storing the Boolean takes less memory than storing its operands
    after = block[block.index(s) + 1 :]
    for t in walk(after):
        hit = read & set(writes(t))
        if not hit or (
            t in plan.deferred_updates and t in block
        ):  # loop-carried updates end the block and are reversed first
            continue
        if not isinstance(t, Store) or not independence.provably_distinct(t, s, elements_in(s.value, t.array)):
            return False
    return True


def _record_required(block: Block, required: dict[str, dict], plan: Plan, independence: DependenceTests) -> None:
    """Walk forward through `block` and record which statements' adjoints read each name; overwriting it needs a save.

    For an array, the statements that read it are recorded in order, so that the elements they read can be compared.
    """

    def need(names: set[str], s: Statement) -> None:
        for n in names:
            required.setdefault(n, {})[s] = None

    for s in block:
        match s:
            case Assign():
                need(adjoint_reads(s, plan), s)
                if s in plan.recomputed_definitions:
                    need(reads(s.value), s)
                if s not in plan.defined and required.pop(s.name, {}):
                    plan.saved_overwrites.add(s)
                    need({s.name} if s in plan.inverse_increments else set(), s)
            case Store():
                need(adjoint_reads(s, plan), s)
                if s in plan.saved_overwrites:
                    need(reads(*s.index), s)
                readers = set(required.get(s.array, ()))
                if readers and (nest := independence.nest_that_overwrites_first(s)) is not None:
                    readers &= set(walk([nest]))  # it has saved what others need
                if any(
                    not independence.no_anti_dependence(s, r, adjoint_element_reads(r, s.array, plan)) for r in readers
                ):
                    plan.saved_overwrites.add(s)
            case Call():
                need(adjoint_reads(s, plan), s)
            case Swap():
                a, b = required.pop(s.first, {}), required.pop(s.second, {})
                if b:
                    required[s.first] = b
                if a:
                    required[s.second] = a
            case If():
                need(adjoint_reads(s, plan), s)
                other = {k: dict(v) for k, v in required.items()}
                _record_required(s.body, required, plan, independence)
                _record_required(s.orelse, other, plan, independence)
                _merge_required(required, other)
            case Loop() if s in plan.local_reversal.loops:  # reversed at once: later statements need no saves for it
                _record_required(s.body, {k: dict(v) for k, v in required.items()}, plan, independence)
            case Loop():
                for n in s.values_before_loop:
                    required.pop(n, None)
                overwritten = {t.array for t, nest in independence.overwriting_nests.items() if nest is s}
                before = {n: set(required[n]) for n in required.keys() & overwritten}
                while True:
                    start = {k: dict(v) for k, v in required.items()}
                    _record_required(s.body, required, plan, independence)
                    _merge_required(required, start)
                    if {k: len(v) for k, v in start.items()} == {k: len(v) for k, v in required.items()}:
                        break
                for n, outside in before.items():  # the nest has saved what these need
                    for r in outside.difference(walk([s])):
                        del required[n][r]
                need(adjoint_reads(s, plan), s)


def _merge_required(required: dict[str, dict], other: dict[str, dict]) -> None:
    for name, statements in other.items():
        required.setdefault(name, {}).update(statements)


def _scalar_copies_of(plan: Plan) -> dict[Statement, str]:
    """Statements that overwrite an element which a stored scalar holds, and that scalar.

    The scalar is stored anyway, so the element need not be saved.
    """
    overwrites: dict[Statement, str] = {}
    for s, block in plan.defined.items():
        if s in plan.stored_definitions and isinstance(s, Assign) and isinstance(s.value, Element):
            _find_overwrites(s, s.value, block[block.index(s) + 1 :], plan, overwrites)
    return overwrites


def _find_overwrites(s: Assign, element: Element, block: Block, plan: Plan, overwrites: dict[Statement, str]) -> bool:
    """Find the first overwrites of the element that `s` reads.

    Returns whether `block` provably leaves the element and its index unchanged.
    """
    array, index = element.array, element.index
    for t in block:
        if isinstance(t, If):
            if not all([_find_overwrites(s, element, inner, plan, overwrites) for inner in nested_blocks(t)]):
                return False
        elif isinstance(t, Store) and t.array == array and array not in reads(*index):
            if t.index == index:
                overwrites[t] = s.name
                return False
            if not plan.dependence_tests.provably_distinct(t, s, [index]):
                return False
        elif {n for u in walk([t]) for n in writes(u)} & element.reads:
            return False
    return True
