"""The sweep forward: the function itself, which stores what the sweep back needs."""

from __future__ import annotations

import ast

from ..analysis.activity import Plan
from ..analysis.parallelization import Verdict, ends, function_turns
from ..frontend.primitive_calls import Kept
from ..ir.reverse_ir import Item, Nest, Step, loop_head
from ..ir.statements import Assign, Call, Function, Loop, Statement, Store, unparse, walk, writes
from ..ir.tapes import Stack, Tape
from ..ir.type_inference import ZEROS
from ..runtime.tape_memory import in_large_pages
from .copy_elimination import Updates
from .printer import Printer, indent

__all__ = ["Recording"]

_DTYPES = {"float": "np.float64", "int": "np.int64", "bool": "np.bool_"}


class Recording(Printer):
    """Writes a function that stores values on tapes.

    Attributes
    ----------
    tapes : dict
        By the statement whose value they hold.
    ends : dict
        Statements whose value is stored at the end of each turn of a parallel loop, and these loops.
    measuring : bool
        Whether it is to tell how large tapes are, and do no more.
    """

    def __init__(self, f: Function, plan: Plan) -> None:
        super().__init__(f, plan)
        self.measuring = False
        self.measured: dict[Tape | Kept, str] = {}
        self.ends = ends(f, plan)
        self.calls = {s: Kept(s, f, plan, self.fresh) for s in walk(f.body) if isinstance(s, Call) and not s.found}
        self.tapes: dict[Statement, Tape] = {}
        stacks: dict[tuple[object, ...], Stack] = {}
        for s in (*walk(f.body), *(s for s in self.ends if s not in plan.save)):
            free = s in plan.held or s in plan.stepped  # what it overwrites need not be stored
            if (s in plan.save and not free) or s in plan.keep or s in self.ends:
                name = writes(s)[0]
                dtype = f"{name}.dtype" if isinstance(s, Store) else _DTYPES[f.kinds.get(name, "float")]
                loops = plan.fusion.rest(plan.enclosing[s])
                turn = self.turn(loops[0]) if loops else ""
                self.tapes[s] = Tape(self.fresh(f"{name}_tape"), dtype, loops, turn, stacks, self.fresh)
        self.stacks = list(stacks.values())
        self.updates = Updates(f, plan, self.tapes)

    @property
    def arrays_of_tapes(self) -> set[str]:
        """The names of those that are arrays."""
        return {tape.name for tape in self.tapes.values() if tape.sizes != []}

    def stored(self) -> dict[str, Tape | Kept]:
        """What is stored in loops, by its name and the loops."""
        every: list[Tape | Kept] = [*self.tapes.values(), *self.calls.values()]
        return {f"{t.name} over {', '.join(p.index or 'while' for p in t.loops)}": t for t in every if t.loops}

    def bytes_of(self, tape: Tape | Kept) -> str:
        """What has the number of bytes of a tape, where they are measured."""
        if tape not in self.measured:
            self.measured[tape] = self.fresh(f"{tape.name}_bytes")
        return self.measured[tape]

    def axes(self) -> int:
        """The number of axes that all tapes have."""
        return sum(len(tape.loops) for tape in self.tapes.values())

    def turn(self, s: Loop) -> str:
        """The variable of a loop in the sweep back."""
        return s.index or self.named(s, "turn", "")

    def zero(self, name: str, like: str = "") -> str:
        """Code that sets a number to zero, of the kind of itself or of another name."""
        return f"{name} = {ZEROS[self.f.kinds.get(like or name, 'float')]}"

    def begin(self) -> list[str]:
        """Values for all that a branch may not set before it is read elsewhere: Numba asks for them."""
        single = [(s, tape.name) for s, tape in self.tapes.items() if not tape.loops and s not in self.f.body]
        kept = [self.zero(name, writes(s)[0]) for s, name in single]
        calls = [line for call in self.calls.values() for line in call.begin()]
        return [*(self.zero(n) for n in self.start_values()), *kept, *calls]

    def start_values(self) -> list[str]:
        """Numbers that are saved before they are set for the first time."""
        every = list(walk(self.f.body))
        names = dict.fromkeys(s.name for s in every if isinstance(s, Assign) and s in self.plan.save)
        names |= dict.fromkeys(n for s in every if isinstance(s, Loop) for n in s.resets)
        return [n for n in names if n not in self.f.parameters]

    def elsewhere(self, s: Statement) -> bool:
        return s in self.updates.unread

    def assign(self, s: Assign) -> list[str]:
        before = self.tapes[s].record(s.name) if s in self.plan.save & self.tapes.keys() and s not in self.ends else []
        after = self.tapes[s].record(s.name) if s in self.plan.keep else []
        return [*before, *super().assign(s), *after]

    def store(self, s: Store) -> list[str]:
        saved = self.tapes[s].record(unparse(s.target)) if s in self.tapes else []
        return [*saved, *super().store(Store(s.array, s.index, self.updates.values.get(s, s.value)))]

    def call(self, s: Call) -> list[str]:
        if s not in self.calls:
            return super().call(s)
        return self.calls[s].there(self.beside, self.bytes_of(self.calls[s]) if self.measuring else "")

    def one_turn(self, s: Loop) -> list[Item]:
        """A turn, after room is made in tapes that grow by turns."""
        growing = [tape.name for tape in self.tapes.values() if tape.by_turn and tape.loops[0] is s]
        lines = [f"{name} = grown({name}, {s.count} + 1)" for name in growing]
        room = [f"if {s.count} == {growing[0]}.size:", *indent(lines)] if growing else []
        room += [line for stack in self.stacks if stack.by_one and stack.frame is s for line in stack.reserve()]
        return [*room, *super().one_turn(s)]

    def end_of_turn(self, s: Loop) -> list[str]:
        """What is stored there."""
        kept = [line for first, loop in self.ends.items() if loop is s for line in self.tapes[first].record(first.name)]
        return kept + [line for stack in self.stacks if stack.by_one and stack.frame is s for line in stack.push()]

    def begins(self, s: Loop) -> dict[str, str]:
        """Numbers that a turn may store before it sets them."""
        extra = [t.name for t, loop in self.ends.items() if loop is s and t not in self.plan.save]
        return {n: ZEROS[self.f.kinds.get(n, "float")] for n in extra}

    def verdict(self, s: Loop) -> Verdict:
        inside = set(walk(s.body))
        last = {t.name for t, loop in self.ends.items() if loop is s}
        here = inside | {t for t, loop in self.ends.items() if loop is s}
        grows = any(tape.grows_in(s) for t, tape in self.tapes.items() if t in here)
        stored = {t for t in self.plan.save & inside if writes(t)[0] not in last}
        return function_turns(self.f, self.plan, s, stored, grows)

    def counted(self, s: Loop) -> list[Item]:
        """Code that counts the turns for which stacks need room."""
        items: list[Item] = []
        tests = self.plan.independence.tests
        for stack in (t for t in self.stacks if t.counted and t.around[0] is s):
            bounds = stack.bounds or {}
            sure = all(t in self.plan.defined for every in bounds.values() for t in every)  # none is read before
            if sure and not tests[stack.frame]:  # a branch may need none, and its arrays no place
                stack.whole = self.fresh(f"{stack.tapes[0].name}_size")
                inner: list[Item] = [Step(ast.Name(stack.whole), "+=", stack.room)]
                for p in reversed(stack.loops):
                    inner = [Nest(loop_head(p), inner)] if p in stack.around else inner
                    inner[:0] = [Step(ast.Name(t.name), "=", unparse(t.value)) for t in bounds[p]]
                items += [f"{stack.whole} = 0", *inner]
        return items

    def allocate(self, tape: Tape) -> list[str]:
        if tape.sizes or (tape.stack is not None and tape.stack.whole):
            self.free.imported("in_large_pages", in_large_pages)
        return tape.allocate()
