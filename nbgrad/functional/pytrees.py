"""Trees: dicts, lists, tuples, namedtuples and dataclasses, nested in any way, with leaves at their ends.

A field of a dataclass with ``metadata={"static": True}`` belongs to the tree's form: it is no leaf. ``None`` is a tree
without leaves.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from ..errors import DTypeError, ShapeError

__all__ = ["changed", "flatten", "flatten_like", "leaf_path"]


def _copied_dict(tree: dict, keys: Sequence, values: Sequence) -> dict:
    made = copy.copy(tree)
    made.update(zip(keys, values, strict=True))
    return made


def _copied_object(tree: Any, keys: Sequence, values: Sequence) -> Any:
    """Without ``__init__``, which may want something else than arrays, and for frozen classes too."""
    made = copy.copy(tree)
    for key, value in zip(keys, values, strict=True):
        object.__setattr__(made, key, value)
    return made


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if not f.metadata.get("static"))


def _parts(tree: Any) -> tuple[Sequence, Sequence, Callable] | None:
    """Keys and values of a container, and ``make(tree, keys, values)``, which makes one like it; None for a leaf."""
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


def flatten(tree: Any, leaves: list) -> Callable[[Iterator], Any]:
    """Append the leaves of `tree` to `leaves`; what is returned makes such a tree from the next of an iterator."""
    parts = _parts(tree)
    if parts is None:
        leaves.append(tree)
        return next
    keys, values, make = parts
    builders = [flatten(v, leaves) for v in values]
    return lambda source: make(tree, keys, [build(source) for build in builders])


def flatten_like(tree: Any, given: Any, name: str, path: str = "") -> list[tuple[Any, Any, str]]:
    """Pairs of leaves of two trees of one form, with their place.

    Raises
    ------
    DTypeError, ShapeError
        If `given` has another form than `tree`; the message calls it `name`.
    """
    parts, other = _parts(tree), _parts(given)
    if parts is None:
        if other is not None:
            raise DTypeError(f"{name}{path}: a {type(given).__name__} was given where one array is expected")
        return [(tree, given, path)]
    if other is None or (type(tree) is not type(given) and not isinstance(given, list | tuple)):
        raise DTypeError(f"{name}{path}: a {type(tree).__name__} is expected, got {type(given).__name__}")
    keys, values, _ = parts
    found = dict(zip(other[0], other[1], strict=True))
    if set(keys) != set(found):
        raise ShapeError(f"{name}{path}: {_listed(keys)} expected, got {_listed(other[0])}; the trees must be alike")
    pairs = []
    for key, value in zip(keys, values, strict=True):
        pairs += flatten_like(value, found[key], name, path + _step(tree, key))
    return pairs


def _listed(keys: Sequence) -> str:
    return f"{len(keys)} part(s)" if isinstance(keys, range) else f"the parts {', '.join(map(repr, keys)) or 'none'}"


def _step(tree: Any, key: Any) -> str:
    return f"[{key!r}]" if isinstance(tree, dict) or isinstance(key, int) else f".{key}"


def leaf_path(tree: Any, number: int) -> str:
    """Where leaf `number` is, as Python would write it: ``['w'][0].scale``."""
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


def changed(tree: Any, change: Callable) -> Any:
    """`tree` with ``change(leaf)`` in place of each leaf; containers in which nothing changes stay what they are."""
    parts = _parts(tree)
    if parts is None:
        return change(tree)
    keys, values, make = parts
    new = [changed(v, change) for v in values]
    if all(a is b for a, b in zip(values, new, strict=True)):
        return tree
    return make(tree, keys, new)
