"""Elements of arrays, as generated code calculates with them."""

from __future__ import annotations

from ..arrays.templates import load, store
from ..core.dtypes import DType

__all__ = ["calculated_in", "rounded"]


def calculated_in(dtype: DType) -> str:
    """What elements of `dtype` are, once they are read."""
    return dtype.compute if dtype.is_float else "int64"


def rounded(dtype: DType, code: str, compute: str) -> str:
    """A result calculated in `compute`, as it would be read from an array of `dtype`."""
    if calculated_in(dtype) == compute and dtype.name in ("float32", "float64", "int64"):
        return code
    stored = store(dtype, code, compute)
    if dtype.is_float:
        return load(dtype, stored) if dtype.name == "float16" else f"np.{dtype.name}({code})"
    return (
        f"np.int64({stored})"
        if dtype.name in ("bool", "int64") or compute != "int64"
        else f"np.int64(np.{dtype.name}({code}))"
    )
