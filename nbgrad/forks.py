"""Locks in a process that forks."""

import os
from typing import Any

__all__ = ["free_in_child"]


def free_in_child(lock: Any) -> Any:
    """The same lock, free in a forked child: there, the thread that may hold it does not exist, and never frees it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # as the standard library does with its own
    return lock
