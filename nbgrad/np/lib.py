"""``numpy.lib.stride_tricks``: windows that slide over arrays."""

from __future__ import annotations

from operator import index
from types import SimpleNamespace

import numpy as np

from ..errors import AttrError, ShapeError
from .arrays import as_array, ndarray
from .manipulation import axis_of, moveaxis
from .views import viewing

__all__ = ["sliding_window_view", "stride_tricks"]


def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False) -> ndarray:
    """All windows of an array, wherever they fit in it. As ``numpy.lib.stride_tricks.sliding_window_view``.

    Parameters
    ----------
    x : array
    window_shape : int or tuple of int
        The lengths of a window, at least 0, and not more than those of the array.
    axis : int or tuple of int, optional
        The axes along which it slides, one for each length; all by default.
    subok : bool, default False
        Without effect.
    writeable : bool, default False
        Must be False: windows overlap.

    Returns
    -------
    ndarray
        Each axis with a window of `w` elements has length ``n - w + 1``, and one of length `w` comes last. Like NumPy's
        it cannot be written, and has the elements that are written into `x`; unlike NumPy's, it has memory of its own.

    Raises
    ------
    ShapeError
        If a window is longer than the array, or axes and lengths differ in number.

    Examples
    --------
    >>> import nbgrad.np as np
    >>> np.lib.stride_tricks.sliding_window_view(np.array([1.0, 2.0, 4.0, 8.0]), 3).mean(axis=-1)
    array([2.33333333, 4.66666667])
    """
    if writeable:
        raise AttrError("sliding_window_view: windows overlap and cannot be written; leave out writeable=True")
    x = as_array(x, "sliding_window_view")
    lengths = [index(n) for n in (window_shape if np.iterable(window_shape) else [window_shape])]
    given = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    axes = [axis_of(k, x.ndim, "sliding_window_view") for k in given]
    if len(axes) != len(lengths):
        raise ShapeError(f"sliding_window_view: {len(lengths)} lengths of windows for {len(axes)} axes; give one each")
    for k, n in zip(axes, lengths, strict=True):
        if not 0 <= n <= x.shape[k]:
            raise ShapeError(f"sliding_window_view: a window of {n} elements on axis {k}, which has {x.shape[k]}")
        places = np.arange(x.shape[k] - n + 1)[:, None] + np.arange(n)
        x = moveaxis(x[(*(slice(None),) * k, places)], k + 1, -1)
    return x


sliding_window_view = viewing(sliding_window_view, np.lib.stride_tricks.sliding_window_view, readonly=True)
stride_tricks = SimpleNamespace(sliding_window_view=sliding_window_view)
