"""Axes of arguments that have length 1 at a call, and broadcast.

Lowering compares lengths that may differ, and code for these checks that they are equal. Where a call gives such an
axis length 1, beside another length, code of its own is generated, in which the axis broadcasts.
"""

from __future__ import annotations

import builtins
from typing import Any

from .ir.statements import Function
from .ir.terms import ZERO, Binary, Call, Constant, Global, Length, Term

__all__ = ["UnitAxis", "broadcasting_axes", "squeezed_axes"]

_CALLS = (builtins.min, builtins.max)


class UnitAxis(Exception):
    """An argument has an axis of length 1 where others may have more."""


def broadcasting_axes(f: Function, args: tuple) -> frozenset[tuple[str, int]]:
    """The axes of length 1, if one of them is compared with a length that is not known to be 1; else none."""
    if not f.compared_axes:
        return frozenset()
    lengths = {n: a.shape for n, a in zip(f.parameters, args, strict=True) if f.ranks[n]}
    ones = [(n, d) for n, d in f.compared_axes if lengths[n][d] == 1]
    broadcast = any(_value(t, lengths) != 1 for axis in ones for t in f.compared_axes[axis])
    return frozenset(ones) if broadcast else frozenset()


def squeezed_axes(f: Function | None, args: tuple) -> frozenset[tuple[str, int]]:
    """The axes of length 1 that ``np.squeeze`` may drop; `f` is a function whose lowering failed without that."""
    if f is None:
        return frozenset()
    lengths = {n: a.shape for n, a in zip(f.parameters, args, strict=True) if f.ranks[n]}
    perhaps = [axis for axis, others in f.compared_axes.items() if ZERO in others]
    return frozenset((n, d) for n, d in perhaps if lengths[n][d] == 1)


def _value(length: Term, lengths: dict[str, tuple[int, ...]]) -> Any:
    """The value of a length, or None where it is not given by the lengths of arguments."""
    match length:
        case Constant(value):
            return value
        case Length(array, axis) if array in lengths:
            return lengths[array][axis or 0]
        case Binary("+" | "-" as op, left, right):
            a, b = _value(left, lengths), _value(right, lengths)
            return None if a is None or b is None else a + b if op == "+" else a - b
        case Call(Global(value=function), operands) if function in _CALLS:
            values = [_value(t, lengths) for t in operands]
            return None if None in values else function(values)
    return None
