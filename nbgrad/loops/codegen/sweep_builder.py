"""Items of generated functions: statements with index checks and derivatives; tangents and adjoints extend it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..analysis.parallelization import LoopReduction, ParallelLegality, forward_legality, parallel_loop
from ..analysis.reverse_plan import Plan
from ..frontend.primitive_calls import primal_call
from ..ir.effects import Bind
from ..ir.matrix_products import Product, as_product
from ..ir.names import called
from ..ir.passes import Pass, enabled
from ..ir.printer import ItemBuilder, Routine
from ..ir.reverse_ir import FLOAT_ZERO, Comment, For, Item, Step, loop_head, product_nest
from ..ir.statements import Alloc, Assign, Block, Call, Function, Grow, InRange, Loop, Statement, Swap, walk
from ..ir.terms import ZERO, Binary, DType, Term, Variable, substitute
from ..runtime.products import PRODUCT_ROUTINES
from ..transforms.strip_mining import strip_mined
from ..transforms.unroll_and_jam import unrolled_and_jammed
from . import bounds_checks

__all__ = ["SweepBuilder"]


class SweepBuilder(ItemBuilder):
    """Makes items of statements. `derivatives_of` maps variables to their tangents or cotangents, allocated and swapped
    with them."""

    def __init__(self, f: Function, plan: Plan) -> None:
        self.f = f
        self.plan = plan
        self.bounds = plan.index_checks(f)  # takes names
        self.free = f.names.copy()  # several files may be generated from a function
        bounds_checks.import_index_check(self.bounds, self.free)
        self.derivatives_of: dict[str, str] = {}
        self.names: dict[tuple[Statement, str, str], str] = {}
        self.sums: dict[str, LoopReduction] = {}  # the reductions of the current parallel loop
        self.verdicts: dict[tuple[Loop, str], ParallelLegality] = {}  # of loops over prange

    def fresh(self, name: str) -> str:
        """`name`, with a numeric suffix if it is taken."""
        return self.free.fresh(name, 2)

    def counters(self, array: str) -> list[str]:
        """Fresh loop variables, one for each axis of an array."""
        return [self.fresh(f"k{d + 1}") for d in range(self.f.ranks[array])]

    def named(self, s: Statement, name: str, what: str) -> str:
        """A fresh name for something that belongs to a statement or loop; the same one on each call."""
        key = s, name, what
        if key not in self.names:
            self.names[key] = self.fresh(name)
        return self.names[key]

    def block(self, block: Block) -> list[Item]:
        """The items of a block, with its index checks."""
        items: list[Item] = []
        for s in block:
            items += bounds_checks.guards(self.bounds.before.get(s, []))
            if not self.is_elided(s):
                items += self.statement(s)
        return items

    def is_elided(self, s: Statement) -> bool:
        """Whether `s` is not printed, because its effect is obtained elsewhere."""
        return False

    def assign(self, s: Assign) -> list[Item]:
        target, value = self.private_sum(Variable(s.name)), self.with_private_sums(s.value)
        if s.reassociable and isinstance(value, Binary):
            value = Routine.PLUS.called(*value.operands)
        return [Step(target, "=", value)]

    def in_range(self, s: InRange) -> list[Item]:
        return []  # its check is among those of the index

    def alloc(self, s: Alloc) -> list[Item]:
        beside = self.derivatives_of.get(s.name)
        begun = called(self.beside_initializer(s.name), Variable(s.name))
        return [*super().alloc(s), *([Bind((beside,), begun)] if beside else [])]

    def grow(self, s: Grow) -> list[Item]:
        beside = self.derivatives_of.get(s.name)
        return [s, *([Grow(beside, s.size)] if beside else [])]

    def beside_initializer(self, name: str) -> Callable:
        """The NumPy constructor for the array beside `name`."""
        return np.zeros_like

    def call(self, s: Call) -> list[Item]:
        return primal_call(s, self.f)

    def swap(self, s: Swap) -> list[Item]:
        return [Swap(s.first, s.second), *self.swap_derivatives(s)]

    def swap_derivatives(self, s: Swap) -> list[Item]:
        if s.first not in self.derivatives_of:
            return []
        return [Swap(self.derivatives_of[s.first], self.derivatives_of[s.second])]

    def private_sum(self, scalar: Variable) -> Variable:
        """The iteration's private variable for a sum; any other scalar is itself."""
        return Variable(self.sums[scalar.name].partial_sum) if scalar.name in self.sums else scalar

    def with_private_sums(self, term: Term) -> Term:
        """`term`, with the iteration's private names of the sums in it."""
        private: dict[Term, Term] = {Variable(n): Variable(s.partial_sum) for n, s in self.sums.items()}
        return substitute(term, private) if private else term

    def matrix_product(self, s: Loop) -> Product | None:
        """The product of matrices that a loop is, if nothing else must happen in it."""
        found = as_product(s) if s.product else None
        checked = s in self.bounds.loops_with_checks or any(t in self.bounds.before for t in walk(s.body))
        if found is None or checked or (self.plan.enclosing[s] and s in self.bounds.after_iteration):
            return None
        for routine in PRODUCT_ROUTINES:
            self.free.imported(routine.__name__, routine)
        return found

    def loop_items(self, s: Loop) -> list[Item]:
        found = self.matrix_product(s)
        if found is not None:
            return [product_nest(found)]
        if not s.parallel:
            body = self.iteration_items(s)
            return [self.in_strips(s, body)] if body or not s.index else []  # checks may all be before the loop
        verdict = self.verdicts[s, ""] = self.verdict(s)
        if verdict.serial_reason:
            return [Comment(str(verdict)), loop_head(s).with_body(self.iteration_items(s))]
        names = [
            n
            for name in verdict.reduction_names
            for n in (name, self.derivatives_of.get(name))
            if n and self.is_printed_variable(n)
        ]
        self.sums = {n: self.sum_of(s, n) for n in names}
        body = self.iteration_items(s)
        sums, self.sums = self.sums, {}
        return parallel_loop(s, body, sums, self.private_initial_values(s))

    def in_strips(self, s: Loop, body: list[Item]) -> Item:
        """A serial loop around the items of an iteration, in blocks of iterations if it is vectorized but for sums, or
        if its sums can run side by side."""
        loop = loop_head(s).with_body(body)
        if not isinstance(loop, For):
            return loop

        def named(name: str) -> str:
            return self.named(s, name, "of blocks")

        if s in self.plan.strip_mined_loops:
            return strip_mined(loop, named)
        # The iterations of a parallel loop would share the buffers.
        jams = enabled(Pass.UNROLL_AND_JAM) and not any(p.parallel for p in self.plan.enclosing[s])
        return unrolled_and_jammed(loop, named, self.f.kinds, self.dtypes_at_first) if jams else loop

    @cached_property
    def dtypes_at_first(self) -> dict[str, Term]:
        """The dtypes of the arrays of the function that depend on its parameters alone."""
        f = self.f
        dtypes: dict[str, Term] = {n: DType(n) for n in f.parameters if f.ranks.get(n)}
        for s in walk(f.body):
            if isinstance(s, Alloc) and s.dtype.named <= set(f.parameters):
                dtypes[s.name] = s.dtype
        return dtypes

    def private_initial_values(self, s: Loop) -> dict[str, Term]:
        """The initial values of the scalars of an iteration that need one."""
        return {}

    def is_printed_variable(self, name: str) -> bool:
        """Whether `name` is a variable of the printed code: of the function, or beside one."""
        return name in self.f.ranks

    def sum_of(self, loop: Loop, name: str) -> LoopReduction:
        """The private storage of a sum in a parallel loop."""
        zero = ZERO if self.f.kinds.get(name, "float") == "int" else FLOAT_ZERO
        return LoopReduction(self.named(loop, f"{name}_turn", ""), zero, self.named(loop, f"{name}_turns", ""))

    def iteration_items(self, s: Loop) -> list[Item]:
        guards = bounds_checks.guards(self.bounds.after_iteration.get(s, []))
        return [*self.block(s.body), *self.end_of_iteration(s), *self.loop_exit(s), *guards]

    def end_of_iteration(self, s: Loop) -> list[Item]:
        """Further items at the end of an iteration."""
        return []

    def parallel_verdicts(self) -> dict[str, str]:
        """The verdicts on loops over prange, by their first lines; equal lines are numbered."""
        loops = [p for p in walk(self.f.body) if isinstance(p, Loop) and p.parallel]
        lines: dict[str, str] = {}
        for (loop, where), verdict in self.verdicts.items():
            line = loop_head(loop, parallel=True).head
            same = [p for p in loops if loop_head(p, parallel=True).head == line]
            lines[f"{line}{f' ({same.index(loop) + 1})' * (len(same) > 1)}{where}"] = self.f.with_user_names(
                str(verdict)
            )
        return lines

    def verdict(self, s: Loop) -> ParallelLegality:
        """Whether the iterations of a loop may run in parallel."""
        return forward_legality(self.f, self.plan, s)
