"""Pauses of the garbage collector, while many objects are made that stay alive: a collection would visit all of them.

Pauses nest, and threads share them: the collector runs again after the last one ends, if it ran before the first.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator

from . import fork_safety

__all__ = ["paused"]

_lock = fork_safety.lock("collector")


class _Pauses(threading.local):
    """How many pauses this thread is in."""

    count = 0


_mine = _Pauses()
_all = 0
_ran = False


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """A scope in which the garbage collector is off."""
    global _all, _ran
    with _lock:
        if not _all:
            _ran = gc.isenabled()
            gc.disable()
        _all += 1
        _mine.count += 1
    try:
        yield
    finally:
        with _lock:
            _mine.count -= 1
            _set(_all - 1)


def _set(count: int) -> None:
    global _all
    _all = count
    if not count and _ran:
        gc.enable()


def _in_child() -> None:
    """The pauses of threads that the child does not have are over."""
    if _all:
        _set(_mine.count)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
