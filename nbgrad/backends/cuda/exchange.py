"""Device memory shared with other libraries: DLPack capsules and ``__cuda_array_interface__``.

Both sides may have work in flight on streams of their own. Memory is handed over, in either direction, when the device
has nothing left to do.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import driver
from .buffers import DeviceBuffer

__all__ = ["Shared", "capsule", "interface", "is_cuda", "opened", "shared"]

_CUDA = 2
#: DLPack's letters for kinds of numbers.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("number", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """``DLManagedTensor`` of DLPack 0.x, which every consumer reads."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)

# The same for a capsule that is going, and must not be referred to any more.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

#: What consumers have: structures by their address, with the buffer that they describe.
_lent: dict[int, tuple] = {}


@_Deleter
def _release(managed) -> None:
    _lent.pop(ctypes.addressof(managed.contents), None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _dropped(handle) -> None:
    """A capsule that nobody consumed goes: what it holds goes, too."""
    if _is_valid(handle, b"dltensor"):  # else it was consumed
        _lent.pop(_pointer_of(handle, b"dltensor"), None)


def is_cuda(given: Any) -> bool:
    """Whether a capsule's memory is on a GPU."""
    if '"dltensor"' not in repr(given):
        return False
    managed = ctypes.cast(_pointer(given, b"dltensor"), ctypes.POINTER(_Managed)).contents
    return managed.tensor.device.type == _CUDA


def capsule(buffer: DeviceBuffer, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A DLPack capsule on a buffer, which it keeps alive."""
    driver.settle(buffer.number)
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = _Tensor(
        driver.address(buffer.array),
        _Device(_CUDA, buffer.number),
        len(shape),
        _DataType(_CODES[dtype.kind], 8 * dtype.itemsize, 1),
        extents,
        None,
        0,
    )
    managed = _Managed(tensor, None, _release)
    _lent[ctypes.addressof(managed)] = managed, extents, buffer
    return _new(ctypes.addressof(managed), b"dltensor", ctypes.cast(_dropped, ctypes.c_void_p))


def interface(buffer: DeviceBuffer, shape: tuple[int, ...], dtype: np.dtype) -> dict[str, Any]:
    """The value of ``__cuda_array_interface__`` (version 3)."""
    driver.settle(buffer.number)
    return {
        "shape": shape,
        "typestr": dtype.str,
        "data": (driver.address(buffer.array) if buffer.size else 0, False),
        "strides": None,
        "stream": None,
        "version": 3,
    }


class Shared(NamedTuple):
    """Memory of another library: contiguous elements on a device, and what keeps them."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    number: int
    owner: Any


class _Owned:
    """Stands where a lease is."""

    __slots__ = ("memory", "owner", "views")

    def __init__(self, memory: Any, owner: Any) -> None:
        self.memory = memory
        self.owner = owner
        self.views: dict = {}


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    """Whether strides, in elements, are those of C order."""
    expected = 1
    for n, s in zip(reversed(shape), reversed(strides or ())):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


def opened(x: Any) -> Shared | None:
    """What a capsule, or an object with either protocol, shares; None if its elements are not contiguous."""
    found = getattr(x, "__cuda_array_interface__", None)
    if found is not None:
        dtype, shape = np.dtype(found["typestr"]), tuple(found["shape"])
        strides = found.get("strides")
        if strides is not None and not _contiguous(shape, tuple(s // dtype.itemsize for s in strides)):
            return None
        number = x.__dlpack_device__()[1] if hasattr(x, "__dlpack_device__") else driver.current()
        return Shared(found["data"][0], shape, dtype, number, x)
    given = x if type(x).__name__ == "PyCapsule" else x.__dlpack__()
    managed = ctypes.cast(_pointer(given, b"dltensor"), ctypes.POINTER(_Managed)).contents
    tensor = managed.tensor
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else None
    if strides is not None and not _contiguous(shape, strides):
        return None
    dtype = np.dtype(f"{_KINDS[tensor.dtype.code]}{tensor.dtype.bits // 8}")
    _rename(given, b"used_dltensor")
    return Shared(tensor.data + tensor.offset, shape, dtype, tensor.device.number, _Consumed(managed))


class _Consumed:
    """A consumed tensor; told when it is not needed any more."""

    def __init__(self, managed: _Managed) -> None:
        self.managed = managed

    def __del__(self) -> None:
        if self.managed.deleter:
            self.managed.deleter(ctypes.pointer(self.managed))


def shared(given: Shared) -> DeviceBuffer:
    """A buffer on another library's memory."""
    size = int(np.prod(given.shape))
    driver.settle(given.number)
    memory = driver.external(given.number, given.address, max(size, 1) * given.dtype.itemsize)
    lease: Any = _Owned(memory, given.owner)
    return DeviceBuffer(given.number, lease, 0, size, given.dtype)
