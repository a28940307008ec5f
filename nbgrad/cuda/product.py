"""Matrix products on devices: tiles of both operands go through shared memory, a thread has an element each."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..codegen.compile import built
from . import driver
from .buffers import DeviceBuffer
from .kernels import DeviceKernel

__all__ = ["product"]

_SOURCE = """\
def product(out, a, b, rows, a_stacks, b_stacks, m, k, n, transpose_a, transpose_b, down, across):
    left = cuda.shared.array({square}, {number})
    right = cuda.shared.array({square}, {number})
    y = cuda.threadIdx.x // {tile}
    x = cuda.threadIdx.x - y * {tile}
    for q in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        stack = q // (down * across)
        square = q - stack * (down * across)
        row = (square // across) * {tile} + y
        column = (square % across) * {tile} + x
        a_start = (stack % a_stacks) * m * k
        b_start = (stack % b_stacks) * k * n
        total = {number}(0)
        for start in range(0, k, {tile}):
            left[y * {tile} + x] = {number}(0)
            right[y * {tile} + x] = {number}(0)
            if row < m and start + x < k:
                at = (start + x) * m + row if transpose_a else row * k + start + x
                left[y * {tile} + x] = a[a_start + at]
            if column < n and start + y < k:
                at = column * k + start + y if transpose_b else (start + y) * n + column
                right[y * {tile} + x] = b[b_start + at]
            cuda.syncthreads()
            for z in range({tile}):
                total += left[y * {tile} + z] * right[z * {tile} + x]
            cuda.syncthreads()
        if row < m and column < n:
            out[(stack * m + row) * n + column] = total
"""


@lru_cache
def _kernel(dtype: np.dtype, tile: int) -> DeviceKernel:
    source = _SOURCE.format(tile=tile, square=tile * tile, number=f"np.{dtype.name}")
    return DeviceKernel("product", lambda names: built("product", source, names, source), {"np": np})


def product(
    a: DeviceBuffer,
    b: DeviceBuffer,
    out: DeviceBuffer,
    stacks: int,
    sizes: tuple[int, int, int],
    transposed: tuple[bool, bool] = (False, False),
    repeated: tuple[int, int] | None = None,
) -> None:
    """Products of stacks of matrices, all of one dtype that can be calculated in.

    Parameters
    ----------
    a, b, out : DeviceBuffer
        ``stacks`` matrices (m, k), (k, n) and (m, n); (k, m) and (n, k) where `transposed`.
    stacks : int
    sizes : (int, int, int)
        m, k and n.
    transposed : (bool, bool)
    repeated : (int, int), optional
        How many matrices of `a` and of `b` there are, if less: they are taken in turn.
    """
    m, k, n = sizes
    if out.size == 0:
        return
    tile = driver.tile()
    down, across = -(-m // tile), -(-n // tile)
    rows = stacks * down * across
    flags = [int(t) for t in transposed]
    launch = _kernel(out.dtype, tile)
    launch(0, [out, a, b], rows, *(repeated or (stacks, stacks)), m, k, n, *flags, down, across, rows=rows)
