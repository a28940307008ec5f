"""The tangent's source: before each statement, its derivative in the direction that is carried along."""

from __future__ import annotations

from ..expr import ONE, Expr, var
from .algebra import code
from .analysis import Plan
from .ir import Alloc, Assign, Block, Check, Function, Grow, If, Loop, Store, Swap, unparse, walk, writes
from .reverse import indent, loop_head

__all__ = ["Forward"]


class Forward:
    """Writes the tangent of a function.

    Attributes
    ----------
    given : list of str
        The parameters whose tangents are arguments; those of arrays are changed along with them.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str]) -> None:
        self.f = f
        self.plan = plan
        self.wrt = wrt
        self.helpers: dict[str, object] = {}
        taken = set(f.ranks) | set(f.parameters) | set(f.constants) | {"np", "math", "njit"}
        names = [n for n in f.parameters if n in plan.active]
        names += [n for s in walk(f.body) for n in writes(s) if n in plan.active]
        self.dots = {}
        for n in dict.fromkeys(names):
            made, k = f"{n}_dot", 1
            while made in taken:
                k += 1
                made = f"{n}_dot{k}"
            taken.add(made)
            self.dots[n] = made
        self.given = [p for p in f.parameters if p in plan.active]

    def source(self) -> str:
        results = list(self.f.results or [])
        values = [*results, *(self.dots.get(r, "0.0") for r in results)] if self.wrt else results
        head = [f"{self.dots[n]} = 0.0" for n in self.dots if n not in self.given and not self.f.ranks.get(n)]
        tail = [f"return {', '.join(values)}"] if values else []
        given = [*self.f.parameters, *(self.dots[n] for n in self.given)]
        lines = [*head, *self.block(self.f.body), *tail]
        return f"def {self.f.name}_tangent({', '.join(given)}):\n" + "\n".join(indent(lines)) + "\n"

    def block(self, block: Block) -> list[str]:
        lines: list[str] = []
        for s in block:
            match s:
                case Assign():
                    if s.name in self.dots:
                        lines.append(f"{self.dots[s.name]} = {self.derivative(s)}")
                    lines.append(f"{s.name} = {unparse(s.value)}")
                case Store():
                    if s.array in self.dots:
                        lines.append(f"{self.dot(s.target)} = {self.derivative(s)}")
                    lines.append(f"{unparse(s.target)} = {unparse(s.value)}")
                case Check():
                    lines += s.code()
                case Alloc():
                    lines.append(f"{s.name} = {unparse(s.value)}")
                    if s.name in self.dots:
                        lines.append(f"{self.dots[s.name]} = np.zeros_like({s.name})")
                case Grow():
                    lines += [f"{n} = grown({n})" for n in (s.name, self.dots.get(s.name)) if n]
                case Swap():
                    lines.append(f"{s.first}, {s.second} = {s.second}, {s.first}")
                    if s.first in self.dots:
                        a, b = self.dots[s.first], self.dots[s.second]
                        lines.append(f"{a}, {b} = {b}, {a}")
                case If():
                    lines += [f"if {unparse(s.test)}:", *indent(self.block(s.body))]
                    if s.orelse:
                        lines += ["else:", *indent(self.block(s.orelse))]
                case Loop():
                    ends = [f"if {s.until}:", "    break"] if s.until else []
                    lines += [loop_head(s), *indent([*self.block(s.body), *ends])]
        return lines

    def derivative(self, s: Assign | Store) -> str:
        total: Expr | None = None
        for atom, part in self.plan.algebra.pull(s.value, ONE):
            term = part * var(self.dot(atom))
            total = term if total is None else total + term
        return "0.0" if total is None else code(total, self.helpers)

    def dot(self, node) -> str:
        name = node.id if hasattr(node, "id") else node.value.id
        return unparse(node).replace(name, self.dots[name], 1)
