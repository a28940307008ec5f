"""The augmented forward sweep: the function itself, plus stores of the values that the reverse sweep needs."""

from __future__ import annotations

from ..analysis.parallelization import ParallelLegality, final_value_stores, forward_legality
from ..analysis.reverse_plan import Plan
from ..frontend.primitive_calls import CallTape
from ..ir.matrix_products import Product
from ..ir.passes import Pass, enabled
from ..ir.reverse_ir import Item, Step, loop_head
from ..ir.statements import Assign, Call, Function, Loop, Statement, Store, walk, writes
from ..ir.tapes import Stack, Tape, ensure_capacity, share_arrays
from ..ir.terms import ONE, ZERO, Binary, DType, Term, Variable
from ..ir.type_inference import DTYPES, ZEROS
from ..runtime.tape_memory import in_large_pages
from ..transforms.vectorization import is_sequential
from .copy_elimination import CopyElimination
from .sweep_builder import SweepBuilder

__all__ = ["AugmentedForward"]


class AugmentedForward(SweepBuilder):
    """Makes items of the function, with stores onto tapes.

    Attributes
    ----------
    tapes : dict
        The tape of each statement whose value is stored.
    last_values : dict
        The statements whose value is stored at the end of each iteration of a parallel loop, with that loop.
    measuring : bool
        Whether the function only measures its tapes.
    """

    def __init__(self, f: Function, plan: Plan) -> None:
        super().__init__(f, plan)
        self.measuring = False
        self.measured: dict[Tape | CallTape, str] = {}
        self.last_values = final_value_stores(f, plan)
        self.calls = {
            s: CallTape(s, f, plan, self.fresh) for s in walk(f.body) if isinstance(s, Call) and not s.value_name
        }
        self.tapes: dict[Statement, Tape] = {}
        stacks: dict[tuple[object, ...], Stack] = {}
        for s in (*walk(f.body), *(s for s in self.last_values if s not in plan.saved_overwrites)):
            free = (
                s in plan.scalar_copies or s in plan.inverse_increments
            )  # the overwritten value is available elsewhere
            if (s in plan.saved_overwrites and not free) or s in plan.stored_definitions or s in self.last_values:
                name = writes(s)[0]
                dtype = DType(name) if isinstance(s, Store) else DTYPES[f.kinds.get(name, "float")]
                loops = plan.local_reversal.without_local_reversal(plan.enclosing[s])
                iteration = self.reverse_variable(loops[0]) if loops else ""
                self.tapes[s] = Tape(self.fresh(f"{name}_tape"), dtype, loops, iteration, stacks, self.fresh)
        if enabled(Pass.SHARED_TAPES):
            # Side by side, they would keep LLVM from vectorizing other loops.
            share_arrays(self.tapes.values(), lambda loop: is_sequential(loop, plan), self.fresh)
        self.stacks = list(stacks.values())
        self.elided_copies = CopyElimination(f, plan, self.tapes)

    @property
    def arrays_of_tapes(self) -> set[str]:
        """The names of tapes that are arrays."""
        return {tape.array for tape in self.tapes.values() if tape.sizes != []}

    def stored_in_loops(self) -> dict[str, Tape | CallTape]:
        """The tapes in loops, and what calls store there, by a label with its name and the loops."""
        every: list[Tape | CallTape] = [*self.tapes.values(), *self.calls.values()]
        return {f"{t.name} over {', '.join(p.index or 'while' for p in t.loops)}": t for t in every if t.loops}

    def bytes_of(self, tape: Tape | CallTape) -> str:
        """The variable that measures the bytes of a tape."""
        if tape not in self.measured:
            self.measured[tape] = self.fresh(f"{tape.name}_bytes")
        return self.measured[tape]

    def tape_axes(self) -> int:
        """The total number of axes of all tapes."""
        return sum(len(tape.loops) for tape in self.tapes.values())

    def reverse_variable(self, s: Loop) -> str:
        """The variable of a loop in the reverse sweep; a while loop gets one."""
        return s.index or self.named(s, "iteration", "")

    def zero(self, name: str, like: str = "") -> Step:
        """Set a scalar to the zero of its kind, or of the kind of `like`."""
        return Step(Variable(name), "=", ZEROS[self.f.kinds.get(like or name, "float")])

    def initial_values(self) -> list[Item]:
        """Initial values for what may be read although the branch that sets it was not taken: Numba requires them."""
        single = [(s, tape.name) for s, tape in self.tapes.items() if not tape.loops and s not in self.f.body]
        kept = [self.zero(name, writes(s)[0]) for s, name in single]
        calls = [item for call in self.calls.values() for item in call.initial_tapes()]
        return [*(self.zero(n) for n in self.saved_before_set()), *kept, *calls]

    def saved_before_set(self) -> list[str]:
        """Local scalars that may be saved before they are set for the first time."""
        statements = list(walk(self.f.body))
        names = dict.fromkeys(s.name for s in statements if isinstance(s, Assign) and s in self.plan.saved_overwrites)
        names |= dict.fromkeys(n for s in statements if isinstance(s, Loop) for n in s.values_before_loop)
        return [n for n in names if n not in self.f.parameters]

    def is_elided(self, s: Statement) -> bool:
        return s in self.elided_copies.dead_statements

    def assign(self, s: Assign) -> list[Item]:
        saved = s in self.plan.saved_overwrites & self.tapes.keys() and s not in self.last_values
        value = self.private_sum(Variable(s.name))
        before = self.tapes[s].record(value) if saved else []
        after = self.tapes[s].record(value) if s in self.plan.stored_definitions else []
        return [*before, *super().assign(s), *after]

    def store(self, s: Store) -> list[Item]:
        saved = self.tapes[s].record(s.target) if s in self.tapes else []
        return [*saved, *super().store(Store(s.array, s.index, self.elided_copies.replacement_values.get(s, s.value)))]

    def matrix_product(self, s: Loop) -> Product | None:
        found = super().matrix_product(s)
        if found is None:
            return None
        (core,) = [t for t in walk(s.body) if isinstance(t, Store)]
        special = core in self.tapes or core in self.elided_copies.replacement_values or self.is_elided(core)
        return None if special else found

    def call(self, s: Call) -> list[Item]:
        if s not in self.calls:
            return super().call(s)
        return self.calls[s].forward_call(self.derivatives_of, self.bytes_of(self.calls[s]) if self.measuring else "")

    def iteration_items(self, s: Loop) -> list[Item]:
        """An iteration, after capacity is ensured in tapes that grow by iterations."""
        growing = [tape for tape in self.tapes.values() if tape.grows_by_iteration and tape.loops[0] is s]
        counter = Variable(s.trip_counter)
        ensure = [ensure_capacity(growing, "==", counter, Binary("+", counter, ONE))] if growing else []
        ensure += [item for stack in self.pushed_in(s) for item in stack.reserve()]
        return [*ensure, *super().iteration_items(s)]

    def pushed_in(self, s: Loop) -> list[Stack]:
        """The stacks that grow by iterations of a loop."""
        return [stack for stack in self.stacks if stack.frame_per_iteration and stack.frame is s]

    def end_of_iteration(self, s: Loop) -> list[Item]:
        """Stores at the end of an iteration."""
        last = [first for first, loop in self.last_values.items() if loop is s]
        kept = [item for first in last for item in self.tapes[first].record(Variable(first.name))]
        return [*kept, *(stack.push() for stack in self.pushed_in(s))]

    def private_initial_values(self, s: Loop) -> dict[str, Term]:
        """Initial values of scalars that an iteration may store before it sets them."""
        extra = [t.name for t, loop in self.last_values.items() if loop is s and t not in self.plan.saved_overwrites]
        return {n: ZEROS[self.f.kinds.get(n, "float")] for n in extra}

    def verdict(self, s: Loop) -> ParallelLegality:
        inside = set(walk(s.body))
        last = {t.name for t, loop in self.last_values.items() if loop is s}
        here = inside | {t for t, loop in self.last_values.items() if loop is s}
        grows = any(tape.grows_in(s) for t, tape in self.tapes.items() if t in here)
        stored = {t for t in self.plan.saved_overwrites & inside if writes(t)[0] not in last}
        return forward_legality(self.f, self.plan, s, stored, grows)

    def presized_stacks(self, s: Loop) -> list[Item]:
        """Compute the capacity of the stacks in a loop, where their iterations can be counted beforehand."""
        items: list[Item] = []
        tests = self.plan.dependence_tests.tests
        for stack in (
            t for t in self.stacks if enabled(Pass.PRESIZED_STACKS) and t.presizable and t.outer_loops[0] is s
        ):
            bounds = stack.bound_setters or {}
            # Each bound must be set before it is read. Under a branch, reads may be out of range, or nothing stored.
            defined = all(t in self.plan.defined for every in bounds.values() for t in every)
            if defined and not tests[stack.frame]:
                stack.total_slots = self.fresh(f"{stack.tapes[0].name}_size")
                inner: list[Item] = [Step(Variable(stack.total_slots), "+=", stack.frame_size)]
                for p in reversed(stack.loops):
                    inner = [loop_head(p).with_body(inner)] if p in stack.outer_loops else inner
                    inner[:0] = [Step(Variable(t.name), "=", t.value) for t in bounds[p]]
                items += [Step(Variable(stack.total_slots), "=", ZERO), *inner]
        return items

    def allocate(self, tape: Tape) -> list[Item]:
        if tape.sizes or (tape.stack is not None and tape.stack.total_slots):
            self.free.imported("in_large_pages", in_large_pages)
        return tape.allocate()
