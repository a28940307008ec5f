"""Loops over ``prange``, whose turns run on several threads where that is sure to be right.

No turn may use what another one writes. Numbers must be set in a turn before they are read, and not be read after the
loop; an element that a turn writes must belong to it. A total of the function, to which all turns add, each turn adds
up in a number of its own. These are put into an array, and added in the order of the turns when all have run: the
outcome does not depend on the number of threads, bit for bit. What turns add to cotangents is shared out
(:mod:`.shares`). Where all that cannot be shown, turns run one after the other, and a comment says why.
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
    Loop,
    Statement,
    Store,
    Within,
    below,
    elements_in,
    mentions,
    parse,
    reads,
    unparse,
    walk,
)
from ..ir.tapes import trips, turn_of
from .dependence import Independence
from .ssa import Rename

if TYPE_CHECKING:
    from .activity import Plan

__all__ = [
    "Sum",
    "Verdict",
    "ends",
    "first",
    "for_turns",
    "function_turns",
    "private",
    "renamed",
    "sums_of",
    "together",
]


@dataclass
class Verdict:
    """Why a loop is serial, if it is; or the numbers that its turns add to, and the arrays, with lengths for a part."""

    why: str = ""
    sums: list[str] = field(default_factory=list)
    shared: dict[str, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = f", with parts of {', '.join(self.shared)}" if self.shared else ""
        return f"serial: {self.why}" if self.why else f"parallel{parts}"


@dataclass
class Sum:
    """What turns add to: the name of what a turn adds up, its zero, and the array with what all turns have."""

    mine: str
    zero: str
    array: str

    @property
    def dtype(self) -> str:
        return "np.int64" if self.zero == "0" else "np.float64"


# What holds of the function.


def private(f: Function, loop: Loop, name: str) -> bool:
    """Whether each turn sets a number before it reads it, and nobody reads it after the loop."""
    return first(_items(loop.body), name) != "read" and not _read_later(f.body, loop, name) and name not in _kept(f)


def ends(f: Function, plan: Plan) -> dict[Assign, Loop]:
    """Numbers of turns whose last value the sweep back needs, each by a statement that stores it at the end of turns.

    In turn, it is the next turn that stores it, before it sets the number. If it does so at its beginning, that
    statement stores the last value instead; else there is one more."""
    found: dict[Assign, Loop] = {}
    for loop in (s for s in walk(f.body) if isinstance(s, Loop) and s.parallel):
        for name in sorted({s.name for s in walk(loop.body) if isinstance(s, Assign) and s in plan.save}):
            if not private(f, loop, name):
                continue
            last = next(s for s in loop.body if _occurs(s, name))
            if not isinstance(last, Assign) or last not in plan.save or last.name != name:
                last = Assign(name, ast.Name(name, ast.Load()))
                plan.enclosing[last] = (*plan.enclosing[loop], loop)
            found[last] = loop
    return found


def function_turns(
    f: Function, plan: Plan, loop: Loop, stored: Iterable[Statement] = (), grows: bool = False
) -> Verdict:
    """Whether the turns of a loop may run together in the function itself. `stored`: statements that store a number
    before they set it; `grows`: whether something is put on a stack."""
    if grows:
        return Verdict("what is stored for the sweep back grows")
    if any(isinstance(s, Check) for s in walk(loop.body)):
        return Verdict("a turn may raise an error")
    if any(isinstance(s, Call) for s in walk(loop.body)):
        return Verdict("a primitive with a vjp of its own makes arrays")
    if plan.bounds is not None and loop in plan.bounds.inside:
        return Verdict("an index is known in its turn only")
    items = _items(loop.body, stored)
    names = {s.name for s in walk(loop.body) if isinstance(s, Assign)}
    sums = sums_of(items)
    for name in sorted(names - sums):
        if first(items, name) == "read" or not private(f, loop, name):
            return Verdict(f"{name} goes from turn to turn")
    return for_turns(plan, loop, items, sums)


def for_turns(plan: Plan, loop: Loop, items: list[Item], sums: Iterable[str], own: Iterable[str] = (),
              shares: dict[str, list[str]] | None = None) -> Verdict:  # fmt: skip
    """The same for what a turn consists of, as far as the form of the loop and arrays go, all but its `own`; `shares`:
    arrays of which parts of the turns can have their own, with lengths."""
    if unparse(loop.step) != "1" or loop.count or loop.until:
        return Verdict("its turns are not counted one by one")
    if any(isinstance(item, str) for item in _all(items)):
        return Verdict("arrays change places or grow")
    met, shares = _meeting(plan.independence, loop, items, set(own)), shares or {}
    for name, element in met.items():
        if name not in shares:
            return Verdict(f"{element} may be met in several turns")
    return Verdict(sums=sorted(sums), shared={name: shares[name] for name in met})


def _kept(f: Function) -> set[str]:
    return {*(f.results or []), *f.parameters}


def _items(block: Block, stored: Iterable[Statement] = ()) -> list[Item]:
    """Statements of the function as those of the sweep back are written."""
    made: list[Item] = []
    for s in block:
        match s:
            case Assign():
                if s in stored:
                    made.append(Nest(f"if {s.name}:", [], s.name))  # it is read
                rest = _rest(s.value, s.name)
                made.append(Step(ast.Name(s.name), "=" if rest is None else "+=", unparse(rest or s.value)))
            case Store():
                made.append(Step(s.target, "=", unparse(s.value)))
            case If():
                test = unparse(s.test)
                made += [Nest(f"if {test}:", _items(s.body, stored), test)]
                made += [Nest("else:", _items(s.orelse, stored), test)] if s.orelse else []
            case Loop():
                head = f"while {unparse(s.test)}:" if s.test is not None else f"for {s.index} in {_range(s)}:"
                made.append(Nest(head, _items(s.body, stored)))
            case Check() | Within():
                pass
            case _:
                made.append(type(s).__name__)
    return made


def _range(s: Loop) -> str:
    return f"range({unparse(s.start)}, {unparse(s.stop)}, {unparse(s.step)})"


def _rest(value: ast.expr, name: str) -> ast.expr | None:
    """What is added to a number in ``name + a + b``, where it is read nowhere else."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add | ast.Sub):
        return None
    for part, other in ((value.left, value.right), (value.right, value.left)):
        if isinstance(part, ast.Name) and part.id == name and name not in reads(other):
            return other if isinstance(value.op, ast.Add) or part is value.left else None
    inner = None if name in reads(value.right) else _rest(value.left, name)
    return None if inner is None else ast.BinOp(inner, value.op, value.right)


def _read_later(block: Block, loop: Loop, name: str) -> bool | None:
    """Whether a number is read after a loop before it is set; None if `loop` is not in `block`, or nothing is said."""
    for k, s in enumerate(block):
        if s is loop:
            found = ""
        else:
            inside = [(inner, _read_later(inner, loop, name)) for inner in below(s) if loop in walk(inner)]
            if not inside:
                continue
            ((inner, read),) = inside
            if read is not None:
                return read
            found = first(_items(inner), name) if isinstance(s, Loop) else ""
        if found != "read":
            found = first(_items(block[k + 1 :]), name)
        return True if found == "read" else False if found == "set" else None
    return None


def first(items: list[Item], name: str) -> str:
    """Whether a number is first "read" or "set", on any way through `items`; "" if neither is sure."""
    branch = ""
    for item in items:
        found = ""
        if isinstance(item, Step):
            own = isinstance(item.target, ast.Name) and item.name == name
            read = any(name in reads(n) for n in item.read()) or (own and item.how != "=")
            found = "read" if read else "set" if own else ""
        elif isinstance(item, Nest):
            inner = "read" if name in _controls(item) else first(item.body, name)
            found = inner if inner == "read" or (item.head == "else:" and branch == inner) else ""
            branch = inner if item.test else ""
        if found:
            return found
    return ""


def _controls(item: Nest) -> set[str]:
    """The names that the first line of a loop or branch reads."""
    first = item.first
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
    made: list[ast.AST] = []
    for item in _all(items):
        made += item.read() if isinstance(item, Step) else [item.first] if isinstance(item, Nest) else []
    return made


def sums_of(items: list[Item]) -> set[str]:
    """The numbers that are only added to."""
    numbers = [s for s, _ in steps(items) if isinstance(s.target, ast.Name)]
    set_or_read = {s.name for s in numbers if s.how == "="} | reads(*_evaluated(items))
    return {s.name for s in numbers} - set_or_read


def _meeting(independence: Independence, loop: Loop, items: list[Item], own: set[str]) -> dict[str, str]:
    """Elements that one turn writes and that may be another's, one of each array."""
    found: dict[str, str] = {}
    written: dict[str, dict[str, ast.expr]] = {}
    for s, _ in steps(items):
        if isinstance(s.target, ast.Subscript) and s.name not in own:
            written.setdefault(s.name, {})[unparse(s.target.slice)] = s.target.slice
    for name, indices in written.items():
        read = {unparse(i): i for node in _evaluated(items) for i in elements_in(node, name)}  # type: ignore[arg-type]
        for a in indices.values():
            if any(independence.meet(loop, a, b, True) for b in {**indices, **read}.values()):
                found[name] = unparse(ast.Subscript(ast.Name(name), a, ast.Load()))
                break
    return found


# How it is written.


def renamed(items: list[Item], names: dict[str, str]) -> None:
    """Give numbers other names."""

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


def together(loop: Loop, body: list[Item], sums: dict[str, Sum], local: dict[str, str]) -> list[Item]:
    """A parallel loop whose turns consist of `body`; `local`: numbers of a turn, with what they begin with."""
    begin = [Step(ast.Name(n), "=", zero) for n, zero in local.items()]
    begin += [Step(ast.Name(s.mine), "=", s.zero) for s in sums.values()]
    end = [Step(parse(f"{s.array}[{turn_of(loop)}]"), "=", s.mine) for s in sums.values()]
    made: list[Item] = [f"{s.array} = np.empty({trips(loop)}, {s.dtype})" for s in sums.values()]
    made.append(Nest(loop_head(loop, "prange"), [*begin, *body, *end]))
    total: list[Item] = [Step(ast.Name(name), "+=", f"{s.array}[{turn_of(loop)}]") for name, s in sums.items()]
    return [*made, Nest(loop_head(loop), total)] if sums else made
