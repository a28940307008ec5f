"""The one module that imports CUDA: devices, memory, launches. Another binding would be swapped in here.

Numba's CUDA target is imported when a GPU is first asked for, never by ``import nbgrad``. With
``NUMBA_ENABLE_CUDASIM=1`` it is Numba's simulator, which runs kernels as Python threads: slow, and good enough to test
every kernel with.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba import types

from ...core import context
from ...core.context import Context
from ...core.fork_safety import lock
from ...errors import ContextError
from . import launches
from .launches import local
from .staging import Staging

__all__ = ["Device", "Launch", "allocate", "begin", "captured", "compiled", "copy", "device_of", "download",
           "memory_info", "on", "signature", "simulated", "synchronize", "together", "upload", "view"]  # fmt: skip

#: Threads of a block, and blocks per multiprocessor at most: loops take strides of all threads there are.
BLOCK, _WAVES = 256, 8
#: Edge of the tiles of a matrix product, whose elements have a thread each. (In the simulator, threads are Python's.)
TILE = 16
#: Bytes up to which a copy does not go through pinned memory; bytes of a piece of that, and pieces of a device at most.
_DIRECT, _PIECE, _PIECES = 1 << 16, 1 << 22, 16

_lock = lock("driver")
_owner = 0  # the process that the driver was started in


def simulated() -> bool:
    """Whether kernels run in Numba's simulator."""
    return bool(numba.config.ENABLE_CUDASIM)


def block() -> int:
    """Threads of a block."""
    return 4 if simulated() else BLOCK


def tile() -> int:
    """The edge of a square of as many threads."""
    return 2 if simulated() else TILE


@cache
def _cuda() -> Any:
    cuda = importlib.import_module("numba.cuda")
    if not simulated() and "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS" not in os.environ:
        # Small arrays are nothing to warn of.
        importlib.import_module("numba.cuda.dispatcher").config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    return cuda


@cache
def _absent() -> str | None:
    """Why there is no GPU; None if there is one."""
    if simulated():
        return None
    try:
        cuda = _cuda()
        found = cuda.is_available() and len(cuda.gpus) > 0
    except Exception as err:  # whatever is wrong with a driver
        return f"CUDA cannot be used: {' '.join(str(err).split()) or type(err).__name__}"
    if found:
        return None
    try:
        importlib.import_module("numba_cuda")
    except ImportError:
        return "numba-cuda is not installed: pip install 'nbgrad[cuda13]' (or cuda12, for older drivers)"
    return "no CUDA driver, or no device, was found: see what `python -m numba -s` says under CUDA"


class _Gpus:
    """What :mod:`nbgrad.core.context` asks."""

    def count(self) -> int:
        return 0 if _absent() else len(_cuda().gpus)

    def check(self, ctx: Context) -> None:
        reason = _absent()
        if reason is not None:
            raise ContextError(f"{ctx} is not available: {reason}; use cpu()")
        if ctx.device_id >= self.count():
            raise ContextError(f"{ctx} is not available: this machine has {self.count()} GPU(s), numbered from 0")
        _start()

    def memory_info(self, number: int) -> tuple[int, int]:
        self.check(context.gpu(number))
        return memory_info(number)


context.set_gpus(_Gpus())


def _start() -> None:
    global _owner
    if _owner == 0:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise ContextError(
            "this process was forked from one that had used a GPU, and CUDA does not work in such children; start "
            "workers by multiprocessing.get_context('spawn'), or fork before the first use of a GPU"
        )


class Device:
    """A device's stream, and how many threads it takes to fill it."""

    def __init__(self, number: int) -> None:
        cuda = _cuda()
        with cuda.gpus[number]:
            self.stream = cuda.stream()
            count = 1 if simulated() else cuda.get_current_device().MULTIPROCESSOR_COUNT
        self.handle: Any = getattr(self.stream, "handle", None)
        self.queue = int(getattr(self.handle, "value", self.handle) or 0)  # the same, as an address
        self.number = number
        self.blocks = 1 if simulated() else _WAVES * count
        self.block = block()
        self.staging = Staging(lambda: _Pinned(self.stream), _PIECE, _PIECES)


class _Pinned:
    """A piece of pinned memory; see :class:`.staging.Piece`."""

    def __init__(self, stream: Any) -> None:
        self.memory = _cuda().pinned_array(_PIECE, np.uint8)
        self._event = _cuda().event() if simulated() else _cuda().event(timing=False)
        self._stream = stream

    def mark(self) -> None:
        self._event.record(self._stream)

    def done(self) -> bool:
        return simulated() or self._event.query()

    def wait(self) -> None:
        self._event.synchronize()


_devices: dict[int, Device] = {}


def device_of(number: int) -> Device:
    """The device of that number."""
    found = _devices.get(number)
    if found is None:
        with _lock:
            found = _devices.get(number) or _devices.setdefault(number, Device(number))
    return found


@cache
def _single() -> bool:
    """Whether there is one device."""
    return simulated() or len(_cuda().gpus) == 1


def _ready() -> bool:
    """Whether this thread uses the device already, and there is no other; the short way of launches."""
    return local.started and _owner == os.getpid()


_FAILURES = ("CudaAPIError", "CUDAError", "DriverError")  # what the parts of Numba, and we, call those of the driver


@contextlib.contextmanager
def on(number: int, launch: bool = False) -> Iterator[Device]:
    """A scope in which a device is this thread's. `launch`: what happens there can be noted."""
    _start()
    device = device_of(number)
    if local.notes is not None and not launch:
        local.notes.whole = False
    try:
        if simulated() or _cuda().get_current_device().id == number:
            local.started = _single() and local.notes is None
            yield device
        else:
            with _cuda().gpus[number]:
                yield device
    except Exception as err:
        if type(err).__name__ not in _FAILURES:
            raise
        raise _failed(number, err) from err


def _failed(number: int, err: Exception) -> ContextError:
    return ContextError(
        f"gpu({number}): {err}. A kernel that was started before may be what failed; after most failures CUDA "
        "gives a process nothing more on that device. Arrays on the CPU are as they were: save them, start again"
    )


# Memory.


def allocate(number: int, size: int) -> Any:
    """`size` bytes of device memory, as a device array.

    Raises
    ------
    MemoryError
        If the device has no room for them.
    """
    with on(number, launch=True):
        try:
            return _cuda().device_array(size, np.uint8)
        except Exception as err:
            if "OUT_OF_MEMORY" not in str(err):
                raise
            raise MemoryError(str(err)) from None


def memory_info(number: int) -> tuple[int, int]:
    """Free and total bytes of a device."""
    if simulated():
        return 0, 0
    with on(number):
        free, total = _cuda().current_context().get_memory_info()
    return int(free), int(total)


def upload(number: int, target: Any, values: np.ndarray) -> None:
    """Copy a contiguous host array, which may be changed then, into a device array of the same size and dtype."""
    with on(number) as device:
        if values.nbytes > _DIRECT:
            device.staging.upload(
                values, lambda start, stop, memory: target[start:stop].copy_to_device(memory, stream=device.stream)
            )
        else:  # of a copy that is not pinned the driver makes one of its own, before it returns
            values = values.copy()
            if not launches.copied("HtoD", device.handle, target, values, values.nbytes):
                target.copy_to_device(values, stream=device.stream)


def download(number: int, source: Any) -> np.ndarray:
    """A host copy of a device array, when all that was begun on the device is done."""
    found = np.empty(source.size, source.dtype)
    with on(number) as device:
        if found.nbytes > _DIRECT:
            device.staging.download(
                found, lambda start, stop, memory: source[start:stop].copy_to_host(memory, stream=device.stream)
            )
        else:
            if not launches.copied("DtoH", device.handle, found, source, found.nbytes):
                source.copy_to_host(found, stream=device.stream)
            device.stream.synchronize()
    return found


def copy(number: int, source: Any, target: Any) -> None:
    """Copy one device array into another of the same size and dtype."""
    if local.notes is not None:  # a kernel can be in a graph
        _plain(_copy, target.dtype, target.dtype)(number, target.size, [target, source])
        return
    with on(number) as device:
        if not launches.copied("DtoD", device.handle, target, source, target.size * target.dtype.itemsize):
            target.copy_to_device(source, stream=device.stream)


def _copy(out, x):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):  # type: ignore[name-defined] # noqa: F821
        out[i] = x[i]


def fill(number: int, target: Any, size: int, value) -> None:
    """Set the `size` elements of a device array."""
    kind: Any = float if target.dtype.kind == "f" else int
    _plain(_fill, target.dtype, int, kind)(number, size, [target, size, kind(target.dtype.type(value))])


def _fill(out, n, value):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):  # type: ignore[name-defined] # noqa: F821
        out[i] = value


@cache
def _plain(function: FunctionType, *kinds) -> Launch:
    # CUDA's name is a global of the kernel, where the simulator looks for it, and not of this module.
    return compiled(FunctionType(function.__code__, names()), kinds)


def synchronize(number: int) -> None:
    """Wait until all that was begun on the device is done."""
    with on(number) as device:
        device.stream.synchronize()


def finish() -> None:
    """Wait until all that was begun on any device is done."""
    for number in list(_devices):
        synchronize(number)


def stream(number: int) -> int:
    """The address of the stream on which everything happens."""
    with on(number) as device:
        return device.queue


def name(number: int) -> str:
    """What the device calls itself."""
    if simulated():
        return "simulator"
    with on(number):
        found = _cuda().get_current_device().name
    return found.decode() if isinstance(found, bytes) else str(found)


def settle(number: int) -> None:
    """Wait until the device has nothing to do, whoever asked for it."""
    with on(number):
        _cuda().synchronize()


def view(memory: Any, start: int, size: int, dtype: np.dtype) -> Any:
    """A device array of so many elements, from a byte of device memory on."""
    found = memory[start : start + size * dtype.itemsize].view(dtype)
    found.words = launches.words(address(found), size, dtype.itemsize)
    return found


def placed(number: int, where: int, size: int, dtype: np.dtype) -> Any:
    """So many elements at an address, for :meth:`Launch.later`."""
    if simulated():
        return view(external(number, where, size * dtype.itemsize), 0, size, dtype)
    return SimpleNamespace(words=launches.words(where, size, dtype.itemsize))


def address(array: Any) -> int:
    """Where a device array begins."""
    if simulated():
        return array._ary.ctypes.data
    return array.__cuda_array_interface__["data"][0]


def external(number: int, where: int, size: int) -> Any:
    """`size` bytes of device memory at an address, which somebody else owns, as a device array."""
    with on(number):
        if simulated():
            memory = (ctypes.c_uint8 * size).from_address(where)
            return _cuda().simulator.cudadrv.devicearray.FakeCUDAArray(np.ctypeslib.as_array(memory))
        given = {"shape": (size,), "typestr": "|u1", "data": (where, False), "strides": None, "version": 3}
        return _cuda().as_cuda_array(SimpleNamespace(__cuda_array_interface__=given))


def current() -> int:
    """The number of the device that this thread uses for what does not say where it is."""
    return 0 if simulated() else int(_cuda().get_current_device().id)


# Kernels.

#: a*b+c may be one fused operation, as on the CPU; nothing else is relaxed.
OPTIONS = {"fastmath": False, "opt": True}


def begin(what: Any, device: Device, arguments: Sequence, *how) -> None:
    """``what.start(device, arguments, *how)``, which puts something into a device's queue.

    It is noted if that is wanted: ``what.later(number, arguments, *how)`` gives the same for :func:`together`.
    """
    if not _ready():
        with on(device.number, launch=True):
            what.start(device, arguments, *how)
            if local.notes is not None:
                local.notes.found.append((what, arguments, how))
        return
    try:
        what.start(device, arguments, *how)
    except launches.DriverError as err:
        raise _failed(device.number, err) from err


class Launch:
    """A compiled kernel and how it is started."""

    def __init__(self, function: Any, kinds: Sequence) -> None:
        self._function = function
        self._kinds = kinds
        self._configured: dict[tuple, Any] = {}
        #: By device, how to start it without Numba; None if that cannot be.
        self._direct: dict[int, launches.Direct | None] = {}

    def __call__(self, number: int, points: int, arguments: Sequence, rows: int = 0, threads: int = 0) -> None:
        """Start it on a device.

        Parameters
        ----------
        number : int
            Of the device.
        points : int
            Threads that have something to do.
        arguments : sequence of device arrays, ints and floats
        rows : int
            Blocks that have something to do, if blocks work together; `points` is then not looked at.
        threads : int
            Of a block, if not as many as usual.
        """
        device = device_of(number)
        threads = threads or device.block
        blocks = min(rows or -(-points // threads), device.blocks * (4 if rows else 1))
        begin(self, device, arguments, blocks, threads)

    def start(self, device: Device, arguments: Sequence, blocks: int, threads: int) -> None:
        """See :func:`begin`."""
        direct = self._direct.get(device.number)
        if direct is not None:
            direct(device.handle, blocks, threads, direct.packed(arguments))
            return
        key = device.number, blocks, threads
        start = self._configured.get(key) or self._function[blocks, threads, device.stream]
        self._configured[key] = start
        if simulated():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of scalars that overflow
                start(*arguments)
        else:
            start(*arguments)
            if device.number not in self._direct:
                self._direct[device.number] = launches.direct(self._function, self._kinds, arguments)

    def later(self, number: int, arguments: Sequence, blocks: int, threads: int) -> Any:
        """What :func:`together` takes; None if it cannot be started without Numba."""
        if simulated():
            return lambda: self.start(device_of(number), arguments, blocks, threads)
        direct = self._direct.get(number)
        return direct and launches.Node(direct, blocks, threads, direct.packed(arguments))


def captured(number: int, start: Callable[[int], None]) -> Any:
    """What :func:`together` takes, of what a library starts on the stream that it is given."""
    return (lambda: start(device_of(number).queue)) if simulated() else launches.Captured(start)


def together(number: int, nodes: Sequence) -> Callable[[], None]:
    """What starts these, of :meth:`Launch.later` and the like, one after the other.

    Raises
    ------
    Exception
        Of some kind, then or when it is called, if the driver does not do it.
    """

    def one_by_one(_) -> None:
        for node in nodes:
            node()

    with on(number):
        graph = one_by_one if simulated() else launches.Graph(nodes)
    every = SimpleNamespace(start=lambda device, _: graph(device.handle))
    return lambda: begin(every, device_of(number), ())


def compiled(function: Callable, kinds: Sequence) -> Launch:
    """A kernel from a Python function and the kinds of its arguments: dtypes (of flat arrays), ``int``, ``float``."""
    return Launch(_cuda().jit(signature(kinds), **OPTIONS)(function), kinds)


def inner(function: Callable) -> Callable:
    """A function for kernels to call."""
    return function if simulated() else _cuda().jit(device=True, **OPTIONS)(function)


def signature(kinds: Sequence) -> tuple:
    """The Numba types of arguments of these kinds."""
    return tuple([_type(kind) for kind in kinds])


def _type(kind) -> Any:
    if kind is int:
        return types.int64
    if kind is float:
        return types.float64
    return types.Array(numba.from_dtype(kind), 1, "C")


def names() -> dict[str, Any]:
    """What the source of a kernel calls CUDA by."""
    return {"cuda": _cuda()}
