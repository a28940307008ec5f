"""Random arrays: one stream of numbers, positions in it counted.

The stream is a function of the seed (:mod:`.philox`). Drawing takes the next positions, whichever thread
asks, so a program that draws in the same order gets the same numbers again after ``seed(n)``.

``uniform``, ``normal`` and ``exponential`` are shifted and scaled standard draws, and so differentiable with
respect to parameters that are arrays.

A traced function draws nothing: it counts what it will draw. Whenever it runs it takes so much of the stream at once,
and its draws are steps that know their places in that part, which is an array captured from outside, :data:`PART`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, from_value, wrap
from ..autodiff import tracing
from ..core.context import CPU0, Context, untraced_context, usable
from ..core.conventions import MXNET, Conventions
from ..core.dtypes import DType, as_dtype, float32, int64
from ..core.fork_safety import lock
from ..core.shapes import as_shape, size
from ..errors import AttrError, NBGradError, ShapeError, TraceError
from ..ir.graph import Graph
from ..operators.cast import cast, reinterpreted
from ..operators.entry import as_array, store_out
from ..operators.structured import REQUIRED, Spec, structured
from . import philox, random_device
from .binary import add, multiply
from .host import demanded
from .indexing import take_axis
from .shape import reshape

__all__ = ["bernoulli", "exponential", "normal", "randint", "randn", "seed", "shuffle", "uniform"]


_OTHER_DRAWS = (
    "checkpoint: the function draws other random numbers when it runs again; it must do the same each time it is "
    "called with the same arguments"
)


class Stream:
    """Numbers that follow from a key, and the position up to which they are drawn."""

    def __init__(self, key: int = 0, offset: int = 0) -> None:
        self.lock = lock("random")
        self.key = key
        self.offset = offset

    def take(self, blocks: int) -> tuple[int, int]:
        """Key and position of the next `blocks` blocks; while tracing, the position in :data:`PART`."""
        graph = tracing.current.graph
        inside = _draws.graph is graph  # a scope around a trace has nothing to do with what is traced
        if inside and _draws.again is not None:
            key, start, counted = next(_draws.again, (0, 0, None))
            if counted != blocks:
                raise NBGradError(_OTHER_DRAWS)
        elif graph is not None:
            if self is not _stream:
                raise TraceError(
                    "a traced function draws from a Generator of its own, whose numbers would be the same in every "
                    "call; use np.random.normal and the like, or draw outside and pass the numbers as an argument"
                )
            key, start = 0, graph.drawn
            graph.drawn += blocks
        elif _draws.ahead is not None:
            key, start = self.key, _draws.ahead
            _draws.ahead += blocks
        else:
            with self.lock:
                key, start = self.key, self.offset
                self.offset += blocks
        if inside and _draws.log is not None:
            _draws.log.append((key, start, blocks))
        return key, start


class _Draws(threading.local):
    """What a thread draws besides reading on in the stream: it keeps a log, or draws what a log says again."""

    log: list[tuple[int, int, int]] | None = None
    again: Iterator[tuple] | None = None
    graph: Graph | None = None  # what was traced where the scope began
    ahead: int | None = None  # where it reads on, if that is not to move the stream
    stream: Stream | None = None  # what it reads; None for the one that all share


_stream = Stream()
_draws = _Draws()


def take(blocks: int) -> tuple[int, int]:
    """Key and position of the next blocks of the stream that this thread draws from."""
    return (_draws.stream or _stream).take(blocks)


@contextlib.contextmanager
def drawing_from(stream: Stream | None) -> Iterator[None]:
    """A scope in which this thread draws from another stream; None for the one that all share."""
    before, _draws.stream = _draws.stream, stream
    try:
        yield
    finally:
        _draws.stream = before


@contextlib.contextmanager
def logged() -> Iterator[list]:
    """A scope that keeps, in the list it gives, which parts of the stream this thread draws."""
    outer, graph = _draws.log, _draws.graph
    again, inside = _draws.again, tracing.current.graph
    log: list = []
    _draws.log, _draws.graph = log, inside
    if inside is not graph:
        _draws.again = None
    try:
        yield log
    finally:
        _draws.log, _draws.again, _draws.graph = outer, again, graph
        if outer is not None and inside is graph:
            outer += log


@contextlib.contextmanager
def redrawn(log: Sequence[tuple]) -> Iterator[None]:
    """A scope in which this thread draws the parts of the stream in `log` again, all of them.

    The stream itself does not move. Another draw is an :class:`NBGradError`.
    """
    before = _draws.log, _draws.again, _draws.graph
    again = iter(log)
    _draws.log, _draws.again, _draws.graph = None, again, tracing.current.graph
    try:
        yield
    finally:
        _draws.log, _draws.again, _draws.graph = before
    if next(again, None) is not None:
        raise NBGradError(_OTHER_DRAWS)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """A scope in which this thread draws what comes next in the stream, which does not move."""
    before = _draws.log, _draws.again, _draws.graph, _draws.ahead
    _draws.log, _draws.again, _draws.graph, _draws.ahead = None, None, tracing.current.graph, _stream.offset
    try:
        yield
    finally:
        _draws.log, _draws.again, _draws.graph, _draws.ahead = before


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Start the stream of random numbers anew.

    Parameters
    ----------
    seed_state : int
        The same seed gives the same numbers, on every machine.
    ctx : optional
        Accepted for MXNet's sake; there is one stream.

    Examples
    --------
    >>> import nbgrad as nb
    >>> nb.random.seed(7)
    >>> a = nb.nd.random.uniform(shape=3)
    >>> nb.random.seed(7)
    >>> b = nb.nd.random.uniform(shape=3)
    >>> (a == b).tolist()
    [1.0, 1.0, 1.0]
    """
    if isinstance(seed_state, bool) or not isinstance(seed_state, int | np.integer):
        raise AttrError(f"seed: an integer is needed, got {seed_state!r}")
    if _draws.again is not None:
        return
    if tracing.current.graph is not None:
        raise TraceError("a traced function calls random.seed: call it before the compiled function, not inside")
    with _stream.lock:
        _stream.key = int(seed_state) & (2**63 - 1)
        _stream.offset = 0


#: While tracing, stands for the part of the stream that a call of the compiled function draws: key and position.
PART = from_value(np.zeros(2, np.int64))


def part(blocks: int, ctx: Context = CPU0) -> NDArray:
    """What is in the place of :data:`PART` for one call, which draws so many blocks."""
    return from_value(np.array(take(blocks), np.int64), ctx=ctx)


@structured("_drawn", method=False, differentiable=False)
def _drawn(*data, made=REQUIRED, start=REQUIRED, shape=REQUIRED, dtype=REQUIRED, numbers=()):
    """What the kernel `made` draws from `start` on in a part of the stream, with parameters: arrays and numbers."""
    return Spec(shape, dtype, made=made, start=start, numbers=numbers)


@_drawn.run
def _(*arrays, made, start, numbers):
    place, *parameters, out = arrays
    key, first = place._buf.tolist()
    made(out._buf, key, first + start, *[p._buf for p in parameters], *numbers)


@_drawn.device
def _(operands, results, *, made, start, numbers):
    if not random_device.draws(made):
        return None

    def run(place, *arrays):
        *parameters, out = arrays
        random_device.fill(made, out._buf, place._buf, 0, start, [p._buf for p in parameters], numbers)

    return run


def draw(
    kernel, shape: tuple[int, ...], dtype: DType, ctx: Context | None, *parameters, conventions: Conventions = MXNET
) -> NDArray:
    """An array filled by one of :mod:`.philox`'s kernels, or one like them, with the next numbers of the stream.

    Parameters that are arrays come before the numbers.
    """
    kind = kind_of(dtype, usable(ctx if ctx is None else untraced_context(ctx)), conventions)
    inner = kind.of(float32) if dtype.name == "float16" else kind
    n = size(shape)
    key, offset = take(philox.consumed(kernel, n, inner.storage.itemsize))
    arrays = [p for p in parameters if isinstance(p, NDArray)]
    if tracing.current.graph is not None:
        operands = tracing.capture_outside([PART, *arrays])
        numbers = parameters[len(arrays) :]
        drawn = _drawn(*operands, made=kernel, start=offset, shape=shape, dtype=dtype, numbers=numbers)
        return reinterpreted(drawn, conventions)
    here = inner if not inner.gpu or random_device.draws(kernel) else inner.on(CPU0)
    out = wrap(here.empty(n, here.storage), shape, here)
    given, numbers = [p.as_in_context(here.ctx)._buf for p in arrays], parameters[len(arrays) :]
    if here.gpu:
        random_device.fill(kernel, out._buf, random_device.origin(here.ctx)._buf, key, offset, given, numbers)
    else:
        kernel(out._buf, key, offset, *given, *numbers)
    return out if here is kind else cast(out, kind)


def _float_dtype(dtype, op: str) -> DType:
    chosen = as_dtype(None if dtype in (None, "None") else dtype)
    if not chosen.is_float:
        raise AttrError(f"{op}: a floating dtype is needed, got {chosen}")
    return chosen


def _shape_of(shape, parameters: tuple, op: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape per parameter set, and of the parameter arrays (one draw of the first for each of the second)."""
    arrays = [as_array(p, op) for p in parameters if isinstance(p, NDArray)]
    if not arrays:
        return as_shape((1,) if shape in (None, 0) else shape, f"{op}: shape"), ()
    for a in arrays:
        if a.shape != arrays[0].shape or len(arrays) != len(parameters):
            raise ShapeError(f"{op}: parameters must be numbers, or arrays of one shape; got {parameters}")
    return as_shape(() if shape in (None, 0) else shape, f"{op}: shape"), arrays[0].shape


def _affine(standard: NDArray, shift, scale, shape: tuple[int, ...]) -> NDArray:
    """shift + scale*standard for parameter arrays, each broadcast over its own block of draws."""

    def spread(p: NDArray) -> NDArray:
        return reshape(p, p.shape + (1,) * len(shape))

    scaled = multiply(reinterpreted(standard, scale._kind.conventions), spread(scale))
    return scaled if shift is None else add(scaled, spread(shift))


def _positive(x: np.ndarray) -> np.ndarray:
    return x > 0


def _not_negative(x: np.ndarray) -> np.ndarray:
    return ~(x < 0)


def _in_order(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return ~(low > high)


def uniform(low=0.0, high=1.0, shape=None, dtype=None, ctx: Context | None = None, out=None, name=None) -> NDArray:
    """Uniform on [low, high).

    Parameters
    ----------
    low, high : float or NDArray
        Arrays give one block of `shape` per element, and gradients flow to them.
    shape : int or tuple of int, optional
        Default (1,), or one number per element of `low`.
    dtype : optional
        A floating dtype; default float32.
    ctx : Context, optional
    out : NDArray, optional
        Where to put the numbers; gives the shape and dtype.

    Returns
    -------
    NDArray
        Shape ``low.shape + shape``: ``low + (high - low)*u``, u uniform on [0, 1). Gradients: ``1 - u`` for `low`, u
        for `high`.

    Raises
    ------
    AttrError
        If `low` is greater than `high`, or for a dtype that is not floating.
    ShapeError
        For arrays of different shapes, or an array and a number.
    """
    dtype, shape, ctx = _of_out(out, dtype, shape, ctx)
    target = _float_dtype(dtype, "uniform")
    block, outer = _shape_of(shape, (low, high), "uniform")
    if outer:
        low = demanded(_in_order, "uniform: low must not be greater than high", low, high)
        standard = draw(philox.uniform, outer + block, target, ctx, 0.0, 1.0)
        return store_out(_affine(standard, low, high - low, block), out, "uniform")
    if not low <= high:
        raise AttrError(f"uniform: low must not be greater than high, got {low} and {high}")
    return store_out(draw(philox.uniform, block, target, ctx, float(low), float(high)), out, "uniform")


def _of_out(out, dtype, shape, ctx):
    if out is None:
        return dtype, shape, ctx
    as_array(out, "random", "out")
    return out.dtype if dtype is None else dtype, out.shape if shape is None else shape, out.ctx


def normal(loc=0.0, scale=1.0, shape=None, dtype=None, ctx: Context | None = None, out=None, name=None) -> NDArray:
    """Normal with mean `loc` and standard deviation `scale` (>= 0); other parameters as for ``uniform``.

    The draw is ``loc + scale*z``, z the standard normal quantile of a uniform number. Gradients: 1 for `loc`, z for
    `scale`. An :class:`AttrError` for a negative `scale`.
    """
    dtype, shape, ctx = _of_out(out, dtype, shape, ctx)
    target = _float_dtype(dtype, "normal")
    block, outer = _shape_of(shape, (loc, scale), "normal")
    if outer:
        scale = demanded(_not_negative, "normal: scale must not be negative", scale)
        standard = draw(philox.normal, outer + block, target, ctx, 0.0, 1.0)
        return store_out(_affine(standard, loc, scale, block), out, "normal")
    if not scale >= 0:
        raise AttrError(f"normal: scale must not be negative, got {scale}")
    return store_out(draw(philox.normal, block, target, ctx, float(loc), float(scale)), out, "normal")


def randn(*shape, loc=0.0, scale=1.0, dtype=None, ctx: Context | None = None) -> NDArray:
    """Normal numbers in the shape given by the arguments: ``randn(2, 3)``."""
    return normal(loc, scale, shape or (1,), dtype, ctx)


def exponential(scale=1.0, shape=None, dtype=None, ctx: Context | None = None, out=None, name=None) -> NDArray:
    """Exponential with mean `scale` (> 0); other parameters as for ``uniform``.

    The draw is ``scale*e``, e = -log(u) for a uniform number u, which is the gradient for `scale`. An
    :class:`AttrError` for a `scale` that is not positive.
    """
    dtype, shape, ctx = _of_out(out, dtype, shape, ctx)
    target = _float_dtype(dtype, "exponential")
    block, outer = _shape_of(shape, (scale,), "exponential")
    if outer:
        scale = demanded(_positive, "exponential: scale must be positive", scale)
        standard = draw(philox.exponential, outer + block, target, ctx, 1.0)
        return store_out(_affine(standard, None, scale, block), out, "exponential")
    if not scale > 0:
        raise AttrError(f"exponential: scale must be positive, got {scale}")
    return store_out(draw(philox.exponential, block, target, ctx, float(scale)), out, "exponential")


def bernoulli(prob=0.5, shape=None, dtype=None, ctx: Context | None = None) -> NDArray:
    """1 with probability `prob`, else 0."""
    if not 0 <= prob <= 1:
        raise AttrError(f"bernoulli: prob must be in [0, 1], got {prob}")
    block, _ = _shape_of(shape, (prob,), "bernoulli")
    return draw(philox.bernoulli, block, as_dtype(dtype), ctx, 1.0 - float(prob), 1.0)


def randint(low, high, shape=None, dtype="int32", ctx: Context | None = None, out=None) -> NDArray:
    """Integers from `low` up to but without `high`, all equally likely.

    Parameters
    ----------
    low, high : int
    shape : int or tuple of int, optional
        Default (1,).
    dtype : optional
        An integer dtype that holds them; default int32.
    """
    dtype, shape, ctx = _of_out(out, dtype, shape, ctx)
    target = as_dtype(dtype)
    if target.is_float or target.name == "bool":
        raise AttrError(f"randint: an integer dtype is needed, got {target}")
    limits = np.iinfo(target.np)
    if low != int(low) or high != int(high):
        raise AttrError(f"randint: low and high must be integers, got {low} and {high}")
    if not low < high:
        raise AttrError(f"randint: low must be less than high, got {low} and {high}")
    if low < limits.min or high - 1 > limits.max:
        raise AttrError(f"randint: [{low}, {high}) does not fit {target}")
    block = as_shape((1,) if shape is None else shape, "randint: shape")
    return store_out(draw(philox.integers, block, target, ctx, int(low), int(high)), out, "randint")


def permutation(n: int) -> NDArray:
    """The integers below `n` in random order, as int64."""
    return draw(philox.permutation, as_shape(n, "permutation"), int64, None)


def shuffle(data, out=None) -> NDArray:
    """The array with its slices along the first axis in random order. Gradients follow."""
    data = as_array(data, "shuffle")
    if data.ndim == 0:
        raise ShapeError("shuffle: at least one axis is needed")
    return store_out(take_axis(data, permutation(data.shape[0]), 0), out, "shuffle")
