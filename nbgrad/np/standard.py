"""What the Python array API standard has besides NumPy's functions: dtypes, devices, conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.context import cpu, current_context, gpu, num_gpus
from ..core.dtypes import ALL, as_dtype
from ..protocols import dlpack
from .arrays import as_array, as_np, ndarray

__all__ = ["astype", "can_cast", "from_dlpack", "isdtype", "result_type"]


def astype(x, dtype, /, *, copy=True, device=None) -> ndarray:
    """An array in another dtype, recorded."""
    x = as_array(x, "astype")
    found: Any = x if not copy and x.dtype == as_dtype(dtype).np else x.astype(dtype)
    return found if device is None else found.as_in_context(device)


def from_dlpack(x, /, *, device=None, copy=None) -> ndarray:
    """An array on the memory of another library's array, by DLPack; without a gradient."""
    found: Any = as_np(dlpack.from_dlpack(x))
    found = found.copy() if copy else found
    return found if device is None else found.as_in_context(device)


def _dtype(given: Any) -> Any:
    return given.dtype if isinstance(given, NDArray) else given


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype of a result of these arrays, dtypes and Python numbers."""
    return np.result_type(*map(_dtype, arrays_and_dtypes))


def can_cast(from_, to, /, casting="safe") -> bool:
    """Whether a dtype, or that of an array, can be cast to another one without loss."""
    return np.can_cast(_dtype(from_), to, casting)


def isdtype(dtype, kind) -> bool:
    """Whether a dtype is of a kind: ``"bool"``, ``"integral"``, ``"real floating"``, ``"numeric"``, or a dtype."""
    return np.isdtype(np.dtype(dtype), kind)


class Info:
    """What ``__array_namespace_info__()`` gives."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean masks, shapes that depend on values, and the number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Where arrays are created."""
        return current_context()

    def devices(self) -> tuple:
        """All devices."""
        return cpu(), *map(gpu, range(num_gpus()))

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of Python's numbers."""
        names = {"real floating": "float64", "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The dtypes there are, by name; of one kind, or of several in a tuple."""
        found = {d.name: d.np for d in ALL if d.name != "float16"}
        return found if kind is None else {name: d for name, d in found.items() if np.isdtype(d, kind)}
