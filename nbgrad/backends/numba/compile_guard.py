"""Compiling, where nothing interrupts it, and what a user sees who waits for it.

Python runs the handlers of signals, and raises KeyboardInterrupt, in the main thread, at any place of it: in the middle
of Numba's tables, or in a function that LLVM calls back, where it is lost and LLVM is left with nothing. So the main
thread does not compile. Another thread does, and the main one waits: an interrupt ends the waiting, at once, and what
was begun ends in peace and is there for the next call. Such a thread is no daemon: a program that ends waits for it,
for LLVM must not be taken down while it works.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

from ...core import config
from ...core.fork_safety import compiles_here

__all__ = ["compiles", "uninterrupted"]

#: Seconds of silence after which a line tells what is going on; seconds without a compilation that end the silence.
PATIENCE, _PAUSE = 2.0, 0.5


class _Silence:
    """Compilations that follow each other: since when, until when, of what, and whether a line was written."""

    began = ended = -1e9
    name: str | None = None
    said = False


_silence = _Silence()


@contextlib.contextmanager
def compiles(name: str) -> Iterator[None]:
    """A scope in which something is compiled; who holds the lock of compiling enters it.

    Python's collector takes an eighth of compiling: it goes through objects that live on. It does not run here.
    """
    collects = gc.isenabled()
    gc.disable()
    now, outer = time.monotonic(), _silence.name
    if outer is None and now - _silence.ended > _PAUSE:
        _silence.began, _silence.said = now, False
    _silence.name = outer or name
    _tell(now)
    try:
        yield
    finally:
        _silence.name, _silence.ended = outer, time.monotonic()
        if collects:
            gc.enable()


def _tell(now: float) -> None:
    """The line, when it is time for it."""
    if _silence.name is None or _silence.said or now - _silence.began < PATIENCE:
        return
    _silence.said = True
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there is no stderr, or it is closed
        if config.PROGRESS and sys.stderr.isatty():
            print(f"nbgrad: compiling {_silence.name} ..., kept for next time", file=sys.stderr, flush=True)


class _Task:
    def __init__(self, call: Callable, args: tuple) -> None:
        self.call, self.args = call, args
        self.context = copy_context()
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.result = self.context.run(self.call, *self.args)
        except BaseException as err:  # raised where somebody waits for it
            self.error = err
        finally:
            self.done.set()


def uninterrupted(call: Callable, *args: Any) -> Any:
    """``call(*args)``, which compiles, where no signal interrupts it."""
    if threading.current_thread() is not threading.main_thread() or compiles_here() or _imports():
        return call(*args)  # nothing interrupts this thread; or another one would wait for it
    task = _Task(call, args)
    try:
        threading.Thread(target=task.run, name="nbgrad compiles", daemon=False).start()
    except RuntimeError:  # no more threads, or the interpreter is going
        return call(*args)
    while not task.done.wait(_wait()):
        _tell(time.monotonic())
    error, task.error = task.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame
    return task.result


def _imports() -> bool:
    """Whether this thread is importing a module: if compiling asks for that module, another thread waits until it is
    imported, which would never be. (An interrupt ends the import.)"""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _wait() -> float:
    """Seconds until there may be something to tell."""
    if _silence.said:
        return 3600.0
    running = _silence.name is not None
    return max(0.05, _silence.began + PATIENCE - time.monotonic()) if running else PATIENCE
