"""Memory for tapes, which generated files import from here."""

from __future__ import annotations

import mmap
import sys

import numpy as np
from numba import types

from ..codegen.compile import inline

__all__ = ["large_empty"]

#: Bytes from which on large pages are asked for, and the call that does (`madvise(2)`).
_LARGE = 1 << 22
_HUGE_PAGES = 14

if sys.platform == "linux":
    _madvise = types.ExternalFunction("madvise", types.intc(types.uintp, types.uintp, types.intc))
else:

    @inline
    def _madvise(start, size, advice):
        return 0


@inline(runtime=True)
def large_empty(shape, dtype):
    """``np.empty``, in large pages where Linux has them: an array that is used once costs what its pages cost.

    Examples
    --------
    >>> large_empty((2, 3), np.float64).shape
    (2, 3)
    """
    made = np.empty(shape, dtype)
    if made.nbytes >= _LARGE:
        first = made.ctypes.data
        start = (first + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        _madvise(start, first + made.nbytes - start, _HUGE_PAGES)
    return made
