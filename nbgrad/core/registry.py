"""All operators by name, and by the role they play for the machinery below the mathematics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["operators", "register", "role", "set_role"]

#: Every public operator under its first name; see :class:`nbgrad.op.Entry`.
operators: dict[str, Any] = {}
_names: set[str] = set()
_roles: dict[str, Callable] = {}


def register(entry) -> None:
    """Add an entry; its name and aliases must be new."""
    for name in (entry.name, *entry.aliases):
        if name in _names:
            raise ValueError(f"operator name {name!r} is registered twice")
        _names.add(name)
    operators[entry.name] = entry


def set_role(name: str, function: Callable) -> None:
    """Say which operator the machinery is to use where it needs one, e.g. to sum out a broadcast."""
    _roles[name] = function


def role(name: str) -> Callable:
    return _roles[name]
