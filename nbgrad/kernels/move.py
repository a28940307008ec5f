"""Moving elements: the kernels behind transposing, slicing, embedding and joining.

One idea serves them all: element (i_0, ..., i_r) of a block is at ``offset + sum(i_k * stride_k)`` of a
buffer. :func:`gather` reads such a block into contiguous memory, :func:`scatter` writes it back; they are
each other's adjoint when no two elements share a place. Elements are moved as bit patterns, so there is
one kernel per element size.
"""

from __future__ import annotations

import numpy as np

from ..codegen.compile import kernel
from ..shapes import Shape, size

__all__ = ["gather", "scatter", "strides_of"]


@kernel
def _gather(x, out, dims, strides, counter, offset):
    """Rows of the last axis one after the other; `counter` is scratch for the position in the others."""
    last = dims.size - 1
    n = np.uint64(dims[last])
    step = strides[last]
    rows = np.uint64(1)
    for k in range(last):
        rows *= np.uint64(dims[k])
        counter[k] = 0
    at = np.int64(offset)
    for row in range(rows):
        base = row * n
        if step == 1:
            for i in range(n):
                out[base + i] = x[np.uint64(at) + i]
        else:
            for i in range(n):
                out[base + i] = x[np.uint64(at + np.int64(i) * step)]
        k = last - 1
        while k >= 0:
            counter[k] += 1
            at += strides[k]
            if counter[k] < dims[k]:
                break
            at -= strides[k] * dims[k]
            counter[k] = 0
            k -= 1


@kernel
def _scatter(x, out, dims, strides, counter, offset):
    last = dims.size - 1
    n = np.uint64(dims[last])
    step = strides[last]
    rows = np.uint64(1)
    for k in range(last):
        rows *= np.uint64(dims[k])
        counter[k] = 0
    at = np.int64(offset)
    for row in range(rows):
        base = row * n
        if step == 1:
            for i in range(n):
                out[np.uint64(at) + i] = x[base + i]
        else:
            for i in range(n):
                out[np.uint64(at + np.int64(i) * step)] = x[base + i]
        k = last - 1
        while k >= 0:
            counter[k] += 1
            at += strides[k]
            if counter[k] < dims[k]:
                break
            at -= strides[k] * dims[k]
            counter[k] = 0
            k -= 1


@kernel
def _transpose(x, out, batch, rows, columns):
    """(batch, rows, columns) -> (batch, columns, rows), in tiles that fit the first-level cache."""
    tile = np.uint64(32)
    m, n = np.uint64(rows), np.uint64(columns)
    for b in range(np.uint64(batch)):
        base = b * m * n
        for j0 in range((n + tile - np.uint64(1)) // tile):
            for i0 in range((m + tile - np.uint64(1)) // tile):
                for j in range(j0 * tile, min(j0 * tile + tile, n)):
                    for i in range(i0 * tile, min(i0 * tile + tile, m)):
                        out[base + j * m + i] = x[base + i * n + j]


_BITS = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


def _bits(buf):
    return buf.view(_BITS[buf.dtype.itemsize])


def strides_of(shape: Shape) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * shape[k + 1]
    return tuple(strides)


def _collapse(shape: Shape, strides: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Fewest axes that describe the same walk."""
    dims: list[int] = []
    steps: list[int] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if dims and steps[-1] == s * n:
            dims[-1] *= n
            steps[-1] = s
        else:
            dims.append(n)
            steps.append(s)
    return (dims, steps) if dims else ([1], [1])


def gather(buf, out, shape: Shape, strides: tuple[int, ...], offset: int = 0) -> None:
    """Read the block of `shape` at `strides` and `offset` (in elements) of `buf` into `out`, in order."""
    if size(shape) == 0:
        return
    dims, steps = _collapse(shape, strides)
    if len(dims) in (2, 3) and offset == 0 and steps[-2] == 1 and steps[-1] == dims[-2]:
        if len(dims) == 2 or steps[0] == dims[1] * dims[2]:
            return _transpose(_bits(buf), _bits(out), dims[0] if len(dims) == 3 else 1, dims[-1], dims[-2])
    _walk(_gather, buf, out, dims, steps, offset)


def scatter(buf, out, shape: Shape, strides: tuple[int, ...], offset: int = 0) -> None:
    """Write the elements of `buf`, in order, to the block of `shape` at `strides` and `offset` of `out`."""
    if size(shape) == 0:
        return
    _walk(_scatter, buf, out, *_collapse(shape, strides), offset)


def _walk(kernel_, buf, out, dims: list[int], steps: list[int], offset: int) -> None:
    counter = np.empty(len(dims), np.int64)
    kernel_(_bits(buf), _bits(out), np.array(dims, np.int64), np.array(steps, np.int64), counter, offset)
