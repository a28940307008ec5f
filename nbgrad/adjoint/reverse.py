"""The adjoint's source: the function as it was, with values stored, and then the sweep back."""

from __future__ import annotations

import ast

import numpy as np

from ..expr import ONE, ZERO, Expr, free, neg, substitute, var
from .algebra import COTANGENT, VALUE, code
from .analysis import Plan, writes
from .indices import plus
from .ir import Alloc, Assign, Block, Check, Function, Grow, If, Loop, Statement, Store, Swap, unparse, walk
from .routines import routines
from .tapes import Tape, tape_for

__all__ = ["Reverse", "definition", "indent", "loop_head", "module"]

_DTYPES = {"float": "np.float64", "int": "np.int64", "bool": "np.bool_"}
_ZEROS = {"float": "0.0", "int": "0", "bool": "False"}


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines] or ["    pass"]


def definition(name: str, parameters: list[str], lines: list[str]) -> str:
    return f"def {name}({', '.join(parameters)}):\n" + "\n".join(indent(lines)).replace("    \n", "\n") + "\n"


def loop_head(s: Loop) -> str:
    """The first line of a loop, as in the function itself."""
    if not s.index:
        assert s.test is not None
        return f"while {unparse(s.test)}:"
    start, stop, step = unparse(s.start), unparse(s.stop), unparse(s.step)
    parts = [stop] if start == "0" and step == "1" else [start, stop] if step == "1" else [start, stop, step]
    return f"for {s.index} in range({', '.join(parts)}):"


def module(body: str, f: Function, helpers: dict[str, object]) -> str:
    """A whole file around a generated function, to be pasted anywhere."""
    head = ["import math", "", "import numpy as np", "from numba import njit"]
    helpers = {**f.helpers, **helpers}
    head += [f"from {getattr(v, 'bodies', (v,))[0].__module__} import {k}" for k, v in sorted(helpers.items())]
    plain = [(k, v) for k, v in f.constants.items()]
    if plain:
        head += ["", *(f"{k} = {_literal(v)}" for k, v in plain)]
    return "\n".join([*head, "", "", ""]) + routines(body) + "@njit(nogil=True, error_model='numpy')\n" + body


def _literal(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r}, np.{value.dtype.name})"
    return repr(value.item() if isinstance(value, np.generic) else value)


class Reverse:
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
        self.f = f
        self.plan = plan
        self.helpers: dict[str, object] = {}
        self.taken = set(f.ranks) | set(f.parameters) | set(f.constants) | {"np", "math", "njit", "grown"}
        self.bars = {n: self.fresh(f"{n}_bar") for n in self.active_names()}
        self.g, self.y = self.fresh("g"), self.fresh("y")
        self.measuring = False
        self.value = ""  # what the statement at hand wrote
        self.seeds = [
            r for r in f.results or [] if r in plan.active and (f.ranks.get(r, 0) == 0 or r not in f.parameters)
        ]
        self.arrays = [p for p in f.parameters if f.ranks.get(p) and p in plan.active]
        self.numbers = [p for p in wrt if not f.ranks.get(p) and p in plan.active]
        self.tapes: dict[Statement, Tape] = {}
        for s in walk(f.body):
            if s in plan.save or s in plan.keep:
                name = writes(s)[0]
                dtype = f"{name}.dtype" if isinstance(s, Store) else _DTYPES[f.kinds.get(name, "float")]
                self.tapes[s] = tape_for(self.fresh(f"{name}_tape"), dtype, plan.enclosing[s], f)
                self.taken.add(self.tapes[s].top)

    def fresh(self, name: str) -> str:
        made, k = name, 1
        while made in self.taken:
            k += 1
            made = f"{name}{k}"
        self.taken.add(made)
        return made

    def active_names(self) -> list[str]:
        found = dict.fromkeys(n for n in self.f.parameters if n in self.plan.active)
        found |= dict.fromkeys(n for s in walk(self.f.body) for n in writes(s) if n in self.plan.active)
        return list(found)

    def stored(self) -> dict[str, Tape]:
        """The tapes of loops, by what is stored and the loops."""
        names = {s: ", ".join(p.index or "while" for p in tape.loops) for s, tape in self.tapes.items()}
        return {f"{tape.name} over {names[s]}": tape for s, tape in self.tapes.items() if tape.loops}

    def measure(self) -> str:
        """The source of a function that only runs forward, and returns the bytes of the tapes."""
        f, tapes = self.f, list(self.stored().values())
        self.measuring = True
        head = [*(self.zero(n) for n in self.start_values()), *(f"{tape.name}_bytes = 0" for tape in tapes)]
        given = [*f.parameters, *(self.seed(n) for n in dict.fromkeys([*self.seeds, *self.arrays]))]
        lines = [*head, *self.forward(f.body), f"return ({''.join(f'{tape.name}_bytes, ' for tape in tapes)})"]
        self.measuring = False
        return definition(f"{f.name}_adjoint", given, lines)

    def source(self) -> str:
        f = self.f
        lines = self.sweeps()
        given = [*f.parameters, *(self.seed(n) for n in dict.fromkeys([*self.seeds, *self.arrays]))]
        results = [*(self.kept.get(r, r) for r in f.results or []), *(self.bars[n] for n in self.numbers)]
        tail = [f"return {', '.join(results)}{',' if len(results) == 1 else ''}"] if results else []
        return definition(f"{f.name}_adjoint", given, [*lines, *tail])

    def sweeps(self) -> list[str]:
        """The function, and the sweep back."""
        f, plan = self.f, self.plan
        self.in_blocks = {s.name for s, b in plan.defined.items() if b is not f.body and isinstance(s, Assign)}
        head = [self.zero(n) for n in self.start_values()]
        forward = self.forward(f.body)
        middle = self.turn_round()
        return [*head, *forward, "", *middle, *self.backward(f.body)]

    def seed(self, name: str) -> str:
        """What the cotangent of a result, or of an array, is called as an argument."""
        return f"{self.bars[name]}_given" if self.f.ranks.get(name) and name in self.seeds else self.bars[name]

    def zero(self, name: str) -> str:
        return f"{name} = {_ZEROS[self.f.kinds.get(name, 'float')]}"

    def start_values(self) -> list[str]:
        """Numbers that are saved before they are set for the first time."""
        return [
            n
            for n in dict.fromkeys(s.name for s in self.plan.save if isinstance(s, Assign))
            if n not in self.f.parameters
        ]

    def turn_round(self) -> list[str]:
        """Between the two sweeps: copies of what the caller gets and the sweep back changes, and zeros."""
        f, lines = self.f, self.put_aside()
        lines += [f"{self.bars[n]}[:] += {self.seed(n)}" for n in self.seeds if f.ranks.get(n)]
        for n, bar in self.bars.items():
            if not f.ranks.get(n) and n not in self.seeds and n not in self.in_blocks:
                lines.append(f"{bar} = 0.0")
        return lines

    def put_aside(self) -> list[str]:
        """Copies of what the caller gets and the sweep back changes."""
        f = self.f
        lines: list[str] = []
        self.kept: dict[str, str] = {}
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
        for n in sorted(touched):
            if f.ranks.get(n) and (n in f.parameters or moves(n)):
                lines.append(f"{n} = {n}.copy()  # put back to what it was, below")
        return lines

    # The function itself.

    def forward(self, block: Block) -> list[str]:
        lines: list[str] = []
        for s in block:
            match s:
                case Assign():
                    if s in self.plan.save:
                        lines += self.tapes[s].record(s.name)
                    lines.append(f"{s.name} = {unparse(s.value)}")
                    if s in self.plan.keep:
                        lines += self.tapes[s].record(s.name)
                case Store():
                    if s in self.plan.save:
                        lines += self.tapes[s].record(unparse(s.target))
                    lines.append(f"{unparse(s.target)} = {unparse(s.value)}")
                case Check():
                    lines += s.code()
                case Alloc():
                    lines.append(f"{s.name} = {unparse(s.value)}")
                    if s.name in self.bars:
                        lines.append(f"{self.bars[s.name]} = np.zeros_like({s.name})")
                case Grow():
                    lines += [f"{n} = grown({n})" for n in (s.name, self.bars.get(s.name)) if n]
                case Swap():
                    lines.append(f"{s.first}, {s.second} = {s.second}, {s.first}")
                    lines += self.swap_bars(s)
                case If():
                    lines += [f"if {unparse(s.test)}:", *indent(self.forward(s.body))]
                    if s.orelse:
                        lines += ["else:", *indent(self.forward(s.orelse))]
                case Loop():
                    if not self.plan.enclosing[s]:
                        for tape in self.tapes.values():
                            if tape.loops and tape.loops[0] is s:
                                lines += self.allocate(tape)
                    ends = [f"if {s.until}:", "    break"] if s.until else []
                    lines += [loop_head(s), *indent([*self.forward(s.body), *ends])]
                    if self.measuring:
                        inside = (tape for tape in self.tapes.values() if tape.loops and tape.loops[0] is s)
                        lines += [f"{tape.name}_bytes = {tape.nbytes()}" for tape in inside]
        return lines

    def allocate(self, tape: Tape) -> list[str]:
        return tape.allocate()

    def swap_bars(self, s: Swap) -> list[str]:
        if s.first not in self.bars:
            return []
        a, b = self.bars[s.first], self.bars[s.second]
        return [f"{a}, {b} = {b}, {a}"]

    # The sweep back.

    def backward(self, block: Block) -> list[str]:
        lines: list[str] = []
        for s in block:
            if isinstance(s, Assign) and s in self.plan.keep:
                lines += self.tapes[s].fetch(s.name)
            elif s in self.plan.redo:
                lines.append(f"{s.name} = {unparse(s.value)}")  # type: ignore[attr-defined]
            if isinstance(s, Assign) and s in self.plan.defined and block is not self.f.body and s.name in self.bars:
                lines.append(f"{self.bars[s.name]} = 0.0")
        return lines + self.undone(block)

    def undone(self, block: Block) -> list[str]:
        """The sweep back through `block`. Where all that a branch adds to are definitions before it, their derivatives
        are zero if it is not taken, and go into it."""
        lines: list[str] = []
        for k in range(len(block) - 1, -1, -1):
            s = block[k]
            made = self.undo(s)
            if (
                made
                and isinstance(s, If)
                and not lines
                and self.only_definitions(block[:k])
                and not self.backward(s.orelse)
            ):
                made += indent(self.undone(block[:k]))
                return [f"# {s.line}", *made] if s.line else made
            if made and s.line:
                lines.append(f"# {s.line}")
            lines += made
        return lines

    def only_definitions(self, block: Block) -> bool:
        return all(
            isinstance(s, Assign)
            and s not in self.plan.save
            and (s.name not in self.bars or (s in self.plan.defined and s.name in self.in_blocks))
            for s in block
        )

    def undo(self, s: Statement) -> list[str]:
        match s:
            case Assign():
                back = self.tapes[s].fetch(s.name) if s in self.plan.save else []
                return back + self.pull(s, ast.Name(s.name, ast.Load()))
            case Store():
                self.value, back = unparse(s.target), []
                if s in self.plan.save:
                    if any(VALUE.name in free(p) for _, p in self.plan.pulls[s].parts):
                        self.value = self.y
                        back.append(f"{self.y} = {unparse(s.target)}")
                    back += self.tapes[s].fetch(unparse(s.target))
                return back + self.pull(s, s.target)
            case Swap():
                return [f"{s.first}, {s.second} = {s.second}, {s.first}", *self.swap_bars(s)]
            case If():
                body, orelse = self.backward(s.body), self.backward(s.orelse)
                if body:
                    return [f"if {unparse(s.test)}:", *indent(body), *(["else:", *indent(orelse)] if orelse else [])]
                return [f"if not ({unparse(s.test)}):", *indent(orelse)] if orelse else []
            case Loop():
                inner = self.backward(s.body)
                return [self.reversed_head(s), *indent(inner)] if inner else []
        return []

    def reversed_head(self, s: Loop) -> str:
        if not s.index:
            return f"for {self.fresh('turn')} in range({s.count}):"
        start, stop, step = s.start, s.stop, unparse(s.step)
        if s.count and step == "1":
            end: ast.expr = (
                ast.Name(s.count, ast.Load())
                if unparse(start) == "0"
                else ast.BinOp(start, ast.Add(), ast.Name(s.count, ast.Load()))
            )
            return f"for {s.index} in range({unparse(plus(end, -1))}, {unparse(plus(start, -1))}, -1):"
        if s.count:
            last = f"{unparse(start)} + ({s.count} - 1) * ({step})"
            return f"for {s.index} in range({last}, {unparse(start)} - ({step}), -({step})):"
        if step == "1":
            return f"for {s.index} in range({unparse(plus(stop, -1))}, {unparse(plus(start, -1))}, -1):"
        if step == "-1":
            return f"for {s.index} in range({unparse(plus(stop, 1))}, {unparse(plus(start, 1))}):"
        turns = f"len(range({unparse(start)}, {unparse(stop)}, {step}))"
        last = f"{unparse(start)} + ({turns} - 1) * ({step})"
        return f"for {s.index} in range({last}, {unparse(start)} - ({step}), -({step})):"

    def bar(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self.bars[node.id]
        assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        return f"{self.bars[node.value.id]}[{_index(node.slice)}]"

    def pull(self, s: Assign | Store, target: ast.expr) -> list[str]:
        """The derivative of one statement."""
        name = writes(s)[0]
        if name not in self.bars:
            return []
        pull = self.plan.pulls[s]
        local = s in self.plan.defined and name in self.in_blocks
        bar, once = self.bar(target), s in self.plan.defined
        touches_itself = any(isinstance(a, ast.Subscript) and unparse(a.value) == name for a, _ in pull.parts)
        lines: list[str] = []
        g = bar
        if (pull.own is ONE and not touches_itself) or once:
            if isinstance(s, Store) and len(pull.parts) > 1:
                lines.append(f"{self.g} = {bar}")
                g = self.g
        elif pull.parts or pull.own is not ZERO:
            lines.append(f"{self.g} = {bar}")
            g = self.g
        if pull.own is not ONE and not (once and (local or name not in self.f.parameters)):
            lines.append(f"{bar} = {self.code(pull.own, g) if pull.own is not ZERO else '0.0'}")
        for atom, part in pull.parts:
            minus = part.fn is neg(COTANGENT).fn
            lines.append(f"{self.bar(atom)} {'-' if minus else '+'}= {self.code(part.args[0] if minus else part, g)}")
        return lines

    def code(self, e: Expr, g: str) -> str:
        return code(substitute(e, {COTANGENT: var(g), VALUE: var(self.value)}), self.helpers)


def _index(node: ast.expr) -> str:
    text = unparse(node)
    return text[1:-1] if isinstance(node, ast.Tuple) else text
