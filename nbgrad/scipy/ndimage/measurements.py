"""Sums and means of the parts of an image, and its centre."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import np as xp
from ...errors import AttrError, ShapeError
from ...np.arrays import ndarray, with_common_float

__all__ = ["center_of_mass", "mean", "sum_labels"]


class _Parts(NamedTuple):
    """The elements that have one of the labels asked for, by their places in the flattened image.

    `label` counts the different labels, of which there are `number`; `asked` is the one of each entry of `index`.
    """

    places: np.ndarray
    label: np.ndarray
    number: int
    asked: np.ndarray

    def sums(self, x: ndarray) -> ndarray:
        """The sum of a vector of all elements for each label."""
        if not self.places.size:
            return xp.zeros(self.asked.shape, dtype=x.dtype)
        return xp.zeros((self.number,), dtype=x.dtype).at[self.label].add(x[self.places])[self.asked]

    def sizes(self) -> np.ndarray:
        return np.bincount(self.label, minlength=self.number)[self.asked]


def _parts(name: str, x: ndarray, labels: Any, index: Any) -> _Parts:
    if labels is None:
        if index is not None:
            raise AttrError(f"{name}: an index says which labels are meant; give labels, too")
        return _Parts(np.arange(x.size), np.zeros(x.size, int), 1, np.zeros((), int))
    given = np.asarray(labels.asnumpy() if isinstance(labels, ndarray) else labels)
    if given.shape != x.shape:
        raise ShapeError(f"{name}: labels have the shape of the image, {x.shape}, got {given.shape}")
    flat = given.ravel()
    if index is None:
        places = np.flatnonzero(flat > 0)
        return _Parts(places, np.zeros(places.size, int), 1, np.zeros((), int))
    values, asked = np.unique(np.asarray(index), return_inverse=True)
    at = np.minimum(np.searchsorted(values, flat), max(values.size - 1, 0))
    places = np.flatnonzero(values[at] == flat) if values.size else np.zeros(0, int)
    return _Parts(places, at[places], max(values.size, 1), asked.reshape(np.shape(index)))


def sum_labels(input: Any, labels: Any = None, index: Any = None) -> ndarray:
    """The sums of the elements with each label, as ``scipy.ndimage.sum_labels``.

    Parameters
    ----------
    input : array_like
    labels : array_like of int, optional
        Of the shape of `input`; all elements have one label by default.
    index : int or array_like of int, optional
        The labels asked for; by default all that are greater than 0, as one.

    Returns
    -------
    ndarray
        Of the shape of `index`.

    Examples
    --------
    >>> from nbgrad.scipy import ndimage
    >>> ndimage.sum_labels([1.0, 2.0, 4.0], [1, 2, 2], [1, 2])
    array([1., 6.])
    """
    (x,) = with_common_float("sum_labels", input)
    return _parts("sum_labels", x, labels, index).sums(xp.ravel(x))


def mean(input: Any, labels: Any = None, index: Any = None) -> ndarray:
    """The means of the elements with each label, as ``scipy.ndimage.mean``; arguments as of :func:`sum_labels`. NaN for
    a label without elements."""
    (x,) = with_common_float("mean", input)
    parts = _parts("mean", x, labels, index)
    sizes = parts.sizes()
    return parts.sums(xp.ravel(x)) / np.where(sizes > 0, sizes, np.nan)


def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The mean place of an image, weighted by its elements, as ``scipy.ndimage.center_of_mass``.

    Parameters
    ----------
    input : array_like
    labels, index
        As of :func:`sum_labels`; several labels give a list.

    Returns
    -------
    tuple of 0-d ndarray, or list of such tuples
        One number for each axis, in elements.
    """
    (x,) = with_common_float("center_of_mass", input)
    parts = _parts("center_of_mass", x, labels, index)
    flat = xp.ravel(x)
    total = parts.sums(flat)
    grids = np.meshgrid(*map(np.arange, x.shape), indexing="ij")
    found = [parts.sums(flat * grid.ravel()) / total for grid in grids]
    if not parts.asked.ndim:
        return tuple(found)
    return [tuple(v[k] for v in found) for k in range(parts.asked.size)]
