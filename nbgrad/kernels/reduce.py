"""Reductions: sum, prod, max, min, argmax, argmin, and what is made of them.

The maths. An array is seen as (outer, n, inner) with the n elements of the middle axis combined; several
axes that are not neighbours are reduced one group after the other, the largest first. ``sum`` and
``broadcast_to`` are each other's derivative. Names as NumPy's; ``exclude`` (reduce all axes but these) is
MXNet's, and so is the shape (1,) of a full reduction without ``keepdims``.

Accuracy: along contiguous elements sums run in blocks of 512 with independent partial sums, block totals
are added with compensation, so the error does not grow with the number of elements. float32 (and float16)
blocks are combined in float64. Integers are summed in 64 bits and stored in their own dtype.
"""

from __future__ import annotations

import numpy as np

from ..codegen.compile import inline, kernel
from ..elementwise import derived
from ..entry import as_array
from ..errors import ShapeError
from ..expr import const, eq, isnan, lt, select, var
from ..ndarray import NDArray, from_value
from ..registry import set_role
from ..shapes import axes as resolve_axes
from ..shapes import axis as resolve_axis
from ..shapes import size
from ..structured import Spec, composite, structured
from . import scalar as vm
from . import unary
from .selection import where
from .shape import broadcast_to, expand_dims, reshape, transpose

__all__ = ["logsumexp", "max_", "mean", "norm", "prod", "reduced", "sum_", "sum_to"]

# Kernels: x (outer, n, inner) -> out (outer, inner).


@inline(reorder=True)
def _block_sum(x, start, stop):
    """The sum of x[start:stop], in vector registers."""
    total = x.dtype.type(0)
    for i in range(start, stop):
        total += x[i]
    return total


@kernel
def _sum_rows(x, out, outer, n):
    block = np.uint64(512)
    length = np.uint64(n)
    for o in range(np.uint64(outer)):
        base = o * length
        total = 0.0
        lost = 0.0  # what rounding dropped so far (Neumaier 1974)
        for b in range((length + block - np.uint64(1)) // block):
            start = base + b * block
            part = np.float64(_block_sum(x, start, min(start + block, base + length)))
            new = total + part
            if abs(new) < np.inf:
                lost += (total - new) + part if abs(total) >= abs(part) else (part - new) + total
            total = new
        out[o] = total + lost


@kernel
def _sum_columns(x, out, acc, outer, n, inner):
    width = np.uint64(inner)
    for o in range(np.uint64(outer)):
        for j in range(width):
            acc[j] = 0
        for k in range(np.uint64(n)):
            base = (o * np.uint64(n) + k) * width
            for j in range(width):
                acc[j] += x[base + j]
        for j in range(width):
            out[o * width + j] = acc[j]


@kernel
def _sum_integers(x, out, outer, n, inner):
    for o in range(np.uint64(outer)):
        for j in range(np.uint64(inner)):
            total = np.int64(0)
            for k in range(np.uint64(n)):
                total += np.int64(x[(o * np.uint64(n) + k) * np.uint64(inner) + j])
            out[o * np.uint64(inner) + j] = total


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


@inline
def _beats(a, b, sign):
    """Whether a comes before b; NaN comes before everything."""
    return (a > b if sign > 0 else a < b) or (a != a and b == b)


@kernel
def _extreme(x, out, outer, n, inner, sign):
    width = np.uint64(inner)
    for o in range(np.uint64(outer)):
        first = o * np.uint64(n) * width
        for j in range(width):
            out[o * width + j] = x[first + j]
        for k in range(np.uint64(1), np.uint64(n)):
            base = first + k * width
            for j in range(width):
                a = x[base + j]
                b = out[o * width + j]
                out[o * width + j] = a if _beats(a, b, sign) else b


@kernel
def _extreme_rows(x, out, outer, n, sign):
    length = np.uint64(n)
    for o in range(np.uint64(outer)):
        base = o * length
        best = x[base]
        if sign > 0:
            for k in range(length):
                a = x[base + k]
                best = a if (a > best) | (a != a) else best
        else:
            for k in range(length):
                a = x[base + k]
                best = a if (a < best) | (a != a) else best
        if best == best:
            for k in range(length):  # a NaN met early was forgotten when a number followed
                a = x[base + k]
                best = a if a != a else best
        out[o] = best


@kernel
def _arg_extreme(x, out, outer, n, inner, sign):
    width = np.uint64(inner)
    for o in range(np.uint64(outer)):
        for j in range(width):
            first = o * np.uint64(n) * width + j
            best = x[first]
            where = np.uint64(0)
            for k in range(np.uint64(1), np.uint64(n)):
                a = x[first + k * width]
                if _beats(a, best, sign):
                    best = a
                    where = k
            out[o * width + j] = where


# From axes to kernels.


def split(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """(outer, n, inner) around one axis."""
    return size(shape[:axis]), shape[axis], size(shape[axis + 1 :])


def groups(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Reduced axes as runs of neighbours, the run with most elements first."""
    runs: list[list[int]] = []
    for k in axes:
        if runs and all(shape[m] == 1 for m in range(runs[-1][-1] + 1, k)):
            runs[-1].append(k)
        else:
            runs.append([k])
    return sorted((tuple(r) for r in runs), key=lambda run: -size([shape[k] for k in run]))


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape after reducing; (1,) instead of () as MXNet has it."""
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes) or (1,)


def _by_groups(x: NDArray, out: NDArray, axes: tuple[int, ...], step) -> None:
    """Run `step(x, out, outer, n, inner)` once per run of axes, through temporaries."""
    shape = list(x._shape)
    buf = x._buf
    runs = groups(x._shape, axes)
    if not runs:
        step(buf, out._buf, out._buf.size, 1, 1)
    for k, run in enumerate(runs):
        outer, inner = size(shape[: run[0]]), size(shape[run[-1] + 1 :])
        n = size(shape[run[0] : run[-1] + 1])
        for m in run:
            shape[m] = 1
        target = out._buf if k == len(runs) - 1 else x._kind.empty(outer * inner, out._kind.storage)
        step(buf, target, outer, n, inner)
        buf = target


def _sum_step(x, out, outer, n, inner) -> None:
    if x.dtype.kind != "f":
        _sum_integers(x, out, outer, n, inner)
    elif inner == 1:
        _sum_rows(x, out, outer, n)
    else:
        _sum_columns(x, out, np.empty(inner, np.float64), outer, n, inner)


def _spec(data: NDArray, axis, keepdims, exclude, op: str) -> Spec:
    axes = resolve_axes(axis, data.ndim, op, bool(exclude))
    dtype = "int64" if data._kind.dtype.name == "bool" else data._kind.dtype
    return Spec(reduced(data._shape, axes, bool(keepdims)), dtype, axes=axes, keepdims=bool(keepdims))


def _expand(g: NDArray, shape: tuple[int, ...], axes: tuple[int, ...]) -> NDArray:
    """A reduced array, spread over the axes that were reduced."""
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
    return broadcast_to(reshape(g, kept), shape=shape)


_REDUCE_DOC = """{what}

    Parameters
    ----------
    data : NDArray
    axis : int or tuple of int, optional
        Axes to reduce; all by default, and for ``()``.
    keepdims : bool
        Keep reduced axes with length 1.
    exclude : bool
        Reduce all axes but these.

    Returns
    -------
    NDArray
        Without `keepdims`, a full reduction has shape (1,).
"""


@structured("sum", aliases=("sum_axis",), samples=({"kind": "reduce"},))
def sum_(data, axis=None, keepdims=False, exclude=False):
    return _spec(data, axis, keepdims, exclude, "sum")


@sum_.run
def _(data, out, *, axes, keepdims):
    _by_groups(data, out, axes, _sum_step)


sum_.vjp(data=lambda g, data_shape, axes: _expand(g, data_shape, axes))


@composite()
def sum_to(data, shape):
    """Sum over the axes that broadcasting `shape` to ``data.shape`` would repeat: the adjoint of ``broadcast_to``."""
    extra = data.ndim - len(shape)
    repeated = tuple(k for k in range(data.ndim) if k < extra or (shape[k - extra] == 1 and data.shape[k] != 1))
    return reshape(sum_(data, axis=repeated, keepdims=True) if repeated else data, shape)


set_role("unbroadcast", sum_to)
broadcast_to.vjp(data=lambda g, data_shape: sum_to(g, data_shape))


@structured(samples=({"kind": "reduce"},))
def prod(data, axis=None, keepdims=False, exclude=False):
    return _spec(data, axis, keepdims, exclude, "prod")


@prod.run
def _(data, out, *, axes, keepdims):
    _by_groups(data, out, axes, _prod)


def _prod_vjp(g, data, axes):
    # Products of the others, not y/x: right where elements are 0. The reduced axes are brought to the end.
    return _expand(g, data.shape, axes) * prod_others(data, axis=axes)


prod.vjp(data=_prod_vjp)


@structured(method=False, samples=({"kind": "axis"},))
def _prod_others_last(data):
    """Product of all other elements along the last axis."""
    return Spec(data._shape, data._kind.dtype)


@_prod_others_last.run
def _(data, out):
    _prod_others(data._buf, out._buf, *split(data._shape, data.ndim - 1))


def _prod_others_vjp(g, data):
    # d(prod of others of k)/dx_j is the product of all but k and j: exclude j, for every j, by one more axis.
    n = data.shape[-1]
    eye = _eye_like(data, n)
    rows = broadcast_to(expand_dims(data, axis=-2), shape=(*data.shape[:-1], n, n))
    wide = where(eye, 1.0, rows)  # row j: x with x_j replaced by 1
    others = _prod_others_last(wide) * (1 - eye)
    return sum_(others * expand_dims(g, axis=-2), axis=-1)


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


def _check_not_empty(data: NDArray, axes, op: str) -> None:
    if data.size == 0 and any(data.shape[k] == 0 for k in axes):
        raise ShapeError(f"{op}: no elements to choose from: shape {data.shape} reduced over axes {axes}")


def _extreme_step(sign: int):
    def step(x, out, outer, n, inner):
        if inner == 1:
            _extreme_rows(x, out, outer, n, sign)
        else:
            _extreme(x, out, outer, n, inner, sign)

    return step


def _same(g, data, y, axes):
    """Gradient 1 to every element that equals the extreme (and to NaN)."""
    top = _expand(y, data.shape, axes)
    tied = data.detach() == top.detach()
    return _expand(g, data.shape, axes) * tied


@structured("max", aliases=("max_axis",), samples=({"kind": "reduce"},))
def max_(data, axis=None, keepdims=False, exclude=False):
    spec = _spec(data, axis, keepdims, exclude, "max")
    _check_not_empty(data, spec.attrs["axes"], "max")
    return spec


@structured("min", aliases=("min_axis",), samples=({"kind": "reduce"},))
def min_(data, axis=None, keepdims=False, exclude=False):
    spec = _spec(data, axis, keepdims, exclude, "min")
    _check_not_empty(data, spec.attrs["axes"], "min")
    return spec


@max_.run
def _(data, out, *, axes, keepdims):
    _by_groups(data, out, axes, _extreme_step(1))


@min_.run
def _(data, out, *, axes, keepdims):
    _by_groups(data, out, axes, _extreme_step(-1))


max_.vjp(data=_same)
min_.vjp(data=_same)


def _arg(name: str, sign: int, what: str):
    def infer(data, axis=None, keepdims=False):
        if axis is None:
            shape = (1,) * data.ndim if keepdims else (1,)
            lengths = (1, data.size, 1)
        else:
            k = resolve_axis(axis, data.ndim, name)
            shape = reduced(data._shape, (k,), bool(keepdims))
            lengths = split(data._shape, k)
        if lengths[1] == 0:
            raise ShapeError(f"{name}: no elements to choose from in shape {data.shape}")
        return Spec(shape, "float32", lengths=lengths)

    infer.__doc__ = f"""Index of the {what} element along an axis, the first one at a tie; NaN counts as {what}.

    Parameters
    ----------
    data : NDArray
    axis : int, optional
        Default: index into the flattened array.
    keepdims : bool

    Returns
    -------
    NDArray
        float32, as in MXNet (exact below 2^24). Gradient: 0.
    """
    op = structured(name, samples=({"kind": "arg"},), differentiable=False)(infer)

    @op.run
    def _(data, out, *, lengths):
        _arg_extreme(data._buf, out._buf, *lengths, sign)

    return op


argmax = _arg("argmax", 1, "greatest")
argmin = _arg("argmin", -1, "smallest")


@composite(method=True, samples=({"kind": "argmax_channel"},), differentiable=False)
def argmax_channel(data):
    """Index of the greatest element along axis 1, as float32. Gradient: 0."""
    return argmax(data, axis=1)


for _op, _what in ((sum_, "Sum of elements."), (prod, "Product of elements. Its gradient is right where elements are 0."), (max_, "Greatest element; NaN if there is one. At a tie every one of the greatest gets the whole gradient."), (min_, "Smallest element; NaN if there is one. At a tie every one of the smallest gets the whole gradient.")):  # fmt: skip
    _op.call.__doc__ = _REDUCE_DOC.format(what=_what)


def _count(data: NDArray, axes: tuple[int, ...]) -> int:
    return size([data.shape[k] for k in axes])


@composite(method=True, samples=({"kind": "reduce"},))
def mean(data, axis=None, keepdims=False, exclude=False):
    """Mean of elements; parameters as for ``sum``. Integers give the default float dtype."""
    data = as_array(data, "mean")
    axes = resolve_axes(axis, data.ndim, "mean", bool(exclude))
    total = sum_(data, axis=axis, keepdims=keepdims, exclude=exclude) if axes else data
    return total / _count(data, axes) if _count(data, axes) else total * float("nan")


_no_nan = derived("nan_to_zero", select(isnan(var("x0")), const(0), var("x0")), 1, 0, True)
_nan_to_one = derived("nan_to_one", select(isnan(var("x0")), const(1), var("x0")), 1, 0, True)


@composite(method=True, samples=({"kind": "reduce"},))
def nansum(data, axis=None, keepdims=False, exclude=False):
    """Sum of the elements that are not NaN; parameters as for ``sum``. The gradient of a NaN is 0."""
    return sum_(_no_nan.apply1(as_array(data, "nansum")), axis, keepdims, exclude)


@composite(method=True, samples=({"kind": "reduce"},))
def nanprod(data, axis=None, keepdims=False, exclude=False):
    """Product of the elements that are not NaN; parameters as for ``sum``. The gradient of a NaN is 0."""
    return prod(_nan_to_one.apply1(as_array(data, "nanprod")), axis, keepdims, exclude)


_x = var("x0")
_sqrt_or_zero = derived("sqrt_or_zero", select(eq(_x, 0), const(0), vm.sqrt(_x)), 1, 0, False)
_finite_or_zero = derived("finite_or_zero", select(lt(vm.absolute(_x), np.inf), _x, const(0)), 1, 0, False)


@composite(method=True, samples=({"kind": "reduce"},))
def norm(data, ord=2, axis=None, keepdims=False, out_dtype=None):
    """Vector norm over the given axes: sum of magnitudes (`ord` 1) or root of the sum of squares (`ord` 2).

    Parameters
    ----------
    data : NDArray
    ord : {1, 2}
    axis, keepdims
        As for ``sum``.
    out_dtype : optional
        Dtype of the result.

    Notes
    -----
    The gradient where the norm is 0 is 0, a subgradient.
    """
    data = as_array(data, "norm")
    if ord not in (1, 2):
        raise ShapeError(f"norm: ord must be 1 or 2, got {ord!r}")
    if ord == 1:
        result = sum_(unary.abs_(data), axis, keepdims)
    else:
        result = _sqrt_or_zero.apply1(sum_(unary.square(data), axis, keepdims))
    return result if out_dtype is None else result.astype(out_dtype)


@composite(method=True, samples=({"kind": "reduce"},))
def logsumexp(data, axis=None, keepdims=False):
    """log(sum(exp(data))) without overflow; `axis` and `keepdims` as for ``sum``."""
    data = as_array(data, "logsumexp")
    top = max_(data, axis=axis, keepdims=True).detach()
    top = _finite_or_zero.apply1(top)
    total = unary.log(sum_(unary.exp(data - top), axis=axis, keepdims=True)) + top
    return total if keepdims else reshape(total, reduced(data.shape, resolve_axes(axis, data.ndim, "logsumexp"), False))
