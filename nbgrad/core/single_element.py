"""NumPy arrays of one element that also convert to scalars."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Single"]


class Single(np.ndarray):
    """An array of one element, such as a total sum: ``float(y)`` and ``f"{y:.3f}"`` work for any rank.

    NumPy supports this for 0-d arrays only. Results computed from one are ordinary arrays.
    """

    __slots__ = ()

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(np.ndarray)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()
