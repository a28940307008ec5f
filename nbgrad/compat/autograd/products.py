"""Vector-Jacobian and Jacobian-vector products of functions of one argument, and the spaces that values belong to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import np as _np
from ...arrays.ndarray import NDArray
from ...functional.derivatives import jvp as _jvp
from ...functional.derivatives import vjp as _vjp
from ...functional.pytrees import flatten, map_leaves
from ...protocols.in_place import rebinds
from .boxes import getval

__all__ = ["VSpace", "make_jvp", "make_vjp", "rebinding", "vspace"]


def _as_float(leaf: Any) -> Any:
    """An argument that is differentiated, as a float or an array of floats."""
    if isinstance(leaf, bool | int):
        return float(leaf)
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "iub":
        return leaf.astype(np.float64)
    return leaf.astype(np.float64) if isinstance(leaf, NDArray) and leaf._kind.dtype.np.kind in "iub" else leaf


def _as_result(leaf: Any) -> Any:
    """A result as a recorded array of floats, or a constant one."""
    if not isinstance(leaf, NDArray):
        if isinstance(leaf, bool | np.bool_ | str) or leaf is None:
            raise TypeError(f"the function gives {leaf!r}, which has no derivative; numbers and arrays are expected")
        leaf = _np.array(leaf)
    return leaf if leaf._kind.dtype.is_float else leaf.astype(np.float64)


def _recordable(fun: Callable) -> Callable:
    def called(x: Any) -> Any:
        return map_leaves(rebinding(fun)(x), _as_result)

    return called


def rebinding(fun: Callable) -> Callable:
    """`fun` with in-place operators that bind the names of recorded arrays to new ones."""

    def called(*args: Any) -> Any:
        before = rebinds.set(True)
        try:
            return fun(*args)
        finally:
            rebinds.reset(before)

    return called


def make_vjp(fun: Callable, x: Any) -> tuple[Callable, Any]:
    """The function ``g -> g J`` for the Jacobian J of `fun` at `x`, and the value."""
    value, pullback = _vjp(_recordable(fun), map_leaves(x, _as_float), argnums=0)
    return lambda g: pullback(map_leaves(g, _as_float)), value


def make_jvp(fun: Callable, x: Any) -> Callable:
    """The function ``v -> (value, J v)`` for the Jacobian J of `fun` at `x`."""
    point = map_leaves(x, _as_float)
    return lambda v: _jvp(_recordable(fun), (point,), (map_leaves(v, _as_float),))


class VSpace:
    """The space of values like this one: arrays of its shape, and trees of them."""

    def __init__(self, value: Any) -> None:
        leaves: list = []
        self._build: Callable[[Iterator], Any] = flatten(map_leaves(getval(value), _as_float), leaves)
        self._leaves = [np.asarray(v) for v in leaves]
        self._numbers = [not isinstance(v, np.ndarray) for v in leaves]
        self.shape = self._leaves[0].shape if len(leaves) == 1 else None
        self.dtype = self._leaves[0].dtype if len(leaves) == 1 else None
        self.size = sum(v.size for v in self._leaves)
        self.iscomplex = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VSpace) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"VSpace({self._build(iter([f'{v.dtype}{v.shape}' for v in self._leaves]))})"

    def _filled(self, values: Any) -> Any:
        parts = [np.asarray(v) for v in values]
        return self._build(iter([p[()] if number else p for p, number in zip(parts, self._numbers, strict=True)]))

    def zeros(self) -> Any:
        return self._filled(np.zeros_like(v) for v in self._leaves)

    def ones(self) -> Any:
        return self._filled(np.ones_like(v) for v in self._leaves)

    def randn(self) -> Any:
        return self._filled(_randn(v.shape).astype(v.dtype) for v in self._leaves)

    def standard_basis(self) -> Iterator[Any]:
        """The values that are 1 in one place, and 0 elsewhere."""
        for k, v in enumerate(self._leaves):
            for at in np.ndindex(*v.shape):
                parts = [np.zeros_like(w) for w in self._leaves]
                parts[k][at] = 1
                yield self._filled(parts)

    def covector(self, x: Any) -> Any:
        return x

    def add(self, x: Any, y: Any) -> Any:
        return _combined(lambda a, b: a + b, x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        return map_leaves(x, lambda v: v * a)

    def inner_prod(self, x: Any, y: Any) -> Any:
        products: list = []
        flatten(_combined(lambda a, b: (a * b).sum() if np.ndim(a) else a * b, x, y), products)
        return sum(products)


def _combined(function: Callable, x: Any, y: Any) -> Any:
    first: list = []
    second: list = []
    build = flatten(x, first)
    flatten(y, second)
    return build(itertools.starmap(function, zip(first, second, strict=True)))


def _randn(shape: tuple[int, ...]) -> np.ndarray:
    """From the state that programs seed by ``numpy.random.seed``."""
    return np.asarray(np.random.standard_normal(shape))  # noqa: NPY002


def vspace(value: Any) -> VSpace:
    """The space that a value belongs to."""
    return VSpace(value)
