"""Moving elements: the kernels behind transposing, slicing, embedding and joining.

One idea serves them all: element (i_0, ..., i_r) of a block is at ``offset + sum(i_k * stride_k)`` of a
buffer. :func:`move` copies a block of one buffer to a block of another; :func:`gather` reads one into
contiguous memory, :func:`scatter` writes it back, and they are each other's adjoint when no two elements
share a place. Elements are moved as bit patterns, so there is one kernel per element size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..backends import threads
from ..backends.cuda.buffers import DeviceBuffer
from ..backends.cuda.kernels import DeviceKernel, cuda, device, device_kernel
from ..backends.numba.compile import kernel
from ..core.shapes import Shape, size, strides_of

__all__ = ["band", "gather", "move", "scatter", "scatter_add", "surround"]


@kernel
def _move(x, out, dims, sources, targets, counter, source, target, add):
    """Rows of the last axis one after the other, copied or added; `counter` is scratch: the position in the others."""
    last = dims.size - 1
    n = np.uint64(dims[last])
    step, stride = sources[last], targets[last]
    rows = np.uint64(1)
    for k in range(last):
        rows *= np.uint64(dims[k])
        counter[k] = 0
    at, to = np.int64(source), np.int64(target)
    for _ in range(rows):
        if add:
            for i in range(n):
                out[np.uint64(to + np.int64(i) * stride)] += x[np.uint64(at + np.int64(i) * step)]
        elif stride != 1:
            for i in range(n):
                out[np.uint64(to + np.int64(i) * stride)] = x[np.uint64(at + np.int64(i) * step)]
        elif step != 1:
            for i in range(n):
                out[np.uint64(to) + i] = x[np.uint64(at + np.int64(i) * step)]
        else:
            for i in range(n):
                out[np.uint64(to) + i] = x[np.uint64(at) + i]
        k = last - 1
        while k >= 0:
            counter[k] += 1
            at += sources[k]
            to += targets[k]
            if counter[k] < dims[k]:
                break
            at -= sources[k] * dims[k]
            to -= targets[k] * dims[k]
            counter[k] = 0
            k -= 1


@kernel
def _surround(x, out, dims, counts, begin, counter, value):
    """Row by row: each is `value` throughout, or a row of x with `value` on both sides."""
    last = dims.size - 1
    width, n, left = np.uint64(dims[last]), np.uint64(counts[last]), np.uint64(begin[last])
    around = value[0]
    rows = np.uint64(1)
    for k in range(last):
        rows *= np.uint64(dims[k])
        counter[k] = 0
    source = np.uint64(0)
    for row in range(rows):
        base = row * width
        inside = True
        for k in range(last):
            inside &= (begin[k] <= counter[k]) & (counter[k] < begin[k] + counts[k])
        if inside:
            for i in range(left):
                out[base + i] = around
            for i in range(n):
                out[base + left + i] = x[source + i]
            for i in range(left + n, width):
                out[base + i] = around
            source += n
        else:
            for i in range(width):
                out[base + i] = around
        k = last - 1
        while k >= 0:
            counter[k] += 1
            if counter[k] < dims[k]:
                break
            counter[k] = 0
            k -= 1


@kernel
def _transpose(x, out, batch, rows, columns, begin, end):
    """(batch, rows, columns) -> (batch, columns, rows): as many rows at a time as give a cache line to write. Of the
    rows those from `begin`, a multiple of 64, to `end`."""
    tile = np.uint64(64 // x.itemsize)
    m, n = np.uint64(rows), np.uint64(columns)
    stop = np.uint64(end)
    for b in range(np.uint64(batch)):
        base = b * m * n
        for i0 in range(np.uint64(begin) // tile, (stop + tile - np.uint64(1)) // tile):
            for j in range(n):
                for i in range(i0 * tile, min(i0 * tile + tile, stop)):
                    out[base + j * m + i] = x[base + i * n + j]


@kernel
def _band(x, out, batch, rows, columns, low, high):
    """Of each matrix the elements whose column less row is from `low` to `high`; the rest 0."""
    width = np.uint64(columns)
    for b in range(np.uint64(batch)):
        for r in range(np.uint64(rows)):
            base = (b * np.uint64(rows) + r) * width
            left = np.uint64(min(max(np.int64(r) + low, 0), columns))
            right = max(left, np.uint64(min(max(np.int64(r) + high + 1, 0), columns)))
            for j in range(left):
                out[base + j] = 0
            for j in range(left, right):
                out[base + j] = x[base + j]
            for j in range(right, width):
                out[base + j] = 0


# On devices: a thread per element.


@lru_cache
def _mover(rank: int, add: int) -> DeviceKernel:
    """:func:`_move` for so many axes."""
    axes = range(rank)
    numbers = ", ".join([f"n{k}" for k in axes] + [f"s{k}" for k in axes] + [f"t{k}" for k in axes])
    lines = [f"def move(x, out, points, source, target, {numbers}):"]
    lines += ["    for i in range(cuda.grid(1), points, cuda.gridsize(1)):", "        rest = i"]
    for k in reversed(range(1, rank)):
        lines += [f"        i{k} = rest % n{k}", f"        rest = rest // n{k}"]
    at = " + ".join(["source", "rest * s0", *(f"i{k} * s{k}" for k in range(1, rank))])
    to = " + ".join(["target", "rest * t0", *(f"i{k} * t{k}" for k in range(1, rank))])
    lines += [f"        out[{to}] {'+=' if add else '='} x[{at}]"]
    return device_kernel("move", "\n".join(lines) + "\n", {})


@device
def _device_band(x, out, rows, columns, low, high):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        column = i % columns
        row = (i // columns) % rows
        out[i] = x[i] if low <= column - row <= high else 0


_BITS = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


def _bits(buf):
    return buf.view(_BITS[buf.dtype.itemsize])


def _collapse(shape: Shape, *strides: tuple[int, ...]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Fewest axes that describe the same walks: their lengths, and per axis its stride in each walk."""
    dims: list[int] = []
    steps: list[tuple[int, ...]] = []
    for n, *here in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if dims and all(before == s * n for before, s in zip(steps[-1], here, strict=True)):
            dims[-1] *= n
            steps[-1] = tuple(here)
        else:
            dims.append(n)
            steps.append(tuple(here))
    return (dims, steps) if dims else ([1], [(1,) * len(strides)])


def _integers(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)


@lru_cache(4096)
def _walk(shape: Shape, *strides: tuple[int, ...]) -> list[np.ndarray]:
    """Collapsed lengths, and strides of each walk, as kernels take them."""
    dims, steps = _collapse(shape, *strides)
    return [_integers(dims), *[_integers(walk) for walk in zip(*steps, strict=True)]]


@lru_cache(4096)
def _transposition(shape: Shape, strides: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(batch, rows, columns), if that is a stack of transposed matrices."""
    dims, steps = _collapse(shape, strides)
    *batch, rows, columns = (1, 1, *dims)
    if steps[-2:] == [(1,), (rows,)] and steps[:-2] in ([], [(rows * columns,)]):
        return batch[-1], columns, rows
    return None


def move(
    buf, out, shape: Shape, sources: tuple[int, ...], targets: tuple[int, ...], source: int = 0, target: int = 0
) -> None:
    """Copy the block of `shape` at strides `sources` and offset `source` (in elements) of `buf` to `out`."""
    if size(shape) == 0:
        return
    _shared(_bits(buf), _bits(out), size(shape), _walk(shape, sources, targets), source, target, 0)


def _shared(buf, out, n: int, walk: list[np.ndarray], source: int, target: int, add: int) -> None:
    """:func:`_move` for `n` elements, cut along the first of the collapsed axes if that pays."""
    dims, sources, targets = walk
    if buf.__class__ is DeviceBuffer:
        _mover(dims.size, add)(n, [buf, out], n, source, target, *map(int, np.concatenate(walk)))
        return
    if not threads.worth_splitting(n) or dims.size == 1:
        _move(buf, out, dims, sources, targets, np.empty(dims.size, np.int64), source, target, add)
        return
    first, step, stride = int(dims[0]), int(sources[0]), int(targets[0])

    def call(start: int, stop: int) -> None:
        some = np.concatenate(([stop - start], dims[1:]))
        at, to = source + start * step, target + start * stride
        _move(buf, out, some, sources, targets, np.empty(dims.size, np.int64), at, to, add)

    threads.parallel_ranges(call, first, n // first)


def gather(buf, out, shape: Shape, strides: tuple[int, ...], offset: int = 0) -> None:
    """Read the block of `shape` at `strides` and `offset` (in elements) of `buf` into `out`, in order."""
    matrices = _transposition(shape, strides) if offset == 0 and buf.__class__ is not DeviceBuffer else None
    if matrices is not None:
        _transpose_shared(_bits(buf), _bits(out), *matrices)
    else:
        move(buf, out, shape, strides, strides_of(shape), offset)


def _transpose_shared(x, out, batch: int, rows: int, columns: int) -> None:
    whole = rows * columns

    def stacks(start: int, stop: int) -> None:
        some = threads.row_slices((x, out), (whole, whole), start, stop)
        _transpose(*some, stop - start, rows, columns, 0, rows)

    def lines(start: int, stop: int) -> None:
        _transpose(x, out, 1, rows, columns, start, stop)

    if batch == 1:
        threads.parallel_ranges(lines, rows, 4 * columns, 64)
    else:
        threads.parallel_ranges(stacks, batch, 4 * whole)


def scatter(buf, out, shape: Shape, strides: tuple[int, ...], offset: int = 0) -> None:
    """Write the elements of `buf`, in order, to the block of `shape` at `strides` and `offset` of `out`."""
    move(buf, out, shape, strides_of(shape), strides, 0, offset)


def scatter_add(buf, out, shape: Shape, strides: tuple[int, ...], offset: int = 0) -> None:
    """:func:`scatter` that adds (floats alone); no place may come twice."""
    if size(shape):
        _shared(buf, out, size(shape), _walk(shape, strides_of(shape), strides), 0, offset, 1)


def surround(buf, out, counts: Shape, shape: Shape, begin: tuple[int, ...], value) -> None:
    """Write the elements of `buf`, a block of shape `counts`, at `begin` of `out`, and `value[0]` around them."""
    if buf.__class__ is DeviceBuffer:
        move(value, out, shape, (0,) * len(shape), strides_of(shape))
        strides = strides_of(shape)
        scatter(buf, out, counts, strides, sum(b * s for b, s in zip(begin, strides, strict=True)))
        return
    axes = [(1, 1, 0), *zip(shape, counts, begin, strict=True)]
    while len(axes) > 1 and axes[-1][0] == axes[-1][1]:  # a whole axis belongs to the row
        n = axes.pop()[0]
        axes[-1] = tuple(n * v for v in axes[-1])  # type: ignore[assignment]
    scratch = np.empty(len(axes), np.int64)
    walks = [_integers(walk) for walk in zip(*axes, strict=True)]
    _surround(_bits(buf), _bits(out), *walks, scratch, _bits(value))


def band(buf, out, shape: Shape, low: int, high: int) -> None:
    """Copy diagonals `low` to `high` of each matrix in a stack of `shape`; zeros elsewhere."""
    if buf.__class__ is DeviceBuffer:
        _device_band(size(shape), [_bits(buf), _bits(out)], shape[-2], shape[-1], low, high)
    else:
        _band(_bits(buf), _bits(out), size(shape[:-2]), shape[-2], shape[-1], low, high)
