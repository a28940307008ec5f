"""The greatest and the smallest element, and where it is.

Layout and arguments as in :mod:`.reduce`. NaN is both the greatest and the smallest element. A gradient goes
in full to every element that equals the extreme, which is the derivative where there are no ties.
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray
from ..backends.cuda.kernels import cuda, device
from ..backends.numba.compile import inline, kernel
from ..backends.numba.intrinsics import intrinsic, types
from ..core.shapes import axes as resolve_axes
from ..core.shapes import axis as resolve_axis
from ..errors import ShapeError
from ..ir.expr import both, const, either, eq, isnan, lt, select, var
from ..operators.elementwise import derived
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import Spec, composite, structured
from . import scalar as vm
from . import unary
from .reduce import by_blocks, by_groups, expand, is_long, reduced, reduces, rows, split, sum_
from .selection import where
from .shape import reshape

__all__ = ["argmax", "argmin", "greater", "logsumexp", "max_", "min_", "smaller"]

_x0, _x1 = var("x0"), var("x1")

# Kernels: x (outer, n, inner) -> out (outer, inner).


@inline
def _beats(a, b, sign):
    """Whether a comes before b; NaN comes before everything."""
    return (a > b if sign > 0 else a < b) | ((a != a) & (b == b))


def _choose(kind: str, emit, a, b):
    # LLVM's own functions, for it knows how to reduce with them in vector registers; no comparison is that welcome.
    # A NaN among floats wins. nsz: which zero is returned for 0 and -0 does not matter.
    if isinstance(emit.result, types.Float):
        return emit.llvm_intrinsic(f"{kind}imum", a, b, flags=("nsz",))
    signed = isinstance(emit.result, types.Integer) and emit.result.signed
    return emit.llvm_intrinsic(f"{'s' if signed else 'u'}{kind}", a, b)


@intrinsic()
def greater(emit, a, b):
    """The greater of two numbers of one type; NaN if either is."""
    return _choose("max", emit, a, b)


@intrinsic()
def smaller(emit, a, b):
    """The smaller of two numbers of one type; NaN if either is."""
    return _choose("min", emit, a, b)


@inline
def _extreme_of(x, start, n, sign):
    """The extreme of n > 0 elements from x[start]. Both halves at once, for one chain of comparisons would wait on
    itself; the last element starts the second chain, so that an odd n is no exception."""
    half = n // np.uint64(2)
    first, second = x[start], x[start + n - np.uint64(1)]
    if sign > 0:
        for i in range(half):
            first = greater(first, x[start + i])
            second = greater(second, x[start + half + i])
        return greater(first, second)
    for i in range(half):
        first = smaller(first, x[start + i])
        second = smaller(second, x[start + half + i])
    return smaller(first, second)


@kernel
def _extreme(x, out, outer, n, inner, sign):
    width = np.uint64(inner)
    for o in range(np.uint64(outer)):
        first, here = o * np.uint64(n) * width, o * width
        for j in range(width):
            out[here + j] = x[first + j]
        for k in range(np.uint64(1), np.uint64(n)):
            base = first + k * width
            if sign > 0:
                for j in range(width):
                    out[here + j] = greater(out[here + j], x[base + j])
            else:
                for j in range(width):
                    out[here + j] = smaller(out[here + j], x[base + j])


@kernel
def _extreme_rows(x, out, outer, n, sign):
    length = np.uint64(n)
    for o in range(np.uint64(outer)):
        out[o] = _extreme_of(x, o * length, length, sign)


@kernel
def _arg_extreme(x, out, best, outer, n, inner, sign):
    width = np.uint64(inner)
    for o in range(np.uint64(outer)):
        first = o * np.uint64(n) * width
        for j in range(width):
            best[j] = x[first + j]
            out[o * width + j] = 0
        for k in range(np.uint64(1), np.uint64(n)):
            base = first + k * width
            where = out.dtype.type(k)
            for j in range(width):
                a = x[base + j]
                better = _beats(a, best[j], sign)
                best[j] = a if better else best[j]
                out[o * width + j] = where if better else out[o * width + j]


@device
def _device_arg(x, out, outer, n, inner, sign):
    for i in range(cuda.grid(1), outer * inner, cuda.gridsize(1)):
        at = (i // inner) * n * inner + i % inner
        best, where = x[at], 0
        for k in range(1, n):
            a = x[at + k * inner]
            if best == best and (a != a or (a > best if sign > 0 else a < best)):
                best, where = a, k
        out[i] = where


@kernel
def _arg_extreme_rows(x, out, outer, n, sign):
    """Block by block: only the block with the extreme is searched for its place."""
    block, length = np.uint64(1024), np.uint64(n)
    for o in range(np.uint64(outer)):
        start = o * length
        best, block_of_best = x[start], np.uint64(0)
        for b in range((length + block - np.uint64(1)) // block):
            skipped = b * block
            candidate = _extreme_of(x, start + skipped, min(block, length - skipped), sign)
            if _beats(candidate, best, sign):
                best, block_of_best = candidate, skipped
        place, stop = length, min(block_of_best + block, length)
        if best == best:
            for i in range(block_of_best, stop):
                place = smaller(place, i if x[start + i] == best else length)
        else:
            for i in range(block_of_best, stop):
                place = smaller(place, i if x[start + i] != x[start + i] else length)
        out[o] = place


def _of_some(data: NDArray, axis, keepdims, exclude, op: str) -> Spec:
    axes = resolve_axes(axis, data.ndim, op, bool(exclude))
    if any(data.shape[k] == 0 for k in axes):
        raise ShapeError(f"{op}: no elements to choose from: shape {data.shape} reduced over axes {axes}")
    return Spec(reduced(data, axes, bool(keepdims)), data._kind.dtype, axes=axes, keepdims=bool(keepdims))


def _extreme_step(sign: int):
    def short(x, out, outer, n, inner):
        if inner == 1:
            _extreme_rows(x, out, outer, n, sign)
        else:
            _extreme(x, out, outer, n, inner, sign)

    def step(x, out, outer, n, inner):
        if is_long(n, inner):
            by_blocks(short, x, out, outer, n, inner, x.dtype)
        else:
            short(x, out, outer, n, inner)

    return step


_tied = derived("tied", vm.as_number(either(eq(_x0, _x1), both(isnan(_x0), isnan(_x1)))), 2, 0, True)


def _same(g, data, y, axes):
    """Gradient 1 to every element that equals the extreme (and to NaN)."""
    tied = _tied.apply((data.detach(), expand(y.detach(), data.shape, axes)))
    return where(tied, expand(g, data.shape, axes), 0.0)


@structured("max", aliases=("max_axis",), samples=rows(np.max, empty=False))
@reduces("Greatest element; NaN if there is one.", "g for every element that equals it, all of them at a tie")
def max_(data, axis=None, keepdims=False, exclude=False):
    return _of_some(data, axis, keepdims, exclude, "max")


@structured("min", aliases=("min_axis",), samples=rows(np.min, empty=False))
@reduces("Smallest element; NaN if there is one.", "g for every element that equals it, all of them at a tie")
def min_(data, axis=None, keepdims=False, exclude=False):
    return _of_some(data, axis, keepdims, exclude, "min")


@max_.bind
def _(operands, results, *, axes, keepdims):
    return by_groups(operands, results, axes, _extreme_step(1))


@min_.bind
def _(operands, results, *, axes, keepdims):
    return by_groups(operands, results, axes, _extreme_step(-1))


@max_.lower
def _(graph, x, *, axes, keepdims):
    return graph.reduce("max", x, axes) if x.value.dtype.name != "bool" else None


@min_.lower
def _(graph, x, *, axes, keepdims):
    return graph.reduce("min", x, axes) if x.value.dtype.name != "bool" else None


max_.vjp(data=_same)
min_.vjp(data=_same)


def _arg_rows(function):
    def reference(a: np.ndarray, axis=None, keepdims=False) -> np.ndarray:
        return (
            function(a, axis, keepdims=keepdims).reshape(-1 if axis is None and not keepdims else (1,) * a.ndim)
            if axis is None
            else function(a, axis, keepdims=keepdims)
        )

    return sample_table(
        reference,
        [(2, 3)],
        [(2, 3, 2), {"axis": 1}],
        [(2, 3), {"axis": -1, "keepdims": True}],
        [(2, 3), {"keepdims": True}],
        [()],
        [(0, 3), {"axis": 1}],
        result="float32",
    )


def _arg(name: str, sign: int, what: str):
    def infer(data, axis=None, keepdims=False):
        if axis is None:
            shape = (1,) * data.ndim if keepdims else data._kind.conventions.scalar
            lengths = (1, data.size, 1)
        else:
            k = resolve_axis(axis, data.ndim, name)
            shape = reduced(data, (k,), bool(keepdims))
            lengths = split(data._shape, k)
        if lengths[1] == 0:
            raise ShapeError(f"{name}: no elements to choose from in shape {data.shape}")
        return Spec(shape, data._kind.conventions.index, lengths=lengths)

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
    op = structured(name, samples=_arg_rows(getattr(np, name)), differentiable=False)(infer)

    @op.run
    def _(data, out, *, lengths):
        outer, n, inner = lengths
        if inner == 1:
            _arg_extreme_rows(data._buf, out._buf, outer, n, sign)
        else:
            best = np.empty(inner, data._buf.dtype)
            _arg_extreme(data._buf, out._buf, best, outer, n, inner, sign)

    @op.device
    def _(operands, results, *, lengths):
        outer, n, inner = lengths
        return _device_arg.run(outer * inner, outer, n, inner, sign)

    return op


argmax = _arg("argmax", 1, "greatest")
argmin = _arg("argmin", -1, "smallest")


@composite(
    method=True,
    samples=sample_table(lambda a: np.argmax(a, 1), [(2, 3)], [(2, 3, 2)], result="float32"),
    differentiable=False,
)
def argmax_channel(data):
    """Index of the greatest element along axis 1, as float32. Gradient: 0.

    Returns
    -------
    NDArray
        Shape (n, ...) for (n, c, ...).
    """
    return argmax(as_array(data, "argmax_channel"), axis=1)


_finite_or_zero = derived("finite_or_zero", select(lt(vm.absolute(_x0), np.inf), _x0, const(0)), 1, 0, False)


def _log_sum_exp(a: np.ndarray, **at) -> np.ndarray:
    return np.log(np.sum(np.exp(a), **at))


@composite(method=True, samples=rows(_log_sum_exp, empty=False, exclude=False, ulp=2, result="float"))
@reduces("``log(sum(exp(data)))`` without overflow.", "``g*softmax(data)``")
def logsumexp(data, axis=None, keepdims=False):
    data = as_array(data, "logsumexp")
    top = max_(data, axis=axis, keepdims=True).detach()
    top = _finite_or_zero.apply1(top)
    total = unary.log(sum_(unary.exp(data - top), axis=axis, keepdims=True)) + top
    return total if keepdims else reshape(total, reduced(data, resolve_axes(axis, data.ndim, "logsumexp"), False))
