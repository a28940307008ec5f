"""Compile guard: compile where no signal can interrupt, and tell a waiting user what is being compiled.

Python runs signal handlers, and raises KeyboardInterrupt, anywhere in the main thread: in the middle of an update of
Numba's tables, or in a callback from LLVM, where the exception is lost and LLVM gets no result. So the main thread does
not compile; it waits for another thread that does. An interrupt ends the wait at once, while the compilation completes
and serves the next call. That thread is not a daemon: the interpreter must not tear LLVM down while it works.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

from ...core import collector, config
from ...core.fork_safety import adopt, gate
from .internals import COMPILER_LOCK, LLVM_LOCK

__all__ = ["COMPILING", "compilation_scope", "inside_compiler", "run_uninterrupted"]

#: One lock for Numba's compiler and for nbgrad's compilations, so that there is no lock order to violate.
COMPILING = adopt(COMPILER_LOCK, "compiling")
if LLVM_LOCK is not None:
    adopt(LLVM_LOCK, "llvm")

#: Seconds after which a line tells what is being compiled; seconds without a compilation after which they count anew.
PATIENCE, _PAUSE = 2.0, 0.5


class _CompilationRun:
    """A run of successive compilations: when it began and ended, of what, and whether a line was printed."""

    began = ended = -1e9
    name: str | None = None
    said = False


_silence = _CompilationRun()


@contextlib.contextmanager
def compilation_scope(name: str) -> Iterator[None]:
    """A scope in which something is compiled; enter it with the compile lock held.

    The garbage collector is off: it would take an eighth of the time, traversing objects that stay alive.
    """
    now, outer = time.monotonic(), _silence.name
    if outer is None and now - _silence.ended > _PAUSE:
        _silence.began, _silence.said = now, False
    _silence.name = outer or name
    _report_progress(now)
    try:
        with collector.paused():
            yield
    finally:
        _silence.name, _silence.ended = outer, time.monotonic()


def _report_progress(now: float) -> None:
    """Print the line, if it is due."""
    if _silence.name is None or _silence.said or now - _silence.began < PATIENCE:
        return
    _silence.said = True
    with contextlib.suppress(AttributeError, OSError, ValueError):  # stderr is missing or closed
        if config.PROGRESS and sys.stderr.isatty():
            print(f"nbgrad: compiling {_silence.name} ..., kept for next time", file=sys.stderr, flush=True)


class _Flag:
    """What :class:`threading.Event` is for one thread that waits and one that sets, in one step each.

    An interrupt of ``Event.wait`` or ``Thread.start`` can leave an event locked: the other thread would wait forever,
    and so would the end of the process.
    """

    def __init__(self) -> None:
        self._gate = gate()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._gate.release()

    def wait(self, timeout: float = -1) -> bool:
        """Whether it is set; after a wait if it is not. A wait that succeeds is the last one."""
        return self._is_set or self._gate.acquire(timeout=timeout)

    def _at_fork_reinit(self) -> None:
        """What :mod:`threading` calls in a child of a fork; the thread is not there."""


class _Thread(threading.Thread):
    """A thread whose start may be interrupted."""

    def __init__(self, target: Callable[[], None]) -> None:
        super().__init__(target=target, name="nbgrad compiles", daemon=False)
        self._started = _Flag()


class _Task:
    """A call in another thread, with its result or error."""

    def __init__(self, call: Callable, args: tuple) -> None:
        self.call, self.args = call, args
        self.context = copy_context()
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = _Flag()

    def run(self) -> None:
        try:
            self.result = self.context.run(self.call, *self.args)
        except BaseException as err:  # raised by the thread that waits
            self.error = err
        finally:
            self.done.set()


def inside_compiler() -> bool:
    """Whether this thread is compiling or inside LLVM, so that another thread would wait for it."""
    return COMPILING._is_owned() or (LLVM_LOCK is not None and LLVM_LOCK._is_owned())


def run_uninterrupted(call: Callable, *args: Any) -> Any:
    """Run ``call(*args)``, which compiles, in a thread that signals do not interrupt."""
    if threading.current_thread() is not threading.main_thread() or inside_compiler() or _inside_import():
        return call(*args)  # signals do not reach this thread; or another thread would deadlock with it
    task = _Task(call, args)
    try:
        _Thread(task.run).start()
    except RuntimeError:  # no more threads, or the interpreter is shutting down
        return call(*args)
    while not task.done.wait(_wait()):
        _report_progress(time.monotonic())
    error, task.error = task.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame
    return task.result


def _inside_import() -> bool:
    """Whether this thread is importing a module. If compiling needs that module, another thread would wait for the
    import forever. (An interrupt ends the import.)"""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _wait() -> float:
    """Seconds until a line may be due."""
    if _silence.said:
        return 3600.0
    running = _silence.name is not None
    return max(0.05, _silence.began + PATIENCE - time.monotonic()) if running else PATIENCE
