"""Division with remainder, rounding towards minus infinity: NumPy's values, bit for bit."""

from __future__ import annotations

from ..backends.numba.compile import inline
from .bits import copy_sign, fma, trunc
from .rare import floor_beyond, remainder_beyond

__all__ = ["floor_divide", "floor_mod"]


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


@inline
def floor_divide(a, b):
    """The greatest integer that is not more than the exact quotient, as :func:`floor_mod` has its remainder: 9 for
    ``1.0 // 0.1``, although the quotient rounds to 10. Infinite or NaN for b = 0, NaN for infinite a."""
    zero = type(a)(0.0)
    quotient = a / b
    whole = trunc(quotient)
    r = a if abs(a) < abs(b) else fma(-whole, b, a)  # the sign is right, whatever is rounded
    below = (r < zero and b > zero) or (r > zero and b < zero)
    return floor_beyond(quotient, a, b, whole - type(a)(1.0) if below else whole)
