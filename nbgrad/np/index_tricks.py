"""``np.r_``, ``np.c_``, ``np.mgrid``, ``np.ogrid``: arrays written as indices; and ``np.vectorize``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AttrError, DTypeError
from .arrays import as_array, ndarray
from .creation import from_numpy_values
from .manipulation import atleast_1d, broadcast_arrays, concatenate, ravel, reshape, stack

__all__ = ["c_", "mgrid", "ogrid", "r_", "vectorize"]


class _Indexed:
    """An object of the namespace that is used by indices."""

    def __init__(self, name: str, doc: str) -> None:
        self.name, self.__doc__ = name, doc

    def __repr__(self) -> str:
        return f"<nbgrad.np.{self.name}>"


class _Joined(_Indexed):
    """Arrays one after another, or vectors as columns: slices are ranges, numbers have one element."""

    def __getitem__(self, key: Any) -> ndarray:
        parts = [self._part(k) for k in (key if isinstance(key, tuple) else (key,))]
        if self is c_:
            parts = [reshape(p, (-1, 1)) if p.ndim == 1 else p for p in parts]
        return concatenate(parts, axis=-1 if self is c_ else 0)

    def _part(self, item: Any) -> ndarray:
        if isinstance(item, str):
            raise AttrError(f"np.{self.name}: the axes in the string {item!r} are not supported; use np.concatenate")
        if isinstance(item, slice):
            return from_numpy_values(np.r_[item])
        return atleast_1d(as_array(item, self.name))


class _Grid(_Indexed):
    """What NumPy's object of this name gives."""

    def __getitem__(self, key: Any) -> Any:
        found = getattr(np, self.name)[key]
        return tuple(map(from_numpy_values, found)) if isinstance(found, tuple) else from_numpy_values(found)


r_ = _Joined("r_", "Arrays, numbers and ranges, one after another: ``np.r_[x, 0.5, 1:4]``.")
c_ = _Joined("c_", "Vectors as the columns of a matrix: ``np.c_[x, y]``.")
mgrid = _Grid("mgrid", "The coordinates of a grid: ``np.mgrid[0:2, 0:1:5j]``.")
ogrid = _Grid("ogrid", "The coordinates of a grid, one array for each axis, of length 1 along the others.")


class vectorize:
    """A function of numbers as one of arrays, called for each element in Python. As ``numpy.vectorize``.

    Parameters
    ----------
    pyfunc : callable
        Takes and returns numbers: arrays of shape (), recorded where the arguments are.
    otypes, doc, excluded, cache, signature
        Must be left out.

    Raises
    ------
    DTypeError, AttrError
        If `pyfunc` cannot be called, or another argument is given.

    Examples
    --------
    >>> import nbgrad as nb
    >>> import nbgrad.np as np
    >>> ramp = np.vectorize(lambda x, low: x if x > low else low)
    >>> nb.grad(lambda x: np.sum(ramp(x, 1.0) ** 2))(np.array([0.5, 3.0]))
    array([0., 6.])
    """

    def __init__(self, pyfunc: Callable, **options: Any) -> None:
        if not callable(pyfunc):
            raise DTypeError(f"vectorize: a function is expected, got {pyfunc!r}")
        if options:
            raise AttrError(
                f"vectorize: {', '.join(options)} cannot be given; write a loop, or use functions of arrays"
            )
        self.pyfunc = pyfunc

    def __call__(self, *args: Any) -> ndarray:
        arrays = broadcast_arrays(*[as_array(x, "vectorize") for x in args])
        if not arrays[0].size:
            raise AttrError("vectorize: the dtype of results is not known for arrays without elements")
        flat = [ravel(x) for x in arrays]
        values = [self.pyfunc(*[x[k] for x in flat]) for k in range(flat[0].size)]
        return reshape(stack([as_array(v, "vectorize") for v in values]), arrays[0].shape)
