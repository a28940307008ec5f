"""Matrix products on devices: large ones by cublasLt where it is installed, others by kernels.

In a kernel, tiles of both operands go through shared memory, and a thread has several elements of the result, so that
what it reads from there is used more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..numba.casts import float_to_half, half_to_float
from ..numba.compile import built
from . import cublas, driver
from .buffers import DeviceBuffer
from .kernels import DeviceKernel

__all__ = ["Epilogue", "Linear", "large", "product"]

#: Multiplications up to which a product is nbgrad's kernel's: what it loses there is less than a launch. Not measured.
_SMALL = 10**7
#: Blocks of threads from which on larger tiles are worth more than more of them.
_BUSY = 64
#: Elements of the result along each axis that a thread has, the most that keep the device busy.
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
    """What the library is asked for, and which of an epilogue's arrays it is given: the result, c, the bias."""

    product: cublas.Product
    order: tuple[int, ...]


@dataclass(frozen=True)
class Epilogue:
    """What becomes of an element: ``epilogue(j, made, *arrays)``, for the `j`-th, which is `made`; `linear`: the same,
    where the library has it."""

    source: str
    helpers: dict[str, Any] = field(compare=False)
    linear: Linear | None = None


@lru_cache
def _kernel(
    dtype: np.dtype, tile: int, each: int, transpose_a: bool, transpose_b: bool, epilogue: Epilogue | None, count: int
) -> DeviceKernel:
    """The kernel, for `count` arrays that the results go to, or through."""
    half = dtype == np.uint16  # the storage of float16, which is calculated in float32
    number, edge, depth = "np.float32" if half else f"np.{dtype.name}", tile * each, tile
    pitch = edge + 1  # so that neighbours in a column are in different banks

    def loads(target: str, start: str, end: str, source: str, along: bool) -> str:
        """Neighbouring threads read neighbours: along the sum, or along the edge."""
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
        made = f"float_to_half(c{i}_{j})" if half else f"c{i}_{j}"
        end = f"epilogue({at}, c{i}_{j}, {', '.join(outs)})"
        lines += [
            f"        if row + y + {i * tile} < m and column + x + {j * tile} < n:",
            f"            out0[{at}] = {made}" if epilogue is None else f"            {end}",
        ]
    source = "\n".join(lines) + "\n"

    def build(names: dict[str, Any]) -> Callable:
        whole = source
        if epilogue is not None:
            whole += epilogue.source
            names = {**names, "epilogue": driver.inner(built("epilogue", epilogue.source, names, epilogue.source))}
        return built("product", source, names, whole)

    helpers = {"np": np, "half_to_float": half_to_float, "float_to_half": float_to_half}
    return DeviceKernel("product", build, helpers | ({} if epilogue is None else epilogue.helpers))


def large(number: int, multiplications: int) -> bool:
    """Whether a product is worth calling the library for, which is there."""
    return multiplications > _SMALL and cublas.library(number) is not None


def _plain(a: DeviceBuffer, stacks: int, sizes: tuple, transposed: tuple, counts: tuple[int, int]) -> Linear | None:
    """A product that nothing follows; None if the library has no such repetitions."""
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
        How many matrices of `a` and of `b` there are, if less: they are taken in turn.
    epilogue : Epilogue, optional
        What is done with the elements. Its arrays are `out`, of any dtype, and `more`.
    """
    m, k, n = sizes
    if stacks * m * n == 0:
        return
    counts = repeated or (stacks, stacks)
    if large(a.number, stacks * m * k * n):
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
