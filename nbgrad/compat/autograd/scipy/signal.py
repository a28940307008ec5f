"""Convolutions in several dimensions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.signal

from .... import np as _np
from ..boxes import holds_box

__all__ = ["convolve"]


def convolve(A: Any, B: Any, axes: Any = None, dot_axes: Any = ((), ()), mode: str = "full") -> Any:
    """The convolution of two arrays along pairs of axes, summed over others.

    Parameters
    ----------
    A, B : array_like
    axes : pair of lists of int
        The axes of `A` and of `B` that are convolved; all by default.
    dot_axes : pair of lists of int
        Those over which products are summed. The result has the axes of `A` that are in neither, those of `B`, and the
        ones that are convolved.
    mode : {"full", "same", "valid"}
    """
    xp = _np if holds_box((A, B)) else np
    a, b = xp.array(A), xp.array(B)
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolve: the modes are 'full', 'same' and 'valid', got {mode!r}")
    if axes is None and a.ndim != b.ndim:
        raise ValueError(f"convolve: arrays of as many axes are expected, got the shapes {a.shape} and {b.shape}")
    along = [list(range(a.ndim))] * 2 if axes is None else [list(k) for k in axes]
    summed = [list(k) for k in dot_axes]
    rest = [[k for k in range(x.ndim) if k not in (*u, *v)] for x, u, v in zip((a, b), along, summed, strict=True)]
    a = xp.transpose(a, [*rest[0], *along[0], *summed[0]])
    b = xp.transpose(b, [*rest[1], *summed[1], *along[1]])
    count, outer, inner = len(along[0]), len(rest[0]), len(summed[0])
    lengths = [(a.shape[outer + k], b.shape[b.ndim - count + k]) for k in range(count)]
    total: Any = 0.0
    for at in np.ndindex(*[n for _, n in lengths]):
        taps = b[(..., *at)]
        part = xp.tensordot(a, taps, (list(range(a.ndim - inner, a.ndim)), list(range(len(rest[1]), taps.ndim))))
        part = xp.moveaxis(part, list(range(outer, outer + count)), list(range(part.ndim - count, part.ndim)))
        widths = [(k, n - 1 - k) for k, (_, n) in zip(at, lengths, strict=True)]
        total = total + xp.pad(part, [(0, 0)] * (part.ndim - count) + widths)
    return total[(..., *[_cut(m, n, mode) for m, n in lengths])]


def _cut(m: int, n: int, mode: str) -> slice:
    """The part of the full convolution of `m` and `n` elements that a mode is."""
    if mode == "same":
        return slice((n - 1) // 2, (n - 1) // 2 + m)
    return slice(None) if mode == "full" else slice(min(m, n) - 1, max(m, n))


#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.signal)
