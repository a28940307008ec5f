"""Whether a statement can overwrite an element of an array that another one has read before it.

Indices are compared as sums of a text and a constant. A loop around both statements orders them: an element that the
write meets in turn w and the read in turn r, with r - w constant, has not been read yet if r comes after w. Where that
does not tell, it is asked whether turns of the loops can exist in which the read comes first and the indices are equal:
linear inequalities between the loops' variables and bounds.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from ..ir.affine import distance, length, offset, parts
from ..ir.linear_inequalities import Form, compared, impossible, less, linear
from ..ir.statements import Alloc, Assign, Block, Function, If, Loop, Statement, Store, parsed, unparse, walk, writes
from ..ir.type_inference import kind_of

__all__ = ["Independence"]

_WAYS = ("first", "later"), ("later", "first")


class Independence:
    """Answers for one function. Arrays in `swapped` do not keep their memory, and are never told apart."""

    def __init__(self, f: Function, enclosing: dict[Statement, tuple[Loop, ...]], swapped: set[str]) -> None:
        self.enclosing = enclosing
        self.swapped = swapped
        self.place = {s: k for k, s in enumerate(walk(f.body))}
        numbers = [(n, s) for s in walk(f.body) for n in writes(s) if not f.ranks.get(n)]
        written = Counter([n for n, _ in numbers] + f.parameters)
        #: Names that have several values.
        self.varying = {n for n, s in numbers if enclosing[s] or isinstance(s, Loop) or written[n] > 1}
        self.known: dict[tuple, bool] = {}
        self.f = f
        #: The tests around a statement, with what they gave.
        self.tests: dict[Statement, tuple[tuple[ast.expr, bool], ...]] = {}
        self._note_tests(f.body, ())

    def _note_tests(self, block: Block, tests: tuple[tuple[ast.expr, bool], ...]) -> None:
        for s in block:
            self.tests[s] = tests
            if isinstance(s, If):
                self._note_tests(s.body, (*tests, (s.test, True)))
                self._note_tests(s.orelse, (*tests, (s.test, False)))
            elif isinstance(s, Loop):
                self._note_tests(s.body, tests)

    def apart(self, write: Store, reader: Statement, indices: Iterable[ast.expr]) -> bool:
        """Whether `write` surely overwrites none of the elements at `indices` that `reader` has read before."""
        return write.array not in self.swapped and all(
            self._unread(write, reader, index) or self.never(write, reader, index) for index in indices
        )

    def stays(self, s: Store, stores: Iterable[Store]) -> bool:
        """Whether none of `stores` overwrites what `s` has written."""
        return s.array not in self.swapped and all(self.never(t, s, s.index, False) for t in stores)

    def never(self, write: Store, reader: Statement, index: ast.expr, itself: bool = True) -> bool:
        """Whether no turns of the loops exist in which `reader` meets `index`, and then `write` the same element.
        A statement comes before `itself` where it reads what it overwrites."""
        key = write, reader, unparse(index), itself
        if key not in self.known:
            self.known[key] = self._never(write, reader, index, itself)
        return self.known[key]

    def _never(self, write: Store, reader: Statement, index: ast.expr, itself: bool) -> bool:
        first, later = self.enclosing[reader], self.enclosing[write]
        one, other = _named(first, "first "), _named(later, "later ")
        told = [form for s, names in ((reader, one), (write, other)) for test, holds in self.tests[s]
                for form in self._told(test, holds, names)]  # fmt: skip
        forms = self._equal(index, first, one, write.index, later, other, told)
        if forms is None:
            return False
        if impossible(forms):
            return True
        common = [a for a, b in zip(first, later, strict=False) if a is b]
        for loop in common:
            step = offset(loop.step)
            if not loop.index or step[0] or not step[1]:
                return False
            a, b = {f"first {loop.index}": 1}, {f"later {loop.index}": 1}
            before, after = (a, b) if step[1] > 0 else (b, a)
            if not impossible([*forms, less(before, after, 1)]):
                return False
            forms += [less(a, b), less(b, a)]
        ordered = self.place[reader] < self.place[write] or (reader is write and itself)
        return not ordered or impossible(forms)

    def inside(self, s: Statement, array: str, index: ast.expr) -> bool:
        """Whether an index is surely one of the array's, where `s` is."""
        loops = self.enclosing[s]
        names = {p.index: p.index for p in loops if p.index}
        forms = [form for test, holds in self.tests[s] for form in self._told(test, holds, names)]
        forms += [*self._turns(loops, names), *self.sizes]
        for k, part in enumerate(parts(index)):
            x, length = self._form(part, names), {_length(array, k): 1}
            if x is None or not all(impossible([*forms, wrong]) for wrong in (less(x, {}, 1), less(length, x))):
                return False
        return True

    def front(self, part: ast.expr, loops: tuple[Loop, ...], tests: Iterable[tuple[ast.expr, bool]]) -> bool:
        """Whether an index surely counts from the front where `tests` gave what they did."""
        names = {p.index: p.index for p in loops if p.index}
        x, told = self._form(part, names), [form for test in tests for form in self._told(*test, names)]
        return x is not None and impossible([*self._turns(loops, names), *told, less(x, {}, 1)])

    @cached_property
    def sizes(self) -> list[Form]:
        """What is known of the lengths of arrays: names that stand for them, and what arrays are made with."""
        pairs: list[tuple[Form, Form | None]] = []
        for array in (n for n, rank in self.f.ranks.items() if rank == 1):
            pairs.append(({f"{array}.size": 1}, {_length(array, 0): 1}))
        for s in self.f.body:
            if isinstance(s, Assign) and s.name not in self.varying and self.f.kinds.get(s.name) == "int":
                pairs.append(({s.name: 1}, self._form(s.value, {})))
            elif isinstance(s, Alloc):
                pairs += [({_length(s.name, k): 1}, self._form(n, {})) for k, n in enumerate(s.shape)]
        return [form for a, b in pairs if b is not None for form in (less(a, b), less(b, a))]

    def meet(self, loop: Loop, a: ast.expr, b: ast.expr, differ: bool, ways: Iterable[tuple[str, str]] = _WAYS) -> bool:
        """Whether a turn of `loop` may meet the element `a` and one the element `b` that is the same; `differ`: two
        turns, the first before the later one or the other way. Names that the loop writes besides its variable are not
        known."""
        outer = self.enclosing[loop]
        loops = (*outer, loop)
        first, later = ({**{p.index: p.index for p in outer}, loop.index: which} for which in ("first", "later"))
        forms = self._equal(a, loops, first, b, loops, later)
        if forms is None:
            return True
        if not differ:
            return not impossible(forms)
        return not all(impossible([*forms, less({p: 1}, {q: 1}, 1)]) for p, q in ways)

    def precedes(self, loop: Loop, a: ast.expr, b: ast.expr) -> bool:
        """Whether a turn may meet the element `a` that one with a larger variable meets as `b`."""
        return self.meet(loop, a, b, True, _WAYS[:1])

    def _equal(
        self, a: ast.expr, first: tuple[Loop, ...], one: dict[str, str],
        b: ast.expr, later: tuple[Loop, ...], other: dict[str, str], told: Sequence[Form] = (),
    ) -> list[Form] | None:  # fmt: skip
        """What holds where two indices are equal; None if that cannot be said. `one` and `other` name the variables of
        the loops around each; `told` is what is known of them besides."""
        forms = [*self._turns(first, one), *self._turns(later, other), *told]
        equal = False
        for p, q in zip(parts(a), parts(b), strict=True):
            x, y = self._form(p, one), self._form(q, other)
            if x is None or y is None:
                continue
            if not all(self.counted(n, loops) or impossible([*forms, less(z, {}, 1)])
                       for n, loops, z in ((p, first, x), (q, later, y))):  # fmt: skip
                continue  # it may count from the end
            forms += [less(x, y), less(y, x)]
            equal = True
        return forms if equal else None

    def _turns(self, loops: tuple[Loop, ...], names: dict[str, str]) -> list[Form]:
        """The bounds of the loops' variables."""
        forms = []
        for depth, loop in enumerate(loops):
            step = offset(loop.step)
            if not loop.index or step[0] or not step[1]:
                continue
            outer = {p.index: names[p.index] for p in loops[:depth] if p.index}
            start, stop = (self._form(n, outer) for n in (loop.start, loop.stop))
            here = {names[loop.index]: 1}
            up = step[1] > 0
            if start is not None:
                forms.append(less(start, here) if up else less(here, start))
            if stop is not None:
                forms.append(less(here, stop, 1) if up else less(stop, here, 1))
        return forms

    def _told(self, test: ast.expr, holds: bool, names: dict[str, str]) -> list[Form]:
        """What a test of integers says, if it holds or not."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                return self._told(test.operand, not holds, names)
            case ast.BoolOp() if isinstance(test.op, ast.And) == holds:
                return [form for part in test.values for form in self._told(part, holds, names)]
            case ast.Compare() if holds or len(test.ops) == 1:
                sides = [test.left, *test.comparators]
                if any(kind_of(n, self.f) != "int" for n in sides):
                    return []
                forms = [self._form(n, names) for n in sides]
                return [
                    form
                    for a, op, b in zip(forms, test.ops, forms[1:], strict=False)
                    if a is not None and b is not None
                    for form in compared(a, type(op), b, holds)
                ]
        return []

    def _form(self, node: ast.expr, names: dict[str, str]) -> Form | None:
        """An index or bound; `names` are those of loops' variables, and others must have one value only."""

        def symbol(n: ast.expr) -> str | None:
            if isinstance(n, ast.Name) and n.id in names:
                return names[n.id]
            if isinstance(n, ast.Name):
                return None if n.id in self.varying else n.id
            return unparse(n) if length(n) and not isinstance(n, ast.Call) else None

        return linear(node, symbol)

    def differ(self, write: Store, reader: Statement, indices: list[ast.expr]) -> bool:
        """Whether `indices`, as of `reader`, surely differ from that of `write` in the same turn of the loops."""
        loops = self.enclosing[reader]
        return bool(indices) and all(
            any(
                distance(a, b) and self.counted(a, self.enclosing[write]) and self.counted(b, loops)
                for a, b in zip(parts(write.index), parts(index), strict=True)
            )
            for index in indices
        )

    def _unread(self, write: Store, reader: Statement, index: ast.expr) -> bool:
        pairs = [
            (a, b)
            for a, b in zip(parts(write.index), parts(index), strict=True)
            if self.counted(a, self.enclosing[write]) and self.counted(b, self.enclosing[reader])
        ]
        if any(distance(a, b) for a, b in pairs if not offset(a)[0]):
            return True
        common = [a for a, b in zip(self.enclosing[write], self.enclosing[reader], strict=False) if a is b]
        for loop in common:
            ahead = _ahead(loop, pairs)
            if ahead is None or ahead < 0:
                return False
            if ahead > 0:
                return True
        return bool(common) and self.place[reader] > self.place[write]

    def counted(self, node: ast.expr, loops: tuple[Loop, ...]) -> bool:
        """Whether an index surely counts from the front (-1 is the last element, and not the one before 0)."""
        low = _lowest(node, loops)
        return low is not None and low >= 0


def _length(array: str, axis: int) -> str:
    return f"{array}.shape[{axis}]"


def _lowest(node: ast.expr, loops: tuple[Loop, ...]) -> int | None:
    """A bound from below of an integer expression, where there is one."""
    name, k = offset(node)
    if not name:
        return k
    if length(parsed(name)):
        return k
    for depth, loop in enumerate(loops):
        if loop.index == name:
            step = offset(loop.step)
            if step[0] or not step[1]:
                return None
            low = _lowest(loop.start if step[1] > 0 else loop.stop, loops[:depth])
            return None if low is None else low + k + (0 if step[1] > 0 else 1)
    return None


def _ahead(loop: Loop, pairs: list[tuple[ast.expr, ast.expr]]) -> int | None:
    """By how much the turn in which the element is read comes after the one in which it is written; None: unknown."""
    step = offset(loop.step)
    if not loop.index or step[0] or not step[1]:
        return None
    for a, b in pairs:
        (name, p), (other, q) = offset(a), offset(b)
        if name == other == loop.index:
            return (p - q) * (1 if step[1] > 0 else -1)
    return None


def _named(loops: tuple[Loop, ...], which: str) -> dict[str, str]:
    return {p.index: f"{which}{p.index}" for p in loops if p.index}
