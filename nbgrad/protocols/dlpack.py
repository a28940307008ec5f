"""DLPack: memory shared with other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, from_value, wrap
from ..arrays.sharing import alias, memory_owners, on_memory
from ..autodiff.state import state
from ..autodiff.writes import check_target
from ..backends.cuda import exchange
from ..core.context import current_context, gpu, usable
from ..core.dtypes import as_dtype, without_subclass
from ..core.foreign_memory import register
from ..errors import AttrError, DTypeError, NBGradError
from ..operators.entry import as_array
from .conversions import require_constant

__all__ = ["from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]

_CPU, _CUDA = 1, 2
#: The newest version that NumPy reads: from 2.1 on capsules with a read-only flag.
_OPTIONS = {"max_version": (1, 0)} if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else {}


def export(self: NDArray, *, stream=None, max_version=None, dl_device=None, copy=None) -> Any:
    """The array's memory as a DLPack capsule; ``numpy.from_dlpack(x)`` and its like call this.

    The consumer sees the values without history. It should only read: writes by others are not detected, and a
    gradient that reads the old value would be wrong. Use :func:`nd.to_dlpack_for_write` for writing.

    Parameters
    ----------
    stream, max_version, dl_device, copy : optional
        Those of the array API standard.
    """
    memory_owners(self).lent = True
    if self._kind.gpu:
        return exchange.capsule(self._buf, self._shape, self._kind.dtype.np)  # type: ignore[arg-type]
    if not self._kind.traced:
        register(self._buf, self._cell)
    given = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    return self._view().__dlpack__(**{name: value for name, value in given.items() if value is not None})


def device(self: NDArray) -> tuple[int, int]:
    """DLPack's device type and number: ``(1, 0)`` for the CPU, ``(2, k)`` for ``gpu(k)``."""
    return (_CUDA, self._kind.ctx.device_id) if self._kind.gpu else (_CPU, 0)


def interface(self: NDArray) -> dict[str, Any]:
    """``__cuda_array_interface__``: the memory of an array on a GPU, for CuPy, PyTorch, Numba and others."""
    if not self._kind.gpu:
        raise AttributeError("__cuda_array_interface__: the array is not on a GPU")
    memory_owners(self).lent = True
    return exchange.interface(self._buf, self._shape, self._kind.dtype.np)  # type: ignore[arg-type]


def to_dlpack_for_read(data: NDArray) -> Any:
    """A DLPack capsule on the memory of `data`, for a consumer that reads it.

    Parameters
    ----------
    data : NDArray

    Returns
    -------
    PyCapsule
        To be consumed once, by ``torch.utils.dlpack.from_dlpack`` or :func:`from_dlpack`, for example. Libraries that
        take arrays rather than capsules take `data` itself: ``numpy.from_dlpack(data)``.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.from_dlpack(nd.to_dlpack_for_read(nd.array([1, 2])))
    <BLANKLINE>
    [1. 2.]
    <NDArray 2 @cpu(0)>
    """
    return export(as_array(data, "to_dlpack_for_read"))


def to_dlpack_for_write(data: NDArray) -> Any:
    """A DLPack capsule on the memory of `data`, for a consumer that writes into it.

    The array counts as written by this call: a gradient that needs its old value raises an error. Values recorded
    later are not protected, so call this again before writing again.

    Parameters
    ----------
    data : NDArray

    Returns
    -------
    PyCapsule
        To be consumed once.

    Raises
    ------
    NBGradError
        While recording, for an array that is in a graph.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.zeros(2)
    >>> y = nd.from_dlpack(nd.to_dlpack_for_write(x))
    >>> y[:] = 3
    >>> x
    <BLANKLINE>
    [3. 3.]
    <NDArray 2 @cpu(0)>
    """
    as_array(data, "to_dlpack_for_write")
    check_target(data)
    data._cell[0] += 1
    return export(data)


def from_dlpack(x, copy: bool | None = None) -> NDArray:
    """An array on the memory of another library's array.

    Parameters
    ----------
    x : object with ``__dlpack__``, or PyCapsule
        Of NumPy or PyTorch, for example, in the CPU's memory or a GPU's; or, on a GPU, with
        ``__cuda_array_interface__``.
    copy : bool, optional
        Default: memory is shared if it is C-contiguous, writable and of this machine's byte order; else the values are
        copied. True: always copy.
        False: raise instead of copying.

    Returns
    -------
    NDArray
        Without history (while recording, an array that has one is refused), in the current context (or on its GPU).
        On shared memory each side sees the other's writes. These are not detected, so the other side must not change
        values that a recorded graph still needs.

    Raises
    ------
    DTypeError
        If `x` is not such an object, or its dtype is not supported.
    ContextError
        If it is on a GPU that cannot be used.
    ValueError
        If `copy` is False and the memory cannot be shared.

    Examples
    --------
    >>> import numpy as np
    >>> from nbgrad import nd
    >>> a = np.zeros(2)
    >>> x = nd.from_dlpack(a)
    >>> a[0] = 1
    >>> x
    <BLANKLINE>
    [1. 0.]
    <NDArray 2 @cpu(0)>
    """
    if isinstance(x, NDArray) and state.recording:
        require_constant(x)
    if isinstance(x, NDArray) and not copy:
        return alias(x, x._buf, x._shape)
    if _on_gpu(x):
        return _from_gpu(x, copy)
    view = _numpy_view(without_subclass(x, "from_dlpack"))
    try:
        kind = kind_of(as_dtype(view.dtype), current_context())
    except DTypeError as err:
        raise DTypeError(f"from_dlpack: {err}") from None
    flags = view.flags
    native = view.dtype.isnative
    if copy or not (flags.c_contiguous and flags.writeable and flags.aligned and native):
        if copy is False:
            why = "is not C-contiguous" if not flags.c_contiguous else "may not be written or is not aligned"
            why = why if native else "has another byte order"
            raise AttrError(f"from_dlpack: copy=False, but the memory {why}; leave copy out to have it copied")
        return from_value(view)
    return on_memory(view, kind)


def _on_gpu(x) -> bool:
    if type(x).__name__ == "PyCapsule":
        return exchange.is_cuda(x)
    if hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] == _CUDA


def _from_gpu(x, copy: bool | None) -> NDArray:
    if hasattr(x, "__dlpack_device__"):
        usable(gpu(x.__dlpack_device__()[1]))
    memory = exchange.import_memory(x)
    if memory is None:
        raise AttrError("from_dlpack: the array on the GPU is not C-contiguous; make a contiguous copy of it there")
    try:
        kind = kind_of(as_dtype(memory.dtype), usable(gpu(memory.number)))
    except DTypeError as err:
        raise DTypeError(f"from_dlpack: {err}") from None
    buffer: Any = exchange.buffer_over(memory._replace(dtype=kind.dtype.storage))
    return wrap(buffer.copy() if copy else buffer, memory.shape, kind)


class _Producer:
    """An adapter of a capsule to the protocol that NumPy expects. NumPy checks the device in the capsule itself."""

    def __init__(self, capsule) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


class _Writable:
    """The memory of `view` without its read-only flag."""

    def __init__(self, view: np.ndarray) -> None:
        self.view = view
        self.__array_interface__ = view.__array_interface__ | {"data": (view.ctypes.data, False)}


def _numpy_view(x) -> np.ndarray:
    """The memory of a capsule, or of an object that exports one, as a NumPy array."""
    if isinstance(x, np.ndarray):  # NumPy 2.0 cannot export a read-only array
        return x
    try:
        capsule = x if type(x).__name__ == "PyCapsule" else _capsule(x)
        label = repr(capsule)
        if '"used_' in label:
            raise DTypeError("from_dlpack: this capsule was consumed before; make a new one for every consumer")
        versioned = "dltensor_versioned" in label
        view = np.from_dlpack(_Producer(capsule))
    except (BufferError, RuntimeError) as err:
        if isinstance(err, NBGradError):
            raise
        raise DTypeError(f"from_dlpack: {type(x).__name__} cannot be taken: {err}") from err
    # Unversioned capsules have no read-only flag, and NumPy then assumes read-only.
    return view if versioned or view.flags.writeable else np.asarray(_Writable(view))


def _capsule(x):
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise DTypeError(
            f"from_dlpack: an array with __dlpack__, or a DLPack capsule, is needed, got {type(x).__name__}"
        )
    try:
        return x.__dlpack__(**_OPTIONS)
    except TypeError:  # a producer without this keyword
        return x.__dlpack__()
