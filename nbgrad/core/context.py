"""Devices: ``cpu(i)``, ``gpu(i)`` and the current one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ..errors import ContextError

__all__ = ["Context", "cpu", "current_context", "gpu", "gpu_memory_info", "num_gpus"]

_TYPES = ("cpu", "gpu", "cpu_pinned", "cpu_shared")  # the last two are plain CPU memory under other names


#: What frees the unused memory of a device of this type, by its number; who manages that memory puts it here.
emptying: dict[str, Callable[[int], object]] = {}


class Gpus(Protocol):
    """What answers for GPUs."""

    def count(self) -> int:
        """How many there are."""

    def check(self, ctx: Context) -> None:
        """An error that says what is missing, if arrays cannot live there."""

    def memory_info(self, number: int) -> tuple[int, int]:
        """Free and total bytes."""


_gpus: Gpus


def set_gpus(gpus: Gpus) -> None:
    """Called by the module that talks to them."""
    global _gpus
    _gpus = gpus


class _Stack(threading.local):
    def __init__(self) -> None:
        self.items: list[Context] = []


_stack = _Stack()


class Context:
    """A device: its type, ``'cpu'`` or ``'gpu'``, and its number. Also a scope that makes it the current one.

    MXNet's ``'cpu_pinned'`` and ``'cpu_shared'`` are taken as further names of the CPU.

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
        """Give memory that no array uses any more back to the system.

        Arrays leave their memory to the next ones of their size (on the CPU large ones do, and ``NBGRAD_POOL_MB`` says
        how much of it is kept at most). Worth a call between two parts of a program whose arrays have different sizes.
        All CPU contexts have the same memory. Memory that arrays use is not touched.

        Raises
        ------
        ContextError
            For a GPU that is not there.

        Examples
        --------
        >>> import nbgrad as nb
        >>> x = nb.nd.ones((1000, 1000))
        >>> del x
        >>> nb.cpu().empty_cache()
        """
        usable(self)
        emptying["gpu" if self.device_type == "gpu" else "cpu"](self.device_id)


CPU0 = Context("cpu", 0)


def traced_at(level: int) -> Context:
    """Where the arrays of a traced function are: they have shapes and dtypes, and no numbers.

    `level` counts the traced functions around it: bodies of loops are traced inside of others.
    """
    found = Context("cpu", level)
    found.device_type = "traced"
    return found


def is_traced(ctx: Context) -> bool:
    """Whether the arrays there are those of a traced function."""
    return ctx.device_type == "traced"


def real(ctx: Context) -> Context:
    """Where new numbers that go with arrays of `ctx` are: while a function is traced, where its arguments are."""
    return current_context() if is_traced(ctx) else ctx


def cpu(device_id: int = 0) -> Context:
    """The CPU context. All numbers mean the same memory; they exist so that scripts can tell arrays apart."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """The CUDA device number `device_id`. Making a context is free; using it needs a GPU."""
    return Context("gpu", device_id)


def num_gpus() -> int:
    """How many GPUs arrays can live on.

    Returns
    -------
    int
        0 where CUDA, its driver or numba-cuda is missing; ``with nb.gpu(0):`` says which.
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
        In bytes. What nbgrad keeps for later arrays counts as used; :meth:`Context.empty_cache` gives it back.

    Raises
    ------
    ContextError
        If there is no such GPU.
    """
    return _gpus.memory_info(device_id)


def current_context() -> Context:
    """The context that new arrays get: the innermost ``with ctx:`` of this thread, else ``cpu(0)``."""
    return _stack.items[-1] if _stack.items else CPU0


def usable(ctx: Context | None) -> Context:
    """`ctx` (or the current one), after checking that arrays can live there.

    Raises
    ------
    ContextError
        For a GPU that is not there, or cannot be used.
    """
    if ctx is None:
        return current_context()
    if not isinstance(ctx, Context):
        raise ContextError(f"expected a Context such as cpu(0), got {ctx!r}")
    if ctx.device_type == "gpu":
        _gpus.check(ctx)
    return ctx
