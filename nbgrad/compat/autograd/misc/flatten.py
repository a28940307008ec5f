"""Nested parameters as one vector."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .... import np as _np
from ....arrays.ndarray import NDArray
from ....functional.pytrees import flatten as _leaves_of
from ..boxes import isbox

__all__ = ["flatten", "flatten_func"]


def _sorted(value: Any) -> Any:
    """The tree with the keys of dicts in order, as autograd has them."""
    if isinstance(value, dict):
        return {k: _sorted(value[k]) for k in sorted(value)}
    return type(value)(map(_sorted, value)) if type(value) in (list, tuple) else value


def _like(value: Any, found: Any) -> Any:
    """The tree `found` with the keys of dicts in the order of `value`."""
    if isinstance(value, dict):
        return {k: _like(v, found[k]) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_like(v, f) for v, f in zip(value, found, strict=True)])
    return found


def flatten(value: Any) -> tuple[Any, Callable]:
    """The vector of all numbers in a tree of arrays and numbers, and the function that makes such a tree of it.

    Those of dicts are in the order of their keys.
    """
    leaves: list = []
    build = _leaves_of(_sorted(value), leaves)
    shapes = [np.shape(v) if not isinstance(v, NDArray) else v.shape for v in leaves]
    sizes = [int(np.prod(s, dtype=int)) for s in shapes]

    def vector(parts: list) -> Any:
        if not parts:
            return np.zeros(0)
        if any(map(isbox, parts)):
            return _np.concatenate([_np.ravel(_np.array(v)) for v in parts])
        return np.concatenate([np.ravel(v) for v in parts])

    def unflatten(flat: Any) -> Any:
        ends = np.cumsum([0, *sizes])
        cut = [flat[a:b] for a, b in pairwise(ends)]
        parts = [part.reshape(s) if s else part[0] for part, s in zip(cut, shapes, strict=True)]
        return _like(value, build(iter(parts)))

    return vector(leaves), unflatten


def flatten_func(func: Callable, example: Any) -> tuple[Callable, Callable, Any]:
    """A function of a tree as one of a vector, from which `example` shows the form; and the vector of that."""
    start, unflatten = flatten(example)
    return (lambda flat, *args: flatten(func(unflatten(flat), *args))[0]), unflatten, start
