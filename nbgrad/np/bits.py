"""Functions of the bits of integers: ``&``, ``|``, ``^``, ``~`` and shifts. Of bools they are logical functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..errors import DTypeError
from ..ir.expr import Expr, var
from ..kernels import bits
from ..operators.elementwise import Elementwise
from .arrays import as_array
from .elementwise import Binary, Ufunc, Unary, document

__all__ = ["bit_functions"]

x0, x1 = var("x0"), var("x1")


class _OfBits(Binary):
    """A function of two integers; `logical` is that of two bools, if there is one."""

    def __init__(self, name: str, expr: Expr, logical: Ufunc | None) -> None:
        super().__init__(name, Elementwise(name, expr, 2))
        of_integers = self.binary

        def binary(x1: Any, x2: Any, out: Any = None) -> Any:
            dtypes = [_dtype_of(x, name) for x in (x1, x2)]
            of_bools = set(dtypes) == {np.dtype(bool)}
            if of_bools and logical is None:
                raise DTypeError(f"{name}: arrays of integers are expected, got bools; use x.astype(int)")
            return logical(x1, x2) if of_bools and logical is not None else of_integers(x1, x2, out)

        self.binary = binary


class _Inverted(Unary):
    """The complement of integers, and what is not true of bools."""

    def __init__(self, logical: Ufunc) -> None:
        rule = Elementwise("invert", bits.bit_not(x0), 1)
        super().__init__("invert", rule)
        self._apply = lambda x: (logical if _dtype_of(x, "invert").kind == "b" else rule.apply1)(x)


def _dtype_of(x: Any, name: str) -> np.dtype:
    dtype = np.dtype(x.dtype if isinstance(x, NDArray) else as_array(x, name).dtype)
    if dtype.kind == "f":
        instead = "use x.astype(int), or np.logical_and and the like for truth values"
        raise DTypeError(f"{name}: integers and bools have bits here, got {dtype}; {instead}")
    return dtype


def bit_functions(ufuncs: dict[str, Any]) -> dict[str, Ufunc]:
    """These functions by all of their names; `ufuncs` has the logical ones."""
    found: dict[str, Ufunc] = {"invert": _Inverted(ufuncs["logical_not"])}
    for name, fn in (("and", bits.bit_and), ("or", bits.bit_or), ("xor", bits.bit_xor)):
        found[f"bitwise_{name}"] = _OfBits(f"bitwise_{name}", fn(x0, x1), ufuncs[f"logical_{name}"])
    for name, fn in (("left_shift", bits.left_shift), ("right_shift", bits.right_shift)):
        found[name] = found[f"bitwise_{name}"] = _OfBits(name, fn(x0, x1), None)
    for name, what in _DOCUMENTATION.items():
        document(found[name], what)
    found["bitwise_not"] = found["bitwise_invert"] = found["invert"]
    return found


_DOCUMENTATION = {
    "bitwise_and": "The bits that both integers have; of bools, whether both hold.",
    "bitwise_or": "The bits that one of two integers has, or both; of bools, whether one holds.",
    "bitwise_xor": "The bits that one of two integers has, but not both; of bools, whether one holds alone.",
    "invert": "The bits that an integer has not; of bools, whether it does not hold.",
    "left_shift": "An integer times two to the power of another one; bits beyond its width are lost.",
    "right_shift": "An integer divided by two to the power of another one, rounded down.",
}
