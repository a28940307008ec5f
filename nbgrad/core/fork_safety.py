"""Fork safety: one registry of all locks, which a fork acquires.

A fork copies memory at an arbitrary moment: what another thread is doing stays half done in the child, and a lock that
it holds is never released there. So a fork first acquires every registered lock, in a fixed order, which waits until no
thread is in a critical section (a compilation may take a while); parent and child both release them. The locks of
Numba's compiler and of LLVM are included. No other module creates locks (a test checks that): an unregistered lock
could hang a child.

All are reentrant: a signal handler or a finalizer may run at any point of the thread that holds a lock, and may call
the library.
"""

from __future__ import annotations

import os
import threading
import weakref
from itertools import count
from typing import Any

from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["COMPILING", "busy_flag", "helper_condition", "inside_compiler", "lock"]

#: The order in which a fork acquires the locks, and in which a thread may nest them.
_ORDER = ("gradients", "compiling", "llvm", "expressions", "random", "gpu", "gpu memory", "driver", "memory", "threads")

_numbers = count()
_register: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
_flags: weakref.WeakSet[Any] = weakref.WeakSet()


def _enter(new_lock: Any, what: str) -> Any:
    _register[new_lock] = _ORDER.index(what), next(_numbers)
    return new_lock


def lock(what: str) -> Any:
    """A registered reentrant lock; `what` is its purpose (:data:`_ORDER`)."""
    return _enter(threading.RLock(), what)


def busy_flag() -> Any:
    """A lock that is only tried, as a busy flag; free in a forked child."""
    new_lock = threading.Lock()
    _flags.add(new_lock)
    return new_lock


def helper_condition() -> threading.Condition:
    """A condition for the helper threads of one call. No child has these threads, nor that call."""
    return threading.Condition(threading.Lock())


#: One lock for Numba's compiler and for nbgrad's compilations, so that there is no lock order to violate.
COMPILING = _enter(global_compiler_lock._lock, "compiling")
_llvm = getattr(getattr(ffi.lib, "_lock", None), "_lock", None)  # a newer llvmlite may have none
if _llvm is not None:
    _enter(_llvm, "llvm")


def inside_compiler() -> bool:
    """Whether this thread is compiling or inside LLVM, so that another thread would wait for it."""
    return COMPILING._is_owned() or (_llvm is not None and _llvm._is_owned())


_held: list[Any] = []


def _before() -> None:
    for each_lock in [
        each_lock
        for _, each_lock in sorted(
            [(order, each_lock) for each_lock, order in _register.items()], key=lambda pair: pair[0]
        )
    ]:
        each_lock.acquire()
        _held.append(each_lock)


def _after() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    _after()
    for each_flag in list(_flags):
        each_flag._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
