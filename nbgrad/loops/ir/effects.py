"""Effects: the items of the sweeps that are neither assignments of scalars and elements, nor loops and branches.

They allocate, bind names to what calls return, push and pop, and end loops and functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.source_text import comment_source
from .statements import comma_separated
from .terms import Prefix, Term, Tuple, Variable

__all__ = [
    "AddTo",
    "Bind",
    "BlankLine",
    "Break",
    "Effect",
    "Evaluate",
    "NewStack",
    "Pop",
    "PopFrame",
    "Push",
    "PushFrame",
    "Return",
]  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """A statement that is no assignment of a scalar or an element: passes leave it where it is."""

    @property
    def evaluated(self) -> tuple[Term, ...]:
        """The terms that it evaluates, and what it modifies."""
        return ()

    @property
    def bound(self) -> tuple[str, ...]:
        """The names that it binds."""
        return ()


@dataclass(frozen=True)
class Bind(Effect):
    """``names = value``: bind names to a new array, to one that has another name, or to what a call returns; with
    `unpacks`, to the items of a tuple."""

    names: tuple[str, ...]
    value: Term
    unpacks: bool = False
    comment: str = ""

    def __str__(self) -> str:
        several = isinstance(self.value, Tuple) and self.unpacks
        value = ", ".join(map(str, self.value.operands)) if several else self.value
        text = f"{comma_separated(list(self.names), self.unpacks)} = {value}"
        return f"{text}  {comment_source(self.comment)}" if self.comment else text

    @property
    def evaluated(self) -> tuple[Term, ...]:
        return (self.value,)

    @property
    def bound(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True)
class AddTo(Effect):
    """``target += value``, of a scalar, or of a whole array or its first elements."""

    target: Variable | Prefix
    value: Term

    def __str__(self) -> str:
        return f"{self.target} += {self.value}"

    @property
    def evaluated(self) -> tuple[Term, ...]:
        return self.target, self.value

    @property
    def bound(self) -> tuple[str, ...]:
        return (self.target.name,) if isinstance(self.target, Variable) else ()


@dataclass(frozen=True)
class NewStack(Effect):
    """``name = []``: an empty stack of values that calls return."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} = []"

    @property
    def bound(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class Push(Effect):
    """``stack.append(value)``."""

    stack: str
    value: Term

    def __str__(self) -> str:
        return f"{self.stack}.append({self.value})"

    @property
    def evaluated(self) -> tuple[Term, ...]:
        return Variable(self.stack), self.value


@dataclass(frozen=True)
class Pop(Effect):
    """``stack.pop()``."""

    stack: str

    def __str__(self) -> str:
        return f"{self.stack}.pop()"

    @property
    def evaluated(self) -> tuple[Term, ...]:
        return (Variable(self.stack),)


@dataclass(frozen=True)
class MoveTop(Effect):
    """Move the top of the stack that tapes share by a frame."""

    top: str
    size: Term

    @property
    def evaluated(self) -> tuple[Term, ...]:
        return Variable(self.top), self.size

    @property
    def bound(self) -> tuple[str, ...]:
        return (self.top,)


class PushFrame(MoveTop):
    """``top += size``: past the frame that was recorded."""

    def __str__(self) -> str:
        return f"{self.top} += {self.size}"


class PopFrame(MoveTop):
    """``top -= size``: back to the latest frame."""

    def __str__(self) -> str:
        return f"{self.top} -= {self.size}"


@dataclass(frozen=True)
class Evaluate(Effect):
    """A call that returns nothing."""

    call: Term

    def __str__(self) -> str:
        return str(self.call)

    @property
    def evaluated(self) -> tuple[Term, ...]:
        return (self.call,)


@dataclass(frozen=True)
class Break(Effect):
    """``break``."""

    def __str__(self) -> str:
        return "break"


@dataclass(frozen=True)
class Return(Effect):
    """``return values``; with `packs`, a tuple even of one or none."""

    values: tuple[Term, ...]
    packs: bool = False
    parenthesized: bool = False

    def __str__(self) -> str:
        if self.parenthesized:
            return f"return ({''.join(f'{t}, ' for t in self.values)})"
        return f"return {comma_separated(list(map(str, self.values)), self.packs)}"

    @property
    def evaluated(self) -> tuple[Term, ...]:
        return self.values


@dataclass(frozen=True)
class BlankLine:
    """A blank line between sweeps."""

    def __str__(self) -> str:
        return ""
