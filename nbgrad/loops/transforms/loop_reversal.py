"""Loop reversal: the reverse sweep of a loop, in a form that runs fast.

Where no iteration reads what another one writes, iterations run in the original order: LLVM then knows that indices are
non-negative, and can vectorize. Sums over all iterations get accumulators: those of scalars by ``plus``, whose
additions may be reordered; those into one array element in a scalar. Contributions to several neighbours are gathered
(:mod:`.scatter_to_gather`).
"""

from __future__ import annotations

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
from ..ir.affine import distance, offset, plus
from ..ir.names import called
from ..ir.passes import Pass, enabled
from ..ir.reverse_ir import FLOAT_ZERO, Branch, Comment, Item, Nest, Opaque, Step, loop_head, replace_by_scalars, steps
from ..ir.statements import Assign, Loop, Store, names_written, walk
from ..ir.terms import MINUS_ONE, ONE, ZERO, Compare, Element, Select, Term, Variable, named, subterms
from .loop_distribution import distribute_loop
from .loop_fusion import merge_zero_and_add
from .reduction_privatization import PrivatizedArray, chunked_loop, privatizable_arrays
from .scatter_to_gather import read_foremost_first, rewrite_as_gather

if TYPE_CHECKING:
    from ..analysis.dependence import Index
    from ..codegen.reverse_sweep import AdjointBuilder

__all__ = ["LoopReversal"]


class LoopReversal:
    """The reverse sweep of one loop; `body` reverses one iteration."""

    def __init__(self, reverse: AdjointBuilder, loop: Loop, body: list[Item]) -> None:
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
        self.set: set[str] = {s.name for s, _ in self.steps if isinstance(s.target, Variable) and s.assign_op == "="}
        self.stored: dict[str, set[Index]] = {}  # indices of the elements that are assigned, by array
        self.read: dict[str, set[Index]] = {}  # indices of those that are read
        self.added: dict[str, dict[Index, list[tuple[Step, int]]]] = {}  # the additions to each element
        self.names_read: set[str] = set()  # all names that are read

    def reversed_items(self) -> list[Item]:
        own = self.reverse.private_arrays.get(self.loop, {})
        arrays: list[Item] = [Step(Variable(name), "=", value) for name, value in own.items()]
        if not self.collect_accesses() or not self.loop.index or self.loop.trip_counter:
            self.reverse.loop_orders[self.loop] = "reversed from the last iteration: little is known of its iterations"
            nest = self.reverse.reversed_head(self.loop).with_body([*arrays, *self.body])
            return [*self.explain_serial("what is stored grows, or arrays change places"), nest]
        conflicts = self.conflicting_arrays()
        distributed = conflicts and enabled(Pass.LOOP_DISTRIBUTION) and distribute_loop(self, conflicts)
        hoisted, delayed = distributed or ([], [])
        independent = conflicts == [] or bool(hoisted or delayed)
        hoists = self.is_innermost and enabled(Pass.HOISTED_SUMS)
        before, after = self.hoist_accumulators(independent) if hoists else ([], [])
        before, after = [*before, *hoisted], [*delayed, *after]
        gathers = independent and self.is_innermost and enabled(Pass.SCATTER_TO_GATHER)
        if gathers and self.adds_contiguously():
            rewrite_as_gather(self)
            read_foremost_first(self)
        if self.is_innermost and not independent:
            before += self.carry_in_scalars()
        head = loop_head(self.loop) if independent else self.reverse.reversed_head(self.loop)
        self.reverse.loop_orders[self.loop] = (
            "reversed from the first iteration, since iterations are independent"
            if independent
            else f"reversed from the last iteration, since iterations share {', '.join(conflicts or ['values'])}"
        )
        verdict, local = self.verdict(set(own))
        self.body[:0] = arrays
        if not self.loop.parallel or verdict.serial_reason:
            return [*before, *self.explain_serial(verdict.serial_reason), head.with_body(self.body), *after]
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
        numbers = {s.name for s, _ in steps(self.body) if isinstance(s.target, Variable)}
        for name in sorted(numbers):
            read = first_access(self.body, name) == "read"
            if bars.get(name) in private_names:
                local += [name] if read else []
            elif name not in sums and (read or name in bars or (name in f.ranks and name not in private_names)):
                return ParallelLegality(f"{name} is carried from iteration to iteration"), []
        shareable = privatizable_arrays(self.body, self.loop.index) if enabled(Pass.REDUCTION_PRIVATIZATION) else {}
        return iteration_legality(self.plan, self.loop, self.body, (sums & numbers) - set(local), own, shareable), local

    def explain_serial(self, why: str) -> list[Item]:
        """Record why a parallel loop is serial in the reverse sweep."""
        return self.with_verdict(ParallelLegality(why)) if self.loop.parallel else []

    def with_verdict(self, verdict: ParallelLegality) -> list[Item]:
        self.reverse.verdicts[self.loop, " in reverse"] = verdict
        return [Comment(str(verdict))] if verdict.serial_reason or verdict.privatized_arrays else []

    def as_parallel(self, verdict: ParallelLegality, local: list[str]) -> list[Item]:
        """Run the iterations in parallel, in chunks if they accumulate into shared scalars or arrays."""

        def own(name: str, what: str = "") -> str:
            return self.reverse.named(self.loop, name, what)

        private_names = {name: own(f"{name}_turn") for name in local}
        sums = {
            name: LoopReduction(own(f"{name}_part"), FLOAT_ZERO, own(f"{name}_parts"))
            for name in verdict.reduction_names
        }
        rename_in_items(self.body, {**private_names, **{name: s.partial_sum for name, s in sums.items()}})
        self.body[:0] = [Step(Variable(name), "=", FLOAT_ZERO) for name in private_names.values()]
        if not sums and not verdict.privatized_arrays:
            return [*self.with_verdict(verdict), loop_head(self.loop, parallel=True).with_body(self.body)]
        axes = {n: [own(f"k{d + 1}", n) for d in range(len(sizes))] for n, sizes in verdict.privatized_arrays.items()}
        shares = [
            PrivatizedArray(n, own(f"{n}_parts"), sizes, axes[n]) for n, sizes in verdict.privatized_arrays.items()
        ]
        return [
            *self.with_verdict(verdict),
            *chunked_loop(self.loop, self.body, sums, shares, own("share"), own("shares")),
        ]

    def hoist_sums_if_plain(self) -> tuple[list[Item], list[Item]]:
        """Hoist accumulators of a loop that is reversed iteration by iteration; return what goes before and after
        it."""
        hoists = enabled(Pass.HOISTED_SUMS) and self.collect_accesses() and self.is_innermost
        return self.hoist_accumulators(self.loop in self.plan.strip_mined_loops) if hoists else ([], [])

    def collect_accesses(self) -> bool:
        """Collect the accesses of the body; whether it has only assignments, branches and loops."""
        terms: list[Term] = []
        stack = list(self.body)
        while stack:
            item = stack.pop()
            if isinstance(item, Nest):
                self.is_innermost = self.is_innermost and isinstance(item, Branch)
                terms += item.terms
                stack += item.body
            elif isinstance(item, Opaque):
                return False
        for s, depth in self.steps:
            terms += s.evaluated()
            if isinstance(s.target, Element):
                if s.assign_op == "=":
                    self.stored.setdefault(s.name, set()).add(s.target.index)
                else:
                    self.added.setdefault(s.name, {}).setdefault(s.target.index, []).append((s, depth))
        for t in subterms(*terms):
            if isinstance(t, Element):
                self.read.setdefault(t.array, set()).add(t.index)
        self.names_read |= named(*terms)
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
        summed = {s.name for s, _ in self.steps if isinstance(s.target, Variable)} - self.set
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
            (index,) = indices
            return any(self.is_shifted_variable(p) for p in index)
        pairs = [(a, b) for a in stored for b in indices] + [(a, b) for a in added for b in read]
        return not any(self.plan.dependence_tests.may_conflict(self.loop, a, b, True) for a, b in pairs)

    def recollect_accesses(self) -> None:
        """Collect the accesses again, after the body was changed."""
        self.reset_accesses()
        self.collect_accesses()

    def is_only_added_to(self, name: str, index: Index) -> bool:
        """Whether iterations only add to an element."""
        others = {*self.stored.get(name, ()), *self.read.get(name, ())}
        return not any(self.plan.dependence_tests.may_conflict(self.loop, index, b, False) for b in others)

    def is_shifted_variable(self, part: Term) -> bool:
        """Whether an index is the loop variable plus a constant."""
        shifted = offset(part)[0] is Variable(self.loop.index)
        return shifted and self.plan.dependence_tests.provably_nonnegative(part, self.loops)

    def is_invariant(self, *terms: Term) -> bool:
        """Whether terms are loop-invariant."""
        return not named(*terms) & (self.changing | self.targets)

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
                hoistable = self.is_invariant(*index) and self.always_accessed(name, index, adds)
                if not hoistable or not self.is_only_added_to(name, index):
                    continue
                total = Variable(self.reverse.named(self.loop, f"{name}_sum", str(target)))
                before.append(Step(total, "=", FLOAT_ZERO))
                after.append(Branch(self.nonempty_test, body=[Step(target, "+=", total)]))
                for s, _ in adds:
                    s.target = total
                del elements[index]
        if independent and self.adds_contiguously():
            totals: dict[Variable, Variable] = {}
            hoisted = {s.name for s in before}
            for s, _ in self.steps:
                if isinstance(s.target, Variable) and s.assign_op != "=" and s.name not in self.set:
                    s.reassociable = True
                    if s.name not in hoisted and self.outlives_iteration(s.name):
                        total = totals[s.target] = Variable(self.reverse.named(self.loop, f"{s.name}_sum", ""))
                        s.target = total
            before += [Step(total, "=", FLOAT_ZERO) for total in totals.values()]
            after += [Step(scalar, "+=", total) for scalar, total in totals.items()]
        return [*before], after

    def outlives_iteration(self, bar: str) -> bool:
        """Whether a cotangent outlives an iteration of the enclosing loop, even one with checkpoints."""
        around = self.plan.dependence_tests.enclosing[self.loop]
        if not around or self.loop.parallel:
            return False
        return bar not in {self.reverse.bars.get(s.name) for s in walk(around[-1].body) if isinstance(s, Assign)}

    def always_accessed(self, name: str, index: Index, adds: list[tuple[Step, int]]) -> bool:
        """Whether every iteration accesses an element: then it is in range if there are iterations.

        Whether its sum is zero is not tested: the derivative of the sum need not be.
        """
        if any(depth == 0 for _, depth in adds):
            return True
        array = next((n for n, bar in self.reverse.bars.items() if bar == name), "")
        if len(index) > 1:
            return False  # so far, of vectors only
        element = Element(array, index)
        return any(element in must_evaluate(s.value) for s in self.loop.body if isinstance(s, Assign | Store))

    @property
    def nonempty_test(self) -> Term:
        """The test whether the loop has any iterations."""
        start, stop, step = self.loop.start, self.loop.stop, self.loop.step
        if step is ONE or step is MINUS_ONE:
            return Compare((">",), (stop, start) if step is ONE else (start, stop))
        return Compare((">",), (called(len, called(range, start, stop, step)), ZERO))

    def adds_contiguously(self) -> bool:
        """Whether iterations add to consecutive elements."""
        return all(
            self.follows_variable(name, index, -1, self.loop) and self.is_invariant(*index[:-1])
            for name, elements in self.added.items()
            for index in elements
        )

    def follows_variable(self, name: str, index: Index, axis: int, loop: Loop) -> bool:
        """Whether the index of an element that is added to is the variable of `loop` plus a constant along an axis.

        It must be non-negative wherever the element is accessed.
        """
        part, independence = index[axis], self.plan.dependence_tests
        enclosing = self.loops[: self.loops.index(loop) + 1]
        return offset(part)[0] is Variable(loop.index) and (
            independence.provably_nonnegative(part, enclosing)
            or all(independence.nonnegative_under(part, self.loops, self.tests[s]) for s, _ in self.added[name][index])
        )

    # Recurrences.

    def carry_in_scalars(self) -> list[Item]:
        """Carry an element that an iteration adds to, and the next one assigns, in a scalar; return its first value."""
        before: list[Item] = []
        (base, step), variable = offset(self.loop.step), Variable(self.loop.index)
        if base is not None or abs(step) != 1:
            return before
        nonempty = Compare((">" if step > 0 else "<",), (self.loop.stop, self.loop.start))
        for name, indices in self.stored.items():
            if len(indices) > 1:
                continue
            (own,) = indices
            following = _moved(own, variable, plus(variable, -step))
            others = {*self.added.get(name, ()), *self.read.get(name, ())} - {own, following}
            adds = self.added.get(name, {}).get(following, [])
            if (
                following == own
                or following in self.read.get(name, ())
                or all(depth for _, depth in adds)
                or not all(self.is_shifted_variable(p) or self.is_invariant(p) for p in (*own, *following))
                or not all(self.differ_by_constant(o, p) for o in others for p in (own, following))
            ):
                continue
            here, after = (Variable(self.reverse.named(self.loop, f"{name}_{w}", "")) for w in ("here", "next"))
            this, that = Element(name, own), Element(name, following)
            for item in self.body:
                replace_by_scalars(item, {this: here, that: after})
            first = Element(name, _moved(own, variable, plus(self.loop.stop, -step)))
            before.append(Step(here, "=", Select(nonempty, first, FLOAT_ZERO)))
            self.body.insert(0, Step(after, "=", that))
            self.body += [Step(this, "=", here), Step(that, "=", after), Step(here, "=", after)]
        return before

    def provably_differ(self, a: Index, b: Index) -> bool:
        """Whether two elements provably differ in each iteration, by linear inequalities."""
        return self.differ_by_constant(a, b) or not self.plan.dependence_tests.may_conflict(self.loop, a, b, False)

    def differ_by_constant(self, a: Index, b: Index) -> bool:
        """Whether two elements differ by a constant distance in each iteration."""
        counted = self.plan.dependence_tests.provably_nonnegative
        return any(
            distance(p, q) and counted(p, self.loops) and counted(q, self.loops) for p, q in zip(a, b, strict=True)
        )


def _tests(body: list[Item], around: tuple[tuple[Term, bool], ...]) -> Iterator[tuple[Step, tuple]]:
    """The assignments, with the tests around each and the outcome of these."""
    for item in body:
        if isinstance(item, Step):
            yield item, around
        elif isinstance(item, Nest):
            test = ((item.test, not item.otherwise),) if isinstance(item, Branch) else ()
            yield from _tests(item.body, (*around, *test))


def _moved(index: Index, variable: Variable, value: Term) -> Index:
    """`index` with `value` in place of the loop variable."""
    return tuple([plus(value, offset(p)[1]) if offset(p)[0] is variable else p for p in index])
