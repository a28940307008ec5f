"""Tape memory: huge pages and reuse of freed memory, for generated files."""

from __future__ import annotations

import mmap
import sys

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...backends.numba.compile import intrinsic

__all__ = ["in_large_pages"]

#: The size in bytes from which huge pages are requested, and MADV_HUGEPAGE of `madvise(2)`.
_LARGE, _HUGE_PAGES = 1 << 22, 14

#: glibc returns memory to the system once more than twice the largest freed mmap block is free, so each call would get
#: fresh pages for its tapes. Freeing a block just below 32 MB, the largest that counts, raises that threshold. The
#: second block then comes from the heap, and NumPy requests huge pages for it, so that tapes of some hundred kilobytes
#: are in huge pages, too. Neither block is ever touched.
for _ in range(2):
    np.empty((1 << 25) - (1 << 16), np.uint8)


@intrinsic
def in_large_pages(context, array):
    """Request huge pages for a large array: page faults dominate the cost of memory that is used once."""

    def code(context, builder, signature, args):
        if sys.platform == "linux":
            structure = context.make_array(array)(context, builder, args[0])
            word = structure.nitems.type
            size = builder.mul(structure.nitems, structure.itemsize)
            with builder.if_then(builder.icmp_signed(">=", size, word(_LARGE)), likely=False):
                first = builder.ptrtoint(structure.data, word)
                start = builder.and_(builder.add(first, word(mmap.PAGESIZE - 1)), word(-mmap.PAGESIZE))
                kind = ir.FunctionType(ir.IntType(32), [word, word, ir.IntType(32)])
                advise = cgutils.get_or_insert_function(builder.module, kind, "madvise")
                rest = builder.sub(builder.add(first, size), start)
                builder.call(advise, [start, rest, ir.IntType(32)(_HUGE_PAGES)])
        return context.get_dummy_value()

    return types.void(array), code


class _NoAdvice(type(in_large_pages)):  # type: ignore[misc]
    def __call__(self, array) -> None:
        """Nothing to do when generated code runs in Python."""


in_large_pages.__class__ = _NoAdvice
