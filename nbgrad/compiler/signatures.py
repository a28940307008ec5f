"""Signatures: what selects the program of a call, from its arguments.

A signature has the structure of the arguments, the shape and dtype of each array among them, and the static values.
Python walks through nested arguments slowly, so each structure of lists, tuples and dicts of arrays and floats that was
seen gets a generated function that recognizes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..backends.numba.compile import python
from ..core.dtypes import without_subclass
from ..functional.pytrees import flatten, structure
from .program import Static

__all__ = ["flat_signature", "recognizer", "tree_signature"]


def flat_signature(args: Sequence) -> tuple[list, list] | None:
    """The leaves and the signature of arguments that are arrays and floats; None of others."""
    leaves: list = []
    key: list = []
    for value in args:
        kind = value.__class__
        if kind is np.ndarray:
            key.append((value.shape, value.dtype))
        elif kind is float:
            key.append(float)
        elif issubclass(kind, NDArray):
            key.append((value._shape, value._kind))
        else:
            return None
        leaves.append(value)
    return leaves, key


def tree_signature(args: tuple, kwargs: dict, name: str) -> tuple[list, list, Callable]:
    """The leaves and the signature of any arguments, and a function that rebuilds the arguments from leaves."""
    leaves: list = []
    build = flatten((args, kwargs), leaves)
    leaves = [without_subclass(x, name) if isinstance(x, np.ndarray) else x for x in leaves]
    key: list = []
    structure((args, kwargs), key)
    return leaves, [*key, *map(_of_leaf, leaves)], build


def _of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, NDArray):
        return leaf._shape, leaf._kind
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, float):
        return float
    if isinstance(leaf, Static):
        return leaf.key
    return leaf.__class__, leaf


def _part(kind: type) -> str | None:
    """Code for a leaf's part of a signature, by its class; None for others than arrays and floats."""
    if issubclass(kind, NDArray):
        return "({0}._shape, {0}._kind)"
    return {np.ndarray: "({0}.shape, {0}.dtype)", float: "float"}.get(kind)


def recognizer(args: tuple) -> Callable[[tuple], tuple[list, tuple] | None] | None:
    """A function that gives the leaves and the signature of arguments of this structure, and None for others; None if
    there are other containers than lists, tuples and dicts, or other leaves than arrays and floats."""
    lines: list[str] = []
    leaves: list[str] = []
    parts: list[str] = []
    names: dict[str, Any] = {}
    numbers = count()

    def walk(tree: Any, name: str) -> bool:
        kind = tree.__class__
        if (part := _part(kind)) is not None:
            known = f"{kind.__name__}{next(numbers)}"
            names[known] = kind
            lines.append(f"if {name}.__class__ is not {known}: return None")
            leaves.append(name)
            parts.append(part.format(name))
            return True
        if kind not in (list, tuple, dict):
            return False
        items = [f"a{next(numbers)}" for _ in tree]
        lines.append(f"if {name}.__class__ is not {kind.__name__} or len({name}) != {len(items)}: return None")
        if kind is dict:
            keys = f"k{next(numbers)}"
            names[keys] = tuple(tree)
            lines.append(f"if tuple({name}) != {keys}: return None")
        if items:
            lines.append(f"{', '.join(items)}, = {name}{'.values()' if kind is dict else ''}")
        return all(
            walk(value, item) for value, item in zip(tree.values() if kind is dict else tree, items, strict=True)
        )

    if not walk(args, "args"):
        return None
    lines.append(f"return [{', '.join(leaves)}], ({''.join(f'{part}, ' for part in parts)})")
    return python("recognize", "def call(args):\n" + "".join(f"    {line}\n" for line in lines), names)
