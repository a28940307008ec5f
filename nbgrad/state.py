"""The two flags of a thread: is it recording, is it training."""

import threading

__all__ = ["state"]


class _State(threading.local):
    recording = False
    training = False


#: Every thread starts with both flags off, whatever the thread that made it does.
state = _State()
