"""Arrays in files: ``nd.save``, ``nd.load`` and ``nd.load_frombuffer``, in MXNet's dense binary format.

Nothing in a file is ever executed: there is no pickle. All numbers are little-endian::

    file   := u64 0x112, u64 0, u64 count, array * count, u64 names, name * names
    name   := u64 length, UTF-8 bytes
    array  := u32 magic, i32 storage type, shape, i32 device type, i32 device number, i32 dtype, elements
    shape  := i32 ndim, i64 * ndim

The magic determines the meaning of shapes: in ``0xF993FAC9`` (version 2) a shape without axes is an array without a
value; in ``0xF993FACA`` (version 3, MXNet's ``np_shape``) it is a 0-d array, and axes may have length 0. MXNet needs
all arrays of a file in one version. Two older formats are also read: ``0xF993FAC8`` (version 1), without storage type,
and the first one, which has ndim in place of the magic, and u32 lengths.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, wrap
from ..core import dtypes
from ..core.context import Context, current_context
from ..errors import AttrError, DTypeError, NBGradError

__all__ = ["load", "load_frombuffer", "save"]

_LIST = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_CODES = {
    0: dtypes.float32,
    1: dtypes.float64,
    2: dtypes.float16,
    3: dtypes.uint8,
    4: dtypes.int32,
    5: dtypes.int8,
    6: dtypes.int64,
    7: dtypes.bool_,
}
_CODE = {dtype: code for code, dtype in _CODES.items()}
_CPU, _GPU = 1, 2
_MAX_NDIM = 32


def save(fname, data) -> None:
    """Write arrays to a file, in the format that MXNet 1.x reads.

    The file is written atomically: under another name, then moved into place.

    Parameters
    ----------
    fname : str or path
    data : NDArray, list of NDArray, or dict of str to NDArray
        Values, shapes and dtypes are saved; marks and gradients are not.

    Raises
    ------
    ValueError
        For other data.
    DTypeError
        For a dtype that MXNet has not: int16, uint16, uint32, uint64.
    OSError
        If the file cannot be written. An existing file is then unchanged.

    Notes
    -----
    If a 0-d or zero-size array is among them, MXNet reads the file only inside ``mx.util.np_shape(True)``.

    Examples
    --------
    >>> import os, tempfile
    >>> from nbgrad import nd
    >>> folder = tempfile.TemporaryDirectory()
    >>> name = os.path.join(folder.name, "model.params")
    >>> nd.save(name, {"w": nd.ones((2, 3)), "b": nd.zeros(3)})
    >>> {key: x.shape for key, x in nd.load(name).items()}
    {'w': (2, 3), 'b': (3,)}
    >>> folder.cleanup()
    """
    path = os.fsdecode(os.fspath(fname))
    names, arrays = _contents(data)
    for x in arrays:
        if x._kind.dtype not in _CODE:
            raise DTypeError(f"save: MXNet's files have no {x._kind.dtype}; use numpy.savez, or x.astype('int64')")
    numpy_shapes = any(not x._shape or x._buf.size == 0 for x in arrays)

    def write(file) -> None:
        file.write(_numbers("<u8", _LIST, 0, len(arrays)))
        for x in arrays:
            file.write(_header(x, _V3 if numpy_shapes else _V2))
            file.write(np.ascontiguousarray(x.asnumpy().reshape(-1), x._kind.dtype.np.newbyteorder("<")).view("u1"))
        file.write(_numbers("<u8", len(names)))
        for name in names:
            file.write(_numbers("<u8", len(name)) + name)

    _replace(path, write)


def _contents(data) -> tuple[list[bytes], list[NDArray]]:
    """Names (none for a list) and arrays, checked."""
    names: list[bytes] = []
    if isinstance(data, NDArray):
        arrays: list = [data]
    elif isinstance(data, Mapping):
        arrays = list(data.values())
        for key in data:
            if not isinstance(key, str):
                raise AttrError(f"save: the keys of a dict must be strings, got {key!r}")
            names.append(key.encode("utf-8", "surrogateescape"))
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | np.ndarray):
        arrays = list(data)
    else:
        raise AttrError(
            f"save: data must be an NDArray, a list of NDArrays or a dict of str to NDArray, got {type(data).__name__}"
        )
    for k, x in enumerate(arrays):
        if not isinstance(x, NDArray):
            where = repr(names[k].decode("utf-8", "surrogateescape")) if names else f"number {k}"
            raise AttrError(f"save: entry {where} must be an NDArray, got {type(x).__name__}; use nd.array on it")
        if len(x._shape) > _MAX_NDIM:
            raise AttrError(f"save: arrays of at most {_MAX_NDIM} axes can be written, got one of {len(x._shape)}")
    return names, arrays


def _numbers(dtype: str, *values: int) -> bytes:
    return np.array(values, dtype).tobytes()


def _header(x: NDArray, magic: int) -> bytes:
    ctx = x._kind.ctx
    device = _GPU if ctx.device_type == "gpu" else _CPU
    return (
        _numbers("<u4", magic)
        + _numbers("<i4", 0, len(x._shape))
        + _numbers("<i8", *x._shape)
        + _numbers("<i4", device, ctx.device_id, _CODE[x._kind.dtype])
    )


def _replace(path: str, write) -> None:
    """Replace the file at `path` by one that ``write(file)`` writes, or leave it unchanged on errors."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device: written directly
        with open(path, "wb") as file:
            write(file)
        return
    part = f"{path}.{secrets.token_hex(6)}.part"
    try:
        with open(part, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, part)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def load(fname) -> list[NDArray] | dict[str, NDArray]:
    """Read the arrays of a file that :func:`save`, or MXNet 1.x, wrote.

    Parameters
    ----------
    fname : str or path

    Returns
    -------
    list of NDArray, or dict of str to NDArray
        A dict if the file contains names. A single array is returned in a list.

    Raises
    ------
    NBGradError
        If the file is truncated, damaged, of another kind, or contains sparse arrays or unsupported dtypes. No more
        memory is allocated than the file has data for.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> from nbgrad import nd
    >>> folder = tempfile.TemporaryDirectory()
    >>> nd.save(os.path.join(folder.name, "one"), nd.array([1, 2]))
    >>> nd.load(os.path.join(folder.name, "one"))
    [
    [1. 2.]
    <NDArray 2 @cpu(0)>]
    >>> folder.cleanup()
    """
    path = os.fspath(fname)
    with open(path, "rb") as file:
        data = file.read()
    return _Reader(data, f"load: {os.fsdecode(path)}").file()


def load_frombuffer(buf) -> list[NDArray] | dict[str, NDArray]:
    """Read arrays from the bytes of a file; see :func:`load`.

    Parameters
    ----------
    buf : bytes-like

    Raises
    ------
    NBGradError
        As for :func:`load`.
    """
    if isinstance(buf, str):
        raise DTypeError("load_frombuffer: bytes are needed, got a str; to read a file by its name use nd.load")
    try:
        data = memoryview(buf).cast("B")
    except (TypeError, BufferError) as err:
        raise DTypeError(f"load_frombuffer: contiguous bytes are needed, got {type(buf).__name__} ({err})") from None
    return _Reader(data, "load_frombuffer").file()


class _Reader:
    """A reader of bytes. Every length is checked against the remaining bytes before it is used."""

    def __init__(self, data, title: str) -> None:
        self.data = memoryview(data)
        self.at = 0
        self.title = title

    def error(self, text: str) -> NBGradError:
        return AttrError(f"{self.title}: {text}")

    def take(self, n: int, what: str) -> memoryview:
        left = len(self.data) - self.at
        if n > left:
            raise self.error(f"the data is cut off or damaged: {what} needs {n} bytes, {left} are left")
        taken = self.data[self.at : self.at + n]
        self.at += n
        return taken

    def number(self, size: int, what: str, signed: bool = False) -> int:
        return int.from_bytes(self.take(size, what), "little", signed=signed)

    def file(self) -> list[NDArray] | dict[str, NDArray]:
        if self.number(8, "the beginning") != _LIST:
            raise self.error("this is no file of arrays: it does not begin with 0x112 as MXNet's do")
        self.number(8, "the beginning")
        count = self.number(8, "the number of arrays")
        if count > len(self.data):
            raise self.error(f"the data is damaged: {count} arrays in {len(self.data)} bytes")
        arrays = [self.array(f"array {k} of {count}") for k in range(count)]
        n = self.number(8, "the number of names")
        if n not in (0, count):
            raise self.error(f"the data is damaged: {count} arrays have {n} names")
        named: dict[str, NDArray] = {}
        for k in range(n):
            name = self.name(f"name {k} of {n}")
            if name in named:
                raise self.error(f"the data is damaged: two arrays are called {name!r}")
            named[name] = arrays[k]
        if self.at != len(self.data):
            raise self.error(f"the data is damaged: {len(self.data) - self.at} bytes follow its end")
        return named or arrays

    def name(self, what: str) -> str:
        encoded = bytes(self.take(self.number(8, what), what))
        return encoded.decode("utf-8", "surrogateescape")

    def array(self, what: str) -> NDArray:
        magic = self.number(4, what)
        if magic in (_V2, _V3):
            storage = self.number(4, what, signed=True)
            if storage == -1:
                raise self.error(f"{what} has no value: it was saved before it had one")
            if storage != 0:
                sparse = {1: "row_sparse", 2: "csr"}.get(storage)
                raise self.error(
                    f"{what} is sparse ({sparse}); nbgrad has dense arrays alone: save x.tostype('default') instead"
                    if sparse
                    else f"the data is damaged: {what} has storage type {storage}"
                )
        legacy = magic not in (_V1, _V2, _V3)
        ndim = magic if legacy else self.number(4, what, signed=True)
        if not 0 <= ndim <= _MAX_NDIM:
            raise self.error(f"the data is damaged: {what} has {ndim} axes")
        shape = tuple(self.number(4 if legacy else 8, what, signed=not legacy) for _ in range(ndim))
        if magic != _V3 and (not shape or 0 in shape):
            raise self.error(f"{what} has no value: it was saved before its shape was known")
        device, number = self.number(4, what, signed=True), self.number(4, what, signed=True)
        code = self.number(4, what, signed=True)
        dtype = _CODES.get(code)
        if dtype is None:
            known = ", ".join(f"{c} ({d})" for c, d in _CODES.items())
            raise self.error(f"{what} has dtype number {code}, which nbgrad does not have; it has {known}")
        if min(shape, default=0) < 0 or math.prod(n for n in shape if n) > 2**62 // dtype.np.itemsize:
            raise self.error(f"the data is damaged: {what} has shape {shape}")
        elements = self.take(math.prod(shape) * dtype.np.itemsize, f"{what}, {dtype} of shape {shape},")
        values: np.ndarray = np.frombuffer(
            elements, dtype.storage.newbyteorder("<") if dtype is not dtypes.bool_ else "u1"
        )
        ctx = Context("cpu", number) if device == _CPU and number >= 0 else current_context()
        kind = kind_of(dtype, ctx)
        buf = kind.empty(values.size, kind.storage)
        buf[:] = values != 0 if dtype is dtypes.bool_ else values
        return wrap(buf, shape, kind)
