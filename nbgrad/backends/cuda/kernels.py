"""Device kernels: from generated source to compiled launches.

The source is the same for CUDA and for its simulator; only the names of scalar functions are bound differently. On CUDA
they are bound to NVIDIA's libdevice where it has the function, and else to nbgrad's own functions, compiled for the
device. In the simulator, which runs kernels as Python, each is a host function that runs the CPU's code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from ..numba.compile import Kernel, exec_unique, generate
from ..numba.internals import Dispatcher, Intrinsic
from . import driver, vectors
from .buffers import DeviceBuffer, OnDevice

__all__ = ["DeviceKernel", "cuda", "device", "device_kernel", "elementwise_entry"]


class DeviceKernel:
    """A kernel for devices, compiled per combination of argument kinds.

    Call it with the number of threads that have work, buffers, and scalars.

    Parameters
    ----------
    name : str
    build : callable
        Creates the Python function from the global names as they are bound on the device.
    helpers : dict
        The global names that it uses, besides ``cuda``, which is Numba's. They may include kernels for the CPU,
        which are called with slices of the arrays.
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
        translate = _simulator_binding if driver.simulated() else _cuda_binding
        helpers = {name: translate(name, value) for name, value in self.helpers.items()}
        return self._build({**helpers, **driver.kernel_globals()})

    def __call__(self, points: int, buffers: Sequence[DeviceBuffer], *numbers, rows: int = 0) -> None:
        """Launch it.

        Parameters
        ----------
        points, rows
            As :class:`.driver.Launch` takes them.
        buffers : sequence of DeviceBuffer
        *numbers
            The remaining arguments: ints and floats.
        """
        if points or rows:
            launch = self.launch(*[b.dtype for b in buffers], *[type(n) for n in numbers])
            launch(buffers[0].number, points, [*[b.array for b in buffers], *numbers], rows)

    def run(self, points: int, *numbers, rows: int = 0) -> Callable:
        """A function of operand and result arrays that launches it, for :meth:`.Structured.device`."""

        def run(*arrays) -> None:
            every = [x for a in arrays for x in (a if a.__class__ is list else (a,))]
            self(points, [x._buf for x in every], *numbers, rows=rows)

        return run

    def launch(self, *kinds) -> driver.Launch:
        """The compiled kernel for arguments of these kinds: dtypes (of flat arrays), ``int``, ``float``."""
        launch = self._launches.get(kinds)
        if launch is None:
            launch = self._launches[kinds] = driver.compiled(self.function(), kinds)
        return launch


_kernels: dict[tuple[str, str], DeviceKernel] = {}


def device_kernel(name: str, source: str, helpers: dict[str, Any]) -> DeviceKernel:
    """The kernel of this source; one instance per source."""
    key = (name, source)
    kernel = _kernels.get(key)
    if kernel is None:
        created = DeviceKernel(name, lambda names: exec_unique(name, source, names, source), helpers)
        kernel = _kernels.setdefault(key, created)
    return kernel


class _Cuda:
    """A placeholder for ``numba.cuda`` in kernels, replaced when they are compiled."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"cuda.{name} is for kernels on devices")


cuda: Any = _Cuda()


def device(function: Callable) -> DeviceKernel:
    """Decorator: a device kernel. Its global names may be scalar functions, constants and ``cuda`` of this module."""
    code = function.__code__
    used = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    helpers = {name: value for name, value in used.items() if value is not cuda}

    def build(names: dict[str, Any]) -> Callable:
        return FunctionType(code, {**names, "__name__": __name__}, function.__name__)

    return DeviceKernel(function.__name__, build, helpers)


def elementwise_entry(kernel: DeviceKernel, out: int, lanes: int) -> Callable:
    """A factory of entry points with the CPU kernel's arguments; a thread computes `lanes` elements of `out`."""

    def bind(*kinds) -> Callable:
        launch = kernel.launch(*[k.np if k.__class__ is OnDevice else k for k in kinds])
        number = kinds[0].ctx.device_id

        def entry(*arguments) -> None:
            points = arguments[out].size
            if points:
                device_arguments = [a.array if a.__class__ is DeviceBuffer else a for a in arguments]
                launch(number, -(-points // lanes), device_arguments)

        return entry

    return bind


def _cuda_binding(name: str, value: object) -> object:
    """The object that a global name of a kernel is bound to on CUDA."""
    return value.as_helper() if isinstance(value, Kernel) else getattr(value, "device_form", value)


# The simulator.


def _simulator_binding(name: str, value: object) -> object:
    """The object that a global name of a kernel is bound to in the simulator."""
    if name in vectors.SIMULATED:
        return vectors.SIMULATED[name]
    if isinstance(value, Kernel):
        return lambda *args: value(*[np.asarray(x) if np.ndim(x) else np.asarray(x).item() for x in args])
    return _host(name, value) if isinstance(value, Dispatcher | Intrinsic) or hasattr(value, "bodies") else value


@cache
def _host(name: str, value: Any) -> Callable:
    """A scalar helper as a Python function of NumPy scalars that runs a compiled kernel over one element.

    If an argument is an array, the helper runs as Python.
    """
    kernels: dict[int, Any] = {}

    def call(*arguments):
        if any(np.ndim(a) for a in arguments):
            return _as_python(value)(*arguments)
        count = len(arguments)
        kernel = kernels.get(count)
        if kernel is None:
            parameters = [f"a{k}" for k in range(count)]
            source = f"def call_{name}({', '.join([*parameters, 'out'])}):\n    out[0] = {name}("
            source += ", ".join(f"{a}[0]" for a in parameters) + ")\n"
            kernel = kernels[count] = generate(f"call_{name}", source, {name: value})
        arrays = [np.atleast_1d(np.asarray(a)) for a in arguments]
        out = np.empty(1, _result(name, [a.dtype for a in arrays]))
        kernel(*arrays, out)
        return out[0]

    return call


@cache
def _as_python(helper: Any) -> Callable:
    function = helper.py_func
    names = function.__globals__
    used = {name: _simulator_binding(name, names[name]) for name in function.__code__.co_names if name in names}
    return FunctionType(function.__code__, {**names, **used})


#: Result types of helpers whose result has another type than their arguments.
_RESULTS = {"half_to_float": np.float32, "float_to_half": np.uint16, "float_to_int64": np.int64,
            "float_to_int32": np.int64, "float_to_uint64": np.uint64}  # fmt: skip


def _result(name: str, dtypes: Sequence[np.dtype]) -> np.dtype:
    if name in _RESULTS:
        return np.dtype(_RESULTS[name])
    if all(d.kind != "f" for d in dtypes):
        return np.dtype(np.uint64 if any(d == np.uint64 for d in dtypes) else np.int64)
    return np.result_type(*[d for d in dtypes if d.kind == "f"])
