"""What differs between the arrays of ``nd``, which follow MXNet, and those of ``np``, which follow NumPy.

Kernels, tape and compiler are the same for both. Every kind of array has the conventions of its class; operators ask
them for the shape of a single number, for the dtype of a truth value, and for that of a quotient of integers.
"""

from __future__ import annotations

from typing import Any

from . import dtypes
from .dtypes import DType

__all__ = ["EITHER", "MXNET", "NUMPY", "Conventions"]


class Conventions:
    """The conventions of arrays. There are three instances: compare with ``is``.

    Attributes
    ----------
    name : str
        The namespace that users know.
    array : type
        The class of such arrays, registered by the module that defines it.
    scalar : tuple of int
        The shape of a single number, as full reductions return it.
    truth : DType or None
        The dtype of comparisons; None for that of their operands.
    index : DType
        The dtype of indices that operators return.
    """

    __slots__ = ("array", "index", "name", "scalar", "truth")

    array: Any

    def __init__(self, name: str, scalar: tuple[int, ...], truth: DType | None, index: DType) -> None:
        self.name = name
        self.scalar = scalar
        self.truth = truth
        self.index = index

    def __repr__(self) -> str:
        return f"<conventions of {self.name}>"

    def __reduce__(self) -> str:
        return "MXNET" if self is MXNET else "NUMPY" if self is NUMPY else "EITHER"

    def float_dtype(self) -> DType:
        """The dtype of results that are floats where operands are not."""
        return dtypes.default_dtype() if self is MXNET else dtypes.float64

    def promote(self, a: DType, b: DType) -> DType:
        """The dtype of a result of operands `a` and `b`."""
        return dtypes.promote(a, b) if self is MXNET else dtypes.numpy_promote(a, b)


MXNET = Conventions("nd", (1,), None, dtypes.float32)
NUMPY = Conventions("np", (), dtypes.bool_, dtypes.int64)
#: Those of NumPy's, for the arrays by which transforms replace the user's NumPy arrays and numbers: functions written
#: with either class get them. Together with an array that was created as one of nd or np they follow that one.
EITHER = Conventions("np", (), dtypes.bool_, dtypes.int64)
