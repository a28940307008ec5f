"""Loop reversal: the reverse sweep of a loop, in a form that runs fast.

Where no iteration reads what another one writes, iterations run in the original order: LLVM then knows that indices are
non-negative, and can vectorize. Sums over all iterations get accumulators: those of scalars by ``plus``, whose
additions may be reordered; those into one array element in a scalar. Contributions to several neighbours are gathered
(:mod:`.scatter_to_gather`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..analysis.must_execute import must_evaluate
from ..analysis.parallelization import (
    LoopReduction,
    ParallelLegality,
    first_access,
    is_private,
    iteration_legality,
    reduction_variables,
    rename_in_items,
)
from ..ir.affine import axis_indices, distance, offset, plus
from ..ir.reverse_ir import Comment, Item, Nest, Step, loop_head, replace_by_scalars, steps
from ..ir.statements import Assign, Loop, Store, names_written, parse, parsed, subtrees, unparse, walk
from .loop_distribution import distribute_loop
from .loop_fusion import merge_zero_and_add
from .reduction_privatization import PrivatizedArray, chunked_loop, privatizable_arrays
from .scatter_to_gather import read_foremost_first, rewrite_as_gather

if TYPE_CHECKING:
    from ..codegen.reverse_sweep import AdjointPrinter

__all__ = ["LoopReversal"]


class LoopReversal:
    """The reverse sweep of one loop; `body` reverses one iteration."""

    def __init__(self, reverse: AdjointPrinter, loop: Loop, body: list[Item]) -> None:
        self.reverse = reverse
        self.plan = reverse.plan
        self.loop = loop
        self.body = body
        self.is_innermost = True  # whether the loop is innermost
        self.loops = (*self.plan.enclosing[loop], loop)
        self.changing = names_written(loop)
        merge_zero_and_add(body, self.provably_differ)
        self.reset_accesses()

    def reset_accesses(self) -> None:
        """Reset what is known of the body."""
        self.steps = list(steps(self.body))  # with the nesting depth of each
        self.targets = {s.name for s, _ in self.steps}
        self.tests = dict(_tests(self.body, ()))
        self.set: set[str] = {s.name for s, _ in self.steps if isinstance(s.target, ast.Name) and s.assign_op == "="}
        self.stored: dict[str, set[str]] = {}  # indices of the elements that are assigned, by array
        self.read: dict[str, set[str]] = {}  # indices of those that are read
        self.added: dict[str, dict[str, list[tuple[Step, int]]]] = {}  # the additions to each element
        self.names_read: set[str] = set()  # all names that are read

    def reversed_items(self) -> list[Item]:
        own = self.reverse.private_arrays.get(self.loop, {})
        arrays: list[Item] = [Step(ast.Name(name), "=", value) for name, value in own.items()]
        if not self.collect_accesses() or not self.loop.index or self.loop.trip_counter:
            nest = Nest(self.reverse.reversed_head(self.loop), [*arrays, *self.body])
            return [*self.explain_serial("what is stored grows, or arrays change places"), nest]
        conflicts = self.conflicting_arrays()
        hoisted, delayed = (conflicts and distribute_loop(self, conflicts)) or ([], [])
        independent = conflicts == [] or bool(hoisted or delayed)
        before, after = self.hoist_accumulators(independent) if self.is_innermost else ([], [])
        before, after = [*before, *hoisted], [*delayed, *after]
        if independent and self.is_innermost and self.adds_contiguously():
            rewrite_as_gather(self)
            read_foremost_first(self)
        if self.is_innermost and not independent:
            before += self.carry_in_scalars()
        head = loop_head(self.loop) if independent else self.reverse.reversed_head(self.loop)
        verdict, local = self.verdict(set(own))
        self.body[:0] = arrays
        if not self.loop.parallel or verdict.serial_reason:
            return [*before, *self.explain_serial(verdict.serial_reason), Nest(head, self.body), *after]
        return [*before, *self.as_parallel(verdict, local), *after]

    # Parallel loops.

    def verdict(self, own: set[str]) -> tuple[ParallelLegality, list[str]]:
        """Whether iterations may run in parallel, and which cotangents are private because their scalars are.

        Arrays in `own` are private to an iteration.
        """
        if not self.loop.parallel:
            return ParallelLegality(), []
        f, bars = self.reverse.f, {bar: n for n, bar in self.reverse.bars.items()}
        private_names = {s.name for s in walk(self.loop.body) if isinstance(s, Assign)}
        private_names = {n for n in private_names if is_private(f, self.loop, n)}
        sums, local = reduction_variables(self.body), []
        numbers = {s.name for s, _ in steps(self.body) if isinstance(s.target, ast.Name)}
        for name in sorted(numbers):
            read = first_access(self.body, name) == "read"
            if bars.get(name) in private_names:
                local += [name] if read else []
            elif name not in sums and (read or name in bars or (name in f.ranks and name not in private_names)):
                return ParallelLegality(f"{name} goes from turn to turn"), []
        shareable = privatizable_arrays(self.body, self.loop.index)
        return iteration_legality(self.plan, self.loop, self.body, (sums & numbers) - set(local), own, shareable), local

    def explain_serial(self, why: str) -> list[Item]:
        """Record why a parallel loop is serial in the reverse sweep."""
        return self.with_verdict(ParallelLegality(why)) if self.loop.parallel else []

    def with_verdict(self, verdict: ParallelLegality) -> list[Item]:
        self.reverse.verdicts[self.loop, " backwards"] = verdict
        return [Comment(str(verdict))] if verdict.serial_reason or verdict.privatized_arrays else []

    def as_parallel(self, verdict: ParallelLegality, local: list[str]) -> list[Item]:
        """Run the iterations in parallel, in chunks if they accumulate into shared scalars or arrays."""

        def named(name: str, what: str = "") -> str:
            return self.reverse.named(self.loop, name, what)

        private_names = {name: named(f"{name}_turn") for name in local}
        sums = {
            name: LoopReduction(named(f"{name}_part"), "0.0", named(f"{name}_parts"))
            for name in verdict.reduction_names
        }
        rename_in_items(self.body, {**private_names, **{name: s.partial_sum for name, s in sums.items()}})
        self.body[:0] = [Step(ast.Name(name), "=", "0.0") for name in private_names.values()]
        if not sums and not verdict.privatized_arrays:
            return [*self.with_verdict(verdict), Nest(loop_head(self.loop, "prange"), self.body)]
        axes = {n: [named(f"k{d + 1}", n) for d in range(len(sizes))] for n, sizes in verdict.privatized_arrays.items()}
        shares = [
            PrivatizedArray(n, named(f"{n}_parts"), sizes, axes[n]) for n, sizes in verdict.privatized_arrays.items()
        ]
        return [
            *self.with_verdict(verdict),
            *chunked_loop(self.loop, self.body, sums, shares, named("share"), named("shares")),
        ]

    def hoist_sums_if_plain(self) -> tuple[list[Item], list[Item]]:
        """Hoist accumulators of a loop that is reversed iteration by iteration; return what goes before and after
        it."""
        return self.hoist_accumulators(False) if self.collect_accesses() and self.is_innermost else ([], [])

    def collect_accesses(self) -> bool:
        """Collect the accesses of the body; whether it has only assignments, branches and loops."""
        nodes: list[ast.AST] = []
        stack = list(self.body)
        while stack:
            item = stack.pop()
            if isinstance(item, Nest):
                self.is_innermost = self.is_innermost and bool(item.test)
                nodes.append(item.head_tree)
                stack += item.body
            elif isinstance(item, str):
                return False
        for s, depth in self.steps:
            nodes += s.evaluated_nodes()
            if isinstance(s.target, ast.Subscript):
                index = unparse(s.target.slice)
                if s.assign_op == "=":
                    self.stored.setdefault(s.name, set()).add(index)
                else:
                    self.added.setdefault(s.name, {}).setdefault(index, []).append((s, depth))
        for n in (n for node in nodes for n in subtrees(node)):
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name):
                self.read.setdefault(n.value.id, set()).add(unparse(n.slice))
            elif isinstance(n, ast.Name):
                self.names_read.add(n.id)
        return True

    def conflicting_arrays(self) -> list[str] | None:
        """The arrays that carry a dependence between iterations, if nothing else does; None if scalars carry one."""
        reverse, inside = self.reverse, list(walk(self.loop.body))
        internal = {s.name for s in inside if s in self.plan.defined}  # type: ignore[attr-defined]
        internal |= {reverse.bars[n] for n in internal if n in reverse.bars} | {
            reverse.g,
            reverse.y,
            *reverse.common_names,
        }
        internal |= {name for (loop, _, _), name in reverse.names.items() if loop in inside}
        by_bar = {bar: n for n, bar in reverse.bars.items()}  # zero between iterations if each assigns the scalar first
        if not all(name in by_bar and is_private(reverse.f, self.loop, by_bar[name]) for name in self.set - internal):
            return None
        summed = {s.name for s, _ in self.steps if isinstance(s.target, ast.Name)} - self.set
        if summed & self.names_read:
            return None
        return [name for name in sorted({*self.stored, *self.added} - internal) if not self.is_conflict_free(name)]

    def is_conflict_free(self, name: str) -> bool:
        """Whether no iteration reads or assigns elements of an array that another one changes."""
        if name not in self.stored and name not in self.read:
            return True
        stored, added, read = (k.get(name, ()) for k in (self.stored, self.added, self.read))
        indices = {*stored, *added, *read}
        if len(indices) == 1:
            return any(self.is_shifted_variable(p) for p in axis_indices(parsed(min(indices))))
        pairs = [(a, b) for a in stored for b in indices] + [(a, b) for a in added for b in read]
        return not any(self.plan.dependence_tests.may_conflict(self.loop, parsed(a), parsed(b), True) for a, b in pairs)

    def recollect_accesses(self) -> None:
        """Collect the accesses again, after the body was changed."""
        self.reset_accesses()
        self.collect_accesses()

    def is_only_added_to(self, name: str, index: str) -> bool:
        """Whether iterations only add to an element."""
        others = {*self.stored.get(name, ()), *self.read.get(name, ())}
        return not any(
            self.plan.dependence_tests.may_conflict(self.loop, parsed(index), parsed(b), False) for b in others
        )

    def is_shifted_variable(self, part: ast.expr) -> bool:
        """Whether an index is the loop variable plus a constant."""
        return offset(part)[0] == self.loop.index and self.plan.dependence_tests.provably_nonnegative(part, self.loops)

    def is_invariant(self, *nodes: ast.expr) -> bool:
        """Whether expressions are loop-invariant."""
        names = {n.id for node in nodes for n in subtrees(node) if isinstance(n, ast.Name)}
        return not names & self.changing and not names & self.targets

    def hoist_accumulators(self, independent: bool) -> tuple[list[Item], list[Item]]:
        """Hoist accumulators out of the loop; return what goes before and after it.

        Those of scalars are reset each time the loop runs: filling and summing vector registers then has less to wait
        for.
        """
        before: list[Step] = []
        after: list[Item] = []
        for name, elements in self.added.items():
            for index, adds in list(elements.items()):
                target = adds[0][0].target
                assert isinstance(target, ast.Subscript)
                hoistable = self.is_invariant(target.slice) and self.always_accessed(name, index, adds)
                if not hoistable or not self.is_only_added_to(name, index):
                    continue
                total = self.reverse.named(self.loop, f"{name}_sum", index)
                before.append(Step(ast.Name(total), "=", "0.0"))
                after.append(Nest(f"if {self.nonempty_test}:", [Step(target, "+=", total)], self.nonempty_test))
                for s, _ in adds:
                    s.target = ast.Name(total)
                del elements[index]
        if independent and self.adds_contiguously():
            names: dict[str, str] = {}
            hoisted = {s.name for s in before}
            for s, _ in self.steps:
                if isinstance(s.target, ast.Name) and s.assign_op != "=" and s.name not in self.set:
                    s.reassociable = True
                    if s.name not in hoisted and self.outlives_iteration(s.name):
                        names[s.name] = self.reverse.named(self.loop, f"{s.name}_sum", "")
                        s.target = ast.Name(names[s.name])
            before += [Step(ast.Name(total), "=", "0.0") for total in names.values()]
            after += [Step(ast.Name(name), "+=", total) for name, total in names.items()]
        return [*before], after

    def outlives_iteration(self, bar: str) -> bool:
        """Whether a cotangent outlives an iteration of the enclosing loop, even one with checkpoints."""
        around = self.plan.dependence_tests.enclosing[self.loop]
        if not around or self.loop.parallel:
            return False
        return bar not in {self.reverse.bars.get(s.name) for s in walk(around[-1].body) if isinstance(s, Assign)}

    def always_accessed(self, name: str, index: str, adds: list[tuple[Step, int]]) -> bool:
        """Whether every iteration accesses an element: then it is in range if there are iterations.

        Whether its sum is zero is not tested: the derivative of the sum need not be.
        """
        if any(depth == 0 for _, depth in adds):
            return True
        array = next((n for n, bar in self.reverse.bars.items() if bar == name), "")
        return any(
            f"{array}[{index}]" in must_evaluate(s.value) for s in self.loop.body if isinstance(s, Assign | Store)
        )

    @property
    def nonempty_test(self) -> str:
        """Code that tests whether the loop has any iterations."""
        start, stop, step = (unparse(n) for n in (self.loop.start, self.loop.stop, self.loop.step))
        if step in ("1", "-1"):
            return f"{stop} > {start}" if step == "1" else f"{start} > {stop}"
        return f"len(range({start}, {stop}, {step})) > 0"

    def adds_contiguously(self) -> bool:
        """Whether iterations add to consecutive elements."""
        return all(
            self.follows_variable(name, index, -1, self.loop) and self.is_invariant(*axis_indices(parsed(index))[:-1])
            for name, elements in self.added.items()
            for index in elements
        )

    def follows_variable(self, name: str, index: str, axis: int, loop: Loop) -> bool:
        """Whether the index of an element that is added to is the variable of `loop` plus a constant along an axis.

        It must be non-negative wherever the element is accessed.
        """
        part, independence = axis_indices(parsed(index))[axis], self.plan.dependence_tests
        enclosing = self.loops[: self.loops.index(loop) + 1]
        return offset(part)[0] == loop.index and (
            independence.provably_nonnegative(part, enclosing)
            or all(independence.nonnegative_under(part, self.loops, self.tests[s]) for s, _ in self.added[name][index])
        )

    # Recurrences.

    def carry_in_scalars(self) -> list[Item]:
        """Carry an element that an iteration adds to, and the next one assigns, in a scalar; return its first value."""
        before: list[Item] = []
        step = offset(self.loop.step)
        if step not in (("", 1), ("", -1)):
            return before
        first = plus(self.loop.stop, -step[1])
        nonempty = f"{unparse(self.loop.stop)} {'>' if step[1] > 0 else '<'} {unparse(self.loop.start)}"
        for name, indices in self.stored.items():
            own = parse(min(indices))
            following = _moved(own, self.loop.index, plus(ast.Name(self.loop.index), -step[1]))
            others = {*self.added.get(name, ()), *self.read.get(name, ())} - {unparse(own), unparse(following)}
            adds = self.added.get(name, {}).get(unparse(following), [])
            if (
                len(indices) > 1
                or unparse(following) == unparse(own)
                or unparse(following) in self.read.get(name, ())
                or all(depth for _, depth in adds)
                or not all(
                    self.is_shifted_variable(p) or self.is_invariant(p)
                    for p in (*axis_indices(own), *axis_indices(following))
                )
                or not all(self.differ_by_constant(parsed(o), p) for o in others for p in (own, following))
            ):
                continue
            here, after = (self.reverse.named(self.loop, f"{name}_{w}", "") for w in ("here", "next"))
            scalars = {f"{name}[{_text(own)}]": here, f"{name}[{_text(following)}]": after}
            for item in self.body:
                replace_by_scalars(item, scalars)
            this, that = scalars
            begin = f"{name}[{_text(_moved(own, self.loop.index, first))}] if {nonempty} else 0.0"
            before.append(Step(ast.Name(here), "=", begin))
            self.body.insert(0, Step(ast.Name(after), "=", that))
            self.body += [Step(parse(this), "=", here), Step(parse(that), "=", after), Step(ast.Name(here), "=", after)]
        return before

    def provably_differ(self, a: ast.expr, b: ast.expr) -> bool:
        """Whether two elements provably differ in each iteration, by linear inequalities."""
        return self.differ_by_constant(a, b) or not self.plan.dependence_tests.may_conflict(self.loop, a, b, False)

    def differ_by_constant(self, a: ast.expr, b: ast.expr) -> bool:
        """Whether two elements differ by a constant distance in each iteration."""
        counted = self.plan.dependence_tests.provably_nonnegative
        return any(
            distance(p, q) and counted(p, self.loops) and counted(q, self.loops)
            for p, q in zip(axis_indices(a), axis_indices(b), strict=True)
        )


def _tests(body: list[Item], around: tuple[tuple[ast.expr, bool], ...]) -> Iterator[tuple[Step, tuple]]:
    """The assignments, with the tests around each and the outcome of these."""
    for item in body:
        if isinstance(item, Step):
            yield item, around
        elif isinstance(item, Nest):
            test = ((parse(item.test), item.head != "else:"),) if item.test else ()
            yield from _tests(item.body, (*around, *test))


def _text(index: ast.expr) -> str:
    return ", ".join(unparse(p) for p in axis_indices(index))


def _moved(index: ast.expr, name: str, value: ast.expr) -> ast.expr:
    """`index` with `value` in place of the loop variable."""
    moved = [plus(value, offset(p)[1]) if offset(p)[0] == name else p for p in axis_indices(index)]
    return ast.Tuple(moved, ast.Load()) if len(moved) > 1 else moved[0]
