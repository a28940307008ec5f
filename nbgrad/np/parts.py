"""Parts of numbers, whole numbers, and what kind of number an element is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError
from .arrays import as_array, ndarray
from .creation import from_numpy_values, ones_like, zeros_like
from .selection import where
from .ufuncs import UFUNCS

__all__ = ["bitwise_count", "divmod", "frexp", "gcd", "iscomplex", "iscomplexobj", "isneginf", "isposinf", "isreal",
           "isrealobj", "lcm", "ldexp", "modf"]  # fmt: skip


def modf(x) -> tuple[ndarray, ndarray]:
    """The fraction and the whole part of each element, with its sign. Gradient: g of the fraction, 0 of the other."""
    x = as_array(x, "modf") * 1.0
    whole = UFUNCS["trunc"](x)
    fraction = where(UFUNCS["isinf"](x), 0.0, x - whole)
    return UFUNCS["copysign"](fraction, x), whole


def divmod(x1, x2) -> tuple[ndarray, ndarray]:
    """The quotients, rounded down, and the remainders."""
    return UFUNCS["floor_divide"](x1, x2), UFUNCS["remainder"](x1, x2)


def ldexp(x1, x2) -> ndarray:
    """``x1 * 2**x2``, for integers `x2`."""
    exponents = as_array(x2, "ldexp")
    if exponents._kind.dtype.is_float:
        raise TypeError(f"ldexp: x2 must be integers, got {exponents.dtype}")
    half = exponents // 2  # 2**x2 may overflow where the result does not
    return as_array(x1, "ldexp") * 1.0 * 2.0**half * 2.0 ** (exponents - half)


def frexp(x) -> tuple[ndarray, ndarray]:
    """The mantissas, of absolute values from 0.5 to 1, and the exponents of two: ``x = mantissa * 2**exponent``."""
    x = as_array(x, "frexp") * 1.0
    mantissas, exponents = np.frexp(x.asnumpy())
    scale = np.where(np.isfinite(mantissas), exponents, 0)
    return ldexp(x, from_numpy_values(-scale.astype(np.int64))), from_numpy_values(exponents)


def _of_integers(name: str) -> Callable:
    def function(*operands) -> ndarray:
        given = [x if isinstance(x, int) else as_array(x, name).asnumpy() for x in operands]  # NumPy's weak numbers
        for x in given:
            if np.asarray(x).dtype.kind == "f":
                raise TypeError(f"{name}: integers are expected, got {np.asarray(x).dtype}")
        try:
            return from_numpy_values(np.asarray(getattr(np, name)(*given)))
        except TypeError as err:
            if type(err) is TypeError:  # not one of dtypes: of the number of operands
                raise
            kinds = " and ".join(str(np.asarray(x).dtype) for x in given)
            raise DTypeError(f"{name}: NumPy has none of {kinds}; convert one of them with x.astype") from None

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``numpy.{name}``, of integers."
    return function


gcd = _of_integers("gcd")
lcm = _of_integers("lcm")
bitwise_count = _of_integers("bitwise_count")


def _infinite(name: str, sign: float) -> Callable:
    def function(x, out=None) -> ndarray:
        found = UFUNCS["equal"](as_array(x, name), sign * np.inf)
        return found if out is None else UFUNCS["positive"](found, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether each element is {'minus ' * (sign < 0)}infinity."
    return function


isposinf = _infinite("isposinf", 1.0)
isneginf = _infinite("isneginf", -1.0)


def isreal(x) -> ndarray:
    """True for each element: there are no complex numbers."""
    return ones_like(as_array(x, "isreal"), bool)


def iscomplex(x) -> ndarray:
    """False for each element: there are no complex numbers."""
    return zeros_like(as_array(x, "iscomplex"), bool)


def isrealobj(x: Any) -> bool:
    """Whether something is an array or a number without complex dtype. As ``numpy.isrealobj``."""
    return isinstance(x, ndarray) or np.isrealobj(x)


def iscomplexobj(x: Any) -> bool:
    """Whether something has a complex dtype. As ``numpy.iscomplexobj``."""
    return not isrealobj(x)
