"""The printer of statements, as Python source. As it is, it prints what people read, without index checks
(:func:`listing`); the printers of generated code extend it (:mod:`..codegen.printer`)."""

from __future__ import annotations

from .reverse_ir import loop_head
from .statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Check,
    Function,
    Grow,
    If,
    InRange,
    Loop,
    Statement,
    Store,
    Swap,
    comma_separated,
)
from .terms import Tuple

__all__ = ["StatementPrinter", "definition", "indent", "listing"]


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines] or ["    pass"]


def definition(name: str, parameters: list[str], lines: list[str]) -> str:
    """The source of a function definition."""
    lines = lines if any(lines) else []  # an empty function
    return f"def {name}({', '.join(parameters)}):\n" + "\n".join(indent(lines)).replace("    \n", "\n") + "\n"


def listing(f: Function) -> str:
    """A function as text that people read."""
    lines = [*StatementPrinter().block(f.body), *([f"return {', '.join(f.results)}"] if f.results else [])]
    return definition(f.name, f.parameters, lines)


class StatementPrinter:
    """Prints statements as they are."""

    def block(self, block: Block) -> list[str]:
        """The lines of a block."""
        return [line for s in block for line in self.statement(s)]

    def statement(self, s: Statement) -> list[str]:
        """The lines of a statement, and of the blocks in it."""
        match s:
            case Assign():
                return self.assign(s)
            case Store():
                return self.store(s)
            case InRange():
                return self.in_range(s)
            case Check():
                return s.code()
            case Call():
                return self.call(s)
            case Alloc():
                return self.alloc(s)
            case Grow():
                return self.grow(s)
            case Swap():
                return self.swap(s)
            case If():
                orelse = ["else:", *indent(self.block(s.orelse))] if s.orelse else []
                return [f"if {s.test}:", *indent(self.block(s.body)), *orelse]
            case Loop():
                return self.loop_lines(s)
        raise TypeError(f"{type(s).__name__} has no text")

    def assign(self, s: Assign) -> list[str]:
        return [f"{s.name} = {s.value}"]

    def store(self, s: Store) -> list[str]:
        return [f"{s.target} = {s.value}"]

    def in_range(self, s: InRange) -> list[str]:
        return [f"# {s.index} must be in range for {s.what}, of {s.size} elements"]

    def call(self, s: Call) -> list[str]:
        given = ", ".join(map(str, s.operands))
        return [f"{comma_separated(s.results, s.returns_tuple)} = {s.function}({given})"]

    def alloc(self, s: Alloc) -> list[str]:
        return [f"{s.name} = np.empty({s.shape[0] if len(s.shape) == 1 else Tuple(s.shape)}, {s.dtype})"]

    def grow(self, s: Grow) -> list[str]:
        return [f"{s.name} = grown({s.name}, {s.size})"]

    def swap(self, s: Swap) -> list[str]:
        return [f"{s.first}, {s.second} = {s.second}, {s.first}"]

    def loop_lines(self, s: Loop) -> list[str]:
        return [loop_head(s, s.parallel).head, *indent([*self.block(s.body), *self.loop_exit(s)])]

    def loop_exit(self, s: Loop) -> list[str]:
        """What ends a loop after the iteration that sets its flag."""
        return [f"if {s.exit_flag}:", "    break"] if s.exit_flag else []
