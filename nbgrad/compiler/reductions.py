"""Reductions in generated code: what they begin with, and how two partial results are combined."""

from __future__ import annotations

from typing import NamedTuple

from ..core.dtypes import DType
from .elements import element_compute_type

__all__ = ["REDUCTIONS", "accumulation_type", "combined", "identity"]


class Reduction(NamedTuple):
    """A reduction. NaN propagates: a comparison with it is false.

    Attributes
    ----------
    first, first_integer : str
        What it begins with, among floats and among integers.
    both : str
        Code that combines two values.
    both_on_device : str
        The same where there are no intrinsics of LLVM.
    """

    first: str
    first_integer: str
    both: str
    both_on_device: str


REDUCTIONS = {
    "sum": Reduction("0", "0", "{0} + {1}", "{0} + {1}"),
    "max": Reduction("-np.inf", f"{-(2**63) + 1}", "greater({0}, {1})", "{0} if {0} >= {1} or {0} != {0} else {1}"),
    "min": Reduction("np.inf", f"{2**63 - 1}", "smaller({0}, {1})", "{0} if {0} <= {1} or {0} != {0} else {1}"),
}


def accumulation_type(how: str, dtype: DType) -> str:
    """The type in which totals accumulate: float64 for sums of floats of any precision."""
    return "float64" if how == "sum" and dtype.is_float else element_compute_type(dtype)


def identity(how: str, compute: str) -> str:
    """Code for what a reduction begins with, in the type `compute`."""
    reduction = REDUCTIONS[how]
    return f"np.{compute}({reduction.first_integer if compute == 'int64' else reduction.first})"


def combined(how: str, a: str, b: str, reorder: bool = False) -> str:
    """Code that combines two partial results. `reorder`: additions may be reordered, so that loops vectorize."""
    return f"add({a}, {b})" if reorder and how == "sum" else REDUCTIONS[how].both.format(a, b)
