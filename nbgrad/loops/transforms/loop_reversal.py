"""The sweep back through an innermost loop, written so that it runs fast.

Where no turn reads what another one writes, the turns go forward, as in the function: the compiler then knows that
indices count from the front, and can use vector registers. Sums over all turns are made apart: those of numbers by
``plus``, whose additions may be reordered, and those that go into one element of an array in a number. What goes into
several neighbours is gathered (:mod:`.scatter_to_gather`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..analysis.must_execute import surely
from ..analysis.parallelization import Sum, Verdict, first, for_turns, private, renamed, sums_of
from ..ir.affine import distance, offset, parts, plus
from ..ir.reverse_ir import Comment, Item, Nest, Step, exchange, loop_head, steps
from ..ir.statements import Assign, Loop, Store, changed, parse, parsed, subtrees, unparse, walk
from .loop_distribution import postponed
from .loop_fusion import set_once
from .reduction_privatization import Share, in_parts, shared
from .scatter_to_gather import gather, read_ahead

if TYPE_CHECKING:
    from ..codegen.reverse_sweep import Reverse

__all__ = ["Turns"]


class Turns:
    """One loop; `body` is what undoes a turn."""

    def __init__(self, reverse: Reverse, loop: Loop, body: list[Item]) -> None:
        self.reverse = reverse
        self.plan = reverse.plan
        self.loop = loop
        self.body = body
        self.inner = True  # whether it is an innermost loop
        self.loops = (*self.plan.enclosing[loop], loop)
        self.changing = changed(loop)
        set_once(body, self.differ)
        self.begin()

    def begin(self) -> None:
        """Before anything is known of the body."""
        self.steps = list(steps(self.body))  # with the number of branches around each
        self.targets = {s.name for s, _ in self.steps}
        self.tests = dict(_tests(self.body, ()))
        self.set: set[str] = {s.name for s, _ in self.steps if isinstance(s.target, ast.Name) and s.how == "="}
        self.stored: dict[str, set[str]] = {}  # indices of the elements that are set, by array
        self.read: dict[str, set[str]] = {}  # indices of those that are read
        self.added: dict[str, dict[str, list[tuple[Step, int]]]] = {}  # what is added to each element
        self.seen: set[str] = set()  # all names that are read

    def items(self) -> list[Item]:
        own = self.reverse.own.get(self.loop, {})
        arrays: list[Item] = [Step(ast.Name(name), "=", value) for name, value in own.items()]
        if not self.plain() or not self.loop.index or self.loop.count:
            nest = Nest(self.reverse.reversed_head(self.loop), [*arrays, *self.body])
            return [*self.serial("what is stored grows, or arrays change places"), nest]
        meeting = self.meeting()
        early, late = (meeting and postponed(self, meeting)) or ([], [])
        free = meeting == [] or bool(early or late)
        before, after = self.sums(free) if self.inner else ([], [])
        before, after = [*before, *early], [*late, *after]
        if free and self.inner and self.vectors():
            gather(self)
            read_ahead(self)
        if self.inner and not free:
            before += self.handed_on()
        head = loop_head(self.loop) if free else self.reverse.reversed_head(self.loop)
        verdict, local = self.verdict(set(own))
        self.body[:0] = arrays
        if not self.loop.parallel or verdict.why:
            return [*before, *self.serial(verdict.why), Nest(head, self.body), *after]
        return [*before, *self.together(verdict, local), *after]

    # Loops over prange.

    def verdict(self, own: set[str]) -> tuple[Verdict, list[str]]:
        """Whether the turns may run together, except for arrays that are their `own`, and which cotangents belong to a
        turn, since the numbers do."""
        if not self.loop.parallel:
            return Verdict(), []
        f, bars = self.reverse.f, {bar: n for n, bar in self.reverse.bars.items()}
        mine = {s.name for s in walk(self.loop.body) if isinstance(s, Assign)}
        mine = {n for n in mine if private(f, self.loop, n)}
        sums, local = sums_of(self.body), []
        numbers = {s.name for s, _ in steps(self.body) if isinstance(s.target, ast.Name)}
        for name in sorted(numbers):
            read = first(self.body, name) == "read"
            if bars.get(name) in mine:
                local += [name] if read else []
            elif name not in sums and (read or name in bars or (name in f.ranks and name not in mine)):
                return Verdict(f"{name} goes from turn to turn"), []
        shares = shared(self.body, self.loop.index)
        return for_turns(self.plan, self.loop, self.body, (sums & numbers) - set(local), own, shares), local

    def serial(self, why: str) -> list[Item]:
        """Say why a loop over prange is none."""
        return self.said(Verdict(why)) if self.loop.parallel else []

    def said(self, verdict: Verdict) -> list[Item]:
        self.reverse.verdicts[self.loop, " backwards"] = verdict
        return [Comment(str(verdict))] if verdict.why or verdict.shared else []

    def together(self, verdict: Verdict, local: list[str]) -> list[Item]:
        """The turns on several threads, in parts if they add to something that belongs to all."""

        def named(name: str, what: str = "") -> str:
            return self.reverse.named(self.loop, name, what)

        mine = {name: named(f"{name}_turn") for name in local}
        sums = {name: Sum(named(f"{name}_part"), "0.0", named(f"{name}_parts")) for name in verdict.sums}
        renamed(self.body, {**mine, **{name: s.mine for name, s in sums.items()}})
        self.body[:0] = [Step(ast.Name(name), "=", "0.0") for name in mine.values()]
        if not sums and not verdict.shared:
            return [*self.said(verdict), Nest(loop_head(self.loop, "prange"), self.body)]
        axes = {n: [named(f"k{d + 1}", n) for d in range(len(sizes))] for n, sizes in verdict.shared.items()}
        shares = [Share(n, named(f"{n}_parts"), sizes, axes[n]) for n, sizes in verdict.shared.items()]
        return [*self.said(verdict), *in_parts(self.loop, self.body, sums, shares, named("share"), named("shares"))]

    def apart(self) -> tuple[list[Item], list[Item]]:
        """Make sums apart, where turns are undone at once; what goes before the loop and after it."""
        return self.sums(False) if self.plain() and self.inner else ([], [])

    def plain(self) -> bool:
        """Whether there are only assignments, branches and loops. Finds out what they read and write where."""
        nodes: list[ast.AST] = []
        stack = list(self.body)
        while stack:
            item = stack.pop()
            if isinstance(item, Nest):
                self.inner = self.inner and bool(item.test)
                nodes.append(item.first)
                stack += item.body
            elif isinstance(item, str):
                return False
        for s, depth in self.steps:
            nodes += s.read()
            if isinstance(s.target, ast.Subscript):
                index = unparse(s.target.slice)
                if s.how == "=":
                    self.stored.setdefault(s.name, set()).add(index)
                else:
                    self.added.setdefault(s.name, {}).setdefault(index, []).append((s, depth))
        for n in (n for node in nodes for n in subtrees(node)):
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name):
                self.read.setdefault(n.value.id, set()).add(unparse(n.slice))
            elif isinstance(n, ast.Name):
                self.seen.add(n.id)
        return True

    def meeting(self) -> list[str] | None:
        """The arrays in which turns meet, if the turns may run in any order but for these; None if they may not."""
        reverse, inside = self.reverse, list(walk(self.loop.body))
        own = {s.name for s in inside if s in self.plan.defined}  # type: ignore[attr-defined]
        own |= {reverse.bars[n] for n in own if n in reverse.bars} | {reverse.g, reverse.y, *reverse.shared}
        own |= {name for (loop, _, _), name in reverse.names.items() if loop in inside}
        mine = {bar: n for n, bar in reverse.bars.items()}  # zero between turns where each sets the number anew
        if not all(name in mine and private(reverse.f, self.loop, mine[name]) for name in self.set - own):
            return None
        summed = {s.name for s, _ in self.steps if isinstance(s.target, ast.Name)} - self.set
        if summed & self.seen:
            return None
        return [name for name in sorted({*self.stored, *self.added} - own) if not self.separate(name)]

    def separate(self, name: str) -> bool:
        """Whether no turn reads or sets elements of an array that another one changes."""
        if name not in self.stored and name not in self.read:
            return True
        stored, added, read = (k.get(name, ()) for k in (self.stored, self.added, self.read))
        indices = {*stored, *added, *read}
        if len(indices) == 1:
            return any(self.counts(p) for p in parts(parsed(min(indices))))
        pairs = [(a, b) for a in stored for b in indices] + [(a, b) for a in added for b in read]
        return not any(self.plan.independence.meet(self.loop, parsed(a), parsed(b), True) for a, b in pairs)

    def look(self) -> None:
        """Find out again what the body reads and writes, after it was changed."""
        self.begin()
        self.plain()

    def untouched(self, name: str, index: str) -> bool:
        """Whether turns only add to an element."""
        others = {*self.stored.get(name, ()), *self.read.get(name, ())}
        return not any(self.plan.independence.meet(self.loop, parsed(index), parsed(b), False) for b in others)

    def counts(self, part: ast.expr) -> bool:
        """Whether an index is that of the turn, moved by a constant."""
        return offset(part)[0] == self.loop.index and self.plan.independence.counted(part, self.loops)

    def constant(self, *nodes: ast.expr) -> bool:
        """Whether what is evaluated is the same in all turns."""
        names = {n.id for node in nodes for n in subtrees(node) if isinstance(n, ast.Name)}
        return not names & self.changing and not names & self.targets

    def sums(self, free: bool) -> tuple[list[Item], list[Item]]:
        """Make sums apart; what goes before the loop and after it. Those of numbers begin anew each time that the loop
        runs: vector registers are filled, and added up, with less to wait for."""
        before: list[Step] = []
        after: list[Item] = []
        for name, elements in self.added.items():
            for index, found in list(elements.items()):
                target = found[0][0].target
                assert isinstance(target, ast.Subscript)
                known = self.constant(target.slice) and self.met(name, index, found)
                if not known or not self.untouched(name, index):
                    continue
                total = self.reverse.named(self.loop, f"{name}_sum", index)
                before.append(Step(ast.Name(total), "=", "0.0"))
                after.append(Nest(f"if {self.turns}:", [Step(target, "+=", total)], self.turns))
                for s, _ in found:
                    s.target = ast.Name(total)
                del elements[index]
        if free and self.vectors():
            names: dict[str, str] = {}
            apart = {s.name for s in before}
            for s, _ in self.steps:
                if isinstance(s.target, ast.Name) and s.how != "=" and s.name not in self.set:
                    s.free = True
                    if s.name not in apart and self.lasts(s.name):
                        names[s.name] = self.reverse.named(self.loop, f"{s.name}_sum", "")
                        s.target = ast.Name(names[s.name])
            before += [Step(ast.Name(total), "=", "0.0") for total in names.values()]
            after += [Step(ast.Name(name), "+=", total) for name, total in names.items()]
        return [*before], after

    def lasts(self, bar: str) -> bool:
        """Whether a cotangent belongs to more than a turn of the loop around, be that one with checkpoints."""
        around = self.plan.independence.enclosing[self.loop]
        if not around or self.loop.parallel:
            return False
        return bar not in {self.reverse.bars.get(s.name) for s in walk(around[-1].body) if isinstance(s, Assign)}

    def met(self, name: str, index: str, found: list[tuple[Step, int]]) -> bool:
        """Whether every turn meets an element: then it is there if there are turns. (Whether its sum is zero is not
        asked: its derivative need not be.)"""
        if any(depth == 0 for _, depth in found):
            return True
        array = next((n for n, bar in self.reverse.bars.items() if bar == name), "")
        return any(f"{array}[{index}]" in surely(s.value) for s in self.loop.body if isinstance(s, Assign | Store))

    @property
    def turns(self) -> str:
        """Code for whether there are any."""
        start, stop, step = (unparse(n) for n in (self.loop.start, self.loop.stop, self.loop.step))
        if step in ("1", "-1"):
            return f"{stop} > {start}" if step == "1" else f"{start} > {stop}"
        return f"len(range({start}, {stop}, {step})) > 0"

    def vectors(self) -> bool:
        """Whether what is added to goes along with the turns, in neighbouring elements."""
        return all(
            self.along(name, index, -1, self.loop) and self.constant(*parts(parsed(index))[:-1])
            for name, elements in self.added.items()
            for index in elements
        )

    def along(self, name: str, index: str, axis: int, loop: Loop) -> bool:
        """Whether an element that is added to has the turn of `loop` as its place along an axis, moved by a constant,
        and from the front wherever it is met."""
        part, independence = parts(parsed(index))[axis], self.plan.independence
        around = self.loops[: self.loops.index(loop) + 1]
        return offset(part)[0] == loop.index and (
            independence.counted(part, around)
            or all(independence.front(part, self.loops, self.tests[s]) for s, _ in self.added[name][index])
        )

    # Recurrences.

    def handed_on(self) -> list[Item]:
        """Keep an element that a turn adds to, and the turn after it sets, in a number; what goes before the loop."""
        before: list[Item] = []
        step = offset(self.loop.step)
        if step not in (("", 1), ("", -1)):
            return before
        first = plus(self.loop.stop, -step[1])
        some = f"{unparse(self.loop.stop)} {'>' if step[1] > 0 else '<'} {unparse(self.loop.start)}"
        for name, indices in self.stored.items():
            mine = parse(min(indices))
            following = _moved(mine, self.loop.index, plus(ast.Name(self.loop.index), -step[1]))
            others = {*self.added.get(name, ()), *self.read.get(name, ())} - {unparse(mine), unparse(following)}
            adds = self.added.get(name, {}).get(unparse(following), [])
            if (
                len(indices) > 1
                or unparse(following) == unparse(mine)
                or unparse(following) in self.read.get(name, ())
                or all(depth for _, depth in adds)
                or not all(self.counts(p) or self.constant(p) for p in (*parts(mine), *parts(following)))
                or not all(self.distinct(parsed(o), p) for o in others for p in (mine, following))
            ):
                continue
            here, after = (self.reverse.named(self.loop, f"{name}_{w}", "") for w in ("here", "next"))
            texts = {f"{name}[{_text(mine)}]": here, f"{name}[{_text(following)}]": after}
            for item in self.body:
                exchange(item, texts)
            this, that = texts
            begin = f"{name}[{_text(_moved(mine, self.loop.index, first))}] if {some} else 0.0"
            before.append(Step(ast.Name(here), "=", begin))
            self.body.insert(0, Step(ast.Name(after), "=", that))
            self.body += [Step(parse(this), "=", here), Step(parse(that), "=", after), Step(ast.Name(here), "=", after)]
        return before

    def differ(self, a: ast.expr, b: ast.expr) -> bool:
        """Whether two elements surely differ in each turn, by inequalities."""
        return self.distinct(a, b) or not self.plan.independence.meet(self.loop, a, b, False)

    def distinct(self, a: ast.expr, b: ast.expr) -> bool:
        """Whether two elements surely differ in each turn."""
        counted = self.plan.independence.counted
        return any(
            distance(p, q) and counted(p, self.loops) and counted(q, self.loops)
            for p, q in zip(parts(a), parts(b), strict=True)
        )


def _tests(body: list[Item], around: tuple[tuple[ast.expr, bool], ...]) -> Iterator[tuple[Step, tuple]]:
    """The assignments with the tests around each, and what these gave."""
    for item in body:
        if isinstance(item, Step):
            yield item, around
        elif isinstance(item, Nest):
            test = ((parse(item.test), item.head != "else:"),) if item.test else ()
            yield from _tests(item.body, (*around, *test))


def _text(index: ast.expr) -> str:
    return ", ".join(unparse(p) for p in parts(index))


def _moved(index: ast.expr, name: str, value: ast.expr) -> ast.expr:
    """`index` with `value` for the loop's variable."""
    made = [plus(value, offset(p)[1]) if offset(p)[0] == name else p for p in parts(index)]
    return ast.Tuple(made, ast.Load()) if len(made) > 1 else made[0]
