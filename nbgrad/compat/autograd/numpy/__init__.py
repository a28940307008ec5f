"""NumPy, whose functions are those of ``nbgrad.np`` where an argument is recorded, and NumPy's own elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import fft, linalg, numpy_boxes, numpy_vjps, overrides, random
from .wrapping import fill

__all__ = ["fft", "linalg", "numpy_boxes", "numpy_vjps", "random"]

globals().update({name: getattr(overrides, name) for name in overrides.__all__})
fill(globals())


if TYPE_CHECKING:  # for type checkers, which do not see these names

    def __getattr__(name: str) -> Any: ...
