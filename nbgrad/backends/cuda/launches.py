"""Direct launches: start kernels, and CUDA graphs of them, through the driver instead of Numba's dispatcher.

Numba inspects every argument of every launch, which takes longer than a small kernel. Kernel parameters are words of 8
bytes: seven for a flat array, one for a scalar. So arrays cache theirs, a launch concatenates them, and a graph is a
list of such parameter blocks, passed to the driver once and started with one call.

The order of words is Numba's. Before the first direct launch of a kernel, its words are compared with those that Numba
would pass; if they differ, or anything fails, Numba launches it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ...core.fork_safety import lock

__all__ = [
    "Captured",
    "DirectLaunch",
    "DriverError",
    "Graph",
    "Node",
    "RecordedWork",
    "address_and_size",
    "array_words",
    "copy_async",
    "direct",
    "local",
    "recording_work",
]  # fmt: skip

_ARRAY = Struct("7q")


class RecordedWork:
    """The device work that a thread enqueues in the scope of :func:`recording_work`.

    Attributes
    ----------
    enqueued_work : list of tuple
        What :func:`.driver.enqueue` was given: a :class:`.driver.Launch` or the like, its arguments, its configuration.
    lent : list of (int, int)
        Memory lent by the pool: address, bytes.
    only_launches : bool
        Nothing else happened on the device.
    """

    def __init__(self) -> None:
        self.enqueued_work: list[tuple[Any, Sequence, tuple]] = []
        self.lent: list[tuple[int, int]] = []
        self.only_launches = True


class _Local(threading.local):
    started = False  # this thread has used the only device: no context switch is needed
    notes: RecordedWork | None = None


local = _Local()


@contextlib.contextmanager
def recording_work() -> Iterator[RecordedWork]:
    """A scope in which the device work of this thread is recorded while it runs."""
    notes = local.notes = RecordedWork()
    local.started = False  # disable the fast path of launches
    try:
        yield notes
    finally:
        local.notes = None


def array_words(address: int, size: int, itemsize: int) -> bytes:
    """The parameter words of a flat array: meminfo and parent (null), size, itemsize, address, shape, stride."""
    return _ARRAY.pack(0, 0, size, itemsize, address, size, itemsize)


def address_and_size(words: bytes) -> tuple[int, int]:
    """The address and the bytes of an array, from its words."""
    _, _, size, itemsize, address, _, _ = _ARRAY.unpack(words)
    return address, size * itemsize


@cache
def _driver() -> Any:
    return importlib.import_module("cuda.bindings.driver")


class DriverError(Exception):
    """A call of the driver failed."""


def _call(name: str, *arguments) -> Any:
    """Call a function of the driver; returns its result."""
    error, *results = getattr(_driver(), name)(*arguments)
    if error != 0:
        raise DriverError(f"{name} failed: {getattr(error, 'name', error)}")
    return results[0] if results else None


def copy_async(way: str, stream: Any, to: Any, source: Any, size: int) -> bool:
    """Start an asynchronous copy; False if Numba must do it.

    Parameters
    ----------
    way : {"HtoD", "DtoH", "DtoD"}
        From the host to a device, back, or on a device.
    stream
        The driver's handle.
    to, source : array
        Contiguous.
    """
    if type(stream).__module__ != "cuda.bindings.driver":  # the simulator, or an older Numba
        return False
    addresses = [x.ctypes.data if isinstance(x, np.ndarray) else address_and_size(x.words)[0] for x in (to, source)]
    _call(f"cuMemcpy{way}Async", *addresses, size, stream)
    return True


class DirectLaunch:
    """A kernel on one device that is launched without Numba.

    Parameters
    ----------
    function
        The driver's handle.
    kinds : sequence
        Of its arguments: dtypes of arrays, ``int``, ``float``.
    """

    def __init__(self, function: Any, kinds: Sequence) -> None:
        self.function = function
        self._packers: list[Callable[[Any], bytes]] = [_packer(kind) for kind in kinds]
        self.size = sum(1 if isinstance(kind, type) else 7 for kind in kinds)
        self.parameter_buffer = memoryview(bytearray(8 * self.size))
        self.parameter_pointers = _word_pointers(self.parameter_buffer, self.size)
        self._lock = lock("gpu")
        self._launch = _driver().cuLaunchKernel

    def packed(self, arguments: Sequence) -> bytes:
        """The parameter words of the arguments."""
        return b"".join([pack(a) for pack, a in zip(self._packers, arguments)])

    def __call__(self, stream: Any, blocks: int, threads: int, packed: bytes) -> None:
        """Launch it."""
        with self._lock:  # the driver copies the words before it returns
            self.parameter_buffer[:] = packed
            (error,) = self._launch(
                self.function, blocks, 1, 1, threads, 1, 1, 0, stream, self.parameter_pointers[0], 0
            )
        if error != 0:
            raise DriverError(f"cuLaunchKernel failed: {getattr(error, 'name', error)}")


def _word_pointers(words: memoryview, size: int) -> tuple[int, Any]:
    """The address of the array of pointers to the words, and the objects that keep it alive."""
    memory = (ctypes.c_uint64 * size).from_buffer(words)
    first = ctypes.addressof(memory)
    pointers = (ctypes.c_void_p * size)(*range(first, first + 8 * size, 8))
    return ctypes.addressof(pointers), (pointers, memory)


def _packer(kind: Any) -> Callable[[Any], bytes]:
    if isinstance(kind, type):
        return Struct("q" if kind is int else "d").pack
    return attrgetter("words")


def direct(dispatcher: Any, kinds: Sequence, arguments: Sequence) -> DirectLaunch | None:
    """The direct launch of a compiled kernel on the current device; None if Numba must launch it.

    Parameters
    ----------
    dispatcher
        Numba's, of one signature.
    kinds : sequence
    arguments : sequence
        The arguments of the first launch.
    """
    try:
        (kernel,) = dispatcher.overloads.values()
        handle = kernel._codelibrary.get_cufunc().handle
        if isinstance(handle, _driver().CUkernel):
            handle = _call("cuKernelGetFunction", handle)
        launch = DirectLaunch(_driver().CUfunction(int(handle)), kinds)
        expected: list = []
        for kind, argument in zip(kernel.argument_types, arguments, strict=True):
            kernel._prepare_args(kind, argument, 0, [], expected)
        plain = [getattr(w, "value", w) or 0 for w in expected]
        expected_words = b"".join([Struct("d" if isinstance(w, float) else "q").pack(w) for w in plain])
        return launch if expected_words == launch.packed(arguments) else None
    except Exception:  # another version of Numba, or of the driver
        return None


class Node(NamedTuple):
    """A kernel launch in a graph."""

    kernel: DirectLaunch
    blocks: int
    threads: int
    packed: bytes

    def add(self, graph: Any, after: list) -> Any:
        """Add it to a graph after the nodes `after`; returns the driver's node."""
        parameters = _driver().CUDA_KERNEL_NODE_PARAMS()
        parameters.func = self.kernel.function
        parameters.gridDimX, parameters.blockDimX = self.blocks, self.threads
        parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1
        parameters.sharedMemBytes = 0
        parameter_words = memoryview(bytearray(self.packed))
        pointers = _word_pointers(parameter_words, self.kernel.size)
        parameters.kernelParams = pointers[0]
        return _call("cuGraphAddKernelNode", graph, after, len(after), parameters)


class Captured(NamedTuple):
    """Work that a library enqueues by ``start(stream)``, as a child graph."""

    start: Callable[[int], None]

    def add(self, graph: Any, after: list) -> Any:
        """Capture the work on a private stream and add it after the nodes `after`; returns the driver's node."""
        child = _captured(self.start)
        try:
            return _call("cuGraphAddChildGraphNode", graph, after, len(after), child)
        finally:
            _call("cuGraphDestroy", child)  # the node has a copy


def _captured(start: Callable[[int], None]) -> Any:
    stream = _call("cuStreamCreate", _driver().CUstream_flags.CU_STREAM_NON_BLOCKING)
    try:
        # Relaxed: the library may load kernels meanwhile, and other threads are not restricted.
        _call("cuStreamBeginCapture", stream, _driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        try:
            start(int(stream))
        except Exception:
            with contextlib.suppress(DriverError):
                _call("cuGraphDestroy", _call("cuStreamEndCapture", stream))
            raise
        return _call("cuStreamEndCapture", stream)
    finally:
        _call("cuStreamDestroy", stream)


class Graph:
    """A CUDA graph: launches that run one after the other, started with one call. The device must be current.

    Raises
    ------
    DriverError
        If the driver refuses the graph.
    """

    def __init__(self, nodes: Sequence[Node | Captured]) -> None:
        graph = _call("cuGraphCreate", 0)
        try:
            last: list = []
            for node in nodes:
                last = [node.add(graph, last)]
            self._ready = _call("cuGraphInstantiate", graph, 0)
        finally:
            _call("cuGraphDestroy", graph)
        self._launch = _driver().cuGraphLaunch
        #: Not at exit, when the driver may be unloaded.
        weakref.finalize(self, _destroyed, self._ready).atexit = False

    def __call__(self, stream: Any) -> None:
        """Start it."""
        (error,) = self._launch(self._ready, stream)
        if error != 0:
            raise DriverError(f"cuGraphLaunch failed: {getattr(error, 'name', error)}")


def _destroyed(ready: Any) -> None:
    _driver().cuGraphExecDestroy(ready)
