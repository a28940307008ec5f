"""Scalar functions of the bits of integers, and of the representation of floats: they have no derivatives."""

from __future__ import annotations

import numpy as np

from ..backends.numba.compile import inline
from ..ir.expr import Fn

__all__ = ["bit_and", "bit_not", "bit_or", "bit_xor", "left_shift", "nextafter", "right_shift"]


@inline
def shift_left(a, b):
    """Bits that are shifted out are lost; by the width and more nothing is left, as in NumPy."""
    return a << b if 0 <= b < 64 else a ^ a


@inline
def shift_right(a, b):
    """With the sign, as in NumPy: by the width and more, 0 or -1 is left."""
    return a >> b if 0 <= b < 64 else (a >> 63) >> 1  # two steps: a shift by the width is undefined


bit_and = Fn("bit_and", "({0} & {1})")
bit_or = Fn("bit_or", "({0} | {1})")
bit_xor = Fn("bit_xor", "({0} ^ {1})")
bit_not = Fn("bit_not", "(~{0})")
left_shift = Fn("left_shift", "shift_left({0}, {1})", helpers={"shift_left": shift_left})
right_shift = Fn("right_shift", "shift_right({0}, {1})", helpers={"shift_right": shift_right})
nextafter = Fn("nextafter", "np.nextafter({0}, {1})", helpers={"np": np}, max_order=0)
