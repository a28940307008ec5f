"""The recording and training flags, and the scopes that set them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar

import numpy as np

from ..errors import DTypeError, NBGradError
from .state import put_recording, put_training, state
from .state import recording as is_on
from .state import training as trains

__all__ = [
    "is_recording",
    "is_training",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


ELSEWHERE = (
    "a recording scope is left in another thread or task than it was entered in; leave it where it was entered (an "
    "asynchronous generator, or a generator that other threads go on with, holds none across a yield)"
)
GENERATOR = (
    "{name} is a generator: between two of its steps its caller runs, and a scope around all of them would hold for "
    "the caller, too; write `with autograd.record():` inside of it, around what is to be recorded and no yield"
)


def set_recording(is_recording: bool) -> bool:
    """Turn recording on or off for this thread.

    Parameters
    ----------
    is_recording : bool

    Returns
    -------
    bool
        What it was before.

    Raises
    ------
    DTypeError
        For anything but a bool or an integer.

    Examples
    --------
    >>> from nbgrad import autograd
    >>> previous = autograd.set_recording(True)
    >>> autograd.is_recording(), previous
    (True, False)
    >>> _ = autograd.set_recording(previous)
    """
    wanted = _flag(is_recording, "set_recording")
    previous, state.recording = state.recording, wanted
    return previous


def set_training(train_mode: bool) -> bool:
    """Turn training mode on or off for this thread; returns what it was. Dropout and BatchNorm obey it.

    Parameters
    ----------
    train_mode : bool

    Returns
    -------
    bool

    Examples
    --------
    >>> from nbgrad import autograd
    >>> previous = autograd.set_training(True)
    >>> autograd.is_training(), previous
    (True, False)
    >>> _ = autograd.set_training(previous)
    """
    previous, state.training = state.training, _flag(train_mode, "set_training")
    return previous


_FLAGS = (bool, int, np.bool_)


def _flag(value, name: str) -> bool:
    if isinstance(value, _FLAGS):
        return bool(value)
    raise DTypeError(f"{name}: a bool is needed, got {value!r}")


def is_recording() -> bool:
    """Whether this thread records operations.

    Examples
    --------
    >>> from nbgrad import autograd
    >>> autograd.is_recording()
    False
    """
    return state.recording


def is_training() -> bool:
    """Whether this thread is in training mode.

    Examples
    --------
    >>> from nbgrad import autograd
    >>> autograd.is_training()
    False
    >>> with autograd.record():
    ...     autograd.is_training()
    True
    """
    return state.training


class _Scope:
    """Set flags inside a ``with`` block or a decorated function, and restore them on any exit.

    One scope object may be entered again while it is active, and by several threads.
    """

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._recording = recording
        self._training = training
        #: The stack of flags to restore, per thread or task, as a linked list: (recording, training, the rest).
        entered: ContextVar[tuple | None] = ContextVar("nbgrad_entered", default=None)
        self._get, self._put = entered.get, entered.set

    def __enter__(self) -> None:
        recording, training, before = is_on(), trains(), self._get()
        try:
            self._put((recording, training, before))
            if self._recording is not None and self._recording is not recording:
                put_recording(self._recording)
            if self._training is not None and self._training is not training:
                put_training(self._training)
        except BaseException:  # an interrupt: no `__exit__` follows
            put_recording(recording)
            put_training(training)
            self._put(before)
            raise

    def __exit__(self, *exc: object) -> None:
        entered = self._get()
        if entered is None:
            raise NBGradError(ELSEWHERE)
        recording, training, before = entered
        self._put(before)
        if self._recording is not None and self._recording is not recording:
            put_recording(recording)
        if self._training is not None and self._training is not training:
            put_training(training)

    def __call__(self, function: Callable) -> Callable:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args, **kwargs):
                with self:  # a task has its own flags: tasks that run while it waits are not affected
                    return await function(*args, **kwargs)

            return awaited
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DTypeError(GENERATOR.format(name=function.__name__))

        @functools.wraps(function)
        def scoped(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return scoped


@functools.cache
def _scope(recording: bool | None, training: bool | None) -> _Scope:
    """The scope with these flags. One instance serves all: it is reentrant and thread-safe."""
    return _Scope(recording, training)


def record(train_mode: bool | None = True) -> _Scope:
    """A scope (or decorator) in which operations are recorded.

    Parameters
    ----------
    train_mode : bool or None
        Training mode inside; None leaves it as it is.

    Examples
    --------
    >>> from nbgrad import autograd
    >>> with autograd.record():
    ...     print(autograd.is_recording(), autograd.is_training())
    True True
    """
    return _scope(True, None if train_mode is None else _flag(train_mode, "record"))


def pause(train_mode: bool | None = False) -> _Scope:
    """A scope (or decorator) in which nothing is recorded, for use inside :func:`record`.

    Parameters
    ----------
    train_mode : bool or None
        Training mode inside; None leaves it as it is.

    Examples
    --------
    >>> from nbgrad import autograd
    >>> with autograd.record():
    ...     with autograd.pause():
    ...         print(autograd.is_recording(), autograd.is_training())
    False False
    """
    return _scope(False, None if train_mode is None else _flag(train_mode, "pause"))


def train_mode() -> _Scope:
    """A scope (or decorator) that turns training mode on and leaves recording alone.

    Examples
    --------
    >>> from nbgrad import autograd
    >>> with autograd.train_mode():
    ...     print(autograd.is_training(), autograd.is_recording())
    True False
    """
    return _scope(None, True)


def predict_mode() -> _Scope:
    """A scope (or decorator) that turns training mode off and leaves recording alone.

    Examples
    --------
    >>> from nbgrad import autograd
    >>> with autograd.record(), autograd.predict_mode():
    ...     print(autograd.is_training(), autograd.is_recording())
    False True
    """
    return _scope(None, False)
