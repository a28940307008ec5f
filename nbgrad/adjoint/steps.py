"""The sweep back before it is text: single assignments, blocks with a head, and lines as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from .ir import parse, unparse

__all__ = ["Item", "Nest", "Step", "flat", "steps"]


@dataclass(eq=False)
class Step:
    """``target = value``, or with ``+=`` or ``-=``."""

    target: ast.expr
    how: str
    value: str

    def __str__(self) -> str:
        return f"{unparse(self.target)} {self.how} {self.value}"

    @property
    def name(self) -> str:
        """The number or array that is written."""
        target = self.target.value if isinstance(self.target, ast.Subscript) else self.target
        return target.id  # type: ignore[attr-defined]

    def read(self) -> list[ast.expr]:
        """What is evaluated, besides the old value of the target."""
        index = [self.target.slice] if isinstance(self.target, ast.Subscript) else []
        return [parse(self.value), *index]


@dataclass(eq=False)
class Nest:
    """A loop or branch: its first line, and what is in it; `test` is that of a branch."""

    head: str
    body: list[Item] = field(default_factory=list)
    test: str = ""


Item = str | Step | Nest


def flat(items: list[Item]) -> list[str]:
    lines: list[str] = []
    for item in items:
        if isinstance(item, Nest):
            lines += [item.head, *(f"    {line}" for line in flat(item.body) or ["pass"])]
        else:
            lines.append(str(item))
    return lines


def steps(items: list[Item], depth: int = 0) -> Iterator[tuple[Step, int]]:
    """The assignments in `items`, and in how many branches each is."""
    for item in items:
        if isinstance(item, Step):
            yield item, depth
        elif isinstance(item, Nest):
            yield from steps(item.body, depth + 1)
