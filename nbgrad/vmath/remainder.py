"""The remainder of a division."""

from __future__ import annotations

from ..codegen.compile import inline
from .bits import copy_sign, fma, trunc
from .rare import remainder_beyond

__all__ = ["floor_mod"]


@inline
def floor_mod(a, b):
    """``a - b*floor(a/b)``, with the sign of `b` as in Python; NaN for b = 0 or infinite a. [0.5 ulp]"""
    zero = type(a)(0.0)
    # Rounding may make the quotient 1 too great; what is left is exact all the same, with the other sign.
    quotient = a / b
    r = fma(-trunc(quotient), b, a)
    r = remainder_beyond(quotient, a, b, a if abs(a) < abs(b) else r)
    r = r + b if (r < zero and b > zero) or (r > zero and b < zero) else r
    return copy_sign(r, b) if r == zero else r
