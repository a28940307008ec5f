"""Values from outside of a function: which of them can stand in what is generated."""

from __future__ import annotations

import decimal
import fractions

import numpy as np

from ...source_text import constant
from .views import NUMBERS

__all__ = ["same_number", "unfit"]


def unfit(value: object) -> tuple[str, str] | None:
    """What keeps a number (or an array of numbers) from being a constant, and what to do; None if nothing does."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        if not -(1 << 63) <= int(value) < 1 << 63:
            return "an integer of more than 64 bits", "write it as a float"
    elif isinstance(value, complex | np.complexfloating):
        return "a complex number", "write real and imaginary parts apart"
    elif isinstance(value, decimal.Decimal | fractions.Fraction | np.longdouble | np.timedelta64):
        return f"a number of the type {type(value).__name__}", "set it outside of the function: K = float(...)"
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.dtype.itemsize not in (4, 8):
        return f"an array of {value.dtype}", "give it astype(np.float64)"
    return None


def same_number(a: object, b: object) -> bool:
    """Whether two values are the same number, and of the same kind: 0.0 and -0.0 are not, nor are 1 and 1.0."""
    return isinstance(a, NUMBERS) and isinstance(b, NUMBERS) and constant(a) == constant(b)
