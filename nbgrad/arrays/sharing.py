"""Arrays that share memory: views, snapshots, and arrays on memory that other libraries have.

All arrays on one memory share its version cell, ``[version]`` or, once there are several, ``[version, owners]``; a
third item says that arrays have left it for other memory.
"""

from __future__ import annotations

import functools
import weakref

import numpy as np

from ..core import context, dtypes
from ..core.dtypes import as_dtype
from ..core.foreign_memory import cell_of
from ..core.fork_safety import lock
from ..errors import DTypeError, ShapeError
from .launch import Kind, kind_of
from .ndarray import NDArray, from_value, wrap

__all__ = ["MemoryOwners", "References", "alias", "from_numpy", "has_moved", "is_exported", "mark_moved",
           "memory_owners", "memory_sharers", "note_write", "on_memory", "register_owner", "snapshot",
           "update_sharers"]  # fmt: skip

_new = object.__new__
_ref = weakref.ref
_pruning = lock("memory")
#: The arrays that :func:`from_numpy` made read-only, by their ids.
_frozen: dict[int, weakref.ref] = {}


class References(list):
    """Weak references to arrays; dead ones are removed now and then. Threads may add to it at once."""

    __slots__ = ("enough", "least")

    def __init__(self, least: int) -> None:
        self.least = self.enough = least  # length at which dead references are removed

    def add(self, x: NDArray) -> None:
        self.append(_ref(x))
        if len(self) > self.enough:
            self.prune()

    def prune(self) -> None:
        """Remove dead references; what another thread adds meanwhile is behind them."""
        with _pruning:
            count = len(self)
            self[:count] = [r for r in self[:count] if r() is not None]
            self.enough = self.least + 2 * len(self)


class MemoryOwners(References):
    """The owners of a memory besides the tape: weak references to its arrays, and whether other libraries have it.

    `detached` is whether arrays with the same elements have them from elsewhere on the tape; `kept` an array that lives
    as long as the memory, since writes into it change arrays elsewhere.
    """

    __slots__ = ("detached", "kept", "lent")

    def __init__(self) -> None:
        super().__init__(64)
        self.lent = self.detached = False
        self.kept: NDArray | None = None


def memory_owners(x: NDArray) -> MemoryOwners:
    """The owners of the memory of `x`."""
    cell = x._cell
    if len(cell) == 1:
        cell.append(MemoryOwners())
        cell[1].append(_ref(x))
    return cell[1]


def register_owner(x: NDArray, cell: list) -> NDArray:
    """Register `x` as an array on the memory with this version cell."""
    x._cell = cell
    if len(cell) == 1:
        cell.append(MemoryOwners())
    cell[1].add(x)
    return x


def is_exported(x: NDArray) -> bool:
    """Whether other libraries may have the memory of `x`."""
    return len(x._cell) > 1 and x._cell[1].lent


def memory_sharers(x: NDArray) -> list[NDArray]:
    """The other arrays on the memory of `x`, of any slice of it."""
    if len(x._cell) == 1:
        return []
    owners = x._cell[1]
    arrays = [r() for r in owners]
    found = [y for y in arrays if y is not None and y is not x]
    if len(arrays) > 8 + 2 * len(found):
        owners.prune()
    return found


def alias(x: NDArray, buf, shape: tuple[int, ...], node=None, kind: Kind | None = None) -> NDArray:
    """An array on `buf`, a view of the memory of `x`, which shares its version cell; of another `kind` where given."""
    cell = x._cell
    owners = cell[1] if len(cell) > 1 else memory_owners(x)
    kind = kind or x._kind
    y = _new(kind.array)
    y._buf = buf
    y._shape = shape
    y._kind = kind
    y._cell = cell
    y._node = node
    owners.append(_ref(y))
    if len(owners) > owners.enough:
        owners.prune()
    return y


def note_write(x: NDArray) -> None:
    """Note that an operator wrote into the memory of `x`: its version, and arrays elsewhere that are views of it."""
    x._cell[0] += 1
    x._update_views()
    update_sharers(x)


def update_sharers(x: NDArray) -> None:
    """After a write, update arrays elsewhere that are views of arrays of other classes on the memory of `x`."""
    for y in memory_sharers(x) if x.__class__ is NDArray else ():
        if y.__class__ is not NDArray:
            y._update_views()


def mark_moved(x: NDArray) -> None:
    """Note that `x` leaves its memory for other memory, for those who look at the array later."""
    memory_owners(x)
    if not has_moved(x._cell):
        x._cell.append(True)


def has_moved(cell: list) -> bool:
    """Whether arrays have left the memory with this version cell."""
    return len(cell) > 2


def snapshot(x: NDArray) -> NDArray:
    """The array as it is now, with its memory and node, whatever is done to `x` later.

    It is none of the arrays on its memory: a write into one of them redefines them (:mod:`nbgrad.autodiff.writes`), and
    leaves this one. By MXNet's conventions memory is written in place, and the version cell tells.
    """
    y = wrap(x._buf, x._shape, x._kind, x._node)
    y._cell = x._cell
    return y


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> NDArray:
    """An array on a NumPy array's memory.

    Parameters
    ----------
    ndarray : numpy.ndarray
        C-contiguous, of a supported dtype. With `zero_copy` it becomes read-only; an array that was read-only before is
        copied.
    zero_copy : bool

    Raises
    ------
    ShapeError
        If `zero_copy` is asked for and the array is not C-contiguous.
    """
    if not zero_copy:
        return from_value(ndarray)
    if not isinstance(ndarray, np.ndarray):
        raise DTypeError(f"from_numpy: a numpy.ndarray is needed, got {type(ndarray).__name__}")
    dtypes.without_subclass(ndarray, "from_numpy")
    if not ndarray.flags.c_contiguous:
        raise ShapeError("from_numpy: zero_copy needs a C-contiguous array; use numpy.ascontiguousarray first")
    kind = kind_of(as_dtype(ndarray.dtype), context.current_context())
    key = id(ndarray)
    reference = _frozen.get(key)
    if reference is not None and reference() is ndarray:
        ndarray.flags.writeable = True  # made read-only by this function, not by its owner
    if not ndarray.flags.writeable or not ndarray.dtype.isnative:
        return from_value(ndarray)
    out = on_memory(ndarray, kind)
    ndarray.flags.writeable = False
    _frozen[key] = weakref.ref(ndarray, functools.partial(_frozen.pop, key))  # a C callback: cannot be interrupted
    return out


def on_memory(values: np.ndarray, kind: Kind) -> NDArray:
    """An NDArray on the memory of a writable, C-contiguous NumPy array."""
    x = register_owner(wrap(values.reshape(-1).view(kind.storage), values.shape, kind), cell_of(values))
    memory_owners(x).lent = True
    return x
