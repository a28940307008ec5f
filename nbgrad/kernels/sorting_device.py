"""Sorting on devices.

Elements become integers of the same order, their keys. Pieces of rows are sorted in shared memory, and neighbouring
pieces are merged in global memory until there is one per row; both in the same way: two runs that are in order become
one when each element goes as much further as there are elements before it in the other run, which :func:`rank` finds
by bisection. Equal elements of the left run stay before those of the right one, so the order is stable, and the same
in every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.launch import Kind
from ..backends.cuda import driver
from ..backends.cuda.kernels import cuda, device
from ..backends.numba.compile import inline
from ..core.dtypes import int32, int64

__all__ = ["keys_of", "order", "rank", "search"]

#: Elements that a block sorts in shared memory.
TILE = 4 * driver.block()
ROOM = 2 * TILE  # of where they are, and where they go


@inline
def rank(a, first, n, value, after):
    """How many of the `n` elements of `a` from place `first` on, which are in order, come before `value`: those that
    are less, and if `after` those that are equal."""
    low, high = first, first + n
    while low < high:
        middle = (low + high) >> type(low)(1)
        here = a[middle]
        if here < value or (after and here == value):
            low = middle + type(low)(1)
        else:
            high = middle
    return low - first


@inline
def _merged(keys, start, p, q, n, width):
    """Where element `p` after `start` goes when runs of `width` elements become runs of twice as many.

    It is the element number `q` of a row of `n`.
    """
    low, end = p - (q & (2 * width - 1)), p - q + n
    middle = min(low + width, end)
    if p < middle:
        return p + rank(keys, start + middle, min(middle + width, end) - middle, keys[start + p], False)
    return p - width + rank(keys, start + low, width, keys[start + p], True)


@device
def _keys(x, keys, n, inner, infinity, lowest, ascending):
    """Integers in the order of numbers whose bits are in `x`, row by row; `infinity` has the bits of inf, or is 0 for
    integers; `lowest` is the sign bit of floats and of integers without a sign, or 0. Both zeros get one key, and NaN
    the last."""
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        row = i // n
        key = np.int64(x[(row // inner * n + i - row * n) * inner + row % inner])
        if infinity:
            key = key if key >= 0 else lowest - key
            if key > infinity or key < -infinity:
                key = np.int64(infinity + 1)
            elif not ascending:
                key = -key
        else:
            key ^= lowest
            key = key if ascending else -1 - key
        keys[i] = key


@device
def _sort_tiles(keys, index, n, pieces):
    """Sorts rows of at most TILE elements, as many at once as that are; or pieces of so many elements of longer rows.

    `index` gets the places of the elements in their rows.
    """
    values = cuda.shared.array(ROOM, keys.dtype)
    places = cuda.shared.array(ROOM, np.int32)
    t = cuda.threadIdx.x
    for piece in range(cuda.blockIdx.x, pieces, cuda.gridDim.x):
        if n <= TILE:
            whole = TILE // n * n
            begin, first = piece * whole, 0
            count = min(whole, keys.size - begin)
            length = n
        else:
            each = (n + TILE - 1) // TILE
            first = piece % each * TILE
            begin = piece // each * n + first
            count = min(TILE, n - first)
            length = count
        for p in range(t, count, cuda.blockDim.x):
            values[p] = keys[begin + p]
            places[p] = p % length
        source, width = 0, 1
        while width < length:
            cuda.syncthreads()
            target = TILE - source
            for p in range(t, count, cuda.blockDim.x):
                q = p if count == length else p % length
                to = target + _merged(values, source, p, q, length, width)
                values[to] = values[source + p]
                places[to] = places[source + p]
            source = target
            width *= 2
        cuda.syncthreads()
        for p in range(t, count, cuda.blockDim.x):
            keys[begin + p] = values[source + p]
            index[begin + p] = first + places[source + p]
        cuda.syncthreads()


@device
def _merge(keys, index, keys_out, index_out, n, width):
    """Runs of `width` elements of rows of `n` become runs of twice as many."""
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        to = _merged(keys, 0, i, i % n, n, width)
        keys_out[to] = keys[i]
        index_out[to] = index[i]


@device
def _put(index, out, n, inner, count):
    """out (outer, count, inner): the first of each row of `index` (outer, inner, n)."""
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        row = i // (inner * count) * inner + i % inner
        out[i] = index[row * n + i // inner % count]


@device
def _search(a, v, out, right):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = rank(a, 0, a.size, v[i], right)


def _empty_keys(kind: Kind, n: int) -> Any:
    wide = kind.of(int64 if kind.storage.itemsize == 8 else int32)
    return wide.empty(n, wide.storage)


def keys_of(x: Any, kind: Kind, n: int, inner: int = 1, ascending: bool = True) -> Any:
    """Integers in the order of the elements of a buffer of this kind, or in that from the end, NaN last either way.

    They are put row by row: (outer, inner, n) of (outer, n, inner).
    """
    width = kind.storage.itemsize
    bits = x if kind.dtype.np.kind == "b" else x.view(np.dtype(f"int{8 * width}"))
    lowest = -(1 << (8 * width - 1)) if kind.dtype.np.kind in "fu" else 0
    keys = _empty_keys(kind, x.size)
    infinity = int(np.array(np.inf, kind.dtype.np).view(bits.dtype)) if kind.dtype.is_float else 0
    _keys(keys.size, [bits, keys], n, inner, infinity, lowest, int(ascending))
    return keys


def order(x: Any, kind: Kind, out: Any, sizes: tuple[int, int, int], ascending: bool, count: int) -> None:
    """The first `count` places in the stable order of the elements of each row, NaN last.

    Parameters
    ----------
    x : DeviceBuffer
        (outer, n, inner), of this kind.
    kind : Kind
    out : DeviceBuffer
        (outer, count, inner), of int64.
    sizes : (int, int, int)
        outer, n, inner.
    ascending : bool
    count : int
    """
    if out.size == 0:
        return
    outer, n, inner = sizes
    rows = outer * inner
    keys = keys_of(x, kind, n, inner, ascending)
    widths = [TILE << k for k in range(((n - 1) // TILE).bit_length())]
    places = kind.of(int64)
    straight = inner == 1 and count == n
    index = last = out if straight else places.empty(x.size, places.storage)
    if widths:  # a merge goes from one of two places to the other; the last one ends where it should
        more, other = _empty_keys(kind, x.size), places.empty(x.size, places.storage)
        if len(widths) % 2:
            index, other = other, index
    pieces = rows * -(-n // TILE) if widths else -(-rows // (TILE // n))
    _sort_tiles(0, [keys, index], n, pieces, rows=pieces)
    for width in widths:
        _merge(keys.size, [keys, index, more, other], n, width)
        keys, index, more, other = more, other, keys, index
    if not straight:
        _put(out.size, [last, out], n, inner, count)


def search(a: Any, v: Any, kind: Kind, out: Any, right: bool) -> None:
    """Where elements of `v` go in `a`, which is in order; both of this kind."""
    _search(out.size, [keys_of(a, kind, a.size), keys_of(v, kind, v.size), out], int(right))
