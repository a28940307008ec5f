"""The flags of a thread, or of a task: is it recording, is it training, does it run something a second time.

They are context variables. A thread starts with all flags off. A task of asyncio has its own, which it got from who
made it, whatever other tasks of the thread do while it waits. Reading one takes a quarter of the time that reading an
attribute of a ``threading.local`` takes.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

__all__ = ["put_recording", "put_training", "recording", "state", "training"]

_recording: ContextVar[bool] = ContextVar("nbgrad_recording", default=False)
_training: ContextVar[bool] = ContextVar("nbgrad_training", default=False)
_observer: ContextVar[Any] = ContextVar("nbgrad_observer", default=None)
_recomputing: ContextVar[bool] = ContextVar("nbgrad_recomputing", default=False)

#: Whether this thread, or task, records: what operators ask.
recording: Callable[[], bool] = _recording.get
training: Callable[[], bool] = _training.get
put_recording, put_training = _recording.set, _training.set


def _flag(variable: ContextVar) -> Any:
    get, put = variable.get, variable.set
    return property(lambda self: get(), lambda self, value: put(value) and None)


class _State:
    """The same as attributes, which can be set."""

    __slots__ = ()
    recording = _flag(_recording)
    training = _flag(_training)
    observer = _flag(_observer)  # sees every result, inside of such a scope; see :mod:`.observers`
    recomputing = _flag(_recomputing)  # a checkpointed function runs again: what it changes was changed before


state = _State()
