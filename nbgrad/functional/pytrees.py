"""Pytrees: nested dicts, lists, tuples, namedtuples and dataclasses.

A dataclass field with ``metadata={"static": True}`` belongs to the structure of the tree and is not a leaf. ``None`` is
a tree without leaves.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from ..errors import DTypeError, ShapeError

__all__ = ["flatten", "flatten_like", "leaf_path", "map_leaves", "structure"]


def _copied_dict(tree: dict, keys: Sequence, values: Sequence) -> dict:
    new = copy.copy(tree)
    new.update(zip(keys, values, strict=True))
    return new


def _copied_object(tree: Any, keys: Sequence, values: Sequence) -> Any:
    """A copy of an object with other fields, without ``__init__``, which may check types; works for frozen classes."""
    new = copy.copy(tree)
    for key, value in zip(keys, values, strict=True):
        object.__setattr__(new, key, value)
    return new


@cache
def _fields(kind: type, static: bool = False) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if bool(f.metadata.get("static")) == static)


def _parts(tree: Any) -> tuple[Sequence, Sequence, Callable] | None:
    """Keys and values of a container, and ``make(tree, keys, values)``, which rebuilds it; None for a leaf."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return range(len(tree)), tree, lambda tree, keys, values: type(tree)(values)
    if isinstance(tree, dict):
        return list(tree), list(tree.values()), _copied_dict
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return tree._fields, tree, lambda tree, keys, values: type(tree)(*values)
    if tree is None:
        return (), (), lambda tree, keys, values: None
    if dataclasses.is_dataclass(kind) and not isinstance(tree, type):
        keys = _fields(kind)
        return keys, [getattr(tree, key) for key in keys], _copied_object
    return None


def structure(tree: Any, known: list) -> None:
    """Append what tells the structure of `tree` from others: types, keys in their order, and static fields."""
    kind = type(tree)
    known.append(kind)
    parts = _parts(tree)
    if parts is None:
        return
    keys, values, _ = parts
    known.append(len(keys) if kind in (list, tuple) else tuple(keys))
    if dataclasses.is_dataclass(kind):
        for name in _fields(kind, static=True):
            value = getattr(tree, name)
            known.append((name, type(value), value))
    for value in values:
        structure(value, known)


def flatten(tree: Any, leaves: list) -> Callable[[Iterator], Any]:
    """Append the leaves of `tree` to `leaves`; returns a function that rebuilds the tree from an iterator."""
    parts = _parts(tree)
    if parts is None:
        leaves.append(tree)
        return next
    keys, values, make = parts
    builders = [flatten(v, leaves) for v in values]
    return lambda source: make(tree, keys, [build(source) for build in builders])


def flatten_like(tree: Any, given: Any, name: str, path: str = "") -> list[tuple[Any, Any, str]]:
    """Pairs of corresponding leaves of two trees, with their paths.

    Raises
    ------
    DTypeError, ShapeError
        If `given` has another structure than `tree`; `name` is for the message.
    """
    parts, other = _parts(tree), _parts(given)
    if parts is None:
        if other is not None:
            raise DTypeError(f"{name}{path}: a {type(given).__name__} was given where one array is expected")
        return [(tree, given, path)]
    if other is None or (type(tree) is not type(given) and not isinstance(given, list | tuple)):
        raise DTypeError(f"{name}{path}: a {type(tree).__name__} is expected, got {type(given).__name__}")
    keys, values, _ = parts
    by_key = dict(zip(other[0], other[1], strict=True))
    if set(keys) != set(by_key):
        raise ShapeError(f"{name}{path}: {_listed(keys)} expected, got {_listed(other[0])}; the trees must be alike")
    pairs = []
    for key, value in zip(keys, values, strict=True):
        pairs += flatten_like(value, by_key[key], name, path + _step(tree, key))
    return pairs


def _listed(keys: Sequence) -> str:
    return f"{len(keys)} part(s)" if isinstance(keys, range) else f"the parts {', '.join(map(repr, keys)) or 'none'}"


def _step(tree: Any, key: Any) -> str:
    return f"[{key!r}]" if isinstance(tree, dict) or isinstance(key, int) else f".{key}"


def leaf_path(tree: Any, number: int) -> str:
    """The path of leaf `number` in Python syntax: ``['w'][0].scale``."""
    paths: list[str] = []

    def walk(tree: Any, path: str) -> None:
        parts = _parts(tree)
        if parts is None:
            paths.append(path)
        else:
            for key, value in zip(parts[0], parts[1], strict=True):
                walk(value, path + _step(tree, key))

    walk(tree, "")
    return paths[number]


def map_leaves(tree: Any, change: Callable) -> Any:
    """`tree` with ``change(leaf)`` in place of each leaf; containers without changes are not copied."""
    parts = _parts(tree)
    if parts is None:
        return change(tree)
    keys, values, make = parts
    new = [map_leaves(v, change) for v in values]
    if all(a is b for a, b in zip(values, new, strict=True)):
        return tree
    return make(tree, keys, new)
