"""Whether a statement can overwrite an element of an array that another one has read before it.

Indices are compared as sums of a text and a constant. A loop around both statements orders them: an element that the
write meets in turn w and the read in turn r, with r - w constant, has not been read yet if r comes after w.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .indices import distance, offset
from .ir import Function, Loop, Statement, Store, walk

__all__ = ["Independence"]


class Independence:
    """Answers for one function. Arrays in `swapped` do not keep their memory, and are never told apart."""

    def __init__(self, f: Function, enclosing: dict[Statement, tuple[Loop, ...]], swapped: set[str]) -> None:
        self.enclosing = enclosing
        self.swapped = swapped
        self.place = {s: k for k, s in enumerate(walk(f.body))}

    def apart(self, write: Store, reader: Statement, indices: Iterable[ast.expr]) -> bool:
        """Whether `write` surely overwrites none of the elements at `indices` that `reader` has read before."""
        return write.array not in self.swapped and all(self._unread(write, reader, index) for index in indices)

    def differ(self, write: Store, reader: Statement, indices: list[ast.expr]) -> bool:
        """Whether `indices`, as of `reader`, surely differ from that of `write` in the same turn of the loops."""
        loops = self.enclosing[reader]
        return bool(indices) and all(
            any(
                distance(a, b) and self.counted(a, self.enclosing[write]) and self.counted(b, loops)
                for a, b in zip(_parts(write.index), _parts(index), strict=True)
            )
            for index in indices
        )

    def _unread(self, write: Store, reader: Statement, index: ast.expr) -> bool:
        pairs = [
            (a, b)
            for a, b in zip(_parts(write.index), _parts(index), strict=True)
            if self.counted(a, self.enclosing[write]) and self.counted(b, self.enclosing[reader])
        ]
        if any(distance(a, b) for a, b in pairs if not offset(a)[0]):
            return True
        common = [a for a, b in zip(self.enclosing[write], self.enclosing[reader], strict=False) if a is b]
        for loop in common:
            ahead = _ahead(loop, pairs)
            if ahead is None or ahead < 0:
                return False
            if ahead > 0:
                return True
        return bool(common) and self.place[reader] > self.place[write]

    def counted(self, node: ast.expr, loops: tuple[Loop, ...]) -> bool:
        """Whether an index surely counts from the front (-1 is the last element, and not the one before 0)."""
        low = _lowest(node, loops)
        return low is not None and low >= 0


def _lowest(node: ast.expr, loops: tuple[Loop, ...]) -> int | None:
    """A bound from below of an integer expression, where there is one."""
    name, k = offset(node)
    if not name:
        return k
    if name.endswith(".size") or (".shape[" in name and name.endswith("]")) or name.startswith("len("):
        return k
    for depth, loop in enumerate(loops):
        if loop.index == name:
            step = offset(loop.step)
            if step[0] or not step[1]:
                return None
            low = _lowest(loop.start if step[1] > 0 else loop.stop, loops[:depth])
            return None if low is None else low + k + (0 if step[1] > 0 else 1)
    return None


def _ahead(loop: Loop, pairs: list[tuple[ast.expr, ast.expr]]) -> int | None:
    """By how much the turn in which the element is read comes after the one in which it is written; None: unknown."""
    step = offset(loop.step)
    if not loop.index or step[0] or not step[1]:
        return None
    for a, b in pairs:
        (name, p), (other, q) = offset(a), offset(b)
        if name == other == loop.index:
            return (p - q) * (1 if step[1] > 0 else -1)
    return None


def _parts(index: ast.expr) -> list[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]
