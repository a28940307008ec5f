"""Memory for tapes: what generated files import from here."""

from __future__ import annotations

import mmap
import sys

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...backends.numba.compile import intrinsic

__all__ = ["in_large_pages"]

#: Bytes from which on large pages are asked for, and the word for them in `madvise(2)`.
_LARGE, _HUGE_PAGES = 1 << 22, 14

#: glibc gives memory back to the system as soon as more than twice the largest block that was freed is free, and tapes
#: would be made of fresh pages in each call. Its largest block is just below 32 MB. The second of these comes from the
#: heap then, and NumPy asks for large pages for it: so tapes of some hundred kilobytes are in large pages, too. Neither
#: is ever touched.
for _ in range(2):
    np.empty((1 << 25) - (1 << 16), np.uint8)


@intrinsic
def in_large_pages(context, array):
    """Ask for large pages for an array, if it is large: memory that is used once costs what its pages cost."""

    def code(context, builder, signature, args):
        if sys.platform == "linux":
            made = context.make_array(array)(context, builder, args[0])
            word = made.nitems.type
            size = builder.mul(made.nitems, made.itemsize)
            with builder.if_then(builder.icmp_signed(">=", size, word(_LARGE)), likely=False):
                first = builder.ptrtoint(made.data, word)
                start = builder.and_(builder.add(first, word(mmap.PAGESIZE - 1)), word(-mmap.PAGESIZE))
                kind = ir.FunctionType(ir.IntType(32), [word, word, ir.IntType(32)])
                advise = cgutils.get_or_insert_function(builder.module, kind, "madvise")
                rest = builder.sub(builder.add(first, size), start)
                builder.call(advise, [start, rest, ir.IntType(32)(_HUGE_PAGES)])
        return context.get_dummy_value()

    return types.void(array), code


class _Advice(type(in_large_pages)):  # type: ignore[misc]
    def __call__(self, array) -> None:
        """Where Python runs what was generated, NumPy's memory is as it is."""


in_large_pages.__class__ = _Advice
