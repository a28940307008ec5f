"""What autograd's NumPy has, and has otherwise than ``nbgrad.np``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import np as _np
from ..boxes import getval, holds_box, isbox
from .wrapping import Chosen

__all__ = ["amax", "amin", "array", "c_", "clip", "fmax", "fmin", "make_diagonal", "max", "maximum", "min", "minimum",
           "r_", "where"]  # fmt: skip


def _extreme(plain: Callable, own: Callable) -> Callable:
    """An extremum, of which equal elements share the gradient."""

    def extreme(a: Any, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
        if options:
            return own(a, axis, keepdims=keepdims, **options)
        x = _np.array(a)
        found = own(x, axis, keepdims=True).detach()
        chosen_ones = x == found
        count = _np.sum(chosen_ones, axis, keepdims=True).astype(x.dtype)
        shared = _np.sum(_np.where(chosen_ones, x, 0.0) / count, axis, keepdims=keepdims)
        exact = own(x, axis, keepdims=keepdims)
        return exact.detach() + (shared - shared.detach()) if np.isfinite(exact.asnumpy()).all() else exact

    return Chosen(plain, extreme)


max = amax = _extreme(np.max, _np.max)
min = amin = _extreme(np.min, _np.min)


def _of_two(name: str) -> Any:
    """An extremum of two arrays, of which equal elements share the gradient."""
    own = getattr(_np, name)

    def extreme(x1: Any, x2: Any, *args: Any, **options: Any) -> Any:
        if args or options:
            return own(x1, x2, *args, **options)
        a, b = _np.array(x1) * 1.0, _np.array(x2) * 1.0
        return _np.where(a == b, 0.5 * (a + b), own(a, b))

    return Chosen(getattr(np, name), extreme)


maximum, minimum, fmax, fmin = map(_of_two, ("maximum", "minimum", "fmax", "fmin"))


def _clipped(a: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:
    """What is at a limit has no gradient."""
    found = _np.clip(a, a_min, a_max, **options)
    if options:
        return found
    inside = True
    for limit in (a_min, a_max):
        inside = inside if limit is None else inside & (found != limit)
    return found if inside is True else _np.where(inside, found, found.detach())


clip = Chosen(np.clip, _clipped)


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return np.where(getval(condition))
    return (_np.where if holds_box((condition, x, y)) else np.where)(condition, x, y)


where = Chosen(np.where, _where, plain=_where)  # NumPy's takes no keywords


def array(A: Any, *args: Any, **kwargs: Any) -> Any:
    """An array; of recorded ones, a recorded one."""
    return (_np.array if holds_box(A) else np.array)(A, *args, **kwargs)


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Matrices, in the last two axes, with the vectors in the last axis on their diagonals."""
    if offset != 0 or (axis1, axis2) not in ((0, 1), (-1, -2)):
        raise NotImplementedError("make_diagonal: the main diagonal of the last two axes alone is supported")
    xp = _np if isbox(D) else np
    eye = np.eye(D.shape[-1])
    return xp.expand_dims(xp.asarray(D), -1) * eye


class _Concatenator:
    """``np.r_`` and ``np.c_``, also with recorded arrays."""

    def __init__(self, plain: Any, as_columns: bool) -> None:
        self.plain, self.as_columns = plain, as_columns

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not holds_box(list(parts)):
            return self.plain[key]
        found = [_np.atleast_1d(_np.array(p if holds_box(p) else np.r_[p])) for p in parts]
        if self.as_columns:
            found = [x.reshape(-1, 1) if x.ndim == 1 else x for x in found]
        return _np.concatenate(found, -1 if self.as_columns else 0)


r_, c_ = _Concatenator(np.r_, False), _Concatenator(np.c_, True)
