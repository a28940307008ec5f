"""Every lock there is, in one register, so that a fork takes them all.

A fork copies memory as it is at that moment: what another thread is in the middle of stays half done in the child, and
a lock that it holds is never freed there. So a fork first takes every lock in the register, in one order, which waits
until nobody is in the middle of anything (a compilation takes its time), and parent and child both free them. The locks
of Numba's compiler and of LLVM are among them. Nobody else makes a lock (the tests look): one that is not here is one
that hangs a child.

All are reentrant. A signal's handler, or a finalizer, runs at any place of the thread that holds a lock, and may do
whatever the library does.
"""

from __future__ import annotations

import os
import threading
import weakref
from itertools import count
from typing import Any

from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["COMPILING", "among_helpers", "compiles_here", "flag", "lock"]

#: The order in which a fork takes them, and in which who holds one may take others.
_ORDER = ("gradients", "compiling", "llvm", "expressions", "random", "gpu", "gpu memory", "driver", "memory", "threads")

_numbers = count()
_register: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
_flags: weakref.WeakSet[Any] = weakref.WeakSet()


def _enter(made: Any, what: str) -> Any:
    _register[made] = _ORDER.index(what), next(_numbers)
    return made


def lock(what: str) -> Any:
    """A reentrant lock; `what` says for what (:data:`_ORDER`)."""
    return _enter(threading.RLock(), what)


def flag() -> Any:
    """A lock that nobody waits for, which says that something is in use; free in a forked child."""
    made = threading.Lock()
    _flags.add(made)
    return made


def among_helpers() -> threading.Condition:
    """What the threads of one call wait for. No child has these threads, nor that call."""
    return threading.Condition(threading.Lock())


#: Numba's compiler, and all that compiles for us: one lock, so that no two can be taken in two orders.
COMPILING = _enter(global_compiler_lock._lock, "compiling")
_llvm = getattr(getattr(ffi.lib, "_lock", None), "_lock", None)  # a newer llvmlite may have none
if _llvm is not None:
    _enter(_llvm, "llvm")


def compiles_here() -> bool:
    """Whether this thread is in the middle of compiling, or of anything of LLVM's: another one would wait for it."""
    return COMPILING._is_owned() or (_llvm is not None and _llvm._is_owned())


_held: list[Any] = []


def _before() -> None:
    for made in [made for _, made in sorted([(at, made) for made, at in _register.items()], key=lambda pair: pair[0])]:
        made.acquire()
        _held.append(made)


def _after() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    _after()
    for made in list(_flags):
        made._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
