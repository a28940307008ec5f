"""Indices that are traced or on a GPU: what operators of :mod:`.indexing` calculate with NumPy, computed by
operators."""

from __future__ import annotations

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, from_value
from ..backends.cuda.kernels import cuda, device
from ..core.context import current_context
from ..core.dtypes import DType, bool_, float64, int64
from ..errors import RangeError
from ..ir.expr import const, eq, lt, select, var
from ..operators.cast import cast
from ..operators.elementwise import derived
from ..operators.structured import REQUIRED, Spec, structured
from .binary import modulo
from .reduce import sum_
from .shape import reshape

__all__ = ["FEW", "in_range", "one_hot", "picked"]

#: Places among which :func:`picked` looks at every one.
FEW = 64

_x0, _x1, _s0, _s1 = map(var, ("x0", "x1", "s0", "s1"))
_clip = derived("clip_index", select(lt(_x0, _s0), _s0, select(lt(_s1, _x0), _s1, _x0)), 1, 2, True)
_pick_if = derived("pick_if", select(eq(_x0, _x1), var("x2"), const(0)), 3, 0, True)
_choose_if = derived("choose_if", select(eq(_x0, _x1), _s0, _s1), 2, 2, True)


@structured("_checked_index", method=False, differentiable=False)
def _checked(index, n=REQUIRED, op=REQUIRED):
    """Indices from 0 to n - 1, negative ones counted from the end; an error for others, when they are there."""
    return Spec(index._shape, int64, n=n, op=op)


@_checked.run
def _(index, out, *, n, op):
    values = index._buf
    _check(values, n, op)
    np.copyto(out._buf, np.where(values < 0, values + n, values))


@device
def _from_start(index, out, outside, n):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        place = index[i]
        if place < -n or place >= n:
            outside[0] = 1
        out[i] = place + n if place < 0 else place


@_checked.device
def _(operands, results, *, n, op):
    kind = operands[0][1]

    def run(index, out) -> None:
        outside = kind.zeros(1)
        _from_start(out.size, [index._buf, out._buf, outside], n)
        if out.size and outside.host()[0]:  # one number is waited for, and what follows never sees a wrong index
            _check(index._buf.host(), n, op)

    return run


def _check(values: np.ndarray, n: int, op: str) -> None:
    bad = values[(values < -n) | (values >= n)]
    if bad.size:
        raise RangeError(f"{op}: index {bad[0]} is out of range for an axis of length {n}")


def in_range(index: NDArray, n: int, mode: str, op: str) -> NDArray:
    """The int64 indices brought into range as `mode` says."""
    if mode == "raise":
        return _checked(index, n=n, op=op)
    return _clip.apply1(index, (0, n - 1)) if mode == "clip" else modulo(index, n)


def _places(n: int, rank: int, kind: Kind) -> NDArray:
    """0, 1, ... n - 1 along an axis that `rank` others follow."""
    places = np.arange(n).reshape((-1,) + (1,) * rank)
    return from_value(places, ctx=current_context(), dtype=kind.dtype, conventions=kind.conventions)


def picked(data: NDArray, index: NDArray, axis: int) -> NDArray:
    """``pick`` by comparing every place with the index: in one loop with what the elements are computed from.

    `index` has length 1 along the axis, and so has the result.
    """
    kind = data._kind.of(int64 if data._kind.dtype is bool_ else data._kind.dtype)  # one that holds FEW
    places = _places(data.shape[axis], data.ndim - axis - 1, kind)
    found = sum_(_pick_if.apply((places, cast(index, kind), cast(data, kind))), axis=axis, keepdims=True)
    return cast(found, data._kind)


def one_hot(index: NDArray, depth: int, on_value: float, off_value: float, dtype: DType) -> NDArray:
    """A new last axis with `on_value` at the index and `off_value` elsewhere."""
    # Places and indices are compared in `dtype` only if it holds all places: what is out of range stays so, rounded.
    exact = dtype.np.kind == "f" and depth <= 2 ** (np.finfo(dtype.np).nmant + 1)
    compared = dtype if exact else float64 if dtype.np.kind == "f" else int64
    kind = index._kind.of(compared)
    found = (_places(depth, 0, kind), cast(reshape(index, (*index.shape, 1)), kind))
    return cast(_choose_if.apply(found, (on_value, off_value)), index._kind.of(dtype))
