"""Running sums, products and log-sums along an axis, and the linear recurrence behind their derivatives.

The maths. An array is seen as (outer, n, inner); i runs along the middle axis::

    cumsum       y_i = x_0 + ... + x_i
    recurrence   r_i = b_i + a_i r_(i-1),   r_(-1) = 0      (backwards: r_i = b_i + a_i r_(i+1))

Each is closed under differentiation: a cumsum's adjoint is the cumsum from the other end; with the cotangent q of r,
p_i = q_i + a_(i+1) p_(i+1) is a recurrence from the other end, b's cotangent is p, and a's is p_i r_(i-1).

The derivatives of products and log-sums are recurrences, too, without a division or an overflow. For y = cumprod(x)
the cotangent of x_i is y_(i-1) t_i with t_i = g_i + x_(i+1) t_(i+1), right also where elements are 0; for
y_i = log(exp x_0 + ... + exp x_i) it is exp(x_i - y_i) t_i with t_i = g_i + exp(y_i - y_(i+1)) t_(i+1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..backends.cuda.kernels import device_kernel
from ..backends.numba.compile import inline, kernel
from ..core.dtypes import as_dtype
from ..core.shapes import axis as resolve_axis
from ..ir.expr import const, eq, select, var
from ..operators.elementwise import Elementwise
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from ..vmath.exponential import logaddexp
from . import scalar as vm
from .binary import product_of_cotangents, strong_product
from .reduce import split
from .shape import reshape
from .slices import embed, slice_axis

__all__ = ["cumprod", "cumsum", "logcumsumexp", "recurrence"]

# Kernels: x (outer, n, inner), out likewise; `back`: from the last element on.


@kernel
def _cumsum(x, out, outer, n, inner, back):
    width, count = np.uint64(inner), np.uint64(n)
    for o in range(np.uint64(outer)):
        for i in range(count):
            k = count - np.uint64(1) - i if back else i
            here = (o * count + k) * width
            if i == 0:
                for j in range(width):
                    out[here + j] = x[here + j]
            else:
                before = here + width if back else here - width
                for j in range(width):
                    out[here + j] = out[before + j] + x[here + j]


@kernel
def _cumprod(x, out, outer, n, inner):
    width, count = np.uint64(inner), np.uint64(n)
    for o in range(np.uint64(outer)):
        for i in range(count):
            here = (o * count + i) * width
            for j in range(width):
                out[here + j] = x[here + j] if i == 0 else out[here + j - width] * x[here + j]


@kernel
def _logcumsumexp(x, out, outer, n, inner):
    width, count = np.uint64(inner), np.uint64(n)
    for o in range(np.uint64(outer)):
        for i in range(count):
            here = (o * count + i) * width
            for j in range(width):
                out[here + j] = x[here + j] if i == 0 else logaddexp(out[here + j - width], x[here + j])


@inline
def _recurrence_of_zeros(b, a, out, start, count, width, back):
    """One line, where r is 0 without what it is multiplied by."""
    for i in range(count):
        k = count - np.uint64(1) - i if back else i
        here = start + k * width
        if i == 0:
            out[here] = b[here]
        else:
            r = out[here + width if back else here - width]
            out[here] = b[here] + a[here] * r if r != 0 else b[here]


@kernel
def _recurrence(b, a, out, outer, n, inner, back):
    width, count = np.uint64(inner), np.uint64(n)
    for o in range(np.uint64(outer)):
        for i in range(count):
            k = count - np.uint64(1) - i if back else i
            here = (o * count + k) * width
            if i == 0:
                for j in range(width):
                    out[here + j] = b[here + j]
            else:
                before = here + width if back else here - width
                for j in range(width):
                    out[here + j] = b[here + j] + a[here + j] * out[before + j]
        last = o * count * width if back else ((o + np.uint64(1)) * count - np.uint64(1)) * width
        for j in range(width if count else np.uint64(0)):
            if out[last + j] != out[last + j]:  # where NaN comes in, it stays: zeros may have made it
                _recurrence_of_zeros(b, a, out, o * count * width + j, count, width, back)


# On devices a thread has a line.

_LINE = """\
def {name}({arrays}, out, outer, n, inner, back):
    for i in range(cuda.grid(1), outer * inner, cuda.gridsize(1)):
        at = (i // inner) * n * inner + i % inner + back * (n - 1) * inner
        step = -inner if back else inner
        total = x[at]
        out[at] = total
        for _ in range(1, n):
            at += step
            total = {following}
            out[at] = total
"""


def _line(name: str, following: str, arrays: str = "x", **helpers) -> Callable:
    """Makes launchers, from the operands, the axis, and whether lines are walked from the end."""
    launch = device_kernel(name, _LINE.format(name=name, arrays=arrays, following=following), helpers)

    def bind(operands, results, *, axis: int, back: bool = False) -> Callable:
        outer, n, inner = split(operands[0][0], axis)
        return launch.run(outer * inner if n else 0, outer, n, inner, int(back))

    return bind


# The families.


@structured("_cumsum", method=False, samples=sample_table(
    lambda x, axis, back=False: np.flip(np.cumsum(np.flip(x, axis), axis), axis) if back else np.cumsum(x, axis),
    [(2, 3), {"axis": 1}], [(2, 3), {"axis": 1, "back": True}], [(2, 3, 2), {"axis": 1, "back": True}], ulp=2,
))  # fmt: skip
def _running_sum(data, axis=REQUIRED, back=False):
    """Running sum along one axis, from the last element on if `back`."""
    return Spec(data._shape, data._kind.dtype, axis=axis, back=back)


@_running_sum.run
def _(data, out, *, axis, back):
    _cumsum(data._buf, out._buf, *split(data._shape, axis), int(back))


_running_sum.device(_line("running_sum", "total + x[at]"))


_running_sum.vjp(data=lambda g, axis, back: _running_sum(g, axis=axis, back=not back))


def _numpy_recurrence(b: np.ndarray, a: np.ndarray, axis: int, back: bool = False) -> np.ndarray:
    out = np.moveaxis(np.array(b), axis, 0)
    factors = np.moveaxis(a, axis, 0)
    order = range(len(out) - 2, -1, -1) if back else range(1, len(out))
    for k in order:
        out[k] += factors[k] * out[k + 1 if back else k - 1]
    return np.moveaxis(out, 0, axis)


@structured("_recurrence", method=False, samples=sample_table(
    _numpy_recurrence,
    [(2, 4), (2, 4), {"axis": 1}], [(3, 2), (3, 2), {"axis": 0, "back": True}], [(0, 3), (0, 3), {"axis": 0}], ulp=4,
))  # fmt: skip
def recurrence(b, a, axis=REQUIRED, back=False):
    """r_i = b_i + a_i r_(i-1) along one axis; r_(i+1) instead if `back`. The first factor is not used."""
    return Spec(b._shape, b._kind.dtype, axis=axis, back=back)


@recurrence.run
def _(b, a, out, *, axis, back):
    _recurrence(b._buf, a._buf, out._buf, *split(b._shape, axis), int(back))


recurrence.device(_line("recurrence", "x[at] + (a[at] * total if total != 0 else total)", "x, a"))


def _shifted(x: NDArray, axis: int, by: int) -> NDArray:
    """x_(i - by) at place i, for `by` 1 or -1; 0 where there is none."""
    if x.shape[axis] == 0:
        return x
    part = slice_axis(x, axis=axis, begin=0 if by > 0 else 1, end=x.shape[axis] - 1 if by > 0 else None)
    begin = tuple(1 if k == axis and by > 0 else 0 for k in range(x.ndim))
    return embed(part, begin=begin, step=(1,) * x.ndim, shape=x.shape)


def _adjoint(g: NDArray, a: NDArray, axis: int, back: bool) -> NDArray:
    return recurrence(g, _shifted(a, axis, 1 if back else -1), axis=axis, back=not back)


recurrence.vjp(
    b=lambda g, a, axis, back: _adjoint(g, a, axis, back),
    a=lambda g, a, y, axis, back: product_of_cotangents(
        _adjoint(g, a, axis, back), _shifted(y, axis, -1 if back else 1)
    ),
)


@structured("_cumprod", method=False, samples=sample_table(np.cumprod, [(2, 3), {"axis": 1}], ulp=2))
def _running_product(data, axis=REQUIRED):
    """Running product along one axis."""
    return Spec(data._shape, data._kind.dtype, axis=axis)


@_running_product.run
def _(data, out, *, axis):
    _cumprod(data._buf, out._buf, *split(data._shape, axis))


_running_product.device(_line("running_product", "total * x[at]"))


def _product_vjp(g, data, y, axis):
    one = _shifted(y, axis, 1) + _first(y, axis)
    return strong_product(recurrence(g, _shifted(data, axis, -1), axis=axis, back=True), one)


def _first(x: NDArray, axis: int) -> NDArray:
    """1 at the first place along an axis, 0 elsewhere; a constant."""
    mask = np.zeros([n if k == axis else 1 for k, n in enumerate(x.shape)])
    mask[(slice(None),) * axis + (slice(0, 1),)] = 1
    return from_value(mask, like=x._kind, dtype=x._kind.dtype)


_running_product.vjp(data=_product_vjp)

#: exp(a - b), and 0 where both are minus infinity: the share of a sum that has no terms.
_share = Elementwise(
    "exp_difference", select(eq(var("x1"), -np.inf), const(0), vm.exp(var("x0") - var("x1"))), 2, ints=False
)


@structured("_logcumsumexp", method=False, samples=sample_table(
    lambda x, axis: np.logaddexp.accumulate(x, axis), [(2, 3), {"axis": 1}], ulp=4, ints=False
))  # fmt: skip
def _running_log_sum(data, axis=REQUIRED):
    """Running log-sum-exp along one axis."""
    return Spec(data._shape, data._kind.dtype, axis=axis)


@_running_log_sum.run
def _(data, out, *, axis):
    _logcumsumexp(data._buf, out._buf, *split(data._shape, axis))


_running_log_sum.device(_line("running_log_sum", "logaddexp(total, x[at])", logaddexp=logaddexp))


def _log_sum_vjp(g, data, y, axis):
    factors = _share.apply((y, _shifted(y, axis, -1)))  # the last one is not used
    return strong_product(recurrence(g, factors, axis=axis, back=True), _share.apply((data, y)))


_running_log_sum.vjp(data=_log_sum_vjp)


# What users call.


def _along(name: str, family: Callable, what: str, floats: bool, gradient: str, **sample) -> Callable:
    def call(a, axis=None, dtype=None):
        x = as_array(a, name, "a")
        if dtype is not None:
            x = x.astype(as_dtype(dtype).type)
        elif x._kind.dtype.name == "bool":
            x = x.astype("int64")
        if floats and not x._kind.dtype.is_float:
            x = x.astype(None)
        if axis is None:
            x, axis = reshape(x, (x.size,)), 0
        return family(x, axis=resolve_axis(axis, x.ndim, name))

    call.__name__ = name
    call.__doc__ = f"""{what}

    Parameters
    ----------
    a : NDArray
    axis : int, optional
        Default: over the flattened array.
    dtype : optional
        Convert to this dtype first. Integers stay in theirs, bools become int64.

    Returns
    -------
    NDArray
        The shape of `a`; 1-d if `axis` is None.
    """
    rows: list = [
        [(2, 3)],
        [(2, 3), {"axis": 0}],
        [(2, 3, 2), {"axis": -2}],
        [(0, 3), {"axis": 0}],
        [()],
        [(1,), {"axis": 0}],
    ]
    samples = sample_table(sample.pop("reference"), *rows, **sample)
    return composite(name, method=True, samples=samples, gradient=gradient)(call)


def _log_sums(x: np.ndarray, axis=None) -> np.ndarray:
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return np.logaddexp.accumulate(x, axis) if x.size else x


cumsum = _along(
    "cumsum", _running_sum, "Running sum of the elements.", False, "sums of g from the end", reference=np.cumsum, ulp=2
)
cumprod = _along(
    "cumprod",
    _running_product,
    "Running product of the elements; its gradient is right where elements are 0.",
    False,
    "",
    reference=np.cumprod,
    ulp=2,
)
logcumsumexp = _along(
    "logcumsumexp",
    _running_log_sum,
    "Running log(sum(exp)) of the elements, without overflow.",
    True,
    "sums from the end of ``g*exp(a_j - y)``, for element j",
    reference=_log_sums,
    ulp=4,
    result="float",
)
