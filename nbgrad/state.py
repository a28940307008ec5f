"""The flags of a thread: is it recording, is it training, does it run something a second time."""

import threading
from typing import Any

__all__ = ["state"]


class _State(threading.local):
    recording = False
    training = False
    observer: Any = None  # sees every result, while this thread is in such a scope; see :mod:`.observe`
    recomputing = False  # a checkpointed function runs again: what a call changes besides its result was changed before


#: Every thread starts with all flags off, whatever the thread that made it does.
state = _State()
