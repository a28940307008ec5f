"""Devices: ``cpu(i)``, ``gpu(i)`` and the current one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ..errors import ContextError

__all__ = ["Context", "cpu", "current_context", "gpu", "gpu_memory_info", "num_gpus"]

_TYPES = ("cpu", "gpu", "cpu_pinned", "cpu_shared")  # the last two are other names of plain CPU memory


#: Functions that free the unused memory of a device, by device type; they take its number. Memory pools register them.
cache_clearers: dict[str, Callable[[int], object]] = {}


class Gpus(Protocol):
    """Queries about GPUs, implemented by the CUDA backend."""

    def count(self) -> int:
        """The number of GPUs."""

    def check(self, ctx: Context) -> None:
        """Raise an error that says what is missing, if arrays cannot be on this device."""

    def memory_info(self, number: int) -> tuple[int, int]:
        """Free and total bytes of a device."""


_gpus: Gpus


def set_gpus(gpus: Gpus) -> None:
    """Register the implementation; called by the CUDA backend."""
    global _gpus
    _gpus = gpus


class _Stack(threading.local):
    def __init__(self) -> None:
        self.items: list[Context] = []


_stack = _Stack()


class Context:
    """A device: its type, ``'cpu'`` or ``'gpu'``, and its number. Also a scope that makes it the current one.

    MXNet's ``'cpu_pinned'`` and ``'cpu_shared'`` are accepted as other names of the CPU.

    Parameters
    ----------
    device_type : str or Context
    device_id : int

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.cpu() == nb.Context("cpu", 0), nb.cpu(1)
    (True, cpu(1))
    >>> with nb.cpu(1):
    ...     nb.nd.ones(1).context
    cpu(1)
    """

    __slots__ = ("device_id", "device_type")

    device_id: int
    device_type: str

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            device_id = device_type.device_id
            device_type = device_type.device_type
        if device_type not in _TYPES:
            raise ContextError(f"Context: unknown device type {device_type!r}; use 'cpu' or 'gpu'")
        if isinstance(device_id, bool) or not isinstance(device_id, int) or device_id < 0:
            raise ContextError(f"Context: device_id must be an integer >= 0, got {device_id!r}")
        self.device_type = device_type
        self.device_id = device_id

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Context) and self.device_type == other.device_type and self.device_id == other.device_id
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self):
        return Context, (self.device_type, self.device_id)

    def __enter__(self) -> Context:
        usable(self)
        _stack.items.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _stack.items.pop()

    def empty_cache(self) -> None:
        """Return memory that no array uses to the system.

        The memory of freed arrays is reused for arrays of the same size (on the CPU that of large ones, up to
        ``NBGRAD_POOL_MB``). Call this between two parts of a program whose arrays have different sizes. All CPU
        contexts share one pool. Memory that arrays use is not touched.

        Raises
        ------
        ContextError
            For a GPU that does not exist.

        Examples
        --------
        >>> import nbgrad as nb
        >>> x = nb.nd.ones((1000, 1000))
        >>> del x
        >>> nb.cpu().empty_cache()
        """
        usable(self)
        cache_clearers["gpu" if self.device_type == "gpu" else "cpu"](self.device_id)


CPU0 = Context("cpu", 0)


def traced_at(level: int) -> Context:
    """The context of the arrays of a traced function, which have shapes and dtypes but no values.

    `level` is the number of enclosing traced functions: bodies of loops are traced inside others.
    """
    ctx = Context("cpu", level)
    ctx.device_type = "traced"
    return ctx


def is_traced(ctx: Context) -> bool:
    """Whether a context is that of a traced function."""
    return ctx.device_type == "traced"


def untraced_context(ctx: Context) -> Context:
    """The context for new values that are combined with arrays of `ctx`: while tracing, that of the arguments."""
    return current_context() if is_traced(ctx) else ctx


def cpu(device_id: int = 0) -> Context:
    """The CPU context. All numbers mean the same memory; they only label arrays."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """The CUDA device number `device_id`. A context can be created without a GPU, but not used."""
    return Context("gpu", device_id)


def num_gpus() -> int:
    """The number of usable GPUs.

    Returns
    -------
    int
        0 if CUDA, its driver or numba-cuda is missing; ``with nb.gpu(0):`` says which.
    """
    return _gpus.count()


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Free and total memory of a GPU.

    Parameters
    ----------
    device_id : int

    Returns
    -------
    (int, int)
        In bytes. Memory that nbgrad holds for later arrays counts as used; :meth:`Context.empty_cache` frees it.

    Raises
    ------
    ContextError
        If there is no such GPU.
    """
    return _gpus.memory_info(device_id)


def current_context() -> Context:
    """The context of new arrays: the innermost ``with ctx:`` of this thread, else ``cpu(0)``."""
    return _stack.items[-1] if _stack.items else CPU0


def usable(ctx: Context | None) -> Context:
    """`ctx` (or the current one), after checking that arrays can be there.

    Raises
    ------
    ContextError
        For a GPU that does not exist or cannot be used.
    """
    if ctx is None:
        return current_context()
    if not isinstance(ctx, Context):
        raise ContextError(f"expected a Context such as cpu(0), got {ctx!r}")
    if ctx.device_type == "gpu":
        _gpus.check(ctx)
    return ctx
