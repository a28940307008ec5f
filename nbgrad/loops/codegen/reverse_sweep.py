"""Code generation for adjoints: the augmented forward sweep, followed by the reverse sweep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ...ir.expr import ONE, ZERO, Expr, neg, substitute, var
from ..analysis.iteration_local_reversal import cotangent_name
from ..analysis.must_execute import guarded_contribution
from ..analysis.reverse_plan import Plan
from ..frontend.primitive_calls import reverse_call
from ..ir.algebra import COTANGENT, VALUE, common, term_of
from ..ir.effects import Bind, BlankLine, Return
from ..ir.matrix_products import Product
from ..ir.names import called
from ..ir.passes import Pass, check_sweeps, checked_sweep, enabled
from ..ir.printer import Definition, definition
from ..ir.reverse_ir import (
    FLOAT_ZERO,
    Branch,
    Comment,
    For,
    Item,
    Nest,
    Step,
    hoist_common_steps,
    loops_over,
    merge_zero_steps,
    product_nest,
)
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
    Swap,
    names_written,
    walk,
    writes,
)
from ..ir.tapes import reversed_loop_head
from ..ir.terms import Compare, Constant, Copy, Element, Length, Logical, Property, Term, Unary, Variable, variables
from ..transforms.dead_adjoints import remove_dead_adjoints
from ..transforms.loop_fusion import fuse_loops, single_read_arrays
from ..transforms.loop_reversal import LoopReversal
from . import bounds_checks
from .augmented_forward import AugmentedForward

__all__ = ["AdjointBuilder"]


class AdjointBuilder(AugmentedForward):
    """Makes the adjoint of a function.

    Attributes
    ----------
    seeds : list of str
        The results whose cotangents are arguments (scalars and local arrays).
    arrays : list of str
        The array parameters whose cotangents are arguments, read and written.
    scalar_wrt : list of str
        The parameters whose gradients are returned after the results.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str]) -> None:
        super().__init__(f, plan)
        self.bars = self.derivatives_of = {n: self.fresh(f"{n}_bar") for n in self.active_names()}
        self.g, self.y = self.fresh("g"), self.fresh("y")
        self.entry = self.fresh(f"{f.name}_adjoint")
        self.extra_parameters: list[str] = []  # parameters appended to the others
        self.seed_args: dict[str, str] = {}  # arguments that hold the initial cotangents of local arrays
        self.copied: list[str] = []  # arrays copied before the reverse sweep
        self.done = plan.local_reversal.already_reversed
        self.common_names: list[str] = []  # names of common subexpressions in the derivatives of a statement
        self.zeroed = False  # whether cotangents are initialized
        self.hoisted_items: list[Item] = []  # code to put before the current outermost loop
        self.after_loop: dict[Loop, list[Item]] = {}  # code to put after a loop
        self.private_arrays: dict[Loop, dict[str, Term]] = {}  # arrays private to an iteration, and their allocations
        self.loop_orders: dict[Loop, str] = {}  # in which order iterations are reversed, and why
        self.one_sided: set[Statement] = set()  # branches whose else side is empty in the reverse sweep
        self.value: Term = Variable(self.y)  # the value that the current statement wrote
        self.vectorizable = False  # whether it calls the functions that vectorize
        self.seeds = [
            r for r in f.results or [] if r in plan.active and (f.ranks.get(r, 0) == 0 or r not in f.parameters)
        ]
        self.arrays = [p for p in f.parameters if f.ranks.get(p) and p in plan.active]
        self.scalar_wrt = [p for p in wrt if not f.ranks.get(p) and p in plan.active]

    @cached_property
    def forwarded_bars(self) -> dict[str, str]:
        """The cotangents of arrays that a single statement reads, with names for a scalar that replaces the element."""
        found = single_read_arrays(self.f, self.plan)
        return {self.bars[n]: self.named(s, f"{self.bars[n]}_here", "") for n, s in found.items()}

    def active_names(self) -> list[str]:
        """The active variables, parameters first."""
        found = dict.fromkeys(n for n in self.f.parameters if n in self.plan.active)
        found |= dict.fromkeys(n for s in walk(self.f.body) for n in writes(s) if n in self.plan.active)
        return list(found)

    def measure(self) -> Definition:
        """A function that runs only the forward sweep, and returns the bytes of the tapes and of the
        copies made before the reverse sweep."""
        f, tapes = self.f, list(self.stored_in_loops().values())
        self.measuring = True
        counts = [Variable(self.bytes_of(tape)) for tape in tapes]
        head = [*self.initial_values(), *(Step(n, "=", Constant(0)) for n in counts)]
        given = [*f.parameters, *(self.seed(n) for n in dict.fromkeys([*self.seeds, *self.arrays]))]
        found = Return((*counts, *(Property(Variable(n), "nbytes") for n in self.copied)), packs=True)
        items = [*head, *self.block(f.body), found]
        self.measuring = False
        return definition(self.entry, given, items)

    def source(self) -> Definition:
        f = self.f
        items = self.sweeps()
        given = [*f.parameters, *(self.seed(n) for n in dict.fromkeys([*self.seeds, *self.arrays]))]
        results = [*(self.saved_results.get(r, r) for r in f.results or []), *(self.bars[n] for n in self.scalar_wrt)]
        tail = [Return(variables(results), packs=True)] if results else []
        alike = bounds_checks.shape_checks({n: self.seed(n) for n in self.arrays}, f)
        return definition(self.entry, [*given, *self.extra_parameters], [*alike, *items, *tail])

    def sweeps(self) -> list[Item]:
        """Both sweeps."""
        there, back = self.both_sweeps()
        return [*there, BlankLine(), *back]

    def both_sweeps(self) -> tuple[list[Item], list[Item]]:
        """The augmented forward sweep, and the reverse sweep."""
        there, middle = self.forward_sweep(), self.between_sweeps()
        made = {bar: n for n, bar in self.bars.items() if n not in self.f.parameters}
        items = self.reverse_block(self.f.body)
        checked_sweep(items, self.f.name, "reversal")
        if enabled(Pass.DEAD_ADJOINTS):
            items = remove_dead_adjoints(items, there, middle, made, lambda bar: self.fresh(f"{bar}_here"))
            checked_sweep(items, self.f.name, Pass.DEAD_ADJOINTS.value)
        self.check([*there, *middle, *items])
        return there, [*middle, *items]

    def check(self, items: list[Item]) -> None:
        """Verify both sweeps if that is asked for."""
        made = {bar for n, bar in self.bars.items() if n not in self.f.parameters}
        given = {*self.extra_parameters, *map(self.seed, dict.fromkeys([*self.seeds, *self.arrays]))}
        known = {*self.f.parameters, *self.f.constants, *self.known_names, *given, *self.f.lists}
        check_sweeps(items, self.arrays_of_tapes, known, made - given, self.f.name)

    @property
    def known_names(self) -> set[str]:
        """The names that are bound before both sweeps, besides parameters."""
        return set()

    def forward_sweep(self) -> list[Item]:
        """The augmented forward sweep."""
        f, plan = self.f, self.plan
        self.in_blocks = {s.name for s, b in plan.defined.items() if b is not f.body and isinstance(s, Assign)}
        head = self.initial_values()
        self.zeroed = False
        return [*head, *self.block(f.body)]

    def seed(self, name: str) -> str:
        """The parameter for the cotangent of a result, or of an array."""
        if not self.f.ranks.get(name) or name not in self.seeds:
            return self.bars[name]
        if name not in self.seed_args:
            self.seed_args[name] = self.fresh(f"{self.bars[name]}_given")
        return self.seed_args[name]

    def between_sweeps(self) -> list[Item]:
        """What is between the two sweeps: copies of arrays that the reverse sweep changes, and initial cotangents."""
        items = self.save_results()
        return items if self.zeroed else [*items, *self.initial_cotangents()]

    def initial_cotangents(self) -> list[Item]:
        """The initial cotangents of the reverse sweep."""
        self.zeroed = True
        call_results = [r for s in self.calls for r in s.lengths if r in self.bars]
        items: list[Item] = [Bind((self.bars[r],), called(np.zeros_like, Variable(r))) for r in call_results]
        for n in (n for n in self.seeds if self.f.ranks.get(n)):
            given, names = self.seed(n), self.counters(n)
            index = variables(names)
            differ = [Compare(("!=",), (Length(given, d), Length(n, d))) for d in range(len(names))]
            test = Logical("or", tuple(differ)) if len(differ) > 1 else differ[0]
            items.append(Check(test, f"{given} must have the shape of {n}"))
            items.append(loops_over(n, names, Step(Element(self.bars[n], index), "=", Element(given, index))))
        for n, bar in self.bars.items():
            if not self.f.ranks.get(n) and n not in self.seeds and n not in self.in_blocks:
                items.append(Step(Variable(bar), "=", FLOAT_ZERO))
        return items

    def save_results(self) -> list[Item]:
        """Copies of values that the caller gets and the reverse sweep changes."""
        f = self.f
        items: list[Item] = []
        self.saved_results: dict[str, str] = {}
        self.copied = []
        swaps = [s for s in walk(f.body) if isinstance(s, Swap)]
        touched = f.moved_with(self.plan.restored)

        def moves(name: str) -> bool:
            return any(name in (s.first, s.second) for s in swaps)

        for r in f.results or []:
            if r in touched or (f.ranks.get(r) and moves(r)):
                self.saved_results[r] = self.fresh(f"{r}_value")
                own = f.ranks.get(r) and r not in f.parameters
                items.append(Bind((self.saved_results[r],), Copy(Variable(r)) if own else Variable(r)))
                self.copied += [r] * bool(own)
        for n in sorted(touched):
            if f.ranks.get(n) and (n in f.parameters or moves(n)):
                items.append(Bind((n,), Copy(Variable(n)), comment="put back to what it was, below"))
                self.copied.append(n)
        return items

    def beside_initializer(self, name: str) -> Callable:
        """``np.empty_like`` for a cotangent that an argument initializes, of an array that is never swapped."""
        swaps = (s for s in walk(self.f.body) if isinstance(s, Swap))
        overwritten = name in self.seeds and not any(name in writes(s) for s in swaps)
        return np.empty_like if overwritten else np.zeros_like

    # The forward sweep.

    def loop_items(self, s: Loop) -> list[Item]:
        """A loop of the forward sweep; where its iterations are reversed locally, each with its reverse."""
        fusion, enclosing = self.plan.local_reversal, self.plan.enclosing[s]
        made: list[Item] = [] if enclosing else self.presized_stacks(s)
        early: list[Item] = []
        if s in fusion.hoisted_adjoints and not self.measuring:
            early = [
                *([] if enclosing else self.initial_cotangents()),
                *self.reverse_statements(fusion.hoisted_adjoints[s], early=True),
            ]
        whole: list[Item]
        after: list[Item] = []
        if s in fusion.loops and not self.measuring:
            begun = any(t in fusion.loops for t in s.body)  # inner loops accumulate into cotangents of this iteration
            inside = [*(self.fresh_bars(s.body) if begun else []), *self.iteration_items(s)]
            back = self.reverse_block(s.body, begun)
            before, after = LoopReversal(self, s, back).hoist_sums_if_plain()
            early, whole = [*early, *before], [self.in_strips(s, [*inside, *back])]
        else:
            whole = super().loop_items(s)
        for tape in self.tapes.values():
            if tape.loops and tape.loops[0] is s:
                allocation = self.allocate(tape)
                first = 0 if not enclosing or tape.bounds() & names_written(enclosing[0]) else 2 if tape.sizes else 1
                self.hoist_before_loop(*allocation[:first])
                made += allocation[first:]
                size = Variable(self.bytes_of(tape))  # iterations between checkpoints may differ in tape size
                after += [Step(size, "=", called(max, size, tape.nbytes()))] if self.measuring else []
        for stack in self.stacks:
            if stack.frame is s and not stack.frame_per_iteration:
                made, after = [*made, *stack.reserve()], [*after, stack.push()]
        if not enclosing:
            made, self.hoisted_items = [*self.hoisted_items, *made], []
        return [*early, *made, *whole, *after]

    def hoist_before_loop(self, *items: Item) -> None:
        """Put `items` before the current outermost loop, once."""
        self.hoisted_items += [item for item in items if item not in self.hoisted_items]

    # The reverse sweep.

    def fresh_bars(self, block: Block) -> list[Item]:
        """Zero the cotangents of the scalars that a nested block defines."""
        return [
            Step(Variable(self.bars[s.name]), "=", FLOAT_ZERO)
            for s in block
            if isinstance(s, Assign) and s in self.plan.defined and block is not self.f.body and s.name in self.bars
        ]

    def reverse_block(self, block: Block, begun: bool = False) -> list[Item]:
        """The reverse of a block, which first recomputes or loads its definitions.

        `begun`: the cotangents of its definitions are initialized already.
        """
        items, end = self.begin_reverse(block, begun)
        items = merge_zero_steps(items + self.reverse_statements(block, end))
        return fuse_loops(items, self.forwarded_bars) if enabled(Pass.LOOP_FUSION) else items

    def begin_reverse(self, block: Block, begun: bool = False) -> tuple[list[Item], int]:
        """The beginning of the reverse of a block, and how many of its statements are left to reverse."""
        end = len(block)
        while end and block[end - 1] in self.plan.deferred_updates:
            end -= 1
        items: list[Item] = [] if begun else self.fresh_bars(block)
        items += self.reverse_statements(block[end:])
        for last, loop in self.last_values.items():
            if loop.body is block:
                items += self.tapes[last].fetch(Variable(last.name))
        for s in block:
            if isinstance(s, Assign) and s in self.plan.stored_definitions:
                items += self.tapes[s].fetch(Variable(s.name))
            elif s in self.plan.recomputed_definitions:
                assert isinstance(s, Assign)
                items.append(Step(Variable(s.name), "=", s.value))
        return items, end

    def reverse_statements(
        self, block: Block, end: int | None = None, early: bool = False, continued: bool = False
    ) -> list[Item]:
        """The reverse of the statements of `block` (up to `end`), last to first.

        `early`: they come before a loop with iteration-local reversal; otherwise, what was reversed so is left out.
        `continued`: what comes after them in their block has been reversed.
        If nothing comes after a one-sided branch and only definitions come before it, their cotangents are zero unless
        the branch is taken, so their reverse moves into it.
        """
        items: list[Item] = []
        last = not continued and (self.plan.deferred_updates | self.done).isdisjoint(block)  # nothing was reversed yet
        for k in range(len(block) - 1 if end is None else end - 1, -1, -1):
            s = block[k]
            if early and s in self.plan.local_reversal.hoisted_cotangents:
                made = self.propagate_early(s)
            else:
                made = self.reverse_statement(s) if early or s not in self.done else []
            line = [Comment(s.line)] if made and s.line else []
            if (
                made
                and isinstance(s, If)
                and last
                and not items
                and s in self.one_sided
                and self.only_definitions(block[:k])
            ):
                assert isinstance(made[-1], Nest)
                made[-1].body += self.reverse_statements(block[:k])
                return [*line, *made]
            items += [*line, *made]
        return items

    def only_definitions(self, block: Block) -> bool:
        """Whether all statements define scalars local to the block, or passive ones, and restore nothing."""
        return all(
            isinstance(s, Assign)
            and s not in self.plan.saved_overwrites
            and (s.name not in self.bars or (s in self.plan.defined and s.name in self.in_blocks))
            for s in block
        )

    def reverse_statement(self, s: Statement) -> list[Item]:
        """The reverse of one statement: restore what it overwrote, then propagate its cotangent."""
        match s:
            case Assign():
                saved = s in self.plan.saved_overwrites and s not in self.last_values
                back = self.restored(s, Variable(s.name)) if saved else []
                return back + self.propagate_cotangent(s, Variable(s.name))
            case Store():
                self.value, back = s.target, []
                if s in self.plan.saved_overwrites:
                    if self.plan.statement_adjoints[s].value:
                        self.value = Variable(self.y)
                        back.append(Step(self.value, "=", s.target))
                    back += self.restored(s, s.target)
                return back + self.propagate_cotangent(s, s.target)
            case Swap():
                return self.swap(s)
            case Call():
                return reverse_call(s, self.f, self.calls.get(s), self.bars, self.fresh)
            case If():
                body, orelse = self.reverse_block(s.body), self.reverse_block(s.orelse)
                if not orelse:
                    self.one_sided.add(s)
                common_steps = enabled(Pass.COMMON_STEPS)
                before, after = hoist_common_steps(body, orelse, s.test) if common_steps else ([], [])
                if not body:
                    rest = [Branch(Unary("not", s.test), body=orelse)] if orelse else []
                else:
                    rest = [Branch(s.test, body=body)]
                    rest += [Branch(s.test, otherwise=True, body=orelse)] if orelse else []
                return [*before, *rest, *after]
            case Loop() if (found := self.matrix_product(s)) is not None:
                return self.reverse_product(found)
            case Loop():
                inner = self.reverse_block(s.body)
                popped: list[Item] = []
                for stack in (stack for stack in self.stacks if stack.frame is s):
                    if stack.frame_per_iteration:
                        inner.insert(0, stack.pop())
                    else:
                        popped.append(stack.pop())
                return [*popped, *(self.reverse_loop(s, inner) if inner else []), *self.reset(s)]
        return []

    def restored(self, s: Statement, target: Variable | Element) -> list[Item]:
        """Restore the value that a statement overwrote."""
        if s in self.plan.inverse_increments:
            return [Step(target, "=", self.plan.inverse_increments[s])]
        held = self.plan.scalar_copies.get(s)
        return [Step(target, "=", Variable(held))] if held else self.tapes[s].fetch(target)

    @staticmethod
    def reset(s: Loop) -> list[Item]:
        """Restore the scalars whose values from before a loop were saved."""
        return [Step(Variable(n), "=", Variable(before)) for n, before in s.values_before_loop.items()]

    def reverse_loop(self, s: Loop, inner: list[Item]) -> list[Item]:
        """The reverse of a loop; `inner` is that of its body."""
        made = [*LoopReversal(self, s, inner).reversed_items(), *self.after_loop.pop(s, [])]
        if self.plan.enclosing[s]:
            return made
        made, self.hoisted_items = [*self.hoisted_items, *made], []
        return made

    def reverse_product(self, product: Product) -> list[Item]:
        """The reverse of a product of matrices: two products."""
        if product.target.array not in self.bars:
            return []
        g = self.bar(product.target)
        assert isinstance(g, Element)
        items: list[Item] = []
        for e, reversed_product in (
            (product.parts.left, product.left_cotangent),
            (product.parts.right, product.right_cotangent),
        ):
            if e.array in self.bars:
                bar = self.bar(e)
                assert isinstance(bar, Element)
                items.append(product_nest(reversed_product(bar, g)))
        return items

    def reversed_head(self, s: Loop) -> For:
        return reversed_loop_head(s, self.reverse_variable(s))

    def bar(self, atom: Variable | Element) -> Variable | Element:
        """The cotangent of a variable or an element."""
        if isinstance(atom, Variable):
            return Variable(self.bars[atom.name])
        return Element(self.bars[atom.array], atom.index)

    def split_contributions(self, s: Statement, early: bool) -> list[tuple[Variable | Element, Expr]]:
        """The contributions of a statement: the `early` ones, made before iteration-local reversal, or the rest."""
        names = self.plan.local_reversal.hoisted_cotangents.get(s, set())
        return [(a, p) for a, p in self.plan.statement_adjoints[s].parts if (cotangent_name(a) in names) == early]

    def propagate_early(self, s: Statement) -> list[Item]:
        """The early contributions of a statement."""
        g, self.vectorizable = self.bar(Variable(writes(s)[0])), s in self.plan.vectorized_statements
        return [Step(self.bar(a), "+=", self.term(p, g)) for a, p in self.split_contributions(s, True)]

    def propagate_cotangent(self, s: Assign | Store, target: Variable | Element) -> list[Item]:
        """Propagate the cotangent of what a statement writes to the variables that it reads."""
        name = writes(s)[0]
        if name not in self.bars:
            return []
        pull, self.vectorizable = self.plan.statement_adjoints[s], s in self.plan.vectorized_statements
        local = s in self.plan.defined and name in self.in_blocks
        bar, once = self.bar(target), s in self.plan.defined
        touches_itself = any(isinstance(a, Element) and a.array == name for a, _ in pull.parts)
        items: list[Item] = []
        g: Term = bar
        held = isinstance(s, Store) and len(pull.parts) > 1
        if not ((pull.target_factor is ONE and not touches_itself) or once):
            held = bool(pull.parts) or pull.target_factor is not ZERO
        if held:
            items.append(Step(Variable(self.g), "=", g))
            g = Variable(self.g)
        resets = pull.target_factor is not ONE and not (once and (local or name not in self.f.parameters))
        parts = self.split_contributions(s, False)
        known: dict[Expr, Expr] = {}
        for k, e in enumerate(common([p for _, p in parts] + ([pull.target_factor] if resets else []))):
            if k == len(self.common_names):
                self.common_names.append(self.fresh("part"))
            shared = Variable(self.common_names[k])
            items.append(Step(shared, "=", self.term(substitute(e, known), g)))
            known[e] = var(shared)
        if resets:
            own = substitute(pull.target_factor, known)
            items.append(Step(bar, "=", self.term(own, g) if own is not ZERO else FLOAT_ZERO))
        for atom, part in parts:
            there, part = guarded_contribution(s, atom, substitute(part, known), self.plan)
            minus = part.fn is neg(COTANGENT).fn
            value = self.term(part.args[0] if minus else part, g)
            step = Step(self.bar(atom), "-=" if minus else "+=", value)
            items.append(step if there is None else Branch(self.term(there, g), body=[step]))
        return items

    def term(self, e: Expr, g: Term) -> Term:
        """The term of a derivative; `g` is the cotangent of the current statement."""
        return term_of(substitute(e, {COTANGENT: var(g), VALUE: var(self.value)}), self.free, self.vectorizable)
