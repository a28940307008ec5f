"""Epilogues: elementwise steps fused into the kernel of the matrix product that they follow.

The product is then not stored for them. Nbgrad's own kernel computes any epilogue; a library computes those that
:mod:`.linear` recognizes, and what else follows its products is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...arrays.templates import store
from ...backends.cuda.product import Epilogue, Linear, use_library
from ...ir.graph import Value
from ..elements import element_compute_type
from ..statements import Access
from .groups import Group, Member
from .linear import access_strides, contiguous_strides, product_sizes, split_linear_epilogue
from .source import KernelWriter

__all__ = ["fuse_epilogues", "generate_epilogue"]


def fuse_epilogues(groups: Sequence[Group], outputs: Iterable[Value], number: int) -> list[Group]:
    """The groups, with products fused into their first readers where possible: as the `product` of that group.

    `number` is that of the device.
    """
    outputs = set(outputs)
    fused = list(groups)
    for g in groups:
        if g.how != "product":
            continue
        (value,) = g.members
        readers = [other for other in fused if any(value is a.value for m in other.members.values() for a in m.s.reads)]
        if not readers or not _is_epilogue_of(readers[0], value):
            continue
        first = readers[0]
        stored = len(readers) > 1 or value in outputs
        stacks, (m, k, n) = product_sizes(value)
        if use_library(number, stacks * m * k * n, k):
            parts = None if stored else split_linear_epilogue(first, value, number)
            if parts is None:
                continue
            where = fused.index(first)
            fused[where : where + 1] = parts
            first = parts[0]
        first.product = g.members[value].s
        if stored:
            first.stored.add(value)
        fused.remove(g)
    return fused


def _is_epilogue_of(g: Group, value: Value) -> bool:
    """Whether a group computes, for each element of a product, from that element only."""
    if g.product is not None or g.rows is not None or any(m.s.how != "map" for m in g.members.values()):
        return False
    reads = [(m, a) for m in g.members.values() for a in m.s.reads if a.value is value]
    return all(access_strides(m, a) == contiguous_strides(g) for m, a in reads)


class _Epilogue(KernelWriter):
    """Writes an epilogue."""

    def __init__(self, g: Group, value: Value) -> None:
        super().__init__(g, True, False, 1)
        self.product = value

    def read(self, m: Member, access: Access, values: dict[str, str], inside: bool) -> str:
        return "made" if access.value is self.product else super().read(m, access, values, inside)

    def function(self) -> tuple[Epilogue, list[Value]]:
        lines = self._elements(0, {})
        if self.product in self.g.stored:
            dtype = self.product.dtype
            lines.append(f"{self.array(self.product)}[j] = {store(dtype, 'made', element_compute_type(dtype))}")
        arrays = [v for v in self.arrays if isinstance(v, Value)]
        source = f"def epilogue({', '.join(['j', 'made', *(f'a{k}' for k in range(len(arrays)))])}):\n"
        source += "".join(f"    {line}\n" for line in lines)
        helpers = {k: v for k, v in self.helpers.items() if f"{k}(" in source or f"{k}." in source}
        linear = None
        if self.g.linear is not None:
            product, operands = self.g.linear
            linear = Linear(product, tuple([arrays.index(v) for v in operands]))
        return Epilogue(source, helpers, linear), arrays


def generate_epilogue(g: Group) -> tuple[Epilogue, list[Value]]:
    """The epilogue of a group's product, and the arrays that it reads and writes."""
    assert g.product is not None
    return _Epilogue(g, g.product.value).function()
