"""Functions of the IR as text that people read: Python, without index checks."""

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

__all__ = ["listing"]


def listing(f: Function) -> str:
    """The text of a function."""
    lines = [*_lines(f.body), *([f"return {', '.join(f.results)}"] if f.results else [])]
    return "\n".join([f"def {f.name}({', '.join(f.parameters)}):", *(f"    {line}" for line in lines or ["pass"])])


def _lines(block: Block) -> list[str]:
    return [line for s in block for line in _statement(s)]


def _nested(block: Block) -> list[str]:
    return [f"    {line}" for line in _lines(block) or ["pass"]]


def _statement(s: Statement) -> list[str]:
    match s:
        case Assign():
            return [f"{s.name} = {s.value}"]
        case Store():
            return [f"{s.target} = {s.value}"]
        case Alloc():
            shape = comma_separated([*map(str, s.shape)], False)
            return [f"{s.name} = np.empty({shape if len(s.shape) == 1 else f'({shape})'}, {s.dtype})"]
        case Grow():
            return [f"{s.name} = grown({s.name}, {s.size})"]
        case Swap():
            return [f"{s.first}, {s.second} = {s.second}, {s.first}"]
        case Call():
            given = ", ".join(map(str, s.operands))
            return [f"{comma_separated(s.results, s.returns_tuple)} = {s.function}({given})"]
        case InRange():
            return [f"# {s.index} must be in range for {s.what}, of {s.size} elements"]
        case Check():
            return s.code()
        case If():
            return [f"if {s.test}:", *_nested(s.body), *(["else:", *_nested(s.orelse)] if s.orelse else [])]
        case Loop():
            leave = [f"    if {s.exit_flag}:", "        break"] if s.exit_flag else []
            return [loop_head(s, s.parallel).head, *_nested(s.body), *leave]
    raise TypeError(f"{type(s).__name__} has no text")
