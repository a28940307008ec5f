"""Check that a function retraced for its derivatives is still the one that was compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..arrays.ndarray import NDArray
    from ..ir.graph import ShapedValue, Value

__all__ = ["same_steps"]


def same_steps(
    old: Sequence[ShapedValue],
    new: Sequence[ShapedValue],
    known: dict[Value, Value],
    read: tuple[dict[Value, NDArray], dict[Value, NDArray]],
) -> bool:
    """Whether results of two graphs come from equal steps.

    `known` maps arguments of the old graph to those of the new. `read` are the captured arrays that other arguments are
    bound to, in the old graph and in the new: they must be the same array, or arrays with equal values, which a
    function may create each time. Opaque steps are not compared in detail.
    """
    if len(old) != len(new):
        return False
    known, stack = dict(known), list(zip(old, new, strict=True))
    while stack:
        a, b = stack.pop()
        if a.shape != b.shape:
            return False
        if a.value in known:
            if known[a.value] is not b.value:
                return False
            continue
        x, y = a.value, b.value
        if (x.op, x.shape, x.dtype) != (y.op, y.shape, y.dtype) or len(x.inputs) != len(y.inputs):
            return False
        if x.op == "argument":
            first, second = read[0].get(x), read[1].get(y)
            if first is None or second is None or not (first is second or _equal(first, second)):
                return False
        elif x.attrs != y.attrs and x.op != "opaque":
            return False
        known[x] = y
        stack.extend(zip(x.inputs, y.inputs, strict=True))
    return True


def _equal(a: NDArray, b: NDArray) -> bool:
    return a._kind is b._kind and a._shape == b._shape and np.array_equal(a.asnumpy(), b.asnumpy(), equal_nan=True)
