"""Softmax, its logarithm, and what is made of them.

The maths, along one axis of length n, an array being seen as (outer, n, inner)::

    softmax      y_i = exp(x_i - m) / Σ_j exp(x_j - m)        m = max x
    log_softmax  y_i = x_i - m - log Σ_j exp(x_j - m)

The Jacobian of softmax, diag(y) - y yᵀ, is symmetric: the cotangent ``_softmax_grad(g, y)`` is y (g - Σ y g), linear
in g and its own adjoint. That of log_softmax is g - exp(y) Σ g.
"""

from __future__ import annotations

import functools

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..backends import threads
from ..backends.numba.compile import inline, kernel
from ..core.shapes import axis as resolve_axis
from ..errors import AttrError, DTypeError, ShapeError
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from ..vmath.exponential import exp_minus
from .binary import product_of_cotangents, strong_product
from .extreme import max_
from .indexing import pick
from .reduce import split, sum_
from .selection import where
from .shape import expand_dims
from .unary import exp, log, negative

__all__ = ["log_softmax", "softmax"]

_LANES = 64


@inline
def _row_max(x, start, n, lanes):
    """The maximum of x[start:start+n], NaN left out; column by column of (n/64, 64), for vector registers."""
    step = np.uintp(_LANES)
    for j in range(step):
        lanes[j] = -np.inf
    whole = n // step
    for b in range(whole):
        at = start + b * step
        for j in range(step):
            v = x[at + j]
            lanes[j] = v if v > lanes[j] else lanes[j]
    for j in range(n - whole * step):
        v = x[start + whole * step + j]
        lanes[j] = v if v > lanes[j] else lanes[j]
    top = lanes[0]
    for j in range(step):
        top = lanes[j] if lanes[j] > top else top
    return top


@inline(reorder=True)
def _total(x, start, n):
    total = x.dtype.type(0)
    for i in range(n):
        total += x[start + i]
    return total


@inline
def _times(g, y):
    """Their product; zero if `g` is, whatever is NaN in `y`."""
    return g * y if g != 0 else g


@inline(reorder=True)
def _inner(x, y, start, n):
    total = x.dtype.type(0)
    for i in range(n):
        total += x[start + i] * y[start + i]
    return total


@inline
def _inner_of_zeros(g, y, start, n):
    total = g.dtype.type(0)
    for i in range(n):
        total += _times(g[start + i], y[start + i])
    return total


@kernel
def _softmax_rows(x, out, scratch, outer, n, log):
    count = np.uintp(n)
    for o in range(np.uintp(outer)):
        at = o * count
        top = _row_max(x, at, count, scratch)
        for i in range(count):
            out[at + i] = exp_minus(x[at + i] - top)
        total = _total(out, at, count)
        if log:
            shift = x.dtype.type(np.log(total))
            for i in range(count):
                out[at + i] = x[at + i] - top - shift
        else:
            share = x.dtype.type(1) / total
            for i in range(count):
                out[at + i] *= share


@kernel
def _softmax_columns(x, out, scratch, outer, n, inner, log):
    count, width = np.uintp(n), np.uintp(inner)
    for o in range(np.uintp(outer)):
        at = o * count * width
        for j in range(width):
            scratch[j] = -np.inf
            scratch[width + j] = 0
        for k in range(count):
            for j in range(width):
                v = x[at + k * width + j]
                scratch[j] = v if v > scratch[j] else scratch[j]
        for k in range(count):
            for j in range(width):
                e = exp_minus(x[at + k * width + j] - scratch[j])
                out[at + k * width + j] = e
                scratch[width + j] += e
        for j in range(width):
            scratch[width + j] = np.log(scratch[width + j]) if log else x.dtype.type(1) / scratch[width + j]
        for k in range(count):
            i = at + k * width
            if log:
                for j in range(width):
                    out[i + j] = x[i + j] - scratch[j] - scratch[width + j]
            else:
                for j in range(width):
                    out[i + j] *= scratch[width + j]


@kernel
def _grad_rows(g, y, out, outer, n, log):
    count = np.uintp(n)
    for o in range(np.uintp(outer)):
        at = o * count
        if log:
            total = _total(g, at, count)
            if total != 0:
                for i in range(count):
                    out[at + i] = g[at + i] - exp_minus(y[at + i]) * total
            else:
                for i in range(count):
                    out[at + i] = g[at + i]
        else:
            total = _inner(g, y, at, count)
            if total == total:
                for i in range(count):
                    out[at + i] = y[at + i] * (g[at + i] - total)
            else:  # a NaN in y makes that of it
                total = _inner_of_zeros(g, y, at, count)
                for i in range(count):
                    out[at + i] = _times(g[at + i] - total, y[at + i])


@kernel
def _grad_columns(g, y, out, scratch, outer, n, inner, log):
    count, width = np.uintp(n), np.uintp(inner)
    for o in range(np.uintp(outer)):
        at = o * count * width
        for j in range(width):
            scratch[j] = 0
        for k in range(count):
            i = at + k * width
            for j in range(width):
                scratch[j] += g[i + j] if log else _times(g[i + j], y[i + j])
        for k in range(count):
            i = at + k * width
            if log:
                for j in range(width):
                    out[i + j] = g[i + j] - _times(scratch[j], exp_minus(y[i + j]))
            else:
                for j in range(width):
                    out[i + j] = _times(g[i + j] - scratch[j], y[i + j])


def _pair(name: str, log: bool, reference):
    """The operator and its cotangent; both keep the shape and take a checked `axis`."""

    def forward(data, axis=REQUIRED):
        return Spec(data._shape, data._kind.dtype, axis=axis)

    def cotangent(head, y, axis=REQUIRED):
        return Spec(y._shape, y._kind.dtype, axis=axis)

    forward.__doc__ = f"``{name}`` along a checked axis."
    cotangent.__doc__ = f"The cotangent of ``{name}``'s operand; `y` is its result."
    rows = [(3, 4), {"axis": 1}], [(2, 3, 2), {"axis": 1}], [(2, 0), {"axis": 0}]
    op = structured(f"_{name}", method=False, samples=sample_table(f"scipy.special.{name}", *rows, ulp=4, ints=False))(
        forward
    )
    pairs = [(3, 4), (3, 4), {"axis": 1}], [(2, 3, 2), (2, 3, 2), {"axis": 1}]
    grad = structured(f"_{name}_grad", method=False, samples=sample_table(reference, *pairs, ulp=8, ints=False))(
        cotangent
    )

    @op.run
    def _(data, out, *, axis):
        outer, n, inner = split(data._shape, axis)

        def call(start, stop):
            x, y = threads.row_slices((data._buf, out._buf), (n * inner,) * 2, start, stop)
            if inner == 1:
                _softmax_rows(x, y, np.empty(_LANES, y.dtype), stop - start, n, int(log))
            else:
                _softmax_columns(x, y, np.empty(2 * inner, y.dtype), stop - start, n, inner, int(log))

        threads.parallel_ranges(call, outer, 4 * n * inner)

    @grad.run
    def _(head, y, out, *, axis):
        outer, n, inner = split(y._shape, axis)

        def call(start, stop):
            g, x, h = threads.row_slices((head._buf, y._buf, out._buf), (n * inner,) * 3, start, stop)
            if inner == 1:
                _grad_rows(g, x, h, stop - start, n, int(log))
            else:
                _grad_columns(g, x, h, np.empty(inner, h.dtype), stop - start, n, inner, int(log))

        threads.parallel_ranges(call, outer, 2 * n * inner)

    op.vjp(data=lambda g, y, axis: grad(g, y, axis=axis))
    return op, grad


def _sum(x: NDArray, axis: int) -> NDArray:
    return sum_(x, axis=axis, keepdims=True)


def _shifted(data: NDArray, axis: int) -> NDArray:
    return data - max_(data, axis=axis, keepdims=True)


_softmax, _softmax_grad = _pair("softmax", False, lambda g, y, axis: y * (g - (y * g).sum(axis, keepdims=True)))
# The cotangent's own rule: linear in head with the same matrix; quadratic in y.
_softmax_grad.vjp(
    head=lambda g, y, axis: _softmax_grad(g, y, axis=axis),
    y=lambda g, head, y, axis: (
        product_of_cotangents(g, head - _sum(strong_product(head, y), axis))
        - product_of_cotangents(head, _sum(strong_product(g, y), axis))
    ),
)
_log_softmax, _log_softmax_grad = _pair(
    "log_softmax", True, lambda g, y, axis: g - np.exp(y) * g.sum(axis, keepdims=True)
)


@functools.partial(_softmax.expand, finite=True)
def _(data, *, axis):
    e = exp(_shifted(data, axis))
    return e / _sum(e, axis)


@functools.partial(_log_softmax.expand, finite=True)
def _(data, *, axis):
    z = _shifted(data, axis)
    return z - log(_sum(exp(z), axis))


@_softmax_grad.expand
def _(head, y, *, axis):
    return strong_product(head - _sum(strong_product(head, y), axis), y)


@_log_softmax_grad.expand
def _(head, y, *, axis):
    return head - strong_product(_sum(head, axis), exp(y))


_log_softmax_grad.vjp(
    head=lambda g, y, axis: g - _sum(strong_product(g, exp(y)), axis),
    y=lambda g, head, y, axis: negative(product_of_cotangents(strong_product(g, exp(y)), _sum(head, axis))),
)


def _reference(x, axis=-1, temperature=1.0):
    e = np.exp((x - x.max(axis, keepdims=True)) / temperature)
    return e / e.sum(axis, keepdims=True)


_ROWS = [(3, 4)], [(2, 3, 2), {"axis": 1, "temperature": 1.5}]


def _prepared(data, axis, temperature, dtype, op: str) -> tuple[NDArray, int]:
    data = as_array(data, op)
    if not data._kind.dtype.is_float:
        raise DTypeError(f"{op}: data must be of a floating dtype, got {data._kind.dtype}; use astype first")
    k = resolve_axis(axis, data.ndim, op)
    if dtype is not None:
        data = data.astype(dtype)
    if temperature is not None:
        if not temperature > 0:
            raise AttrError(f"{op}: temperature must be positive, got {temperature!r}")
        data = data / float(temperature) if temperature != 1 else data
    return data, k


def _within(family, data: NDArray, k: int, length, use_length: bool, outside: float, op: str) -> NDArray:
    """`family` along axis `k`; of the leading elements that `length` says if it is used, and `outside` for others."""
    if not use_length:
        return family(data, axis=k)
    length = as_array(length, op, "length")
    expected = data.shape[:k] + data.shape[k + 1 :]
    if length.shape != expected:
        raise ShapeError(f"{op}: length must have shape {expected} (data's without the axis), got {length.shape}")
    places = np.arange(data.shape[k]).reshape((-1,) + (1,) * (data.ndim - k - 1))
    inside = expand_dims(length.detach(), axis=k) > from_value(places, like=length._kind, dtype=length._kind.dtype)
    return where(inside, family(where(inside, data, -np.inf), axis=k), outside)


@composite("softmax", method=True, samples=sample_table(_reference, *_ROWS, ulp=4, ints=False))
def softmax(data, length=None, axis=-1, temperature=None, dtype=None, use_length=False):
    """``exp(x/t) / sum(exp(x/t))`` along an axis, t the temperature; never overflows.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype.
    length : NDArray, optional
        Shape of `data` without the axis: how many leading elements take part; the others give 0.
    axis : int
    temperature : float, optional
        Positive; default 1.
    dtype : optional
        Of the result; default that of `data`.
    use_length : bool
        Must be true for `length` to count, as in MXNet.

    Returns
    -------
    NDArray
        Shape of `data`.

    Raises
    ------
    DTypeError, AttrError, ShapeError
        For integers, a temperature that is not positive, an axis that does not exist or lengths that do not fit.

    Notes
    -----
    Gradient: ``y*(g - sum(g*y))/temperature``.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.softmax(nd.array([[0, 0], [0, 1000]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    data, k = _prepared(data, axis, temperature, dtype, "softmax")
    return _within(_softmax, data, k, length, use_length, 0.0, "softmax")


@composite(
    "log_softmax",
    method=True,
    samples=sample_table(lambda x, **kw: np.log(_reference(x, **kw)), *_ROWS, ulp=16, ints=False),
)
def log_softmax(data, axis=-1, temperature=None, dtype=None, use_length=False, length=None):
    """Logarithm of ``softmax``, exact also where that underflows; parameters as there.

    Where an axis is longer than `length` says, the result is -inf.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Notes
    -----
    Gradient: ``(g - softmax*sum(g))/temperature``.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.log_softmax(nd.array([0, 1000])).tolist()
    [-1000.0, 0.0]
    """
    data, k = _prepared(data, axis, temperature, dtype, "log_softmax")
    return _within(_log_softmax, data, k, length, use_length, -np.inf, "log_softmax")


@composite(method=True, samples=sample_table(lambda x, **kw: _reference(-x, **kw), *_ROWS, ulp=4, ints=False))
def softmin(data, axis=-1, temperature=None, dtype=None, use_length=False, length=None):
    """``softmax`` of minus the array; parameters as there.

    Returns
    -------
    NDArray
        Shape and dtype of `data`.

    Notes
    -----
    Gradient: minus that of ``softmax``.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.softmin(nd.array([0, 0, 1000])).tolist()
    [0.5, 0.5, 0.0]
    """
    data, k = _prepared(data, axis, temperature, dtype, "softmin")
    return _within(_softmax, negative(data), k, length, use_length, 0.0, "softmin")


@composite(method=False, samples=sample_table(
    lambda x, mode="instance": _reference(x, axis=1 if mode == "channel" else -1),
    [(2, 3)], [(2, 3, 2), {"mode": "channel"}], ulp=4, ints=False,
))  # fmt: skip
def SoftmaxActivation(data, mode="instance"):
    """``softmax`` along the last axis, or with `mode` ``'channel'`` along axis 1.

    Parameters
    ----------
    data : NDArray
        Of a floating dtype; with at least three axes for ``'channel'``.
    mode : {'instance', 'channel'}

    Returns
    -------
    NDArray
        Shape of `data`. Gradient: as for ``softmax``.

    Raises
    ------
    AttrError, ShapeError
        For another mode, or too few axes.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.SoftmaxActivation(nd.array([[0, 0]])).tolist()
    [[0.5, 0.5]]
    """
    data = as_array(data, "SoftmaxActivation")
    if mode not in ("instance", "channel"):
        raise AttrError(f"SoftmaxActivation: mode must be 'instance' or 'channel', got {mode!r}")
    if mode == "channel" and data.ndim < 3:
        raise ShapeError(f"SoftmaxActivation: mode 'channel' needs at least three axes, got shape {data.shape}")
    return softmax(data, axis=1 if mode == "channel" else -1)


@composite(
    samples=sample_table(
        lambda x, k: np.array([-np.log(_reference(x)[np.arange(len(x)), k.astype(int)]).sum()], x.dtype),
        [(3, 4), Input(values=[2, 0, 3], dtype="int64")],
        ulp=16,
        ints=False,
    ),
    gradient="``g*(softmax(data) - onehot(label))``",
)
def softmax_cross_entropy(data, label):
    """Sum over the rows of ``-log_softmax(data)[i, label[i]]``.

    Parameters
    ----------
    data : NDArray
        Scores, shape (n, k).
    label : NDArray
        Class numbers, shape (n,).

    Returns
    -------
    NDArray
        Shape (1,).

    Raises
    ------
    ShapeError
        If the shapes are not these.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.softmax_cross_entropy(nd.zeros((3, 2)), nd.array([0, 1, 1])).item() / 3
    0.6931471824645996
    """
    data, label = as_array(data, "softmax_cross_entropy"), as_array(label, "softmax_cross_entropy", "label")
    if data.ndim != 2 or label.shape != data.shape[:1]:
        raise ShapeError(
            f"softmax_cross_entropy: data (n, k) and label (n,) are needed, got {data.shape} and {label.shape}"
        )
    return negative(sum_(pick(log_softmax(data), label)))
