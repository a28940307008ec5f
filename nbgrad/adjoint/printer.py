"""The source of a function as it is: what tangents and adjoints add to."""

from __future__ import annotations

import ast

from .ir import Alloc, Assign, Block, Check, Function, Grow, If, Loop, Store, Swap, unparse

__all__ = ["Printer", "definition", "indent", "loop_head"]


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


class Printer:
    """Writes statements; `beside` has the names of tangents or cotangents, which are made and moved along."""

    def __init__(self, f: Function) -> None:
        self.taken = {*f.ranks, *f.parameters, *f.constants, "np", "math", "njit", "grown", "plus", "large_empty"}
        self.beside: dict[str, str] = {}

    def fresh(self, name: str) -> str:
        """`name`, or with a number after it if that is taken."""
        made, k = name, 1
        while made in self.taken:
            k += 1
            made = f"{name}{k}"
        self.taken.add(made)
        return made

    def block(self, block: Block) -> list[str]:
        lines: list[str] = []
        for s in block:
            match s:
                case Assign():
                    lines += self.assign(s)
                case Store():
                    lines += self.store(s)
                case Check():
                    lines += s.code()
                case Alloc():
                    lines.append(f"{s.name} = {unparse(s.value)}")
                    if s.name in self.beside:
                        lines.append(f"{self.beside[s.name]} = np.zeros_like({s.name})")
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

    def assign(self, s: Assign) -> list[str]:
        if s.free and isinstance(s.value, ast.BinOp):
            return [f"{s.name} = plus({unparse(s.value.left)}, {unparse(s.value.right)})"]
        return [f"{s.name} = {unparse(s.value)}"]

    def store(self, s: Store) -> list[str]:
        return [f"{unparse(s.target)} = {unparse(s.value)}"]

    def swap_beside(self, s: Swap) -> list[str]:
        if s.first not in self.beside:
            return []
        a, b = self.beside[s.first], self.beside[s.second]
        return [f"{a}, {b} = {b}, {a}"]

    def loop_lines(self, s: Loop) -> list[str]:
        ends = [f"if {s.until}:", "    break"] if s.until else []
        return [loop_head(s), *indent([*self.block(s.body), *ends])]
