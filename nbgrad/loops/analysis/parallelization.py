"""Parallelization: run the iterations of loops over ``prange`` on several threads where that is provably correct.

No iteration may use what another one writes. Scalars must be assigned in an iteration before they are read, and not be
read after the loop; an element that an iteration writes must belong to it alone. A total of the function to which all
iterations add is a reduction: each iteration sums into a scalar of its own, and these are stored in an array and added
in the order of the iterations when all have run, so the result does not depend on the number of threads, bit for bit.
For accumulation into cotangents see :mod:`..transforms.reduction_privatization`. Where correctness cannot be proven the
loop is serial, and a comment in the generated code says why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..ir.reverse_ir import Item, Nest, Step, loop_head, steps
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
    elements_in,
    mentions,
    nested_blocks,
    parse,
    reads,
    unparse,
    walk,
)
from ..ir.tapes import iteration_number, trip_count
from .dependence import DependenceTests
from .ssa import Rename

if TYPE_CHECKING:
    from .activity import Plan

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
    privatized_arrays: dict[str, list[str]] = field(default_factory=dict)

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
    zero: str
    array: str

    @property
    def dtype(self) -> str:
        return "np.int64" if self.zero == "0" else "np.float64"


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
                last = Assign(name, ast.Name(name, ast.Load()))
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
        return ParallelLegality("a turn may raise an error")
    if any(isinstance(s, Call) for s in walk(loop.body)):
        return ParallelLegality("a primitive with a vjp of its own makes arrays")
    if plan.bounds is not None and loop in plan.bounds.loops_with_checks:
        return ParallelLegality("an index is known in its turn only")
    items = _items(loop.body, stored)
    names = {s.name for s in walk(loop.body) if isinstance(s, Assign)}
    sums = reduction_variables(items)
    for name in sorted(names - sums):
        if first_access(items, name) == "read" or not is_private(f, loop, name):
            return ParallelLegality(f"{name} goes from turn to turn")
    return iteration_legality(plan, loop, items, sums)


def iteration_legality(plan: Plan, loop: Loop, items: list[Item], sums: Iterable[str], own: Iterable[str] = (),
              shares: dict[str, list[str]] | None = None) -> ParallelLegality:  # fmt: skip
    """The same for the `items` of an iteration: checks the form of the loop and the arrays except those in `own`.

    `shares` are the arrays of which groups of iterations can have private copies, with the lengths of a copy.
    """
    if unparse(loop.step) != "1" or loop.trip_counter or loop.exit_flag:
        return ParallelLegality("its turns are not counted one by one")
    if any(isinstance(item, str) for item in _all(items)):
        return ParallelLegality("arrays change places or grow")
    met, shares = _conflicting_elements(plan.dependence_tests, loop, items, set(own)), shares or {}
    for name, element in met.items():
        if name not in shares:
            return ParallelLegality(f"{element} may be met in several turns")
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
                    items.append(Nest(f"if {s.name}:", [], s.name))  # storing it reads it
                rest = _added_term(s.value, s.name)
                items.append(Step(ast.Name(s.name), "=" if rest is None else "+=", unparse(rest or s.value)))
            case Store():
                items.append(Step(s.target, "=", unparse(s.value)))
            case If():
                test = unparse(s.test)
                items += [Nest(f"if {test}:", _items(s.body, stored), test)]
                items += [Nest("else:", _items(s.orelse, stored), test)] if s.orelse else []
            case Loop():
                head = f"while {unparse(s.test)}:" if s.test is not None else f"for {s.index} in {_range(s)}:"
                items.append(Nest(head, _items(s.body, stored)))
            case Check() | InRange():
                pass
            case _:
                items.append(type(s).__name__)
    return items


def _range(s: Loop) -> str:
    return f"range({unparse(s.start)}, {unparse(s.stop)}, {unparse(s.step)})"


def _added_term(value: ast.expr, name: str) -> ast.expr | None:
    """The sum added to a scalar in ``name + a + b``, if the scalar is read nowhere else in it."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add | ast.Sub):
        return None
    for part, other in ((value.left, value.right), (value.right, value.left)):
        if isinstance(part, ast.Name) and part.id == name and name not in reads(other):
            return other if isinstance(value.op, ast.Add) or part is value.left else None
    inner = None if name in reads(value.right) else _added_term(value.left, name)
    return None if inner is None else ast.BinOp(inner, value.op, value.right)


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
            own = isinstance(item.target, ast.Name) and item.name == name
            read = any(name in reads(n) for n in item.evaluated_nodes()) or (own and item.assign_op != "=")
            access = "read" if read else "set" if own else ""
        elif isinstance(item, Nest):
            inner = "read" if name in _header_reads(item) else first_access(item.body, name)
            access = inner if inner == "read" or (item.head == "else:" and branch == inner) else ""
            branch = inner if item.test else ""
        if access:
            return access
    return ""


def _header_reads(item: Nest) -> set[str]:
    """The names that the header of a loop or branch reads."""
    first = item.head_tree
    if isinstance(first, ast.Module) and isinstance(first.body[0], ast.For):
        return reads(first.body[0].iter)
    return reads(first.body[0].test) if isinstance(first, ast.Module) else reads(first)  # type: ignore[attr-defined]


def _occurs(s: Statement, name: str) -> bool:
    return any(mentions(t, name) for t in walk([s]))


def _all(items: list[Item]) -> Iterator[Item]:
    for item in items:
        yield item
        if isinstance(item, Nest):
            yield from _all(item.body)


def _evaluated(items: list[Item]) -> list[ast.expr | ast.AST]:
    """All expressions that are evaluated."""
    nodes: list[ast.AST] = []
    for item in _all(items):
        nodes += (
            item.evaluated_nodes() if isinstance(item, Step) else [item.head_tree] if isinstance(item, Nest) else []
        )
    return nodes


def reduction_variables(items: list[Item]) -> set[str]:
    """Scalars that are only accumulated into (reduction variables)."""
    scalar_steps = [s for s, _ in steps(items) if isinstance(s.target, ast.Name)]
    set_or_read = {s.name for s in scalar_steps if s.assign_op == "="} | reads(*_evaluated(items))
    return {s.name for s in scalar_steps} - set_or_read


def _conflicting_elements(
    independence: DependenceTests, loop: Loop, items: list[Item], own: set[str]
) -> dict[str, str]:
    """Elements that an iteration writes and another one may access, one for each array."""
    conflicts: dict[str, str] = {}
    written: dict[str, dict[str, ast.expr]] = {}
    for s, _ in steps(items):
        if isinstance(s.target, ast.Subscript) and s.name not in own:
            written.setdefault(s.name, {})[unparse(s.target.slice)] = s.target.slice
    for name, indices in written.items():
        read = {unparse(i): i for node in _evaluated(items) for i in elements_in(node, name)}  # type: ignore[arg-type]
        for a in indices.values():
            if any(independence.may_conflict(loop, a, b, True) for b in {**indices, **read}.values()):
                conflicts[name] = unparse(ast.Subscript(ast.Name(name), a, ast.Load()))
                break
    return conflicts


# Code generation.


def rename_in_items(items: list[Item], names: dict[str, str]) -> None:
    """Rename scalars in place."""

    def other(node: ast.expr) -> ast.expr:
        for old, new in names.items():
            node = Rename(old, new).visit(node)
        return node

    for item in _all(items):
        if isinstance(item, Step):
            item.target, item.value = other(item.target), unparse(other(parse(item.value)))
        elif isinstance(item, Nest) and item.test:
            item.test = unparse(other(parse(item.test)))
            item.head = item.head if item.head == "else:" else f"if {item.test}:"


def parallel_loop(loop: Loop, body: list[Item], sums: dict[str, LoopReduction], local: dict[str, str]) -> list[Item]:
    """A parallel loop with `body` as its iteration; `local`: scalars of an iteration, with their initial values."""
    begin = [Step(ast.Name(n), "=", zero) for n, zero in local.items()]
    begin += [Step(ast.Name(s.partial_sum), "=", s.zero) for s in sums.values()]
    end = [Step(parse(f"{s.array}[{iteration_number(loop)}]"), "=", s.partial_sum) for s in sums.values()]
    items: list[Item] = [f"{s.array} = np.empty({trip_count(loop)}, {s.dtype})" for s in sums.values()]
    items.append(Nest(loop_head(loop, "prange"), [*begin, *body, *end]))
    total: list[Item] = [Step(ast.Name(name), "+=", f"{s.array}[{iteration_number(loop)}]") for name, s in sums.items()]
    return [*items, Nest(loop_head(loop), total)] if sums else items
