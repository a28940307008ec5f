"""Types of numbers that programs name: Python's, NumPy's and Numba's, and dtypes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

__all__ = ["is_number_type", "named_dtype", "numpy_type"]


def is_number_type(value: object) -> bool:
    """Whether a value is a type of numbers, as ``float``, ``np.float32`` and ``numba.float64`` are, or a dtype."""
    return isinstance(value, np.dtype | numba.types.Number | numba.types.Boolean) or (
        isinstance(value, type) and (value in (float, int, bool) or issubclass(value, np.generic))
    )


def numpy_type(value: object) -> object:
    """NumPy's type for one of Numba's, ``np.float32`` for ``numba.float32``; other values as they are."""
    if isinstance(value, numba.types.Number | numba.types.Boolean):
        dtype = named_dtype(value)
        return value if dtype is None else dtype.type
    return value


def named_dtype(value: Any) -> np.dtype | None:
    """The dtype that a value names in NumPy or Numba; None if it names none."""
    name = str(value) if isinstance(value, numba.types.Number | numba.types.Boolean) else value
    try:
        return np.dtype(name)
    except TypeError:
        return None
