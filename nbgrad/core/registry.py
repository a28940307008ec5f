"""The registry of operators, by name, and by role for the layers below the operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["operators", "register", "role", "set_role"]

#: Every public operator under its first name; see :class:`nbgrad.operators.entry.Entry`.
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
    """Set the operator that lower layers use for a purpose, for example to reduce a broadcast."""
    _roles[name] = function


def role(name: str) -> Callable:
    """The operator for a purpose; see :func:`set_role`."""
    return _roles[name]
