"""Kernels of a group of statements: one, or two where several blocks have a chunk of each row."""

from __future__ import annotations

from ...core.shapes import size
from ..reductions import REDUCTIONS
from .groups import MAX_SERIAL_REDUCTION, Group
from .source import Kernel, KernelWriter
from .totals import combine_in_block, combine_statement, initial_total

__all__ = ["generate_kernels"]


def generate_kernels(g: Group, fixed: bool) -> list[Kernel]:
    """Generate the kernels of a group. `fixed`: sizes are constants in the source."""
    if not all(g.extents):
        zeros = [v for v, m in g.members.items() if m.s.how in ("embed", "scatter")]
        if not any(m.s.how in REDUCTIONS and size(v.shape) for v, m in g.members.items()):
            return [Kernel("", {}, [], [], [], zeros, 0, 0, 0)] if zeros else []
    shared, splits = g.layout()
    if splits == 1:
        return [KernelWriter(g, fixed, shared, 1).kernel()]
    return [KernelWriter(g, fixed, shared, splits).kernel(), _CombiningKernel(g, fixed, splits).kernel()]


class _CombiningKernel(KernelWriter):
    """Combines partial results of chunks of rows, and computes what depends on the combined ones."""

    def __init__(self, g: Group, fixed: bool, pieces: int) -> None:
        super().__init__(g, fixed, pieces > MAX_SERIAL_REDUCTION, 1)
        self.pieces = pieces
        self.neighbours = g.layout()[0]  # whether the chunks of a row are contiguous

    def kernel(self) -> Kernel:
        rows = self.g.sizes()[0]
        self.members = [m for m in self.members if not self.is_per_element(m) or m.s.how in REDUCTIONS]
        head = self.index_statements("q", self.outside, "i")
        n, pieces = self.size_code(rows), self.size_code(self.pieces)
        begin, step = ("t", ", cuda.blockDim.x") if self.shared else ("0", "")
        at = f"q * {pieces} + k" if self.neighbours else f"k * {n} + q"
        totals = self.totals(0)
        body = []
        for k, (m, total) in enumerate(totals.items()):
            body += [
                f"{total} = {initial_total(m)}",
                f"for k in range({begin}, {pieces}{step}):",
                f"    value = {self.array(k)}[{at}]",
                "    " + combine_statement(m, total, "value"),
            ]
        body += combine_in_block(totals) if self.shared else []
        self.per_row = []
        for m, total in totals.items():
            self.result(m, total)
        for p in range(self.phases):
            for m in self.members:
                if m.phase == p and m not in totals and m.s.value in self.g.stored:
                    self.store(m)
        return self.assemble([*head, *body, *self.per_row], rows, 1)._replace(cleared=[])
