"""Fork safety: one registry of all locks, which a fork acquires.

A fork copies memory at an arbitrary moment: what another thread is doing stays half done in the child, and a lock that
it holds is never released there. So a fork first acquires every registered lock, in a fixed order, which waits until no
thread is in a critical section (a compilation may take a while); parent and child both release them. The locks of
Numba's compiler and of LLVM are included (``backends/numba/compile_guard.py``). No other module creates locks (a test
checks that): an unregistered lock could hang a child.

All are reentrant: a signal handler or a finalizer may run at any point of the thread that holds a lock, and may call
the library.
"""

from __future__ import annotations

import logging  # noqa: F401
import os
import threading
import weakref
from itertools import count
from typing import Any

__all__ = ["adopt", "busy_flag", "gate", "helper_condition", "lock"]

#: The order in which a fork acquires the locks, and in which a thread may nest them.
_ORDER = ("gradients", "compiling", "llvm", "expressions", "random", "gpu", "gpu memory", "driver", "memory", "threads",
          "parsing", "collector")  # fmt: skip

_numbers = count()
_register: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
_flags: weakref.WeakSet[Any] = weakref.WeakSet()


def adopt(existing_lock: Any, what: str) -> Any:
    """Register the reentrant lock of a library, too, and return it; `what` is its purpose (:data:`_ORDER`)."""
    _register[existing_lock] = _ORDER.index(what), next(_numbers)
    return existing_lock


def lock(what: str) -> Any:
    """A registered reentrant lock; `what` is its purpose (:data:`_ORDER`)."""
    return adopt(threading.RLock(), what)


def busy_flag() -> Any:
    """A lock that is only tried, as a busy flag; free in a forked child."""
    new_lock = threading.Lock()
    _flags.add(new_lock)
    return new_lock


def helper_condition() -> threading.Condition:
    """A condition for the helper threads of one call. No child has these threads, nor that call."""
    return threading.Condition(threading.Lock())


def gate() -> Any:
    """A lock that is held: the thread that waits acquires it, and the one that is waited for releases it, both in one
    step that no signal interrupts. No child has the other thread, nor the call that waits."""
    closed = threading.Lock()
    closed.acquire()
    return closed


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


# What was registered last runs first: logging, imported above, takes its lock after these, for a thread that compiles
# may import a module that asks for a logger.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
