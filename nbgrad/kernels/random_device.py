"""Random numbers on devices: the CPU's kernels, each thread filling the elements of some blocks of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..backends.cuda.kernels import DeviceKernel, device_kernel
from ..backends.numba.compile import Kernel
from ..core.context import Context
from . import philox

__all__ = ["draws", "fill", "origin"]


def draws(made: Kernel) -> bool:
    """Whether a kernel of :mod:`.philox`, or one like them, is for devices, too."""
    return made is not philox.permutation


@cache
def origin(ctx: Context) -> NDArray:
    """The place 0 of the stream under the key 0, as an array."""
    return from_value(np.zeros(2, np.int64), ctx=ctx)


@cache
def _kernel(made: Kernel, per: int, arrays: int, numbers: int) -> DeviceKernel:
    given = [f"a{k}" for k in range(arrays)]
    values = [f"n{k}" for k in range(numbers)]
    if made.arguments[-1] == "first":  # what it is told of the elements before its own
        last = [*values[:-1], f"{values[-1]} + i * {per}"]
    else:
        last = values
    source = (
        f"def draw_{made.name}({', '.join(['out', 'place', *given, 'key', 'start', *values])}):\n"
        f"    for i in range(cuda.grid(1), (out.size + {per - 1}) // {per}, cuda.gridsize(1)):\n"
        f"        piece = out[i * {per} : i * {per} + {per}]\n"
        f"        made({', '.join(['piece', 'key + place[0]', 'start + place[1] + i', *given, *last])})\n"
    )
    return device_kernel(f"draw_{made.name}", source, {"made": made})


def fill(made: Kernel, out, place, key: int, start: int, arrays: Sequence, numbers: Sequence) -> None:
    """What ``made(out, key, start, *arrays, *numbers)`` does on the CPU, with key and start counted from `place`."""
    per = philox.elements(made, out.dtype.itemsize)
    kernel = _kernel(made, per, len(arrays), len(numbers))
    kernel(-(-out.size // per), [out, place, *arrays], key, start, *numbers)
