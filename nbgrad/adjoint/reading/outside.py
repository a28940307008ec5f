"""Values from outside of a function: which of them can stand in what is generated."""

from __future__ import annotations

import decimal
import fractions
import types

import numpy as np

from ...source_text import constant
from .views import NUMBERS

__all__ = ["LARGEST", "Constants", "constants_of", "same", "same_number", "unfit"]

#: The elements that an array from outside may have that is written into the code.
LARGEST = 4096

#: What names stand for, and of what is changed in place the contents.
Constants = dict[str, tuple[object, object]]


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


def constants_of(function: types.FunctionType) -> Constants:
    """What the names of the module and of closures that a function reads stand for now."""
    code, names = function.__code__, function.__globals__
    found = {n: names[n] for n in code.co_names if n in names}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it has none yet
            continue
    for name, value in [item for item in found.items() if isinstance(item[1], types.ModuleType)]:
        known = vars(value)  # an attribute of any module among them
        found |= {f"{name}.{n}": known[n] for n in code.co_names if n in known}
    return {n: (v, v.tobytes() if isinstance(v, np.ndarray) and v.size <= LARGEST else None) for n, v in found.items()}


def same(a: Constants, b: Constants) -> bool:
    """Whether all names stand for the same."""
    return a.keys() == b.keys() and all(v is b[n][0] and contents == b[n][1] for n, (v, contents) in a.items())


def same_number(a: object, b: object) -> bool:
    """Whether two values are the same number, and of the same kind: 0.0 and -0.0 are not, nor are 1 and 1.0."""
    return isinstance(a, NUMBERS) and isinstance(b, NUMBERS) and constant(a) == constant(b)
