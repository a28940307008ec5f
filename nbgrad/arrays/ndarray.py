"""The array: a flat raw buffer, a shape, a kind (dtype and device), and its node on the tape.

This module is only the container. Operators, indexing and gradients are attached to the class by the
layers above (:mod:`nbgrad.protocols.methods` lists them).
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import context, dtypes, shapes
from ..core.context import Context
from ..core.conventions import MXNET, Conventions
from ..core.dtypes import as_dtype
from ..core.foreign_memory import ConversionSource
from ..errors import DTypeError, ShapeError, TraceError
from ..ir.graph import IN_PLACE, current
from .launch import Kind, cast_into, fill, kind_of

__all__ = ["NDArray", "from_host_values", "from_value", "leaving", "wrap", "zeros"]

#: A list, while a custom backward is recorded: there the arrays on the tape are noted whose values became NumPy's.
leaving: ContextVar[list[NDArray] | None] = ContextVar("nbgrad_leaving", default=None)


class NDArray:
    """An n-dimensional array of numbers that can be differentiated.

    Create one by :func:`nbgrad.nd.array` and its relatives rather than by calling the class. Elements are stored
    contiguously in C order; ``reshape`` and slices along the first axis are views that share memory, every other
    operation returns new memory.

    Attributes
    ----------
    shape : tuple of int
    dtype : type
        NumPy's scalar class, for example ``numpy.float32``.
    size, ndim : int
    context, ctx : Context
    grad : NDArray or None
        The gradient buffer that ``attach_grad`` created.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.array([[1, 2], [3, 4]]) * 2
    <BLANKLINE>
    [[2. 4.]
     [6. 8.]]
    <NDArray 2x2 @cpu(0)>
    """

    # _buf: flat raw buffer. _cell: [version of the memory], one list shared by all arrays on that memory,
    # incremented by every write; a `MemoryOwners` follows it once there are several. _node: the tape node of
    # this value, or None. _label: `stype` if not 'default'.
    __slots__ = ("__weakref__", "_buf", "_cell", "_kind", "_label", "_node", "_shape")

    _buf: np.ndarray
    _cell: list[Any]
    _kind: Kind
    _label: str
    _node: Any
    _shape: tuple[int, ...]

    if TYPE_CHECKING:  # nbgrad.methods attaches these

        def __getattr__(self, name: str) -> Any: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __getitem__(self, key: Any) -> NDArray: ...
        def _operator(self, other: Any) -> NDArray: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = _operator

        def __neg__(self) -> NDArray: ...

    def __init__(self, source=None, ctx: Context | None = None, dtype=None) -> None:
        other = from_value(() if source is None else source, ctx=ctx, dtype=dtype)
        self._buf, self._shape, self._kind, self._cell, self._node = (
            other._buf,
            other._shape,
            other._kind,
            [0],
            None,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def size(self) -> int:
        return self._buf.size

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def dtype(self) -> type:
        return self._kind.dtype.type

    @property
    def context(self) -> Context:
        return self._kind.ctx

    ctx = context

    @property
    def stype(self) -> str:
        """The storage type: ``'default'`` (dense), or the label that ``tostype`` gave the array."""
        return getattr(self, "_label", "default")

    def asnumpy(self) -> np.ndarray:
        """A NumPy copy with the same shape and dtype.

        Examples
        --------
        >>> from nbgrad import nd
        >>> nd.ones((2,)).asnumpy()
        array([1., 1.], dtype=float32)
        """
        self._note_leaving()
        if self._kind.gpu:
            device_buffer: Any = self._buf.view(self._kind.dtype.np)
            return device_buffer.download().reshape(self._shape)
        return self._view().copy()

    def _note_leaving(self) -> None:
        """Note that the values become constants, where the library itself did not ask for them."""
        noted = leaving.get()
        if noted is not None and self._node is not None:
            caller = sys._getframe(2).f_globals.get("__name__", "")
            if caller.partition(".")[0] != "nbgrad":
                noted.append(self)

    def _view(self) -> np.ndarray:
        """The memory itself as a NumPy array; on a GPU a read-only copy."""
        return self._buf.view(self._kind.dtype.np).reshape(self._shape)

    @contextlib.contextmanager
    def _written(self):
        """The memory as a NumPy array for writing; on a GPU a copy, which is written back."""
        view = self._view()
        if view.flags.writeable:
            yield view
        else:
            copy = view.copy()
            yield copy
            self._buf.view(self._kind.dtype.np)[:] = copy

    def asscalar(self):
        """The value of an array of size 1, as a NumPy scalar.

        Raises
        ------
        ShapeError
            If the size is not 1.
        """
        if self._buf.size != 1:
            raise ShapeError(
                f"The current array is not a scalar: its shape is {self._shape}; take one element of it (x[i]), or all "
                "of them (x.asnumpy())"
            )
        self._note_leaving()
        return self._buf.view(self._kind.dtype.np)[0]

    def item(self):
        """The value of an array of size 1, as a Python number."""
        return self.asscalar().item()

    def tolist(self):
        """Nested Python lists of the values (a number for a 0-d array)."""
        self._note_leaving()
        return self._view().tolist()

    def wait_to_read(self) -> None:
        """Wait until the value is computed. On the CPU it always is; on a GPU, kernels may still be in its queue.

        Raises
        ------
        ContextError
            If a kernel failed.
        """
        if self._kind.gpu:
            self._buf.wait()  # type: ignore[attr-defined]

    wait_to_write = wait_to_read

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                "an NDArray is converted to a NumPy array by copying; use np.asarray(x) without copy=False"
            )
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        return f"\n{self._view()!s}\n<NDArray {'x'.join(map(str, self._shape))} @{self._kind.ctx}>"

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self._buf.size != 1:
            raise ShapeError(
                f"format {spec!r} is for arrays of one element, this one has the shape {self._shape}; write "
                "np.array2string(x.asnumpy(), ...) for others"
            )
        return format(self._view().item(), spec)  # a string: no gradient is lost

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d array")
        return self._shape[0]

    def __bool__(self) -> bool:
        if self._buf.size > 1:
            raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")
        return bool(self._buf.size) and bool(self.asscalar())

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __complex__(self) -> complex:
        return complex(self.asscalar())

    def __trunc__(self) -> int:
        return math.trunc(self.item())

    def __floor__(self) -> int:
        return math.floor(self.item())

    def __ceil__(self) -> int:
        return math.ceil(self.item())

    def __index__(self) -> int:
        if self._kind.dtype.is_float:
            raise TypeError(f"only an integer array can be an index, not one of dtype {self._kind.dtype}")
        return int(self.asscalar())

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def _write(self, recorded: bool, change: Callable[[], Any]) -> None:
        """Let `change` write into this array, values that are recorded or not. Other classes also change arrays on
        other memory then, or raise first if those must not be changed."""
        change()

    def _write_traced(self, new: NDArray, what: str) -> None:
        """Let this array be `new` from now on, for `what` under tracing; only other classes can."""
        raise TraceError(f"{what}: {IN_PLACE}")

    def _update_views(self) -> None:
        """Update arrays on other memory that are views of this one, after a write."""

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Callable, tuple]:
        return _unpickle, (self.asnumpy(), self._kind.ctx)

    def __copy__(self) -> NDArray:
        return self.__deepcopy__()

    def __deepcopy__(self, memo=None) -> NDArray:
        return wrap(self._buf.copy(), self._shape, self._kind)


MXNET.array = NDArray
_new = object.__new__


def wrap(buf, shape: tuple[int, ...], kind: Kind, node=None) -> NDArray:
    """An NDArray on the raw buffer `buf`, which must fit `shape` and `kind`. Nothing is checked or copied."""
    x = _new(kind.array)
    x._buf = buf
    x._shape = shape
    x._kind = kind
    x._cell = [0]
    x._node = node
    return x


def zeros(shape: tuple[int, ...], kind: Kind) -> NDArray:
    """An array of zeros."""
    return wrap(kind.zeros(shapes.size(shape)), shape, kind)


def from_host_values(values: np.ndarray, kind: Kind) -> NDArray:
    """An NDArray of `kind` from a NumPy array of that dtype, sharing its memory where possible."""
    flat = np.ascontiguousarray(values, kind.dtype.np).reshape(-1).view(kind.dtype.storage)
    if not kind.gpu:
        return wrap(flat, values.shape, kind)
    out = wrap(kind.empty(flat.size, kind.storage), values.shape, kind)
    out._buf[:] = flat
    return out


_STYPES = ("default", "row_sparse", "csr")


def set_storage_type(x: NDArray, stype: str) -> NDArray:
    """`x`, labelled with the storage type `stype`. It stays dense."""
    if stype not in _STYPES:
        raise DTypeError(f"storage type {stype!r} is not one of {', '.join(map(repr, _STYPES))}")
    if stype != x.stype:
        x._label = stype
    return x


def _unpickle(value: np.ndarray, ctx: Context) -> NDArray:
    return from_value(value, ctx=ctx)


def full(shape, value, dtype=None, ctx: Context | None = None, conventions: Conventions = MXNET) -> NDArray:
    """An array with every element `value`: a number, or an array with one element."""
    number = np.asarray(value)
    if number.size != 1 or number.dtype.kind not in "fiub":
        raise DTypeError(f"full: the value must be a number, got {value!r}")
    kind = kind_of(as_dtype(dtype), context.usable(ctx), conventions)
    shape = shapes.as_shape(shape)
    out = wrap(kind.empty(shapes.size(shape), kind.storage), shape, kind)
    fill(out._buf, kind.dtype, number.reshape(()))
    return out


def empty(shape, dtype=None, ctx: Context | None = None) -> NDArray:
    """An array with uninitialised elements."""
    kind = kind_of(as_dtype(dtype), context.usable(ctx))
    shape = shapes.as_shape(shape)
    return wrap(kind.empty(shapes.size(shape), kind.storage), shape, kind)


def from_value(
    source, like: Kind | None = None, dtype=None, ctx: Context | None = None, conventions: Conventions | None = None
) -> NDArray:
    """An array with a copy of the values of anything array-like (not recorded).

    The dtype is `dtype`; else the source's own (an NDArray, a NumPy array, a pandas Series, an array.array ...); else,
    for Python numbers and nested sequences of them, the default dtype, or bool if all of them are True or False; by
    the conventions of NumPy, int64 for integers.
    """
    conventions = conventions or (MXNET if like is None else like.conventions)
    ctx = context.usable(ctx) if ctx is not None or like is None else like.ctx
    if not (isinstance(source, NDArray) and source._kind.traced):
        ctx = context.untraced_context(ctx)
    if isinstance(source, NDArray):
        kind = kind_of(as_dtype(dtype) if dtype is not None else source._kind.dtype, ctx, conventions)
        out = wrap(kind.empty(source._buf.size, kind.storage), source._shape, kind)
        cast_into(source._buf, source._kind, out._buf, kind)
        return out
    typed = hasattr(source, "dtype") or hasattr(source, "__array__") or _is_buffer(source)
    if isinstance(source, np.ndarray | np.generic) and source.__class__ is not np.ndarray:
        if like is not None and isinstance(source, np.matrix):
            raise DTypeError(
                "array: an operand is a numpy.matrix, whose * and ** are products of matrices, unlike those of arrays: "
                "pass numpy.asarray(M), and write M @ x for products"
            )
        source = dtypes.without_subclass(source, "array")
    if not typed:
        source = _nested(source)
    try:
        values = np.asarray(source)
    except (ValueError, TypeError) as err:
        raise ShapeError(f"array: nested sequences of equal lengths are needed: {err}") from None
    if values.dtype.kind == "O" and hasattr(source, "toarray"):
        raise DTypeError(f"array: a {type(source).__name__} is sparse, and arrays are dense: pass its toarray()")
    if dtype is not None:
        target = as_dtype(dtype)
    elif typed or (conventions is not MXNET and values.dtype.kind in "fiub"):
        target = as_dtype(values.dtype)
    else:
        target = dtypes.bool_ if values.dtype.kind == "b" else dtypes.default_dtype()
    if values.dtype.kind not in "fiub":
        raise DTypeError(f"array: elements of dtype {values.dtype} are not supported")
    kind = kind_of(target, ctx, conventions)
    buf = kind.empty(values.size, kind.storage)
    if values.dtype is target.np:
        buf.view(target.np)[:] = values.reshape(-1)
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            buf.view(target.np)[:] = values.reshape(-1)
    out = wrap(buf, values.shape, kind)
    if current.graph is not None and isinstance(source, np.ndarray):
        current.graph.sources[id(buf)] = out, ConversionSource(source)
    return out


def _is_buffer(source) -> bool:
    """Whether `source` supports the buffer protocol, as ``array.array`` does."""
    if isinstance(source, str | bytes | bytearray | int | float | list | tuple):
        return False
    try:
        return memoryview(source).nbytes >= 0
    except TypeError:
        return False


def _nested(source):
    """Nested lists with their NDArrays converted to NumPy arrays."""
    if isinstance(source, NDArray):
        return source.__array__()
    if isinstance(source, list | tuple):
        return [_nested(s) if isinstance(s, NDArray | list | tuple) else s for s in source]
    return source
