"""Kernels for devices: from generated source to something that is launched.

The source is the same for CUDA and for its simulator; what differs is what the names of scalar functions mean there.
On CUDA those that NVIDIA's libdevice has are libdevice's, others are nbgrad's own, compiled for the device. In the
simulator, which runs kernels as Python, each is a host function that runs what the CPU would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from ..codegen.compile import built, generate
from . import driver
from .buffers import DeviceBuffer, OnDevice

__all__ = ["DeviceKernel", "device_kernel"]

#: Names of scalar functions that mean libdevice's on CUDA.
LIBDEVICE = {
    name: getattr(math, other)
    for name, other in {
        "exp": "exp", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
        "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
        "arctan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh",
        "arctanh": "atanh", "erf": "erf", "erfc": "erfc", "hypot": "hypot",
    }.items()
}  # fmt: skip


class DeviceKernel:
    """A kernel from generated source, compiled per combination of argument kinds.

    Parameters
    ----------
    name : str
    source : str
        ``def {name}(...)``; ``cuda`` is Numba's.
    helpers : dict
        The other global names that it uses.
    """

    def __init__(self, name: str, source: str, helpers: dict[str, object]) -> None:
        self.name = name
        self.source = source
        self.helpers = helpers
        self._launches: dict[tuple, driver.Launch] = {}

    def __repr__(self) -> str:
        return f"<DeviceKernel {self.name}>"

    def function(self) -> Callable:
        """The Python function."""
        translate = _simulated if driver.simulated() else _translated
        helpers = {name: translate(name, value) for name, value in self.helpers.items()}
        return built(self.name, self.source, {**helpers, **driver.names()}, self.source)

    def launch(self, *kinds) -> driver.Launch:
        """The compiled kernel for arguments of these kinds: dtypes (of flat arrays), ``int``, ``float``."""
        found = self._launches.get(kinds)
        if found is None:
            found = self._launches[kinds] = driver.compiled(self.function(), kinds)
        return found

    def ptx(self, kinds: Sequence, capability: tuple[int, int] = (8, 0)) -> str:
        """The kernel's PTX, for looking at."""
        return driver.ptx(self.function(), kinds, capability)


_kernels: dict[tuple[str, str], DeviceKernel] = {}


def device_kernel(name: str, source: str, helpers: dict[str, object]) -> DeviceKernel:
    """The kernel of this source, one for all who ask for it."""
    key = (name, source)
    return _kernels.get(key) or _kernels.setdefault(key, DeviceKernel(name, source, helpers))


def elementwise_entry(kernel: DeviceKernel, out: int) -> Callable:
    """Makes entry points that take what the CPU's kernel takes; argument number `out` has one element per thread."""

    def bind(*kinds) -> Callable:
        launch = kernel.launch(*[k.np if k.__class__ is OnDevice else k for k in kinds])
        number = kinds[0].ctx.device_id

        def entry(*arguments) -> None:
            points = arguments[out].size
            if points:
                given = [a.array if a.__class__ is DeviceBuffer else a for a in arguments]
                launch(number, points, given)

        return entry

    return bind


def _translated(name: str, value: object) -> object:
    """What a global name of a kernel means on CUDA."""
    return LIBDEVICE.get(name, value)


# The simulator.


def _simulated(name: str, value: object) -> object:
    """What a global name of a kernel means in the simulator."""
    return (
        _host(name, value)
        if isinstance(value, Dispatcher) or hasattr(value, "bodies") or hasattr(value, "_defn")
        else value
    )


@cache
def _host(name: str, value: Any) -> Callable:
    """A helper for kernels as a Python function of NumPy scalars: it runs a compiled kernel over one element."""
    made: dict[int, Any] = {}

    def call(*arguments):
        count = len(arguments)
        kernel = made.get(count)
        if kernel is None:
            given = [f"a{k}" for k in range(count)]
            source = f"def call_{name}({', '.join([*given, 'out'])}):\n    out[0] = {name}("
            source += ", ".join(f"{a}[0]" for a in given) + ")\n"
            kernel = made[count] = generate(f"call_{name}", source, {name: value})
        arrays = [np.atleast_1d(np.asarray(a)) for a in arguments]
        out = np.empty(1, _result(name, [a.dtype for a in arrays]))
        kernel(*arrays, out)
        return out[0]

    return call


#: Helpers whose results have another type than their arguments.
_RESULTS = {"half_to_float": np.float32, "float_to_half": np.uint16, "float_to_int64": np.int64,
            "float_to_int32": np.int64}  # fmt: skip


def _result(name: str, given: Sequence[np.dtype]) -> np.dtype:
    if name in _RESULTS:
        return np.dtype(_RESULTS[name])
    if all(d.kind != "f" for d in given):
        return np.dtype(np.int64)
    return np.result_type(*[d for d in given if d.kind == "f"])
