"""Tape memory: huge pages and reuse of freed memory, for generated files."""

from __future__ import annotations

import mmap
import sys

import numpy as np

from ...backends.numba.intrinsics import intrinsic, llvm, types

__all__ = ["in_large_pages"]

#: The size in bytes from which huge pages are requested, and MADV_HUGEPAGE of `madvise(2)`.
_LARGE, _HUGE_PAGES = 1 << 22, 14

#: glibc returns memory to the system once more than twice the largest freed mmap block is free, so each call would get
#: fresh pages for its tapes. Freeing a block just below 32 MB, the largest that counts, raises that threshold. The
#: second block then comes from the heap, and NumPy requests huge pages for it, so that tapes of some hundred kilobytes
#: are in huge pages, too. Neither block is ever touched.
for _ in range(2):
    np.empty((1 << 25) - (1 << 16), np.uint8)


@intrinsic(lambda array: types.void, python=lambda array: None)
def in_large_pages(emit, array):
    """Request huge pages for a large array: page faults dominate the cost of memory that is used once."""
    if sys.platform != "linux":
        return
    builder, fields, number = emit.builder, emit.array(emit.types[0], array), llvm.IntType(32)
    word = fields.nitems.type
    size = builder.mul(fields.nitems, fields.itemsize)
    with builder.if_then(builder.icmp_signed(">=", size, word(_LARGE)), likely=False):
        first = builder.ptrtoint(fields.data, word)
        start = builder.and_(builder.add(first, word(mmap.PAGESIZE - 1)), word(-mmap.PAGESIZE))
        rest = builder.sub(builder.add(first, size), start)
        emit.external("madvise", number, start, rest, number(_HUGE_PAGES))
