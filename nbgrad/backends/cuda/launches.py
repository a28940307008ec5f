"""Kernels, and graphs of them, started by calls of CUDA's driver.

Numba looks at every argument of every launch, which takes longer than a small kernel. What a kernel is called with are
words of 8 bytes: seven for a flat array, one for a number. So arrays keep theirs, a launch puts them in a row, and a
graph is a list of such rows, handed to the driver once and started with one call.

The order of words is Numba's. Before a kernel is started this way for the first time, its words are compared with those
that Numba would hand over; if they differ, or anything fails, Numba starts it.
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

__all__ = ["Captured", "Direct", "DriverError", "Graph", "Node", "Notes", "copied", "direct", "local", "noted", "place",
           "words"]  # fmt: skip

_ARRAY = Struct("7q")


class Notes:
    """What a thread asks of a device, in the scope of :func:`noted`.

    Attributes
    ----------
    found : list of tuple
        What was begun (:func:`.driver.begin`): a :class:`.driver.Launch` or the like, its arguments, and how.
    lent : list of (int, int)
        Memory that the pool lent: address, bytes.
    whole : bool
        That was all.
    """

    def __init__(self) -> None:
        self.found: list[tuple[Any, Sequence, tuple]] = []
        self.lent: list[tuple[int, int]] = []
        self.whole = True


class _Local(threading.local):
    started = False  # this thread has used the device, which is the only one: nothing is to be switched
    notes: Notes | None = None


local = _Local()


@contextlib.contextmanager
def noted() -> Iterator[Notes]:
    """A scope in which what this thread asks of a device is noted as it happens."""
    notes = local.notes = Notes()
    local.started = False  # nothing takes the short way
    try:
        yield notes
    finally:
        local.notes = None


def words(address: int, size: int, itemsize: int) -> bytes:
    """A flat array, as a kernel gets it: no object that owns it, elements, bytes of each, place, shape, stride."""
    return _ARRAY.pack(0, 0, size, itemsize, address, size, itemsize)


def place(words: bytes) -> tuple[int, int]:
    """Where such an array is, and its bytes."""
    _, _, size, itemsize, address, _, _ = _ARRAY.unpack(words)
    return address, size * itemsize


@cache
def _driver() -> Any:
    return importlib.import_module("cuda.bindings.driver")


class DriverError(Exception):
    """A call of the driver failed."""


def _call(name: str, *arguments) -> Any:
    """What a function of the driver gives."""
    error, *found = getattr(_driver(), name)(*arguments)
    if error != 0:
        raise DriverError(f"{name} failed: {getattr(error, 'name', error)}")
    return found[0] if found else None


def copied(way: str, stream: Any, to: Any, source: Any, size: int) -> bool:
    """Begin to copy some bytes; False if Numba must do it.

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
    places = [x.ctypes.data if isinstance(x, np.ndarray) else place(x.words)[0] for x in (to, source)]
    _call(f"cuMemcpy{way}Async", *places, size, stream)
    return True


class Direct:
    """A kernel on one device, to be started without Numba.

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
        self.room = memoryview(bytearray(8 * self.size))
        self.places = _places(self.room, self.size)
        self._lock = lock("gpu")
        self._launch = _driver().cuLaunchKernel

    def packed(self, arguments: Sequence) -> bytes:
        """The arguments' words."""
        return b"".join([pack(a) for pack, a in zip(self._packers, arguments)])

    def __call__(self, stream: Any, blocks: int, threads: int, packed: bytes) -> None:
        """Start it."""
        with self._lock:  # the driver copies the words before it returns
            self.room[:] = packed
            (error,) = self._launch(self.function, blocks, 1, 1, threads, 1, 1, 0, stream, self.places[0], 0)
        if error != 0:
            raise DriverError(f"cuLaunchKernel failed: {getattr(error, 'name', error)}")


def _places(room: memoryview, size: int) -> tuple[int, Any]:
    """Where an array of the addresses of all words is, and what keeps it there."""
    memory = (ctypes.c_uint64 * size).from_buffer(room)
    first = ctypes.addressof(memory)
    found = (ctypes.c_void_p * size)(*range(first, first + 8 * size, 8))
    return ctypes.addressof(found), (found, memory)


def _packer(kind: Any) -> Callable[[Any], bytes]:
    if isinstance(kind, type):
        return Struct("q" if kind is int else "d").pack
    return attrgetter("words")


def direct(dispatcher: Any, kinds: Sequence, arguments: Sequence) -> Direct | None:
    """A kernel that Numba compiled, for the current device; None if it must be Numba that starts it.

    Parameters
    ----------
    dispatcher
        Numba's, of one signature.
    kinds : sequence
    arguments : sequence
        Those of the first launch.
    """
    try:
        (kernel,) = dispatcher.overloads.values()
        handle = kernel._codelibrary.get_cufunc().handle
        if isinstance(handle, _driver().CUkernel):
            handle = _call("cuKernelGetFunction", handle)
        found = Direct(_driver().CUfunction(int(handle)), kinds)
        wanted: list = []
        for kind, argument in zip(kernel.argument_types, arguments, strict=True):
            kernel._prepare_args(kind, argument, 0, [], wanted)
        plain = [getattr(w, "value", w) or 0 for w in wanted]
        given = b"".join([Struct("d" if isinstance(w, float) else "q").pack(w) for w in plain])
        return found if given == found.packed(arguments) else None
    except Exception:  # another version of Numba, or of the driver
        return None


class Node(NamedTuple):
    """A launch in a graph."""

    kernel: Direct
    blocks: int
    threads: int
    packed: bytes

    def add(self, graph: Any, after: list) -> Any:
        """The driver's node, after those."""
        parameters = _driver().CUDA_KERNEL_NODE_PARAMS()
        parameters.func = self.kernel.function
        parameters.gridDimX, parameters.blockDimX = self.blocks, self.threads
        parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1
        parameters.sharedMemBytes = 0
        room = memoryview(bytearray(self.packed))
        places = _places(room, self.kernel.size)
        parameters.kernelParams = places[0]
        return _call("cuGraphAddKernelNode", graph, after, len(after), parameters)


class Captured(NamedTuple):
    """What a library starts, in a graph: ``start(stream)``."""

    start: Callable[[int], None]

    def add(self, graph: Any, after: list) -> Any:
        """The driver's node, after those: a graph of what came to a stream that nobody else has."""
        found = _captured(self.start)
        try:
            return _call("cuGraphAddChildGraphNode", graph, after, len(after), found)
        finally:
            _call("cuGraphDestroy", found)  # the node has a copy


def _captured(start: Callable[[int], None]) -> Any:
    stream = _call("cuStreamCreate", _driver().CUstream_flags.CU_STREAM_NON_BLOCKING)
    try:
        # Relaxed: the library may load kernels meanwhile, and other threads do what they like.
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
    """Launches that are started together, one after the other, with one call. The device must be the current one.

    Raises
    ------
    DriverError
        If the driver cannot have it.
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
        #: Not at the end of the process, when the driver may be gone.
        weakref.finalize(self, _destroyed, self._ready).atexit = False

    def __call__(self, stream: Any) -> None:
        """Start it."""
        (error,) = self._launch(self._ready, stream)
        if error != 0:
            raise DriverError(f"cuGraphLaunch failed: {getattr(error, 'name', error)}")


def _destroyed(ready: Any) -> None:
    _driver().cuGraphExecDestroy(ready)
