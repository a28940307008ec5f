"""Products of elements.

The family. The derivative of a product with respect to one element is the product of the others, computed
without division, so that it is right where elements are 0; and so on for the next orders. Layout and
arguments as in :mod:`.reduce`.
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..backends.cuda.kernels import cuda, device
from ..backends.numba.compile import kernel
from ..core.shapes import size
from ..ir.expr import const, isnan, select, var
from ..operators.elementwise import derived
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import Spec, composite, structured
from .binary import strong_product
from .broadcasting import broadcast_to
from .reduce import by_groups, expand, reduces, reduction, rows, split, sum_
from .selection import where
from .shape import expand_dims, reshape, transpose

__all__ = ["prod"]

# Kernels: x (outer, n, inner) -> out (outer, inner).


@kernel
def _prod(x, out, outer, n, inner):
    width = np.uint64(inner)
    for o in range(np.uint64(outer)):
        for j in range(width):
            out[o * width + j] = 1
        for k in range(np.uint64(n)):
            base = (o * np.uint64(n) + k) * width
            for j in range(width):
                out[o * width + j] *= x[base + j]


@kernel
def _prod_rows(x, out, outer, n):
    length = np.uint64(n)
    for o in range(np.uint64(outer)):
        running = out.dtype.type(1)
        for k in range(length):
            running *= x[o * length + k]
        out[o] = running


@kernel
def _prod_others(x, out, outer, n, inner):
    """out[k] = product of all x but x[k]: forward and backward running products, no division."""
    width = np.uint64(inner)
    count = np.uint64(n)
    for o in range(np.uint64(outer)):
        for j in range(width):
            running = x.dtype.type(1)
            for k in range(count):
                at = (o * count + k) * width + j
                out[at] = running
                running *= x[at]
            running = x.dtype.type(1)
            for back in range(count):
                at = (o * count + (count - np.uint64(1) - back)) * width + j
                out[at] *= running
                running *= x[at]


def _prod_step(x, out, outer, n, inner) -> None:
    if inner == 1:
        _prod_rows(x, out, outer, n)
    else:
        _prod(x, out, outer, n, inner)


@structured(samples=rows(np.prod, ulp=8))
@reduces("Product of elements.", "g times the product of the others, right where elements are 0, too")
def prod(data, axis=None, keepdims=False, exclude=False):
    return reduction(data, axis, keepdims, exclude, "prod")


@prod.bind
def _(operands, results, *, axes, keepdims):
    return by_groups(operands, results, axes, _prod_step)


@device
def _device_prod(x, out, outer, n):
    for o in range(cuda.grid(1), outer, cuda.gridsize(1)):
        running = out[o]
        running = x[o * n] if n else running - running + 1
        for k in range(o * n + 1, o * n + n):
            running *= x[k]
        out[o] = running


@prod.device
def _(operands, results, *, axes, keepdims):
    ((shape, _),) = operands
    kept = tuple(k for k in range(len(shape)) if k not in axes)
    outer, n = size([shape[k] for k in kept]), size([shape[k] for k in axes])
    launch = _device_prod.run(outer, outer, n)
    return lambda data, out: launch(transpose(data.detach(), axes=kept + axes), out)


def _prod_vjp(g, data, axes):
    # Products of the others, not y/x: right where elements are 0. The reduced axes are brought to the end.
    return strong_product(expand(g, data.shape, axes), prod_others(data, axis=axes))


prod.vjp(data=_prod_vjp)


@structured(
    method=False,
    samples=sample_table(
        lambda a: np.stack([np.prod(np.delete(a, k, -1), -1) for k in range(a.shape[-1])], -1), [(2, 3)], [(1,)], ulp=4
    ),
)
def _prod_others_last(data):
    """Product of all other elements along the last axis."""
    return Spec(data._shape, data._kind.dtype)


@_prod_others_last.run
def _(data, out):
    _prod_others(data._buf, out._buf, *split(data._shape, data.ndim - 1))


@device
def _device_prod_others(x, out, outer, n):
    for o in range(cuda.grid(1), outer, cuda.gridsize(1)):
        running = x[o * n]
        out[o * n] = 1
        for k in range(o * n + 1, o * n + n):
            out[k] = running
            running *= x[k]
        running = x[o * n + n - 1]
        for k in range(o * n + n - 2, o * n - 1, -1):
            out[k] *= running
            running *= x[k]


@_prod_others_last.device
def _(operands, results):
    *outer, n = operands[0][0]
    return _device_prod_others.run(size(outer) if n else 0, size(outer), n)


def _prod_others_vjp(g, data):
    # d(prod of others of k)/dx_j is the product of all but k and j: exclude j, for every j, by one more axis.
    n = data.shape[-1]
    eye = _eye_like(data, n)
    rows = broadcast_to(expand_dims(data, axis=-2), shape=(*data.shape[:-1], n, n))
    wide = where(eye, 1.0, rows)  # row j: x with x_j replaced by 1
    others = where(eye, 0.0, _prod_others_last(wide))
    return sum_(strong_product(expand_dims(g, axis=-2), others), axis=-1)


_prod_others_last.vjp(data=_prod_others_vjp)


def _eye_like(data: NDArray, n: int) -> NDArray:
    return from_value(np.eye(n), like=data._kind, dtype=data._kind.dtype)


def prod_others(data: NDArray, axis: tuple[int, ...]) -> NDArray:
    """Product of all other elements along the given axes."""
    kept = tuple(k for k in range(data.ndim) if k not in axis)
    order = kept + axis
    moved = transpose(data, axes=order)
    flat = reshape(moved, tuple(data.shape[k] for k in kept) + (size([data.shape[k] for k in axis]),))
    back = tuple(int(k) for k in np.argsort(order))
    return transpose(reshape(_prod_others_last(flat), moved.shape), axes=back)


_nan_to_one = derived("nan_to_one", select(isnan(var("x0")), const(1), var("x0")), 1, 0, True)


@composite(method=True, samples=rows(np.nanprod, ulp=8))
@reduces("Product of the elements that are not NaN.", "g times the product of the others, 0 for NaN")
def nanprod(data, axis=None, keepdims=False, exclude=False):
    return prod(_nan_to_one.apply1(as_array(data, "nanprod")), axis, keepdims, exclude)
