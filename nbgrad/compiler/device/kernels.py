"""The kernels of a group of statements: one, or two where several blocks have a part of each row."""

from __future__ import annotations

from ...core.shapes import size
from .groups import FEW, REDUCTIONS, Group
from .source import Kernel, Writer
from .totals import added, first, together

__all__ = ["written"]


def written(g: Group, fixed: bool) -> list[Kernel]:
    """The kernels of a group, one or two. `fixed`: sizes are written into the source."""
    if not all(g.extents):
        zeros = [v for v, m in g.members.items() if m.s.how in ("embed", "scatter")]
        if not any(m.s.how in REDUCTIONS and size(v.shape) for v, m in g.members.items()):
            return [Kernel("", {}, [], [], [], zeros, 0, 0, 0)] if zeros else []
    shared, splits = g.layout()
    if splits == 1:
        return [Writer(g, fixed, shared, 1).kernel()]
    return [Writer(g, fixed, shared, splits).kernel(), _Second(g, fixed, splits).kernel()]


class _Second(Writer):
    """Combines what was found of the parts of rows, and computes what follows from it."""

    def __init__(self, g: Group, fixed: bool, pieces: int) -> None:
        super().__init__(g, fixed, pieces > FEW, 1)
        self.pieces = pieces
        self.neighbours = g.layout()[0]  # the parts of a row are

    def kernel(self) -> Kernel:
        rows = self.g.sizes()[0]
        self.members = [m for m in self.members if not self.placed(m) or m.s.how in REDUCTIONS]
        head = self.split("q", self.outside, "i")
        n, pieces = self.number(rows), self.number(self.pieces)
        begin, step = ("t", ", cuda.blockDim.x") if self.shared else ("0", "")
        at = f"q * {pieces} + k" if self.neighbours else f"k * {n} + q"
        totals = self.totals(0)
        body = []
        for k, (m, total) in enumerate(totals.items()):
            body += [
                f"{total} = {first(m)}",
                f"for k in range({begin}, {pieces}{step}):",
                f"    value = {self.array(k)}[{at}]",
                "    " + added(m, total, "value"),
            ]
        body += together(totals) if self.shared else []
        self.per_row = []
        for m, total in totals.items():
            self.result(m, total)
        for p in range(self.phases):
            for m in self.members:
                if m.phase == p and m not in totals and m.s.value in self.g.stored:
                    self.store(m)
        return self.finished([*head, *body, *self.per_row], rows, 1)._replace(cleared=[])
