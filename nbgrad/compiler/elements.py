"""Conversions between the dtype of array elements and the type that generated code computes in."""

from __future__ import annotations

from ..arrays.templates import load, store
from ..core.dtypes import DType, uint64

__all__ = ["element_compute_type", "rounded"]


def element_compute_type(dtype: DType) -> str:
    """The type in which generated code holds elements of `dtype` after loading them."""
    return dtype.compute if dtype.is_float else "uint64" if dtype is uint64 else "int64"


def rounded(dtype: DType, code: str, compute: str) -> str:
    """Code that rounds a result computed in `compute` as if it had been stored to and loaded from an array of
    `dtype`."""
    held = element_compute_type(dtype)
    if held == compute and dtype.name in ("float32", "float64", "int64", "uint64"):
        return code
    stored = store(dtype, code, compute)
    if dtype.is_float:
        return load(dtype, stored) if dtype.name == "float16" else f"np.{dtype.name}({code})"
    whole = dtype.name in ("bool", held)
    return f"np.{held}({stored})" if whole else f"np.{held}(np.{dtype.name}({stored}))"
