"""``x.at[key]``: an array with some elements changed, as a new array that is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..errors import AttrError, DTypeError, ShapeError
from ..kernels.indexing import add_axis
from .arrays import as_stored, ndarray
from .creation import from_numpy_values
from .manipulation import expanded, ravel, reshape
from .selection import where
from .ufuncs import UFUNCS

__all__ = ["At"]


class At:
    """What ``x.at`` gives: ``x.at[key]`` has methods that give new arrays. `key` is what ``x[key]`` takes.

    Examples
    --------
    >>> import nbgrad.np as np
    >>> x = np.zeros(3)
    >>> x.at[1].set(5.0), x
    (array([0., 5., 0.]), array([0., 0., 0.]))
    """

    def __init__(self, x: ndarray) -> None:
        self._x = x

    def __getitem__(self, key: Any) -> Elements:
        return Elements(self._x, key)


class Elements:
    """The elements of an array that a subscript selects.

    Methods give arrays like it with these elements changed by values that broadcast to them; array and values are
    differentiated. `positions` are where the elements are in the flat array.
    """

    def __init__(self, x: ndarray, key: Any) -> None:
        self._x, self._key = x, key
        places = np.arange(x.size).reshape(x.shape)[_plain(key)]
        self._shape = places.shape
        self.positions = np.asarray(places).reshape(-1)

    def get(self) -> ndarray:
        """The elements: ``x[key]``."""
        return self._x[self._key]

    def set(self, values: Any) -> ndarray:
        """With the elements replaced; of an element that is selected several times, the last value counts."""
        flat, places = self._values(values), self.positions
        _, last = np.unique(places[::-1], return_index=True)
        last = len(places) - 1 - last
        if len(last) < len(places) or len(last) == self._x.size:
            flat, places = flat[last], places[last]
        if len(last) == self._x.size:  # nothing is left of the array, nor of its history
            return reshape(flat, self._x.shape)
        changed = np.zeros(self._x.size, bool)
        changed[places] = True
        return where(from_numpy_values(changed.reshape(self._x.shape)), self._scattered(flat, places), self._x)

    def add(self, values: Any) -> ndarray:
        """With values added; of an element that is selected several times, all."""
        return self._x + self._scattered(self._values(values), self.positions)

    def subtract(self, values: Any) -> ndarray:
        """With values subtracted, as :meth:`add`."""
        return self._x - self._scattered(self._values(values), self.positions)

    def multiply(self, values: Any) -> ndarray:
        """With the elements multiplied, each once."""
        return self._applied("multiply", values)

    def divide(self, values: Any) -> ndarray:
        """With the elements divided, each once."""
        return self._applied("divide", values)

    def power(self, values: Any) -> ndarray:
        """With the elements raised to powers, each once."""
        return self._applied("power", values)

    def min(self, values: Any) -> ndarray:
        """With the smaller ones of the elements and the values, each once."""
        return self._applied("minimum", values)

    def max(self, values: Any) -> ndarray:
        """With the greater ones of the elements and the values, each once."""
        return self._applied("maximum", values)

    def apply(self, function: Callable) -> ndarray:
        """With a function of the elements in their place, each once."""
        self._check_once("apply")
        return self.set(function(self.get()))

    def _applied(self, name: str, values: Any) -> ndarray:
        self._check_once(name)
        return self.set(UFUNCS[name](self.get(), values))

    def _changed_by(self, ufunc: Any, *values: Any) -> ndarray:
        """With the elements changed as `ufunc.at` does."""
        if ufunc.__name__ in ("add", "subtract"):
            return getattr(self, ufunc.__name__)(*values)
        self._check_once(ufunc.__name__)
        return self.set(ufunc(self.get(), *values))

    def _check_once(self, name: str) -> None:
        if len(np.unique(self.positions)) < len(self.positions):
            raise AttrError(f"at.{name}: an element is selected several times; only set, add and subtract take that")

    def _values(self, values: Any) -> ndarray:
        v = as_stored(values, "at", self._x._kind)
        if not np.can_cast(v.dtype, self._x.dtype, "same_kind"):
            raise DTypeError(f"at: values of dtype {v.dtype} cannot be stored in an array of {self._x.dtype}")
        lead = v.ndim - len(self._shape)
        if v.size == 1:  # fits anywhere, whatever its rank
            v = reshape(v, ())
        elif lead > 0 and v.shape[:lead] == (1,) * lead:
            v = reshape(v, v.shape[lead:])
        try:
            return ravel(expanded(v.astype(self._x.dtype), self._shape))
        except ShapeError:
            raise ShapeError(f"at: values of shape {v.shape} do not broadcast to {self._shape}") from None

    def _scattered(self, flat: ndarray, places: np.ndarray) -> ndarray:
        """Zeros, with the values added at these places."""
        found: Any = reshape(add_axis(flat, places, 0, self._x.size), self._x.shape)
        return found


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple([_plain(k) for k in key])
    if isinstance(key, NDArray):
        if key._kind.dtype.is_float:
            raise IndexError("arrays used as indices must be of integer or bool dtype, not float")
        return key.asnumpy()
    return key
