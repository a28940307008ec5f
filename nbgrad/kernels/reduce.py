"""Reductions: sums and what is made of them, and what all reductions share.

The maths. An array is seen as (outer, n, inner) with the n elements of the middle axis combined; several
axes that are not neighbours are reduced one group after the other, the largest first. ``sum`` and
``broadcast_to`` are each other's derivative. Names as NumPy's; ``exclude`` (reduce all axes but these) is
MXNet's, and so is the shape (1,) of a full reduction without ``keepdims``.

Accuracy: along contiguous elements sums run in blocks of 512 with independent partial sums, block totals
are added with compensation, so the error does not grow with the number of elements. float32 (and float16)
blocks are combined in float64. Long sums are sums of the sums of blocks of 65536 elements, which threads may
share. Integers are summed in 64 bits and stored in their own dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, wrap
from ..backends import threads
from ..backends.buffer_pool import LARGE
from ..backends.numba.compile import inline, kernel
from ..core.registry import set_role
from ..core.shapes import axes as resolve_axes
from ..core.shapes import kept, size
from ..errors import AttrError
from ..ir.expr import const, eq, isnan, select, var
from ..operators.cast import cast
from ..operators.elementwise import derived
from ..operators.entry import as_array
from ..operators.samples import Input, Sample, sample_table
from ..operators.structured import Spec, composite, structured
from . import scalar as vm
from . import unary
from .broadcasting import broadcast_to, spreading
from .shape import reshape

__all__ = [
    "as_float",
    "by_blocks",
    "by_groups",
    "expand",
    "is_long",
    "mean",
    "norm",
    "numpy_reduction",
    "reduced",
    "reduces",
    "reduction",
    "rows",
    "split",
    "sum_",
    "sum_to",
]

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
def _sum_columns(x, out, acc, outer, n, inner, stride):
    """`stride`: from one row of x to the next, `inner` or more."""
    width = np.uint64(inner)
    for o in range(np.uint64(outer)):
        for j in range(width):
            acc[j] = 0
        for k in range(np.uint64(n)):
            base = (o * np.uint64(n) + k) * np.uint64(stride)
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


def reduced(data: NDArray, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of `data` after reducing; what is single has the shape that its conventions say."""
    if keepdims:
        return kept(data._shape, axes)
    return tuple([n for k, n in enumerate(data._shape) if k not in axes]) or data._kind.conventions.scalar


def by_groups(operands: tuple, results: tuple, axes: tuple[int, ...], step: Callable) -> Callable:
    """A launcher that runs `step(x, out, outer, n, inner)` on raw buffers once per run of axes."""
    ((given, _),), ((_, out_kind),) = operands, results
    launch = raw_groups(given, out_kind, axes, step)
    return lambda x, out: launch(x._buf, out._buf)


def _steps(given: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(outer, n, inner) for one run of axes after the other."""
    shape = list(given)
    steps = []
    for run in groups(given, axes) or [()]:
        first, last = (run[0], run[-1] + 1) if run else (len(shape), len(shape))
        steps.append((size(shape[:first]), size(shape[first:last]), size(shape[last:])))
        for m in run:
            shape[m] = 1
    return steps


def raw_groups(given: tuple[int, ...], kind: Kind, axes: tuple[int, ...], step: Callable) -> Callable:
    """The same for raw buffers."""
    *before, lengths = _steps(given, axes)

    def launch(buf, out):
        for outer, n, inner in before:
            target = kind.empty(outer * inner, kind.storage)
            _shared(step, buf, target, outer, n, inner)
            buf = target
        _shared(step, buf, out, *lengths)

    return launch


def _shared(step: Callable, x, out, outer, n, inner) -> None:
    """``step(x, out, outer, n, inner)``, cut along `outer` if that pays."""
    if outer == 1 or not threads.worth_splitting(x.size // 4):
        step(x, out, outer, n, inner)
        return
    strides = n * inner, inner

    def call(start: int, stop: int) -> None:
        step(*threads.row_slices((x, out), strides, start, stop), stop - start, n, inner)

    threads.parallel_ranges(call, outer, n * inner // 4 + 1)  # additions, in vector registers and for one result


#: Elements of a block of what is long: the same for any number of threads, and so is the result.
_BLOCK = 1 << 16


def is_long(n: int, inner: int) -> bool:
    """Whether :func:`by_blocks` is for `n` rows of `inner` elements."""
    return n * inner >= 16 * _BLOCK and inner <= _BLOCK >> 6


def by_blocks(step: Callable, x, out, outer, n, inner, dtype) -> None:
    """What is long, in blocks of rows, whose results in `dtype` are reduced again."""
    rows = _BLOCK // inner
    whole = n // rows
    rest = n - whole * rows
    end = whole * rows * inner
    parts = np.empty((whole + (rest > 0)) * inner, dtype)
    for o in range(outer):
        part = x[o * n * inner : (o + 1) * n * inner]
        _shared(step, part[:end], parts[: whole * inner], whole, rows, inner)
        if rest:
            step(part[end:], parts[whole * inner :], 1, rest, inner)
        step(parts, out[o * inner : (o + 1) * inner], 1, parts.size // inner, inner)


def _sum_step(x, out, outer, n, inner) -> None:
    if x.dtype.kind != "f":
        _sum_integers(x, out, outer, n, inner)
    elif is_long(n, inner):
        by_blocks(_sum_short, x, out, outer, n, inner, np.float64)
    elif outer == 1 and inner > 1 and threads.worth_splitting(x.size // 4):
        _sum_wide(x, out, n, inner)
    else:
        _sum_short(x, out, outer, n, inner)


def _sum_short(x, out, outer, n, inner) -> None:
    if inner == 1:
        _sum_rows(x, out, outer, n)
    else:
        _sum_columns(x, out, np.empty(inner, np.float64), outer, n, inner, inner)


def _sums(given: tuple[int, ...], kind: Kind, out_kind: Kind, axes: tuple[int, ...]) -> Callable:
    """``launch(x, out)`` of a sum on raw buffers: the kernel itself, where that is all there is to it."""
    steps = _steps(given, axes)
    if len(steps) > 1 or size(given) >= LARGE or not kind.dtype.is_float:
        return raw_groups(given, out_kind, axes, _sum_step)
    ((outer, n, inner),) = steps
    if inner == 1:
        entry = _sum_rows.bind(kind.storage, out_kind.storage, int, int)
        return lambda x, out: entry(x, out, outer, n)
    scratch = np.dtype(np.float64)
    entry = _sum_columns.bind(kind.storage, out_kind.storage, scratch, int, int, int, int)
    return lambda x, out: entry(x, out, np.empty(inner, scratch), outer, n, inner, inner)


def _sum_wide(x, out, n, inner) -> None:
    """A few long rows, cut along the columns."""

    def call(start: int, stop: int) -> None:
        width = stop - start
        _sum_columns(x[start:], out[start:stop], np.empty(width, np.float64), 1, n, width, inner)

    threads.parallel_ranges(call, inner, n // 4 + 1, threads.ALIGN)


def reduction(data: NDArray, axis, keepdims, exclude, op: str) -> Spec:
    """What a reduction gives; bools become int64."""
    axes = resolve_axes(axis, data.ndim, op, bool(exclude))
    dtype = "int64" if data._kind.dtype.name == "bool" else data._kind.dtype
    return Spec(reduced(data, axes, bool(keepdims)), dtype, axes=axes, keepdims=bool(keepdims))


def expand(g: NDArray, shape: tuple[int, ...], axes: tuple[int, ...]) -> NDArray:
    """A reduced array, spread over the axes that were reduced."""
    column = kept(shape, axes)
    return broadcast_to(g if g._shape == column else reshape(g, column), shape=shape)


def reduces(what: str, gradient: str) -> Callable[[Callable], Callable]:
    """Decorator: the docstring of a reduction."""

    def describe(function: Callable) -> Callable:
        lines = [what, "", "Parameters", "----------", "data : NDArray", "axis : int or tuple of int, optional"]
        lines += ["    Axes to reduce; all by default, and for ``()``."]
        lines += ["keepdims : bool", "    Keep reduced axes with length 1."]
        if "exclude" in function.__code__.co_varnames:
            lines += ["exclude : bool", "    Reduce all axes but these."]
        lines += ["", "Returns", "-------", "NDArray"]
        lines += ["    The shape of `data` without these axes; (1,) if that leaves none and `keepdims` is not set."]
        lines += ["", "Notes", "-----", f"Gradient: {gradient}."]
        function.__doc__ = "\n".join(lines)
        return function

    return describe


# What tests compare with.


def numpy_reduction(function):
    """A NumPy reduction with MXNet's arguments and shapes."""

    def reference(a: np.ndarray, axis=None, keepdims=False, exclude=False, **more) -> np.ndarray:
        every = range(a.ndim)
        given = tuple(every) if axis in (None, ()) else np.arange(a.ndim)[np.array(axis)].reshape(-1)
        axes = tuple(k for k in every if (k in given) != exclude)
        out = np.asarray(function(a, axis=axes, keepdims=keepdims, **more))
        return out if out.ndim or keepdims else out.reshape(1)

    return reference


def rows(function, low: float = -2.0, high: float = 2.0, empty: bool = True, **options) -> tuple[Sample, ...]:
    """The samples of a reduction; `empty`: whether there may be no elements to reduce."""

    def of(*shape: int) -> Input:
        return Input(shape, low, high)

    some: list[list] = [
        [of(2, 3, 2), {"axis": 1}],
        [of(2, 3)],
        [of(2, 3, 2), {"axis": (0, -1)}],
        [of(2, 3), {"axis": -1, "keepdims": True}],
        [of(2, 3), {"axis": ()}],
        [of(2, 1, 2), {"axis": (0, 1, 2), "keepdims": True}],
        [of(1, 1), {"axis": 0}],
        [of()],
        [of(), {"keepdims": True}],
        [of(0, 3), {"axis": 1}],
    ]
    if empty:
        some += [[of(0, 3), {"axis": 0}], [of(0, 3)]]
    if options.pop("exclude", True):
        some += [[of(2, 3, 2), {"axis": 1, "exclude": True}], [of(2, 3), {"axis": (0, 1), "exclude": True}]]
    return sample_table(numpy_reduction(function), *some, **options)


@structured("sum", aliases=("sum_axis",), samples=rows(np.sum, ulp=2))
@reduces("Sum of elements.", "g for every element")
def sum_(data, axis=None, keepdims=False, exclude=False):
    return reduction(data, axis, keepdims, exclude, "sum")


@sum_.bind
def _(operands, results, *, axes, keepdims):
    ((shape, kind),), ((_, out_kind),) = operands, results
    launch = _sums(shape, kind, out_kind, axes)
    return lambda x, out: launch(x._buf, out._buf)


sum_.vjp(data=lambda g, data_shape, axes: expand(g, data_shape, axes))


@sum_.raw
def _(operands, results, *, axes, keepdims):
    ((shape, kind),) = operands
    return (spreading(kind, kept(shape, axes), shape),) if kind.dtype.is_float else None


@sum_.lower
def _(graph, x, *, axes, keepdims):
    return graph.reduce("sum", x, axes) if x.value.dtype.is_float or x.value.dtype.name == "int64" else None


@broadcast_to.lower
def _(graph, x, *, shape):
    return graph.broadcast_to_shape(x, shape)


@composite(
    samples=sample_table(
        lambda a, shape: np.einsum(
            {(2, 3): "ij->ij", (1, 3): "ij->j", (3,): "ij->j", (2, 1): "ij->i", (): "ij->"}[shape], a
        ).reshape(shape),
        [(2, 3), {"shape": (1, 3)}],
        [(2, 3), {"shape": (3,)}],
        [(2, 3), {"shape": (2, 1)}],
        [(2, 3), {"shape": ()}],
        [(2, 3), {"shape": (2, 3)}],
        ulp=2,
    )
)
def sum_to(data, shape):
    """Sum over the axes that broadcasting `shape` to ``data.shape`` would repeat: the adjoint of ``broadcast_to``.

    Returns
    -------
    NDArray
        Of `shape`.

    Notes
    -----
    Gradient: g repeated.
    """
    data = as_array(data, "sum_to")
    repeated = _repeated(data.shape, shape)
    return reshape(sum_(data, axis=repeated, keepdims=True) if repeated else data, shape)


def _repeated(wide: tuple[int, ...], narrow: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `wide` along which broadcasting `narrow` to it repeats."""
    extra = len(wide) - len(narrow)
    return tuple([k for k, n in enumerate(wide) if k < extra or (narrow[k - extra] == 1 and n != 1)])


@lru_cache(1024)
def _summing(kind: Kind, wide: tuple[int, ...], narrow: tuple[int, ...]) -> Callable:
    """``pull(g, old)``, :func:`sum_to` on raw buffers."""
    n, axes = size(narrow), _repeated(wide, narrow)
    launch = None if kind.gpu or kind.dtype.name == "float16" else _sums(wide, kind, kind, axes)

    def pull(g, old):
        if launch is None:
            total = sum_to(wrap(g, wide, kind), narrow)._buf if axes else g.copy()
        else:
            total = kind.empty(n, kind.storage)
            launch(g, total)
        if old is None:
            return total
        kind.accumulate(total, old)
        return old

    return pull


set_role("unbroadcast", sum_to)
set_role("unbroadcast_raw", _summing)
broadcast_to.vjp(data=lambda g, data_shape: sum_to(g, data_shape))


@broadcast_to.raw
def _(operands, results, *, shape):
    ((before, kind),) = operands
    return (_summing(kind, shape, before),) if kind.dtype.is_float and shape != before else None


def as_float(data: NDArray) -> NDArray:
    return data if data._kind.dtype.is_float else cast(data, data._kind.as_float())


def _count(data: NDArray, axes: tuple[int, ...]) -> int:
    return size([data.shape[k] for k in axes])


def _mean(a: np.ndarray, axis, keepdims: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.sum(a, axis=axis, keepdims=keepdims) / np.prod([a.shape[k] for k in axis])


@composite(method=True, samples=rows(_mean, ulp=2, result="float"))
@reduces("Mean of elements.", "g/n for each of n elements")
def mean(data, axis=None, keepdims=False, exclude=False):
    data = as_array(data, "mean")
    axes = resolve_axes(axis, data.ndim, "mean", bool(exclude))
    total = sum_(as_float(data), axis=axis, keepdims=keepdims, exclude=exclude)
    return total / _count(data, axes) if _count(data, axes) else total * float("nan")


_no_nan = derived("nan_to_zero", select(isnan(var("x0")), const(0), var("x0")), 1, 0, True)


@composite(method=True, samples=rows(np.nansum, ulp=2))
@reduces("Sum of the elements that are not NaN.", "g for every element, 0 for NaN")
def nansum(data, axis=None, keepdims=False, exclude=False):
    return sum_(_no_nan.apply1(as_array(data, "nansum")), axis, keepdims, exclude)


_x = var("x0")
_sqrt_or_zero = derived("sqrt_or_zero", select(eq(_x, 0), const(0), vm.sqrt(_x)), 1, 0, False)


@composite(
    method=True,
    samples=rows(lambda a, **at: np.sqrt(np.sum(a * a, **at)), 0.2, 2.0, ulp=2, result="float", exclude=False)
    + sample_table(
        numpy_reduction(lambda a, ord, **at: np.sum(np.abs(a), **at)),
        [Input((2, 3), 0.2, 2.0), {"ord": 1, "axis": 0}],
        [Input((2, 3), -2.0, -0.2), {"ord": 1}],
        ulp=2,
        result="float",
    ),
)
def norm(data, ord=2, axis=None, out_dtype=None, keepdims=False):
    """Vector norm over the given axes: sum of magnitudes (`ord` 1) or root of the sum of squares (`ord` 2).

    Parameters
    ----------
    data : NDArray
    ord : {1, 2}
    axis
        As for ``sum``.
    out_dtype : optional
        Dtype of the result.
    keepdims : bool
        As for ``sum``.

    Returns
    -------
    NDArray
        The shape of `data` without these axes; (1,) if that leaves none and `keepdims` is not set.

    Notes
    -----
    The gradient where the norm is 0 is 0, a subgradient.
    """
    data = as_float(as_array(data, "norm"))
    if ord not in (1, 2):
        raise AttrError(f"norm: ord must be 1 or 2, got {ord!r}")
    if ord == 1:
        result = sum_(unary.abs_(data), axis, keepdims)
    else:
        result = _sqrt_or_zero.apply1(sum_(unary.square(data), axis, keepdims))
    return result if out_dtype is None else result.astype(out_dtype)
