"""What is known of an index where it is used: linear inequalities, which may leave it nowhere but in range."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from ..ir.affine import length, offset
from ..ir.linear_inequalities import Form, compared, impossible, less, linear
from ..ir.statements import Alloc, Assign, If, Loop, Statement, reads, unparse, walk, writes
from ..ir.type_inference import kind_of
from .accesses import Access, Accesses, Test, length_of

if TYPE_CHECKING:
    from ..ir.statements import Function
    from .activity import Plan

__all__ = ["Facts", "choices", "stops"]


class Facts(Accesses):
    """Answers for the indices of a function."""

    def __init__(self, f: Function, plan: Plan) -> None:
        super().__init__(f, plan)
        self.made_of: dict[str, ast.expr] = {}  # what symbols of linear forms stand for
        self.branches_write: dict[Statement | None, set[str]] = {}
        self.met = set(self.checks)  # the tests that have been made, and raised no error

    # What is certain.

    def _carried(self, a: Access) -> bool:
        """Whether an index may be another one at the next statement of a block."""
        around = [p for p in a.path if isinstance(p, Loop)]
        if not around:
            return True
        own = {p.index for p in around if p.index}
        return any(self.written[around[-1]][n] > (n in own) for n in reads(a.index, a.size))

    def _proven(self, a: Access) -> bool:
        """Note which ends of an index are in range; whether both are."""
        x, size = self._form(a.index), self._form(a.size)
        if x is None or size is None:
            return False
        constant = x.get("", 0) if set(x) <= {""} else None
        if constant is not None:
            a.low, a.high = constant < 0, constant >= 0
        facts = self._about({*x, *size}, self._facts(a))
        facts += self._told_of({n for form in (*facts, x, size) for n in form}, facts)
        if a.low:
            a.low = not (impossible([*facts, less(x, {}, 1)]) or impossible([*facts, less(less(size, {}), x, 1)]))
        if a.high:
            a.high = not impossible([*facts, less(size, x)])
        return not (a.low or a.high)

    def _about(self, names: set[str], forms: list[Form]) -> list[Form]:
        """The inequalities that have to do with `names`, by what they have in common."""
        found: list[Form] = []
        rest, new = forms, {""}
        while new:
            names = names - {""}
            for name in names & self.made_of.keys():
                atoms = [
                    n for n in ast.walk(self.made_of[name]) if isinstance(n, ast.Name | ast.Attribute | ast.Subscript)
                ]
                names = names | {s for n in atoms if (s := self._symbol(n))}
            near = [form for form in rest if names & form.keys()]
            rest = [form for form in rest if not names & form.keys()]
            new = {n for form in near for n in form} - names - {""}
            names, found = names | new, found + near
        return found

    def _facts(self, a: Access) -> list[Form]:
        forms: list[Form] = [*self.sizes]
        for p in a.path:
            if isinstance(p, Test):
                if not (reads(p.node) | self._sized(p.node)) & self._written_in(p.at):
                    forms += self._told(p.node, p.holds, self._form)
                continue
            step = offset(p.step) if p.index else ("", 0)
            if not p.index or step[0] or not step[1] or self.written[p][p.index] > 1:
                continue
            if self._sized(p.start, p.stop) & set(self.written[p]):
                continue
            here, up = {p.index: 1}, step[1] > 0
            start, ends = self._form(p.start), [self._form(n) for n in stops(p)]
            if start is not None:
                forms.append(less(start, here) if up else less(here, start))
            forms += [less(here, stop, 1) if up else less(stop, here, 1) for stop in ends if stop is not None]
        for s in self.checks:
            if (
                any(self.blocks[s][-1] is b for b in self.blocks[a.statement])
                and s in self.met
                and not (reads(s.test) & self.plan.independence.varying or self._sized(s.test))
            ):
                forms += self._told(s.test, False, self._form)
        return forms + self._defined({n for form in forms for n in form} | reads(a.index, a.size), a)

    def _written_in(self, s: Statement | None) -> set[str]:
        """The names that the branches of a statement write."""
        if s not in self.branches_write:
            self.branches_write[s] = {n for t in walk([s]) for n in writes(t)} if isinstance(s, If) else set()
        return self.branches_write[s]

    def _defined(self, names: set[str], a: Access) -> list[Form]:
        """What numbers that are set once per turn are made of."""
        forms: list[Form] = []
        done: set[str] = set()
        while names - done:
            name = min(names - done)
            done.add(name)
            found = self._definition(name, a.statement)
            if found is None or kind_of(found.value, self.f) != "int":
                continue
            around = [p for p in a.path if isinstance(p, Loop)]
            read = reads(found.value)
            fixed = {n for n in read if all(
                not self.written[p][n] or (p.index == n and self.written[p][n] == 1 and p in self.enclosing[found])
                or self._definition(n, a.statement) is not None for p in around[:1])}  # fmt: skip
            value = self._form(found.value)
            if fixed == read and value is not None and (around or not read & self.plan.independence.varying):
                forms += [less(value, {name: 1}), less({name: 1}, value)]
                names |= read
        return forms

    def _definition(self, name: str, s: Statement) -> Assign | None:
        """The statement that sets `name`, once in each turn, before `s`."""
        found = [d for d in self.definitions.get(name, ()) if any(self.plan.defined[d] is b for b in self.blocks[s])]
        return found[0] if len(found) == 1 and found[0] is not s else None

    @cached_property
    def sizes(self) -> list[Form]:
        least = [
            less(form, {length_of(s.name, k): 1})
            for s in self.f.body if isinstance(s, Alloc)
            for k, n in enumerate(s.shape)
            for m in choices(n, "max")
            if not reads(m) & self.plan.independence.varying and (form := self._form(m)) is not None
        ]  # fmt: skip
        positive = [{length_of(n, k): 1} for n, rank in self.f.ranks.items() for k in range(rank)]
        return [*least, *self.plan.independence.sizes, *positive]

    def _form(self, node: ast.expr) -> Form | None:
        """An index or bound, of names as they are at the moment."""
        return linear(node, self._symbol)

    def _symbol(self, node: ast.expr) -> str | None:
        match node:
            case ast.Name():
                return node.id
            case ast.Attribute(value=ast.Name(id=name), attr="size") if self.f.ranks.get(name) == 1:
                return length_of(name, 0)
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                return length_of(name, 0)
            case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_]) | ast.BinOp(op=ast.FloorDiv() | ast.Mod()):
                text = f"({unparse(node)})"
                self.made_of[text] = node
                return text
            case ast.Subscript(value=ast.Name(id=name)) if name in self.still:
                return unparse(node)
        return unparse(node) if length(node) else None

    def _told_of(self, names: set[str], facts: list[Form]) -> list[Form]:
        """What is known of symbols that stand for expressions."""
        found: list[Form] = []
        done: set[str] = set()
        while names - done:
            name = min(names - done)
            done.add(name)
            node, me, new = self.made_of.get(name), {name: 1}, []
            match node:
                case ast.Call(func=ast.Name(id=which), args=args):
                    new = [(less(form, me) if which == "max" else less(me, form)) for form in map(self._form, args)
                           if form is not None]  # fmt: skip
                case ast.BinOp(op=ast.FloorDiv(), left=left, right=ast.Constant(value=int() as k)) if k > 0:
                    form = self._form(left)
                    if form is not None:
                        new = [less({name: k}, form), less(form, {name: k, "": k - 1})]
                case ast.BinOp(op=ast.Mod(), right=right):
                    form = self._form(right)
                    if form is not None and impossible([*facts, less(form, {})]):  # it is above zero
                        new = [me, less(me, form, 1)]
            found += new
            names = names | {n for form in new for n in form}
        return found

    def _told(self, test: ast.expr, holds: bool, form) -> list[Form]:
        """What a test of integers says."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                return self._told(test.operand, not holds, form)
            case ast.BoolOp() if isinstance(test.op, ast.And) == holds:
                return [found for part in test.values for found in self._told(part, holds, form)]
            case ast.Compare() if holds or len(test.ops) == 1:
                sides = [test.left, *test.comparators]
                if any(kind_of(n, self.f) != "int" for n in sides):
                    return []
                made = [form(n) for n in sides]
                return [
                    found
                    for a, op, b in zip(made, test.ops, made[1:], strict=False)
                    if a is not None and b is not None
                    for found in compared(a, type(op), b, holds)
                ]
        return []


def stops(loop: Loop) -> list[ast.expr]:
    """Where a loop surely ends, if it has turns."""
    up = offset(loop.step)[1] > 0
    found = choices(loop.stop, "min" if up else "max")
    if up and unparse(loop.start) == "0":  # of max(n, 0), n
        pairs = [choices(node, "max") for node in found]
        found += [
            n for pair in pairs if len(pair) == 2 and "0" in map(unparse, pair) for n in pair if unparse(n) != "0"
        ]
    return found


def choices(node: ast.expr, kind: str) -> list[ast.expr]:
    """Of ``min(a, b)``, both: each of them is an end above."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind:
        return list(node.args)
    return [node]
