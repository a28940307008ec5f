"""CUDA driver access: devices, memory, launches. The only module that imports CUDA; other bindings would go here.

Numba's CUDA target is imported at the first use of a GPU, never by ``import nbgrad``. With ``NUMBA_ENABLE_CUDASIM=1``
it is Numba's simulator, which runs kernels as Python threads: slow, but good enough to test every kernel.
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

from ...core import context
from ...core.context import Context
from ...core.fork_safety import lock
from ...errors import ContextError
from . import launches
from .launches import local
from .signatures import signature
from .staging import Staging

__all__ = [
    "Device",
    "Launch",
    "allocate",
    "build_graph",
    "captured_node",
    "compiled",
    "copy",
    "device_of",
    "download",
    "enqueue",
    "memory_info",
    "on",
    "signature",
    "simulated",
    "synchronize",
    "upload",
    "view",
]  # fmt: skip

#: Threads of a block, and most blocks per multiprocessor: loops are grid-stride loops.
BLOCK, _WAVES = 256, 8
#: Edge of the tiles of a matrix product, with a thread per element. (The simulator's are smaller: Python threads.)
TILE = 16
#: Bytes up to which a copy bypasses pinned memory; bytes of a pinned block, and most of these blocks per device.
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
    """The edge of a square tile of threads."""
    return 2 if simulated() else TILE


@cache
def _cuda() -> Any:
    cuda = importlib.import_module("numba.cuda")
    if not simulated() and "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS" not in os.environ:
        # Low occupancy is expected for small arrays.
        importlib.import_module("numba.cuda.dispatcher").config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    return cuda


@cache
def _unavailable_reason() -> str | None:
    """Why there is no GPU; None if there is one."""
    if simulated():
        return None
    try:
        cuda = _cuda()
        available = cuda.is_available() and len(cuda.gpus) > 0
    except Exception as err:  # whatever is wrong with a driver
        return f"CUDA cannot be used: {' '.join(str(err).split()) or type(err).__name__}"
    if available:
        return None
    try:
        importlib.import_module("numba_cuda")
    except ImportError:
        return "numba-cuda is not installed: pip install 'nbgrad[cuda13]' (or cuda12, for older drivers)"
    return "no CUDA driver, or no device, was found: see what `python -m numba -s` says under CUDA"


class _Gpus:
    """The queries of :mod:`nbgrad.core.context`."""

    def count(self) -> int:
        return 0 if _unavailable_reason() else len(_cuda().gpus)

    def check(self, ctx: Context) -> None:
        reason = _unavailable_reason()
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
    """A block of pinned memory; see :class:`.staging.Piece`."""

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
    """The device with this number."""
    device = _devices.get(number)
    if device is None:
        with _lock:
            device = _devices.get(number) or _devices.setdefault(number, Device(number))
    return device


@cache
def _single() -> bool:
    """Whether there is one device."""
    return simulated() or len(_cuda().gpus) == 1


def _ready() -> bool:
    """Whether this thread already uses the device and there is no other: then launches skip the context switch."""
    return local.started and _owner == os.getpid()


_FAILURES = ("CudaAPIError", "CUDAError", "DriverError")  # driver errors in Numba's layers and here


@contextlib.contextmanager
def on(number: int, launch: bool = False) -> Iterator[Device]:
    """A scope in which a device is current in this thread. With `launch`, what happens there can be recorded."""
    _start()
    device = device_of(number)
    if local.notes is not None and not launch:
        local.notes.only_launches = False
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
        If the device has not enough memory.
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
    """Copy a contiguous host array into a device array of the same size and dtype; the source may then be changed."""
    with on(number) as device:
        if values.nbytes > _DIRECT:
            device.staging.upload(
                values, lambda start, stop, memory: target[start:stop].copy_to_device(memory, stream=device.stream)
            )
        else:  # the driver copies pageable memory before it returns
            values = values.copy()
            if not launches.copy_async("HtoD", device.handle, target, values, values.nbytes):
                target.copy_to_device(values, stream=device.stream)


def download(number: int, source: Any) -> np.ndarray:
    """A host copy of a device array, taken when all work queued on the device is done."""
    host = np.empty(source.size, source.dtype)
    with on(number) as device:
        if host.nbytes > _DIRECT:
            device.staging.download(
                host, lambda start, stop, memory: source[start:stop].copy_to_host(memory, stream=device.stream)
            )
        else:
            if not launches.copy_async("DtoH", device.handle, host, source, host.nbytes):
                source.copy_to_host(host, stream=device.stream)
            device.stream.synchronize()
    return host


def copy(number: int, source: Any, target: Any) -> None:
    """Copy one device array into another of the same size and dtype."""
    if local.notes is not None:  # graphs contain kernels only
        _plain(_copy, target.dtype, target.dtype)(number, target.size, [target, source])
        return
    with on(number) as device:
        if not launches.copy_async("DtoD", device.handle, target, source, target.size * target.dtype.itemsize):
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
    # The name `cuda` is a global of the kernel, where the simulator looks it up, not of this module.
    return compiled(FunctionType(function.__code__, kernel_globals()), kinds)


def synchronize(number: int) -> None:
    """Wait until all work queued on the device is done."""
    with on(number) as device:
        device.stream.synchronize()


def finish() -> None:
    """Wait until all work queued on any device is done."""
    for number in list(_devices):
        synchronize(number)


def stream(number: int) -> int:
    """The address of the stream on which everything runs."""
    with on(number) as device:
        return device.queue


def name(number: int) -> str:
    """The name of a device."""
    if simulated():
        return "simulator"
    with on(number):
        device_name = _cuda().get_current_device().name
    return device_name.decode() if isinstance(device_name, bytes) else str(device_name)


def wait_until_idle(number: int) -> None:
    """Wait until the device is idle, including other libraries' streams."""
    with on(number):
        _cuda().synchronize()


def view(memory: Any, start: int, size: int, dtype: np.dtype) -> Any:
    """A device array of `size` elements that begins at byte `start` of device memory."""
    array = memory[start : start + size * dtype.itemsize].view(dtype)
    array.words = launches.array_words(address(array), size, dtype.itemsize)
    return array


def argument_at(number: int, where: int, size: int, dtype: np.dtype) -> Any:
    """`size` elements at an address, as an argument of :meth:`Launch.later`."""
    if simulated():
        return view(external(number, where, size * dtype.itemsize), 0, size, dtype)
    return SimpleNamespace(words=launches.array_words(where, size, dtype.itemsize))


def address(array: Any) -> int:
    """The address of a device array."""
    if simulated():
        return array._ary.ctypes.data
    return array.__cuda_array_interface__["data"][0]


def external(number: int, where: int, size: int) -> Any:
    """`size` bytes of foreign device memory at an address, as a device array."""
    with on(number):
        if simulated():
            memory = (ctypes.c_uint8 * size).from_address(where)
            return _cuda().simulator.cudadrv.devicearray.FakeCUDAArray(np.ctypeslib.as_array(memory))
        interface = {"shape": (size,), "typestr": "|u1", "data": (where, False), "strides": None, "version": 3}
        return _cuda().as_cuda_array(SimpleNamespace(__cuda_array_interface__=interface))


def current() -> int:
    """The number of this thread's current device."""
    return 0 if simulated() else int(_cuda().get_current_device().id)


# Kernels.

#: a*b+c may be fused, as on the CPU; nothing else is relaxed.
OPTIONS = {"fastmath": False, "opt": True}


def enqueue(what: Any, device: Device, arguments: Sequence, *how) -> None:
    """Run ``what.start(device, arguments, *how)``, which enqueues work on a device.

    Inside :func:`.launches.recording_work` it is recorded: ``what.later(number, arguments, *how)`` is its node for
    :func:`build_graph`.
    """
    if not _ready():
        with on(device.number, launch=True):
            what.start(device, arguments, *how)
            if local.notes is not None:
                local.notes.enqueued_work.append((what, arguments, how))
        return
    try:
        what.start(device, arguments, *how)
    except launches.DriverError as err:
        raise _failed(device.number, err) from err


class Launch:
    """A compiled kernel and its launch configurations."""

    def __init__(self, function: Any, kinds: Sequence) -> None:
        self._function = function
        self._kinds = kinds
        self._configured: dict[tuple, Any] = {}
        #: By device, the launch that bypasses Numba; None if there is none.
        self._direct: dict[int, launches.DirectLaunch | None] = {}

    def __call__(self, number: int, points: int, arguments: Sequence, rows: int = 0, threads: int = 0) -> None:
        """Launch it on a device.

        Parameters
        ----------
        number : int
            Of the device.
        points : int
            Threads that have work.
        arguments : sequence of device arrays, ints and floats
        rows : int
            Blocks that have work, if the threads of a block cooperate; `points` is then ignored.
        threads : int
            Threads of a block, if not the default.
        """
        device = device_of(number)
        threads = threads or device.block
        blocks = min(rows or -(-points // threads), device.blocks * (4 if rows else 1))
        enqueue(self, device, arguments, blocks, threads)

    def start(self, device: Device, arguments: Sequence, blocks: int, threads: int) -> None:
        """See :func:`enqueue`."""
        direct = self._direct.get(device.number)
        if direct is not None:
            direct(device.handle, blocks, threads, direct.packed(arguments))
            return
        key = device.number, blocks, threads
        start = self._configured.get(key) or self._function[blocks, threads, device.stream]
        self._configured[key] = start
        if simulated():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, for scalars that overflow
                start(*arguments)
        else:
            start(*arguments)
            if device.number not in self._direct:
                self._direct[device.number] = launches.direct(self._function, self._kinds, arguments)

    def later(self, number: int, arguments: Sequence, blocks: int, threads: int) -> Any:
        """The node of this launch for :func:`build_graph`; None if only Numba can launch it."""
        if simulated():
            return lambda: self.start(device_of(number), arguments, blocks, threads)
        direct = self._direct.get(number)
        return direct and launches.Node(direct, blocks, threads, direct.packed(arguments))


def captured_node(number: int, start: Callable[[int], None]) -> Any:
    """The node for :func:`build_graph` of work that a library enqueues on a given stream."""
    return (lambda: start(device_of(number).queue)) if simulated() else launches.Captured(start)


def build_graph(number: int, nodes: Sequence) -> Callable[[], None]:
    """A function that runs nodes (of :meth:`Launch.later` and the like) one after the other, as one graph.

    Raises
    ------
    Exception
        Of any kind, now or when the result is called, if the driver refuses.
    """

    def one_by_one(_) -> None:
        for node in nodes:
            node()

    with on(number):
        graph = one_by_one if simulated() else launches.Graph(nodes)
    every = SimpleNamespace(start=lambda device, _: graph(device.handle))
    return lambda: enqueue(every, device_of(number), ())


def compiled(function: Callable, kinds: Sequence) -> Launch:
    """A kernel from a Python function and the kinds of its arguments: dtypes (of flat arrays), ``int``, ``float``."""
    return Launch(_cuda().jit(signature(kinds), **OPTIONS)(function), kinds)


def device_function(function: Callable) -> Callable:
    """A function for kernels to call."""
    return function if simulated() else _cuda().jit(device=True, **OPTIONS)(function)


def kernel_globals() -> dict[str, Any]:
    """The global names through which kernel sources use CUDA."""
    return {"cuda": _cuda()}
