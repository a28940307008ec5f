"""Device memory shared with other libraries: DLPack capsules and ``__cuda_array_interface__``.

Both sides may have work in flight on their own streams, so memory is handed over, in either direction, when the device
is idle.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import driver
from .buffers import DeviceBuffer

__all__ = ["Shared", "buffer_over", "capsule", "import_memory", "interface", "is_cuda"]

_CUDA = 2
#: DLPack's type codes, by NumPy's kind.
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

# The same for a capsule that is being destroyed, whose reference count must stay untouched.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

#: Structures that consumers hold, by address, with the buffers that they describe.
_exported: dict[int, tuple] = {}


@_Deleter
def _release(managed) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _capsule_destroyed(handle) -> None:
    """Release what a capsule holds, when it is destroyed unconsumed."""
    if _is_valid(handle, b"dltensor"):  # else it was consumed
        _exported.pop(_pointer_of(handle, b"dltensor"), None)


def is_cuda(dl_capsule: Any) -> bool:
    """Whether a capsule's memory is on a GPU."""
    if '"dltensor"' not in repr(dl_capsule):
        return False
    managed = ctypes.cast(_pointer(dl_capsule, b"dltensor"), ctypes.POINTER(_Managed)).contents
    return managed.tensor.device.type == _CUDA


def capsule(buffer: DeviceBuffer, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A DLPack capsule of a buffer, which it keeps alive."""
    driver.wait_until_idle(buffer.number)
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
    _exported[ctypes.addressof(managed)] = managed, extents, buffer
    return _new(ctypes.addressof(managed), b"dltensor", ctypes.cast(_capsule_destroyed, ctypes.c_void_p))


def interface(buffer: DeviceBuffer, shape: tuple[int, ...], dtype: np.dtype) -> dict[str, Any]:
    """The value of ``__cuda_array_interface__`` (version 3)."""
    driver.wait_until_idle(buffer.number)
    return {
        "shape": shape,
        "typestr": dtype.str,
        "data": (driver.address(buffer.array) if buffer.size else 0, False),
        "strides": None,
        "stream": None,
        "version": 3,
    }


class Shared(NamedTuple):
    """Memory of another library: contiguous elements on a device, and the object that owns them."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    number: int
    owner: Any


class _Owned:
    """A lease of memory that another library owns."""

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


def import_memory(x: Any) -> Shared | None:
    """The memory that a capsule, or an object with either protocol, exports; None if it is not contiguous."""
    description = getattr(x, "__cuda_array_interface__", None)
    if description is not None:
        dtype, shape = np.dtype(description["typestr"]), tuple(description["shape"])
        strides = description.get("strides")
        if strides is not None and not _contiguous(shape, tuple(s // dtype.itemsize for s in strides)):
            return None
        number = x.__dlpack_device__()[1] if hasattr(x, "__dlpack_device__") else driver.current()
        return Shared(description["data"][0], shape, dtype, number, x)
    dl_capsule = x if type(x).__name__ == "PyCapsule" else x.__dlpack__()
    managed = ctypes.cast(_pointer(dl_capsule, b"dltensor"), ctypes.POINTER(_Managed)).contents
    tensor = managed.tensor
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else None
    if strides is not None and not _contiguous(shape, strides):
        return None
    dtype = np.dtype(f"{_KINDS[tensor.dtype.code]}{tensor.dtype.bits // 8}")
    _rename(dl_capsule, b"used_dltensor")
    return Shared(tensor.data + tensor.offset, shape, dtype, tensor.device.number, _Consumed(managed))


class _Consumed:
    """A consumed tensor, whose deleter is called when it is no longer needed."""

    def __init__(self, managed: _Managed) -> None:
        self.managed = managed

    def __del__(self) -> None:
        if self.managed.deleter:
            self.managed.deleter(ctypes.pointer(self.managed))


def buffer_over(given: Shared) -> DeviceBuffer:
    """A buffer over another library's memory."""
    size = int(np.prod(given.shape))
    driver.wait_until_idle(given.number)
    memory = driver.external(given.number, given.address, max(size, 1) * given.dtype.itemsize)
    lease: Any = _Owned(memory, given.owner)
    return DeviceBuffer(given.number, lease, 0, size, given.dtype)
