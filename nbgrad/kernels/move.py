"""Moving elements: the kernels behind transposing, slicing, embedding and joining.

One idea serves them all: element (i_0, ..., i_r) of a block is at ``offset + sum(i_k * stride_k)`` of a
buffer. :func:`move` copies a block of one buffer to a block of another; :func:`gather` reads one into
contiguous memory, :func:`scatter` writes it back, and they are each other's adjoint when no two elements
share a place. Elements are moved as bit patterns, so there is one kernel per element size.

``bound_...`` prepare such a call: what they return is called with buffers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ..backends import threads
from ..backends.cuda.buffers import DeviceBuffer
from ..backends.cuda.kernels import DeviceKernel, cuda, device, device_kernel
from ..backends.numba.compile import kernel
from ..backends.numba.raw_arrays import local
from ..core.shapes import Shape, size, strides_of

__all__ = [
    "band",
    "bound_gather",
    "bound_scatter",
    "bound_surround",
    "gather",
    "move",
    "scatter",
]

#: The maximum number of axes of an array.
_MAX_AXES = 64


@kernel
def _move(x, out, dims, sources, targets, source, target, add):
    """Rows of the last axis one after the other, copied or added; `counter` is the position in the other axes."""
    counter = local(np.int64, _MAX_AXES, 0)
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
def _surround(x, out, dims, counts, begin, value):
    """Row by row: each is `value` throughout, or a row of x with `value` on both sides."""
    counter = local(np.int64, _MAX_AXES, 0)
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


def _walk(shape: Shape, *strides: tuple[int, ...]) -> list[np.ndarray]:
    """Collapsed lengths, and strides of each walk, as kernels take them."""
    dims, steps = _collapse(shape, *strides)
    return [_integers(dims), *[_integers(walk) for walk in zip(*steps, strict=True)]]


def _transposition(shape: Shape, strides: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(batch, rows, columns), if that is a stack of transposed matrices."""
    dims, steps = _collapse(shape, strides)
    *batch, rows, columns = (1, 1, *dims)
    if steps[-2:] == [(1,), (rows,)] and steps[:-2] in ([], [(rows * columns,)]):
        return batch[-1], columns, rows
    return None


@lru_cache
def _entry(dtype: np.dtype) -> Callable:
    """The kernel for elements of a dtype, or for bit patterns of its size."""
    integers = np.dtype(np.int64)
    return _move.bind(dtype, dtype, integers, integers, integers, int, int, int)


@lru_cache(4096)
def _bound(
    shape: Shape, sources: tuple[int, ...], targets: tuple[int, ...], source: int, target: int, add: bool
) -> Callable:
    """A function (buf, out) that copies, or adds, a block, cut along the first of its collapsed axes if that pays."""
    n = size(shape)
    if n == 0:
        return lambda buf, out: None
    walk = _walk(shape, sources, targets)
    dims, steps, strides = walk

    def run(buf, out) -> None:
        if buf.__class__ is DeviceBuffer:
            both = [buf, out] if add else [_bits(buf), _bits(out)]
            _mover(dims.size, add)(n, both, n, source, target, *map(int, np.concatenate(walk)))
            return
        entry = _entry(out.dtype if add else _BITS[out.itemsize])
        if dims.size == 1 or not threads.worth_splitting(n):
            entry(buf, out, dims, steps, strides, source, target, int(add))
            return
        first, step, stride = int(dims[0]), int(steps[0]), int(strides[0])

        def call(start: int, stop: int) -> None:
            some = np.concatenate(([stop - start], dims[1:]))
            entry(buf, out, some, steps, strides, source + start * step, target + start * stride, int(add))

        threads.parallel_ranges(call, first, n // first)

    return run


def move(
    buf, out, shape: Shape, sources: tuple[int, ...], targets: tuple[int, ...], source: int = 0, target: int = 0
) -> None:
    """Copy the block of `shape` at strides `sources` and offset `source` (in elements) of `buf` to `out`."""
    _bound(shape, sources, targets, source, target, False)(buf, out)


@lru_cache(4096)
def bound_gather(shape: Shape, strides: tuple[int, ...], offset: int = 0) -> Callable:
    """A function (buf, out): read the block of `shape` at `strides` and `offset` (in elements) into `out`, in order."""
    copy = _bound(shape, strides, strides_of(shape), offset, 0, False)
    matrices = _transposition(shape, strides) if offset == 0 and size(shape) else None
    if matrices is None:
        return copy

    def run(buf, out) -> None:
        if buf.__class__ is DeviceBuffer:
            copy(buf, out)
        else:
            _transpose_shared(_bits(buf), _bits(out), *matrices)

    return run


def bound_scatter(shape: Shape, strides: tuple[int, ...], offset: int = 0, add: bool = False) -> Callable:
    """A function (buf, out): write the elements of `buf`, in order, to the block of `shape` at `strides` and `offset`;
    or with `add` (floats alone) add them, where no place may come twice."""
    return _bound(shape, strides_of(shape), strides, 0, offset, add)


def gather(buf, out, shape: Shape, strides: tuple[int, ...], offset: int = 0) -> None:
    """Read the block of `shape` at `strides` and `offset` (in elements) of `buf` into `out`, in order."""
    bound_gather(shape, strides, offset)(buf, out)


def scatter(buf, out, shape: Shape, strides: tuple[int, ...], offset: int = 0) -> None:
    """Write the elements of `buf`, in order, to the block of `shape` at `strides` and `offset` of `out`."""
    bound_scatter(shape, strides, offset)(buf, out)


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


@lru_cache(4096)
def bound_surround(counts: Shape, shape: Shape, begin: tuple[int, ...]) -> Callable:
    """A function (buf, out, value): write the elements of `buf`, a block of shape `counts`, at `begin` of `out`, and
    ``value[0]`` around them."""
    strides = strides_of(shape)
    fill = _bound(shape, (0,) * len(shape), strides, 0, 0, False)
    inside = bound_scatter(counts, strides, sum(b * s for b, s in zip(begin, strides, strict=True)))
    axes = [(1, 1, 0), *zip(shape, counts, begin, strict=True)]
    while len(axes) > 1 and axes[-1][0] == axes[-1][1]:  # a whole axis belongs to the row
        n = axes.pop()[0]
        axes[-1] = tuple(n * v for v in axes[-1])  # type: ignore[assignment]
    walks = [_integers(walk) for walk in zip(*axes, strict=True)]

    def run(buf, out, value) -> None:
        if buf.__class__ is DeviceBuffer:
            fill(value, out)
            inside(buf, out)
        else:
            _surrounding(_BITS[out.itemsize])(buf, out, *walks, value)

    return run


@lru_cache
def _surrounding(bits: np.dtype) -> Callable:
    integers = np.dtype(np.int64)
    return _surround.bind(bits, bits, integers, integers, integers, bits)


def band(buf, out, shape: Shape, low: int, high: int) -> None:
    """Copy diagonals `low` to `high` of each matrix in a stack of `shape`; zeros elsewhere."""
    if buf.__class__ is DeviceBuffer:
        _device_band(size(shape), [_bits(buf), _bits(out)], shape[-2], shape[-1], low, high)
    else:
        _band(_bits(buf), _bits(out), size(shape[:-2]), shape[-2], shape[-1], low, high)
