"""Matrix products on devices: large ones by cublasLt where it is installed, others by nbgrad's kernels.

A kernel stages tiles of both operands in shared memory, and each thread accumulates several elements of the result
(register blocking), so that each value it loads is used more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..numba.casts import float_to_half, half_to_float
from ..numba.compile import exec_unique
from . import cublas, driver
from .buffers import DeviceBuffer
from .kernels import DeviceKernel

__all__ = ["Epilogue", "Linear", "product", "use_library"]

#: Multiplications, and terms of a sum, up to which nbgrad's kernel is used. On an H200, a call of the library takes
#: 35 us of the host, one of nbgrad's 24; the kernel catches up at 256 x 256 x 256, and takes 49 ns per term of a sum.
_SMALL = 2 * 10**7
_SHORT = 700
#: Number of blocks from which larger tiles pay more than further blocks.
_BUSY = 64
#: Elements of the result per thread along each axis; the largest that keeps the device busy is taken.
_EACH = (4, 2, 1)

_LOADS = """\
            for e in range(t, {count}, {threads}):
                {row} = e % {rows}
                {column} = e // {rows}
                value = {number}(0)
                if {start} + i < {end} and start + z < k:
                    value = {value}
                {target}[z * {pitch} + i] = value
"""


class Linear(NamedTuple):
    """A library call for a product and its epilogue; `order` selects the epilogue's arrays: the result, c, the bias."""

    product: cublas.Product
    order: tuple[int, ...]


@dataclass(frozen=True)
class Epilogue:
    """A function ``epilogue(j, value, *arrays)`` applied to element `j` of the product; `linear`: the library's
    equivalent, if it has one."""

    source: str
    helpers: dict[str, Any] = field(compare=False)
    linear: Linear | None = None


@lru_cache
def _kernel(
    dtype: np.dtype, tile: int, each: int, transpose_a: bool, transpose_b: bool, epilogue: Epilogue | None, count: int
) -> DeviceKernel:
    """The kernel; `count` is the number of output arrays, including the epilogue's."""
    half = dtype == np.uint16  # the storage of float16, which is computed in float32
    number, edge, depth = "np.float32" if half else f"np.{dtype.name}", tile * each, tile
    pitch = edge + 1  # avoids bank conflicts within a column

    def loads(target: str, start: str, end: str, source: str, along: bool) -> str:
        """Coalesced loads of a tile: along the contracted axis, or along the edge."""
        names = {"row": "z", "column": "i", "rows": depth} if along else {"row": "i", "column": "z", "rows": edge}
        at = f"({start} + i) * k + start + z" if along else f"(start + z) * {end} + {start} + i"
        value = f"{source}[{source}_start + {at}]"
        value = f"half_to_float({value})" if half else value
        return _LOADS.format(
            **names, value=value, count=edge * depth, threads=tile * tile, number=number, pitch=pitch, target=target,
            start=start, end=end,
        )  # fmt: skip

    outs = [f"out{k}" for k in range(count)]
    pairs = [(i, j) for i in range(each) for j in range(each)]
    lines = [
        f"def product({''.join(f'{x}, ' for x in outs)}a, b, rows, a_stacks, b_stacks, m, k, n, down, across):",
        f"    left = cuda.shared.array({pitch * depth}, {number})",
        f"    right = cuda.shared.array({pitch * depth}, {number})",
        "    t = cuda.threadIdx.x",
        f"    y = t // {tile}",
        f"    x = t - y * {tile}",
        "    for q in range(cuda.blockIdx.x, rows, cuda.gridDim.x):",
        "        stack = q // (down * across)",
        "        square = q - stack * (down * across)",
        f"        row = (square // across) * {edge}",
        f"        column = (square % across) * {edge}",
        "        a_start = (stack % a_stacks) * m * k",
        "        b_start = (stack % b_stacks) * k * n",
        *(f"        c{i}_{j} = {number}(0)" for i, j in pairs),
        f"        for start in range(0, k, {depth}):",
        loads("left", "row", "m", "a", not transpose_a).rstrip(),
        loads("right", "column", "n", "b", transpose_b).rstrip(),
        "            cuda.syncthreads()",
        f"            for z in range({depth}):",
        *(f"                l{i} = left[z * {pitch} + y + {i * tile}]" for i in range(each)),
        *(f"                r{j} = right[z * {pitch} + x + {j * tile}]" for j in range(each)),
        *(f"                c{i}_{j} += l{i} * r{j}" for i, j in pairs),
        "            cuda.syncthreads()",
    ]
    for i, j in pairs:
        at = f"(stack * m + row + y + {i * tile}) * n + column + x + {j * tile}"
        result = f"float_to_half(c{i}_{j})" if half else f"c{i}_{j}"
        end = f"epilogue({at}, c{i}_{j}, {', '.join(outs)})"
        lines += [
            f"        if row + y + {i * tile} < m and column + x + {j * tile} < n:",
            f"            out0[{at}] = {result}" if epilogue is None else f"            {end}",
        ]
    source = "\n".join(lines) + "\n"

    def build(names: dict[str, Any]) -> Callable:
        whole = source
        if epilogue is not None:
            whole += epilogue.source
            names = {
                **names,
                "epilogue": driver.device_function(exec_unique("epilogue", epilogue.source, names, epilogue.source)),
            }
        return exec_unique("product", source, names, whole)

    helpers = {"np": np, "half_to_float": half_to_float, "float_to_half": float_to_half}
    return DeviceKernel("product", build, helpers | ({} if epilogue is None else epilogue.helpers))


def use_library(number: int, multiplications: int, terms: int) -> bool:
    """Whether the library is available and the product large enough for it; `terms`: of the sum in each element."""
    return (multiplications > _SMALL or terms > _SHORT) and cublas.library(number) is not None


def _plain(a: DeviceBuffer, stacks: int, sizes: tuple, transposed: tuple, counts: tuple[int, int]) -> Linear | None:
    """The library call for a product without epilogue; None if it has no such repetition of operands."""
    if any(count not in (1, stacks) for count in counts):
        return None
    shared = counts[0] < stacks, counts[1] < stacks
    return Linear(cublas.Product(a.dtype, stacks, sizes, transposed, shared), (0,))


def product(
    a: DeviceBuffer,
    b: DeviceBuffer,
    out: DeviceBuffer,
    stacks: int,
    sizes: tuple[int, int, int],
    transposed: tuple[bool, bool] = (False, False),
    repeated: tuple[int, int] | None = None,
    epilogue: Epilogue | None = None,
    more: Sequence[DeviceBuffer] = (),
) -> None:
    """Products of stacks of matrices, all of one dtype: floats.

    Parameters
    ----------
    a, b, out : DeviceBuffer
        ``stacks`` matrices (m, k), (k, n) and (m, n); (k, m) and (n, k) where `transposed`.
    stacks : int
    sizes : (int, int, int)
        m, k and n.
    transposed : (bool, bool)
    repeated : (int, int), optional
        How many matrices `a` and `b` have, if fewer: they are used cyclically.
    epilogue : Epilogue, optional
        Applied to the elements. Its arrays are `out`, of any dtype, and `more`.
    """
    m, k, n = sizes
    if stacks * m * n == 0:
        return
    counts = repeated or (stacks, stacks)
    if use_library(a.number, stacks * m * k * n, k):
        linear = epilogue.linear if epilogue is not None else _plain(a, stacks, sizes, transposed, counts)
        if linear is not None:
            first, *others = [(out, *more)[k].array for k in linear.order]
            if linear.product(a.number, [first, a.array, b.array, *others]):
                return
    tile = driver.tile()
    for each in _EACH:
        down, across = -(-m // (tile * each)), -(-n // (tile * each))
        if stacks * down * across >= _BUSY:
            break
    rows = stacks * down * across
    launch = _kernel(a.dtype, tile, each, bool(transposed[0]), bool(transposed[1]), epilogue, 1 + len(more))
    launch(0, [out, *more, a, b], rows, *counts, m, k, n, down, across, rows=rows)
