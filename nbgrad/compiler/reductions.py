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
    first : dict
        What it begins with, by the type that totals have; of all floats, of "float".
    both : str
        Code that combines two values.
    both_on_device : str
        The same where there are no intrinsics of LLVM.
    """

    first: dict[str, str]
    both: str
    both_on_device: str


REDUCTIONS = {
    "sum": Reduction({"float": "0", "int64": "0", "uint64": "0"}, "{0} + {1}", "{0} + {1}"),
    "max": Reduction(
        {"float": "-np.inf", "int64": f"{-(2**63) + 1}", "uint64": "0"},
        "greater({0}, {1})",
        "{0} if {0} >= {1} or {0} != {0} else {1}",
    ),
    "min": Reduction(
        {"float": "np.inf", "int64": f"{2**63 - 1}", "uint64": f"{2**64 - 1}"},
        "smaller({0}, {1})",
        "{0} if {0} <= {1} or {0} != {0} else {1}",
    ),
}


def accumulation_type(how: str, dtype: DType) -> str:
    """The type in which totals accumulate: float64 for sums of floats of any precision."""
    return "float64" if how == "sum" and dtype.is_float else element_compute_type(dtype)


def identity(how: str, compute: str) -> str:
    """Code for what a reduction begins with, in the type `compute`."""
    first = REDUCTIONS[how].first
    return f"np.{compute}({first.get(compute, first['float'])})"


def combined(how: str, a: str, b: str, reorder: bool = False) -> str:
    """Code that combines two partial results. `reorder`: additions may be reordered, so that loops vectorize."""
    return f"add({a}, {b})" if reorder and how == "sum" else REDUCTIONS[how].both.format(a, b)
