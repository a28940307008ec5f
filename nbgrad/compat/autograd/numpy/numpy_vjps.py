"""Cotangents of operands that were broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import np as _np
from ..boxes import holds_box

__all__ = ["unbroadcast", "unbroadcast_f"]


def unbroadcast(x: Any, target: Any, broadcast_idx: int = 0) -> Any:
    """`x` summed over the axes along which `target`, an array or its shape first in a tuple, was broadcast to it."""
    shape = target[0] if isinstance(target, tuple) else np.shape(target) if not holds_box(target) else target.shape
    xp = _np if holds_box(x) else np
    x = xp.asarray(x)
    while x.ndim > len(shape):
        x = x.sum(broadcast_idx)
    axes = tuple(k for k, n in enumerate(shape) if n == 1 and x.shape[k] != 1)
    return x.sum(axes, keepdims=True) if axes else x


def unbroadcast_f(target: Any, g: Callable) -> Callable:
    """A pullback whose results are summed to the shape of `target`."""
    return lambda cotangent: unbroadcast(g(cotangent), target)
