"""The adjoint's source: the function as it was, with values stored, and then the sweep back."""

from __future__ import annotations

import ast
from functools import cached_property

from ...core.source_text import constant
from ...ir.expr import ONE, ZERO, Expr, neg, substitute, var
from ..analysis.activity import Plan
from ..analysis.iteration_local_reversal import name_of
from ..analysis.must_execute import guarded
from ..frontend.primitive_calls import pulled
from ..ir.algebra import COTANGENT, VALUE, code, common
from ..ir.reverse_ir import Comment, Item, Nest, Step, elements, factored, flat, loop_head, tidy
from ..ir.statements import (
    Assign,
    Block,
    Call,
    Function,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    changed,
    unparse,
    walk,
    writes,
)
from ..ir.tapes import head_back
from ..transforms.dead_adjoints import without_zeros
from ..transforms.loop_fusion import merged, read_once
from ..transforms.loop_reversal import Turns
from ..transforms.unroll_and_jam import jammed
from . import bounds_checks
from .augmented_forward import Recording
from .printer import Printer, definition

__all__ = ["Reverse"]


class Reverse(Recording):
    """Writes the adjoint of a function.

    Attributes
    ----------
    seeds : list of str
        The results whose cotangents are arguments (numbers and local arrays).
    arrays : list of str
        The array parameters whose cotangents are arguments, read and written.
    numbers : list of str
        The parameters whose gradients are returned after the results.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str]) -> None:
        super().__init__(f, plan)
        self.bars = self.beside = {n: self.fresh(f"{n}_bar") for n in self.active_names()}
        self.g, self.y = self.fresh("g"), self.fresh("y")
        self.entry = self.fresh(f"{f.name}_adjoint")
        self.further: list[str] = []  # parameters after the others
        self.seeds_given: dict[str, str] = {}  # arguments with what cotangents of arrays begin with
        self.copied: list[str] = []  # arrays of which copies are put aside
        self.done = plan.fusion.done
        self.shared: list[str] = []  # names of what several derivatives of a statement have in common
        self.zeroed = False  # whether cotangents have got their first values
        self.ahead: list[Item] = []  # what goes before the outermost loop at hand
        self.later: dict[Loop, list[Item]] = {}  # what goes after a loop
        self.own: dict[Loop, dict[str, str]] = {}  # arrays of a turn, and what makes them
        self.one_sided: set[Statement] = set()  # branches whose other side undoes nothing
        self.value = ""  # what the statement at hand wrote
        self.ours = False  # whether it calls functions that can be packed
        self.seeds = [
            r for r in f.results or [] if r in plan.active and (f.ranks.get(r, 0) == 0 or r not in f.parameters)
        ]
        self.arrays = [p for p in f.parameters if f.ranks.get(p) and p in plan.active]
        self.numbers = [p for p in wrt if not f.ranks.get(p) and p in plan.active]

    @cached_property
    def passing(self) -> dict[str, str]:
        """The cotangents of arrays that one statement alone reads, with a name for one element."""
        found = read_once(self.f, self.plan)
        return {self.bars[n]: self.named(s, f"{self.bars[n]}_here", "") for n, s in found.items()}

    def active_names(self) -> list[str]:
        found = dict.fromkeys(n for n in self.f.parameters if n in self.plan.active)
        found |= dict.fromkeys(n for s in walk(self.f.body) for n in writes(s) if n in self.plan.active)
        return list(found)

    def measure(self) -> str:
        """The source of a function that only runs forward, and returns the bytes of the tapes, and of the copies that
        are made before the sweep back."""
        f, tapes = self.f, list(self.stored().values())
        self.measuring = True
        head = [*self.begin(), *(f"{self.bytes_of(tape)} = 0" for tape in tapes)]
        given = [*f.parameters, *(self.seed(n) for n in dict.fromkeys([*self.seeds, *self.arrays]))]
        found = [*(self.bytes_of(tape) for tape in tapes), *(f"{n}.nbytes" for n in self.copied)]
        lines = [*head, *self.block(f.body), f"return ({', '.join(found)},)"]
        self.measuring = False
        return definition(self.entry, given, lines)

    def source(self) -> str:
        f = self.f
        lines = self.sweeps()
        given = [*f.parameters, *(self.seed(n) for n in dict.fromkeys([*self.seeds, *self.arrays]))]
        results = [*(self.kept.get(r, r) for r in f.results or []), *(self.bars[n] for n in self.numbers)]
        tail = [f"return {', '.join(results)}{',' if len(results) == 1 else ''}"] if results else []
        alike = bounds_checks.alike({n: self.seed(n) for n in self.arrays}, f)
        return definition(self.entry, [*given, *self.further], [*alike, *lines, *tail])

    def sweeps(self) -> list[str]:
        """The function, and the sweep back."""
        there, back = self.there_and_back()
        return [*there, "", *back]

    def there_and_back(self) -> tuple[list[str], list[str]]:
        """The function, which stores values, and the sweep back."""
        there, middle = self.there(), self.turn_round()
        made = {bar: n for n, bar in self.bars.items() if n not in self.f.parameters}
        items = self.backward(self.f.body)
        items, gone = without_zeros(items, [*there, *middle], made, lambda bar: self.fresh(f"{bar}_here"))
        return [line for line in there if line.strip() not in gone], [*middle, *flat(items)]

    def there(self) -> list[str]:
        f, plan = self.f, self.plan
        self.in_blocks = {s.name for s, b in plan.defined.items() if b is not f.body and isinstance(s, Assign)}
        head = self.begin()
        self.zeroed = False
        return [*head, *self.block(f.body)]

    def seed(self, name: str) -> str:
        """What the cotangent of a result, or of an array, is called as an argument."""
        if not self.f.ranks.get(name) or name not in self.seeds:
            return self.bars[name]
        if name not in self.seeds_given:
            self.seeds_given[name] = self.fresh(f"{self.bars[name]}_given")
        return self.seeds_given[name]

    def turn_round(self) -> list[str]:
        """Between the two sweeps: copies of what the caller gets and the sweep back changes, and zeros."""
        lines = self.put_aside()
        return lines if self.zeroed else [*lines, *flat(self.zeros())]

    def zeros(self) -> list[Item]:
        """The cotangents where the sweep back begins."""
        self.zeroed = True
        made = [r for s in self.calls for r in s.lengths if r in self.bars]
        items: list[Item] = [f"{self.bars[r]} = np.zeros_like({r})" for r in made]
        for n in (n for n in self.seeds if self.f.ranks.get(n)):
            given, names = self.seed(n), self.counters(n)
            differ = " or ".join(f"{given}.shape[{d}] != {n}.shape[{d}]" for d in range(len(names)))
            items.append(
                Nest(f"if {differ}:", [f"raise ValueError({constant(f'{given} must have the shape of {n}')})"], differ)
            )
            items.append(elements(n, names, f"{self.bars[n]}[", "=", f"{given}["))
        for n, bar in self.bars.items():
            if not self.f.ranks.get(n) and n not in self.seeds and n not in self.in_blocks:
                items.append(f"{bar} = 0.0")
        return items

    def put_aside(self) -> list[str]:
        """Copies of what the caller gets and the sweep back changes."""
        f = self.f
        lines: list[str] = []
        self.kept: dict[str, str] = {}
        self.copied = []
        swaps = [s for s in walk(f.body) if isinstance(s, Swap)]
        touched = set(self.plan.restored)
        for s in swaps:
            if touched & {s.first, s.second}:
                touched |= {s.first, s.second}

        def moves(name: str) -> bool:
            return any(name in (s.first, s.second) for s in swaps)

        for r in f.results or []:
            if r in touched or (f.ranks.get(r) and moves(r)):
                self.kept[r] = self.fresh(f"{r}_value")
                own = f.ranks.get(r) and r not in f.parameters
                lines.append(f"{self.kept[r]} = {r}{'.copy()' if own else ''}")
                self.copied += [r] * bool(own)
        for n in sorted(touched):
            if f.ranks.get(n) and (n in f.parameters or moves(n)):
                lines.append(f"{n} = {n}.copy()  # put back to what it was, below")
                self.copied.append(n)
        return lines

    def begun_like(self, name: str) -> str:
        """With what the cotangent of an array begins: nothing if it is given, and the array keeps its name."""
        swaps = (s for s in walk(self.f.body) if isinstance(s, Swap))
        return "empty" if name in self.seeds and not any(name in writes(s) for s in swaps) else "zeros"

    # The function itself.

    def loop_lines(self, s: Loop) -> list[str]:
        """A loop, and, where its turns are undone at once, what undoes each."""
        fusion, enclosing = self.plan.fusion, self.plan.enclosing[s]
        plain = not s.parallel and s not in self.bounds.inside
        pair = jammed(s, self.f, self.plan, lambda name, k: self.named(s, name, str(k))) if plain else None
        if pair is not None:
            return Printer(self.f, self.plan).block([*pair])
        made: list[Item] = [] if enclosing else self.counted(s)
        early: list[Item] = []
        if s in fusion.early and not self.measuring:
            early = [*([] if enclosing else self.zeros()), *self.undone(fusion.early[s], early=True)]
        whole: list[Item]
        after: list[Item] = []
        if s in fusion.loops and not self.measuring:
            begun = any(t in fusion.loops for t in s.body)  # inner loops add to cotangents of this turn before its end
            inside = [*(self.fresh_bars(s.body) if begun else []), *self.one_turn(s)]
            back = self.backward(s.body, begun)
            before, after = Turns(self, s, back).apart()
            early, whole = [*early, *before], [Nest(loop_head(s), [*inside, *back])]
        else:
            whole = self.whole_loop(s)
        for tape in self.tapes.values():
            if tape.loops and tape.loops[0] is s:
                lines = self.allocate(tape)
                first = 0 if not enclosing or tape.bounds() & changed(enclosing[0]) else 2 if tape.sizes else 1
                self.before_all(*lines[:first])
                made += lines[first:]
                size = self.bytes_of(tape)  # turns between checkpoints may have tapes of several sizes
                after += [f"{size} = max({size}, {tape.nbytes()})"] if self.measuring else []
        for stack in self.stacks:
            if stack.frame is s and not stack.by_one:
                made, after = [*made, *stack.reserve()], [*after, *stack.push()]
        if not enclosing:
            made, self.ahead = [*self.ahead, *made], []
        return flat([*early, *made, *whole, *after])

    def before_all(self, *items: Item) -> None:
        """Put `items` before the outermost loop at hand."""
        self.ahead += [item for item in items if item not in self.ahead]

    # The sweep back.

    def fresh_bars(self, block: Block) -> list[Item]:
        """The cotangents of the numbers that a block defines begin with zero."""
        return [
            Step(ast.Name(self.bars[s.name]), "=", "0.0")
            for s in block
            if isinstance(s, Assign) and s in self.plan.defined and block is not self.f.body and s.name in self.bars
        ]

    def backward(self, block: Block, begun: bool = False) -> list[Item]:
        """The sweep back through a block; `begun`: cotangents of what it defines have been added to."""
        end = len(block)
        while end and block[end - 1] in self.plan.carried:
            end -= 1
        items: list[Item] = [] if begun else self.fresh_bars(block)
        items += self.undone(block[end:])
        for last, loop in self.ends.items():
            if loop.body is block:
                items += self.tapes[last].fetch(ast.Name(last.name))
        for s in block:
            if isinstance(s, Assign) and s in self.plan.keep:
                items += self.tapes[s].fetch(ast.Name(s.name))
            elif s in self.plan.redo:
                assert isinstance(s, Assign)
                items.append(Step(ast.Name(s.name), "=", unparse(s.value)))
        return merged(tidy(items + self.undone(block, end)), self.passing)

    def undone(self, block: Block, end: int | None = None, early: bool = False) -> list[Item]:
        """The sweep back through `block` (up to `end`), without what is undone `early`. Where all that a branch adds to
        are definitions before it, their derivatives are zero if it is not taken, and go into it."""
        items: list[Item] = []
        last = not self.plan.carried & set(block) and not self.done & set(block)  # nothing was undone before
        for k in range(len(block) - 1 if end is None else end - 1, -1, -1):
            s = block[k]
            if early and s in self.plan.fusion.partly:
                made = self.pull_partly(s)
            else:
                made = self.undo(s) if early or s not in self.done else []
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
                made[-1].body += self.undone(block[:k])
                return [*line, *made]
            items += [*line, *made]
        return items

    def only_definitions(self, block: Block) -> bool:
        return all(
            isinstance(s, Assign)
            and s not in self.plan.save
            and (s.name not in self.bars or (s in self.plan.defined and s.name in self.in_blocks))
            for s in block
        )

    def undo(self, s: Statement) -> list[Item]:
        match s:
            case Assign():
                back = self.restored(s, ast.Name(s.name)) if s in self.plan.save and s not in self.ends else []
                return back + self.pull(s, ast.Name(s.name, ast.Load()))
            case Store():
                self.value, back = unparse(s.target), []
                if s in self.plan.save:
                    if self.plan.pulls[s].value:
                        self.value = self.y
                        back.append(Step(ast.Name(self.y), "=", unparse(s.target)))
                    back += self.restored(s, s.target)
                return back + self.pull(s, s.target)
            case Swap():
                return [f"{s.first}, {s.second} = {s.second}, {s.first}", *self.swap_beside(s)]
            case Call():
                return list(pulled(s, self.f, self.calls.get(s), self.bars, self.fresh))
            case If():
                body, orelse = self.backward(s.body), self.backward(s.orelse)
                if not orelse:
                    self.one_sided.add(s)
                test = unparse(s.test)
                before, after = factored(body, orelse, test)
                if body:
                    rest = [Nest(f"if {test}:", body, test), *([Nest("else:", orelse, test)] if orelse else [])]
                else:
                    rest = [Nest(f"if not ({test}):", orelse, f"not ({test})")] if orelse else []
                return [*before, *rest, *after]
            case Loop():
                inner = self.backward(s.body)
                popped: list[Item] = []
                for stack in (stack for stack in self.stacks if stack.frame is s):
                    if stack.by_one:
                        inner[:0] = stack.pop()
                    else:
                        popped += stack.pop()
                return [*popped, *(self.turns(s, inner) if inner else []), *self.reset(s)]
        return []

    def restored(self, s: Statement, target: ast.expr) -> list[Item]:
        """What a statement has overwritten."""
        if s in self.plan.stepped:
            return [Step(target, "=", unparse(self.plan.stepped[s]))]
        held = self.plan.held.get(s)
        return [Step(target, "=", held)] if held else self.tapes[s].fetch(target)

    @staticmethod
    def reset(s: Loop) -> list[Item]:
        """What numbers were before a loop."""
        return [Step(ast.Name(n), "=", before) for n, before in s.resets.items()]

    def turns(self, s: Loop, inner: list[Item]) -> list[Item]:
        """The sweep back through a loop, whose body it is `inner`."""
        made = [*Turns(self, s, inner).items(), *self.later.pop(s, [])]
        if self.plan.enclosing[s]:
            return made
        made, self.ahead = [*self.ahead, *made], []
        return made

    def reversed_head(self, s: Loop) -> str:
        return head_back(s, self.turn(s))

    def bar(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Name):
            return ast.Name(self.bars[node.id])
        assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        return ast.Subscript(ast.Name(self.bars[node.value.id]), node.slice, ast.Load())

    def parts(self, s: Statement, early: bool) -> list[tuple[ast.expr, Expr]]:
        """What a statement gives before the loops that are undone at once (`early`), or in the sweep back."""
        names = self.plan.fusion.partly.get(s, set())
        return [(a, p) for a, p in self.plan.pulls[s].parts if (name_of(a) in names) == early]

    def pull_partly(self, s: Statement) -> list[Item]:
        g, self.ours = unparse(self.bar(ast.Name(writes(s)[0]))), s in self.plan.packed
        return [Step(self.bar(a), "+=", self.code(p, g)) for a, p in self.parts(s, True)]

    def pull(self, s: Assign | Store, target: ast.expr) -> list[Item]:
        """The derivative of one statement."""
        name = writes(s)[0]
        if name not in self.bars:
            return []
        pull, self.ours = self.plan.pulls[s], s in self.plan.packed
        local = s in self.plan.defined and name in self.in_blocks
        bar, once = self.bar(target), s in self.plan.defined
        touches_itself = any(isinstance(a, ast.Subscript) and unparse(a.value) == name for a, _ in pull.parts)
        items: list[Item] = []
        g = unparse(bar)
        held = isinstance(s, Store) and len(pull.parts) > 1
        if not ((pull.own is ONE and not touches_itself) or once):
            held = bool(pull.parts) or pull.own is not ZERO
        if held:
            items.append(Step(ast.Name(self.g), "=", g))
            g = self.g
        resets = pull.own is not ONE and not (once and (local or name not in self.f.parameters))
        parts = self.parts(s, False)
        known: dict[Expr, Expr] = {}
        for k, e in enumerate(common([p for _, p in parts] + ([pull.own] if resets else []))):
            if k == len(self.shared):
                self.shared.append(self.fresh("part"))
            items.append(Step(ast.Name(self.shared[k]), "=", self.code(substitute(e, known), g)))
            known[e] = var(self.shared[k])
        if resets:
            own = substitute(pull.own, known)
            items.append(Step(bar, "=", self.code(own, g) if own is not ZERO else "0.0"))
        for atom, part in parts:
            there, part = guarded(s, atom, substitute(part, known), self.plan)
            minus = part.fn is neg(COTANGENT).fn
            value = self.code(part.args[0] if minus else part, g)
            step = Step(self.bar(atom), "-=" if minus else "+=", value)
            test = self.code(there, g) if there is not None else ""
            items.append(Nest(f"if {test}:", [step], test) if test else step)
        return items

    def code(self, e: Expr, g: str) -> str:
        return code(substitute(e, {COTANGENT: var(g), VALUE: var(self.value)}), self.free, self.ours)
