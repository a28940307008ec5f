"""Elementwise steps that follow a matrix product, computed where its kernel has the elements.

So products are not stored for them. Nbgrad's own kernel computes whatever follows; a library what `device_linear` says,
and what else follows its products is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...arrays.templates import store
from ...backends.cuda.product import Epilogue, Linear, large
from ...ir.graph import Value
from ..elements import calculated_in
from ..statements import Access
from .groups import Group, Member
from .linear import in_order, linear_part, multiplied, steps
from .source import Writer

__all__ = ["followed", "written"]


def followed(groups: Sequence[Group], outputs: Iterable[Value], number: int) -> list[Group]:
    """The same groups; products of which the first reader can be computed with them are that group's `product`.

    `number` is the device's.
    """
    outputs = set(outputs)
    found = list(groups)
    for g in groups:
        if g.how != "product":
            continue
        (value,) = g.members
        readers = [other for other in found if any(value is a.value for m in other.members.values() for a in m.s.reads)]
        if not readers or not _follows(readers[0], value):
            continue
        first = readers[0]
        stays = len(readers) > 1 or value in outputs
        stacks, (m, k, n) = multiplied(value)
        if large(number, stacks * m * k * n):
            parts = None if stays else linear_part(first, value, number)
            if parts is None:
                continue
            where = found.index(first)
            found[where : where + 1] = parts
            first = parts[0]
        first.product = g.members[value].s
        if stays:
            first.stored.add(value)
        found.remove(g)
    return found


def _follows(g: Group, value: Value) -> bool:
    """Whether a group computes for each element of a product from that element."""
    if g.product is not None or g.rows is not None or any(m.s.how != "map" for m in g.members.values()):
        return False
    reads = [(m, a) for m in g.members.values() for a in m.s.reads if a.value is value]
    return all(steps(m, a) == in_order(g) for m, a in reads)


class _Epilogue(Writer):
    """Writes what follows."""

    def __init__(self, g: Group, value: Value) -> None:
        super().__init__(g, True, False, 1)
        self.product = value

    def read(self, m: Member, access: Access, values: dict[str, str], inside: bool) -> str:
        return "made" if access.value is self.product else super().read(m, access, values, inside)

    def function(self) -> tuple[Epilogue, list[Value]]:
        lines = self._elements(0, {})
        if self.product in self.g.stored:
            dtype = self.product.dtype
            lines.append(f"{self.array(self.product)}[j] = {store(dtype, 'made', calculated_in(dtype))}")
        arrays = [v for v in self.arrays if isinstance(v, Value)]
        source = f"def epilogue({', '.join(['j', 'made', *(f'a{k}' for k in range(len(arrays)))])}):\n"
        source += "".join(f"    {line}\n" for line in lines)
        helpers = {k: v for k, v in self.helpers.items() if f"{k}(" in source or f"{k}." in source}
        linear = None
        if self.g.linear is not None:
            product, given = self.g.linear
            linear = Linear(product, tuple([arrays.index(v) for v in given]))
        return Epilogue(source, helpers, linear), arrays


def written(g: Group) -> tuple[Epilogue, list[Value]]:
    """What a group's product goes through, and the arrays that it is called with."""
    assert g.product is not None
    return _Epilogue(g, g.product.value).function()
