"""Kernels for devices: from generated source to something that is launched.

The source is the same for CUDA and for its simulator; what differs is what the names of scalar functions mean there.
On CUDA those that NVIDIA's libdevice has are libdevice's, others are nbgrad's own, compiled for the device. In the
simulator, which runs kernels as Python, each is a host function that runs what the CPU would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from ..numba.compile import Kernel, built, generate
from . import driver, vectors
from .buffers import DeviceBuffer, OnDevice

__all__ = ["DeviceKernel", "cuda", "device", "device_kernel", "elementwise_entry"]

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
    """A kernel for devices, compiled per combination of argument kinds.

    Call it with how many threads have something to do, buffers, and numbers.

    Parameters
    ----------
    name : str
    build : callable
        Makes the Python function, given its global names as they are on the device.
    helpers : dict
        The global names that it uses, besides ``cuda``, which is Numba's. A kernel for the CPU is one, too: it is
        called with parts of the arrays.
    """

    def __init__(self, name: str, build: Callable[[dict[str, Any]], Callable], helpers: dict[str, Any]) -> None:
        self.name = name
        self.helpers = helpers
        self._build = build
        self._launches: dict[tuple, driver.Launch] = {}

    def __repr__(self) -> str:
        return f"<DeviceKernel {self.name}>"

    def function(self) -> Callable:
        """The Python function."""
        translate = _simulated if driver.simulated() else _translated
        helpers = {name: translate(name, value) for name, value in self.helpers.items()}
        return self._build({**helpers, **driver.names()})

    def __call__(self, points: int, buffers: Sequence[DeviceBuffer], *numbers, rows: int = 0) -> None:
        """Launch it.

        Parameters
        ----------
        points, rows
            As :class:`.driver.Launch` takes them.
        buffers : sequence of DeviceBuffer
        *numbers
            The arguments after those: ints and floats.
        """
        if points or rows:
            launch = self.launch(*[b.dtype for b in buffers], *[type(n) for n in numbers])
            launch(buffers[0].number, points, [*[b.array for b in buffers], *numbers], rows)

    def run(self, points: int, *numbers, rows: int = 0) -> Callable:
        """What calls it for arrays, as :meth:`.Structured.device` wants it: a function of operands and result(s)."""

        def run(*arrays) -> None:
            every = [x for a in arrays for x in (a if a.__class__ is list else (a,))]
            self(points, [x._buf for x in every], *numbers, rows=rows)

        return run

    def launch(self, *kinds) -> driver.Launch:
        """The compiled kernel for arguments of these kinds: dtypes (of flat arrays), ``int``, ``float``."""
        found = self._launches.get(kinds)
        if found is None:
            found = self._launches[kinds] = driver.compiled(self.function(), kinds)
        return found


_kernels: dict[tuple[str, str], DeviceKernel] = {}


def device_kernel(name: str, source: str, helpers: dict[str, Any]) -> DeviceKernel:
    """The kernel of this source, one for all who ask for it."""
    key = (name, source)
    found = _kernels.get(key)
    if found is None:
        made = DeviceKernel(name, lambda names: built(name, source, names, source), helpers)
        found = _kernels.setdefault(key, made)
    return found


class _Cuda:
    """Stands for Numba's module in kernels; replaced when one is compiled."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"cuda.{name} is for kernels on devices")


cuda: Any = _Cuda()


def device(function: Callable) -> DeviceKernel:
    """Decorator: a kernel for devices. Its global names are scalar functions, numbers and ``cuda`` of this module."""
    code = function.__code__
    used = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    helpers = {name: value for name, value in used.items() if value is not cuda}

    def build(names: dict[str, Any]) -> Callable:
        return FunctionType(code, {**names, "__name__": __name__}, function.__name__)

    return DeviceKernel(function.__name__, build, helpers)


def elementwise_entry(kernel: DeviceKernel, out: int, lanes: int) -> Callable:
    """Makes entry points that take what the CPU's kernel takes; a thread has `lanes` elements of argument `out`."""

    def bind(*kinds) -> Callable:
        launch = kernel.launch(*[k.np if k.__class__ is OnDevice else k for k in kinds])
        number = kinds[0].ctx.device_id

        def entry(*arguments) -> None:
            points = arguments[out].size
            if points:
                given = [a.array if a.__class__ is DeviceBuffer else a for a in arguments]
                launch(number, -(-points // lanes), given)

        return entry

    return bind


def _translated(name: str, value: object) -> object:
    """What a global name of a kernel means on CUDA."""
    return value.inlined() if isinstance(value, Kernel) else LIBDEVICE.get(name, value)


# The simulator.


def _simulated(name: str, value: object) -> object:
    """What a global name of a kernel means in the simulator."""
    if name in vectors.SIMULATED:
        return vectors.SIMULATED[name]
    if isinstance(value, Kernel):
        return lambda *given: value(*[np.asarray(x) if np.ndim(x) else np.asarray(x).item() for x in given])
    return (
        _host(name, value)
        if isinstance(value, Dispatcher) or hasattr(value, "bodies") or hasattr(value, "_defn")
        else value
    )


@cache
def _host(name: str, value: Any) -> Callable:
    """A helper for kernels as a Python function of NumPy scalars: it runs a compiled kernel over one element.

    One that is given arrays runs as Python.
    """
    made: dict[int, Any] = {}

    def call(*arguments):
        if any(np.ndim(a) for a in arguments):
            return _as_python(value)(*arguments)
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


@cache
def _as_python(helper: Any) -> Callable:
    function = helper.py_func
    names = function.__globals__
    used = {name: _simulated(name, names[name]) for name in function.__code__.co_names if name in names}
    return FunctionType(function.__code__, {**names, **used})


#: Helpers whose results have another type than their arguments.
_RESULTS = {"half_to_float": np.float32, "float_to_half": np.uint16, "float_to_int64": np.int64,
            "float_to_int32": np.int64}  # fmt: skip


def _result(name: str, given: Sequence[np.dtype]) -> np.dtype:
    if name in _RESULTS:
        return np.dtype(_RESULTS[name])
    if all(d.kind != "f" for d in given):
        return np.dtype(np.int64)
    return np.result_type(*[d for d in given if d.kind == "f"])
