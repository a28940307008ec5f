"""Filters with feedback along the last axis: each result is its input less a weighted sum of the results before it.

The maths. With p weights a_1 ... a_p::

    y_i = u_i - a_1 y_(i-1) - ... - a_p y_(i-p),   y being 0 before the first place

The family is closed under differentiation: with the cotangent q of y, the one of u is the same filter from the other
end, p_i = q_i - a_1 p_(i+1) - ..., and the one of a_k is minus the sum of p_i y_(i-k), an adjoint of a convolution.
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray
from ..backends.cuda.kernels import cuda, device
from ..backends.numba.compile import kernel
from ..core.shapes import size
from ..operators.samples import Input, sample_table
from ..operators.structured import Spec, structured
from .convolution import weight_grad
from .layout import pad
from .shape import reshape
from .slices import flip, slice_axis

__all__ = ["feedback"]

# Kernels: u (lines, n), a (count,), out like u; `back`: from the last element on.


@kernel
def _feedback(u, a, out, lines, n, count, back):
    total = np.int64(n)
    for line in range(lines):
        start = line * total
        for i in range(total):
            here = start + (total - 1 - i if back else i)
            y = u[here]
            reach = i if i < count else np.int64(count)
            for j in range(reach - 1, -1, -1):  # the newest at the end: it is there last
                y -= a[j] * out[here + (j + 1 if back else -j - 1)]
            out[here] = y


@device
def _feedback_of_a_line(u, a, out, lines, n, count, back):
    for line in range(cuda.grid(1), lines, cuda.gridsize(1)):
        step = -1 if back else 1
        here = line * n + back * (n - 1)
        for i in range(n):
            y = u[here]
            for j in range(min(i, count) - 1, -1, -1):
                y -= a[j] * out[here - (j + 1) * step]
            out[here] = y
            here += step


def _numpy_feedback(u: np.ndarray, a: np.ndarray, back: bool = False) -> np.ndarray:
    u = u[..., ::-1] if back else u
    out = np.array(u)
    for i in range(u.shape[-1]):
        for k in range(1, min(i, len(a)) + 1):
            out[..., i] -= a[k - 1] * out[..., i - k]
    return out[..., ::-1] if back else out


@structured("_feedback", method=False, samples=sample_table(
    _numpy_feedback, [(2, 5), Input((2,), -0.5, 0.6)], [(6,), Input((3,), -0.5, 0.6), {"back": True}],
    [(3, 2), Input((4,), -0.5, 0.6)], [(0, 3), (1,)], [(2, 0), (2,)], [(4,), (0,)], ulp=32, ints=False,
))  # fmt: skip
def feedback(u, a, back=False):
    """y_i = u_i less the sum of a_k y_(i-k) along the last axis, y_(i+k) if `back`; `a` is a vector."""
    return Spec(u._shape, u._kind.dtype, back=back)


def _sizes(u_shape: tuple[int, ...], a_shape: tuple[int, ...], back: bool) -> tuple[int, ...]:
    return size(u_shape[:-1]), u_shape[-1], a_shape[0], int(back)


@feedback.run
def _(u, a, out, *, back):
    _feedback(u._buf, a._buf, out._buf, *_sizes(u._shape, a._shape, back))


@feedback.device
def _(operands, results, *, back):
    sizes = _sizes(operands[0][0], operands[1][0], back)
    return _feedback_of_a_line.run(sizes[0] if sizes[1] else 0, *sizes)


def _cotangent_of_weights(g: NDArray, a: NDArray, y: NDArray, back: bool) -> NDArray:
    """Minus the sums of p_i y_(i-k): the adjoint, by its taps, of a convolution of y behind `count` zeros."""
    lines, n, count, _ = _sizes(y._shape, a._shape, back)
    if not lines * n * count:
        return a * 0
    p, y = reshape(feedback(g, a, back=not back), (lines, 1, n)), reshape(y, (lines, 1, n))
    ends = (0, 0, 0, 0, *((0, count) if back else (count, 0)))
    part = slice_axis(pad(y, "constant", ends), axis=2, begin=int(back), end=int(back) + n + count - 1)
    sums = reshape(weight_grad(part, p, taps=(count,), stride=(1,), dilate=(1,), pad=(0,)), (count,))
    return -(sums if back else flip(sums, 0))


feedback.vjp(u=lambda g, a, back: feedback(g, a, back=not back), a=_cotangent_of_weights)
