"""Statements: what is computed at each point of which axes, from which elements (:mod:`.lowering` creates them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.expr import Expr, const
from ..ir.graph import Value

__all__ = ["Access", "Axis", "Guard", "Statement"]


class Axis:
    """A loop variable: an axis of one or several statements. `number` only orders them for readers."""

    __slots__ = ("extent", "number", "parent")

    def __init__(self, extent: int, number: int = 0) -> None:
        self.extent = extent
        self.number = number
        self.parent: Axis | None = None  # the axis that this one was merged into

    def root(self) -> Axis:
        axis = self
        while axis.parent is not None:
            axis = axis.parent
        return axis

    def __repr__(self) -> str:
        return f"i{self.number}"


class Access(NamedTuple):
    """A read of `value`: the index in its flat elements, as a function of the reader's axes.

    For a pointwise read, `pointwise` maps each axis of `value` to an axis of the reader; else it is None.
    """

    value: Value
    coefficients: tuple[tuple[int, int], ...]  # (reader's axis number, coefficient)
    offset: int
    pointwise: tuple[int, ...] | None
    through: tuple[tuple[int, int], ...] = ()  # (number of the read that gives an index, coefficient)


class Guard(NamedTuple):
    """A condition: an axis of the reader is in this range."""

    axis: int
    start: int
    stop: int


class Statement:
    """`value`, computed for every point of `axes`, from reads r0, r1, ... and guards g0, g1, ...

    Attributes
    ----------
    how : str
        "map", "sum", "max", "min"; "embed" and "scatter" (assigned, or accumulated, at `target`); "product" or
        "opaque" (as a whole).
    axes : list of Axis
        In the order of the arrays' axes; those of length 1 are ignored.
    kept : tuple of int
        Per axis of the value, which of `axes` it is.
    """

    def __init__(self, value: Value, how: str, extents: Sequence[int], kept: Sequence[int]) -> None:
        self.value = value
        self.how = how
        self.axes = [Axis(n) for n in extents]
        self.kept = tuple(kept)
        self.expr: Expr = const(0)
        self.reads: list[Access] = []
        self.guards: list[Guard] = []
        self.target: Access | None = None

    @property
    def reduced(self) -> list[int]:
        return [k for k, axis in enumerate(self.axes) if k not in self.kept and axis.extent != 1]

    def __repr__(self) -> str:
        return f"{self.value!r}[{', '.join(map(repr, self.axes))}] = {self.how} {self.expr!r}"
