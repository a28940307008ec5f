"""The source of a function as it is: what tangents and adjoints add to."""

from __future__ import annotations

import ast

from ..analysis.activity import Plan
from ..analysis.parallelization import Sum, Verdict, function_turns, together
from ..analysis.ssa import Rename
from ..frontend.primitive_calls import called
from ..ir.reverse_ir import Comment, Item, Nest, flat, loop_head
from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Check,
    Function,
    Grow,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    unparse,
    walk,
)
from . import bounds_checks

__all__ = ["Printer", "definition", "indent"]


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines] or ["    pass"]


def definition(name: str, parameters: list[str], lines: list[str]) -> str:
    lines = lines if any(lines) else []  # a function of nothing
    return f"def {name}({', '.join(parameters)}):\n" + "\n".join(indent(lines)).replace("    \n", "\n") + "\n"


class Printer:
    """Writes statements; `beside` has the names of tangents or cotangents, which are made and moved along."""

    def __init__(self, f: Function, plan: Plan) -> None:
        self.f = f
        self.plan = plan
        self.bounds = plan.looks(f)  # gives names
        self.free = f.names.copy()  # several files may be made of a function
        bounds_checks.imports(self.bounds, self.free)
        self.beside: dict[str, str] = {}
        self.names: dict[tuple[Statement, str, str], str] = {}
        self.sums: dict[str, Sum] = {}  # those of the parallel loop at hand
        self.verdicts: dict[tuple[Loop, str], Verdict] = {}  # on the loops over prange

    def fresh(self, name: str) -> str:
        """`name`, or with a number after it if that is taken."""
        return self.free.fresh(name, 2)

    def counters(self, array: str) -> list[str]:
        """New names of loops' variables, one for each axis of an array."""
        return [self.fresh(f"k{d + 1}") for d in range(self.f.ranks[array])]

    def named(self, s: Statement, name: str, what: str) -> str:
        """The name of something in a loop, or that belongs to a statement: the same one each time."""
        key = s, name, what
        if key not in self.names:
            self.names[key] = self.fresh(name)
        return self.names[key]

    def block(self, block: Block) -> list[str]:
        lines: list[str] = []
        for s in block:
            lines += bounds_checks.lines(self.bounds.before.get(s, []))
            if self.elsewhere(s):
                continue
            match s:
                case Assign():
                    lines += self.in_turn(self.assign(s)) if s.name in self.sums else self.assign(s)
                case Store():
                    lines += self.store(s)
                case Check():
                    lines += s.code()
                case Call():
                    lines += self.call(s)
                case Alloc():
                    lines.append(f"{s.name} = {unparse(s.value)}")
                    if s.name in self.beside:
                        lines.append(f"{self.beside[s.name]} = np.{self.begun_like(s.name)}_like({s.name})")
                case Grow():
                    lines += [f"{n} = grown({n}, {unparse(s.size)})" for n in (s.name, self.beside.get(s.name)) if n]
                case Swap():
                    lines += [f"{s.first}, {s.second} = {s.second}, {s.first}", *self.swap_beside(s)]
                case If():
                    lines += [f"if {unparse(s.test)}:", *indent(self.block(s.body))]
                    if s.orelse:
                        lines += ["else:", *indent(self.block(s.orelse))]
                case Loop():
                    lines += self.loop_lines(s)
        return lines

    def elsewhere(self, s: Statement) -> bool:
        """Whether another statement does what this one says."""
        return False

    def assign(self, s: Assign) -> list[str]:
        if s.free and isinstance(s.value, ast.BinOp):
            return [f"{s.name} = plus({unparse(s.value.left)}, {unparse(s.value.right)})"]
        return [f"{s.name} = {unparse(s.value)}"]

    def begun_like(self, name: str) -> str:
        """With what the array beside another one begins."""
        return "zeros"

    def call(self, s: Call) -> list[str]:
        return called(s, self.f)

    def store(self, s: Store) -> list[str]:
        return [f"{unparse(s.target)} = {unparse(s.value)}"]

    def swap_beside(self, s: Swap) -> list[str]:
        if s.first not in self.beside:
            return []
        a, b = self.beside[s.first], self.beside[s.second]
        return [f"{a}, {b} = {b}, {a}"]

    def in_turn(self, lines: list[str]) -> list[str]:
        """Statements that add to a sum, with the names that sums have in a turn."""
        for name, s in self.sums.items():
            lines = [unparse(Rename(name, s.mine).visit(ast.parse(line))) for line in lines]
        return lines

    def loop_lines(self, s: Loop) -> list[str]:
        return flat(self.whole_loop(s))

    def whole_loop(self, s: Loop) -> list[Item]:
        if not s.parallel:
            return [Nest(loop_head(s), self.one_turn(s))]
        verdict = self.verdicts[s, ""] = self.verdict(s)
        if verdict.why:
            return [Comment(str(verdict)), Nest(loop_head(s), self.one_turn(s))]
        names = [n for name in verdict.sums for n in (name, self.beside.get(name)) if n and self.carries(n)]
        self.sums = {n: self.sum_of(s, n) for n in names}
        body = self.one_turn(s)
        sums, self.sums = self.sums, {}
        return together(s, body, sums, self.begins(s))

    def begins(self, s: Loop) -> dict[str, str]:
        """What numbers of a turn have at its beginning, where that is asked for."""
        return {}

    def carries(self, name: str) -> bool:
        """Whether statements of the function set a name, or something beside it."""
        return name in self.f.ranks

    def sum_of(self, loop: Loop, name: str) -> Sum:
        zero = "0" if self.f.kinds.get(name, "float") == "int" else "0.0"
        return Sum(self.named(loop, f"{name}_turn", ""), zero, self.named(loop, f"{name}_turns", ""))

    def one_turn(self, s: Loop) -> list[Item]:
        return [*self.block(s.body), *self.end_of_turn(s), *([f"if {s.until}:", "    break"] if s.until else []),
                *bounds_checks.lines(self.bounds.after_turn.get(s, []))]  # fmt: skip

    def end_of_turn(self, s: Loop) -> list[str]:
        """What else there is at the end of a turn."""
        return []

    def threads(self) -> dict[str, str]:
        """What is said of loops over prange, by their first lines, and numbers where these are the same."""
        loops = [p for p in walk(self.f.body) if isinstance(p, Loop) and p.parallel]
        lines: dict[str, str] = {}
        for (loop, where), verdict in self.verdicts.items():
            line = loop_head(loop, "prange")
            same = [p for p in loops if loop_head(p, "prange") == line]
            lines[f"{line}{f' ({same.index(loop) + 1})' * (len(same) > 1)}{where}"] = self.f.explained(str(verdict))
        return lines

    def verdict(self, s: Loop) -> Verdict:
        """Whether the turns of a loop may run together."""
        return function_turns(self.f, self.plan, s)
