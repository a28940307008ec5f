"""Which elements of an array a statement can meet that another one has read before it."""

from __future__ import annotations

from .ir import Function, Loop, Statement, Store

__all__ = ["Independence"]


class Independence:
    def __init__(self, f: Function, enclosing: dict[Statement, tuple[Loop, ...]], swapped: set[str]) -> None:
        self.f = f
        self.enclosing = enclosing
        self.swapped = swapped

    def apart(self, write: Store, reader: Statement) -> bool:
        """Whether `write` surely overwrites no element that the derivative of `reader` read before."""
        return False
