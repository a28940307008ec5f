"""Conversions in generated files."""

from __future__ import annotations

from ...backends.numba.intrinsics import intrinsic, types

__all__ = ["as_float"]


def _typed(x):
    return types.float64(types.float64) if isinstance(x, types.Integer | types.Boolean) else x


@intrinsic(_typed, python=lambda x: x if hasattr(x, "dtype") and x.dtype.kind == "f" else float(x))
def as_float(emit, x):
    """Integers and bools as float64, as NumPy's functions compute with them; floats as they are."""
    return x
