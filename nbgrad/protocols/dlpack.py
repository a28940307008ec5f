"""Memory shared with other libraries through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, alias, from_value, on_memory, shared, wrap
from ..autodiff.state import state
from ..autodiff.writes import check_target
from ..backends.cuda import exchange
from ..core.context import current_context, gpu, usable
from ..core.dtypes import as_dtype, plain
from ..core.foreign_memory import register
from ..errors import AttrError, DTypeError, NBGradError
from ..operators.entry import as_array
from .conversions import demand_constant

__all__ = ["from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]

_CPU, _CUDA = 1, 2
#: What NumPy can read: from 2.1 on the capsules that say whether they may be written.
_OPTIONS = {"max_version": (1, 0)} if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else {}


def export(self: NDArray, **options) -> Any:
    """The array's memory as a DLPack capsule; ``numpy.from_dlpack(x)`` and its like call this.

    The consumer sees the values without history. It should read only: a write from outside is not noticed, and a
    gradient that reads the old value would be wrong. :func:`nd.to_dlpack_for_write` is for writing.

    Parameters
    ----------
    **options
        ``stream``, ``max_version``, ``dl_device`` and ``copy`` of the array API standard.
    """
    shared(self).lent = True
    if self._kind.gpu:
        return exchange.capsule(self._buf, self._shape, self._kind.dtype.np)  # type: ignore[arg-type]
    if not self._kind.traced:
        register(self._buf, self._cell)
    return self._view().__dlpack__(**options)


def device(self: NDArray) -> tuple[int, int]:
    """DLPack's device type and number: ``(1, 0)`` for the CPU, ``(2, k)`` for ``gpu(k)``."""
    return (_CUDA, self._kind.ctx.device_id) if self._kind.gpu else (_CPU, 0)


def interface(self: NDArray) -> dict[str, Any]:
    """``__cuda_array_interface__``: where the memory of an array on a GPU is, for CuPy, PyTorch, Numba and others."""
    if not self._kind.gpu:
        raise AttributeError("__cuda_array_interface__: the array is not on a GPU")
    shared(self).lent = True
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

    The array counts as written from now on: a gradient that needs its old value raises an error. Values recorded
    later than this call are not guarded, so call it again before writing again.

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
        Default: memory is shared where it can be, which is where it is C-contiguous and may be written; else the
        values are copied. True: always copied. False: never copied, an error instead.

    Returns
    -------
    NDArray
        Without history (while recording, an array that has one is refused), in the current context (or on the GPU
        where it is). On shared memory each side sees what the other writes; what the other writes is not noticed, so
        it must not change values that a recorded graph still needs.

    Raises
    ------
    DTypeError
        If `x` is no such object, or its dtype is not supported.
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
        demand_constant(x)
    if isinstance(x, NDArray) and not copy:
        return alias(x, x._buf, x._shape)
    if _on_gpu(x):
        return _from_gpu(x, copy)
    view = _numpy_view(plain(x, "from_dlpack"))
    try:
        kind = kind_of(as_dtype(view.dtype), current_context())
    except DTypeError as err:
        raise DTypeError(f"from_dlpack: {err}") from None
    flags = view.flags
    if copy or not (flags.c_contiguous and flags.writeable and flags.aligned):
        if copy is False:
            why = "is not C-contiguous" if not flags.c_contiguous else "may not be written or is not aligned"
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
    found = exchange.opened(x)
    if found is None:
        raise AttrError("from_dlpack: the array on the GPU is not C-contiguous; make a contiguous copy of it there")
    try:
        kind = kind_of(as_dtype(found.dtype), usable(gpu(found.number)))
    except DTypeError as err:
        raise DTypeError(f"from_dlpack: {err}") from None
    buffer: Any = exchange.shared(found._replace(dtype=kind.dtype.storage))
    return wrap(buffer.copy() if copy else buffer, found.shape, kind)


class _Producer:
    """A capsule dressed as the array that NumPy asks for; the capsule itself knows its device, and NumPy checks it."""

    def __init__(self, capsule) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


class _Writable:
    """The memory of `view`, without its mark as read-only."""

    def __init__(self, view: np.ndarray) -> None:
        self.view = view
        self.__array_interface__ = view.__array_interface__ | {"data": (view.ctypes.data, False)}


def _numpy_view(x) -> np.ndarray:
    """The memory behind anything that speaks DLPack, as a NumPy array."""
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
    # A capsule of the first version says nothing about writing, and NumPy then forbids it.
    return view if versioned or view.flags.writeable else np.asarray(_Writable(view))


def _capsule(x):
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise DTypeError(
            f"from_dlpack: an array with __dlpack__, or a DLPack capsule, is needed, got {type(x).__name__}"
        )
    try:
        return x.__dlpack__(**_OPTIONS)
    except TypeError:  # older than this keyword
        return x.__dlpack__()
