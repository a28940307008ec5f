"""Arrays from nothing, and from other arrays' shapes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, empty, from_value, full, set_storage_type
from ..core.context import Context, usable
from ..core.dtypes import as_dtype
from ..core.shapes import size
from ..errors import AttrError, OutOfMemoryError, ShapeError
from ..operators.cast import cast as _cast_to
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import Spec, composite, structured
from .unary import identity

__all__ = ["arange", "array", "eye", "full_of", "linspace", "ones", "zeros"]


def array(source_array, ctx: Context | None = None, dtype=None) -> NDArray:
    """An array with a copy of the given values; the copy of an NDArray is recorded.

    Parameters
    ----------
    source_array : number, nested sequence, numpy.ndarray or NDArray
    ctx : Context, optional
        Default: the current context.
    dtype : str or type, optional
        Default: the dtype of what has one (a NumPy array, an NDArray, a Series of pandas ...); for Python's numbers,
        bool if all are True or False, else float32 (see `set_default_dtype`).

    Returns
    -------
    NDArray

    Raises
    ------
    ShapeError
        If nested sequences have different lengths.
    DTypeError
        If the elements are not numbers, or of a dtype that is not supported (complex, for example).

    Examples
    --------
    >>> import numpy as np
    >>> from nbgrad import nd
    >>> nd.array([1, 2]).dtype.__name__, nd.array(np.ones(2)).dtype.__name__
    ('float32', 'float64')
    """
    if not isinstance(source_array, NDArray):
        return from_value(source_array, dtype=dtype, ctx=ctx)
    target = source_array._kind.dtype if dtype is None else as_dtype(dtype)
    return _cast_to(source_array, kind_of(target, usable(ctx)))


def zeros(shape, ctx: Context | None = None, dtype=None, **kwargs) -> NDArray:
    """An array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
    ctx : Context, optional
    dtype : optional
        Default: float32 (see ``set_default_dtype``).
    out : NDArray, optional
        Where to put them, instead of a new array.
    stype : str, optional
        A label; see ``tostype``.
    """
    return _constant("zeros", 0, shape, ctx, dtype, **kwargs)


def ones(shape, ctx: Context | None = None, dtype=None, **kwargs) -> NDArray:
    """An array of ones; parameters as for ``zeros``."""
    return _constant("ones", 1, shape, ctx, dtype, **kwargs)


def full_of(shape, val, ctx: Context | None = None, dtype=None, out: NDArray | None = None) -> NDArray:
    """An array with every element `val`; other parameters as for ``zeros``."""
    made = full(shape, val, dtype, ctx)
    if out is None:
        return made
    out[:] = made
    return out


def empty_of(shape, ctx: Context | None = None, dtype=None, stype: str | None = None) -> NDArray:
    """An array whose elements are not set; parameters as for ``zeros``."""
    return set_storage_type(empty(shape, dtype, ctx), stype or "default")


def _constant(op: str, value: float, shape, ctx, dtype, out=None, stype: str = "default", name=None, **unknown):
    if unknown:
        raise TypeError(f"{op}: keyword {next(iter(unknown))!r} is unknown; its arguments are shape, ctx, dtype, out")
    return set_storage_type(full_of(shape, value, ctx, dtype, out), stype)


def tostype(self: NDArray, stype: str) -> NDArray:
    """The array itself, or a copy of it, labelled with another storage type.

    Storage is always dense: ``'row_sparse'`` and ``'csr'`` are names that old scripts can give it. Recorded.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.ones(2).stype, nd.ones(2).tostype("csr").stype
    ('default', 'csr')
    """
    return self if stype == self.stype else set_storage_type(copy(self), stype)


def arange(start, stop=None, step=1.0, repeat=1, infer_range=None, ctx: Context | None = None, dtype=None) -> NDArray:
    """Numbers from `start` (0 if only one is given) up to but without `stop`, `step` apart, each `repeat` times.

    For an integer `dtype`, `start` and `step` are truncated, and as many numbers given as without.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.arange(2, 6, step=2, repeat=2).tolist()
    [2.0, 2.0, 4.0, 4.0]
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise AttrError("arange: step must not be 0")
    target = as_dtype(dtype)
    exact = all(isinstance(v, int | np.integer) for v in (start, stop))
    exact = exact and float(step).is_integer()
    count = max(0, -((int(start) - int(stop)) // int(step)) if exact else math.ceil((stop - start) / step))
    if not target.is_float:  # as MXNet and NumPy: numbers of that dtype are counted, 1.3, 2.6, 3.9 as 1, 2, 3
        start, whole = int(start), int(step)
        if not whole:
            raise AttrError(f"arange: step {step!r} is 0 as {target}; use a floating dtype, and astype")
        step = whole
    with _room("arange", (count * max(repeat, 1),)):
        return from_value(np.repeat(start + step * np.arange(count), repeat), dtype=target, ctx=ctx)


def linspace(start, stop, num: int, endpoint: bool = True, ctx: Context | None = None, dtype=None) -> NDArray:
    """`num` evenly spaced numbers from `start` to `stop` (without it if not `endpoint`)."""
    with _room("linspace", (num,)):
        return from_value(np.linspace(start, stop, num, endpoint=endpoint), dtype=as_dtype(dtype), ctx=ctx)


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype=None) -> NDArray:
    """Ones on diagonal `k`, zeros elsewhere, in shape (N, M or N)."""
    with _room("eye", (N, M or N)):
        return from_value(np.eye(N, M or N, k), dtype=as_dtype(dtype), ctx=ctx)


@contextmanager
def _room(op: str, shape: tuple[int, ...]) -> Iterator[None]:
    """Around what NumPy makes, of this shape."""
    count = size(shape)
    try:
        if count > sys.maxsize // 8:  # NumPy has several errors for it
            raise MemoryError
        yield
    except MemoryError:
        what = f"no memory for an array of shape {shape}, {count} elements ({8 * count} bytes while it is made)"
        raise OutOfMemoryError(f"{op}: {what}; make a smaller one") from None


def _like(value: float, name: str):
    def call(data, dtype=None):
        x = as_array(data, name)
        return full(x.shape, value, x._kind.dtype if dtype is None else dtype, x._kind.ctx, x._kind.conventions)

    call.__name__ = name
    call.__doc__ = f"An array of {name.split('_')[0]} with the shape and (unless given) dtype of `data`. Gradient: 0."
    return composite(
        name, method=True, samples=sample_table(f"numpy.{name}", [(2, 3)], [()], [(2, 0)]), differentiable=False
    )(call)


zeros_like = _like(0, "zeros_like")
ones_like = _like(1, "ones_like")


@composite(
    method=False,
    samples=sample_table(np.full_like, [(2, 3), {"fill_value": 2}], [(), {"fill_value": 1}]),
    differentiable=False,
)
def full_like(data, fill_value, dtype=None):
    """An array of one value with the shape and (unless given) dtype of `data`. Gradient: 0.

    Returns
    -------
    NDArray
        Shape of `data`.
    """
    x = as_array(data, "full_like")
    return full(x.shape, fill_value, x._kind.dtype if dtype is None else dtype, x._kind.ctx, x._kind.conventions)


@composite(
    "cast",
    aliases=("Cast", "amp_cast"),
    method=True,
    samples=sample_table(
        np.ndarray.astype, [(2, 3), {"dtype": "float64"}], [(), {"dtype": "float64"}], result="float64"
    )
    + sample_table(np.ndarray.astype, [(2, 3), {"dtype": "int32"}], result="int32", order=0),
)
def cast(data, dtype):
    """The array converted to another dtype. The gradient is converted back.

    Parameters
    ----------
    data : NDArray
    dtype : str or type

    Returns
    -------
    NDArray
        Floats become integers by truncation; NaN and what does not fit give the smallest integer.
    """
    x = as_array(data, "cast")
    return _cast_to(x, x._kind.of(as_dtype(dtype)))


@composite(
    "BlockGrad",
    aliases=("stop_gradient",),
    method=False,
    samples=sample_table(np.array, [(2, 3)], [()], [(0,)]),
    differentiable=False,
)
def block_grad(data):
    """The same values as a constant: no gradient flows through.

    Returns
    -------
    NDArray
        A copy.
    """
    return identity(as_array(data, "BlockGrad").detach())


@structured(
    anywhere=True, method=False, samples=sample_table(np.array, [(2, 3)], [()], [(0,)], order=0, loss=lambda x: x)
)
def make_loss(data):
    """The array as a loss: its gradient is ones, whatever the head gradient.

    Parameters
    ----------
    data : NDArray

    Returns
    -------
    NDArray
        A copy.
    """
    return Spec(data._shape, data._kind.dtype)


@make_loss.run
def _(data, out):
    out._buf[:] = data._buf


make_loss.vjp(data=lambda g: full(g.shape, 1, g.dtype, g.ctx, g._kind.conventions))


def astype(self: NDArray, dtype, copy: bool = True) -> NDArray:
    """The array converted to `dtype`: a new array unless `copy` is False and the dtype is the same."""
    kind = self._kind.of(as_dtype(dtype))
    if self._kind is kind and not copy:
        return self
    return identity(self) if self._kind is kind else _cast_to(self, kind)


def copy(self: NDArray) -> NDArray:
    """A copy on new memory; recorded."""
    return identity(self)


def copyto(self: NDArray, other) -> NDArray:
    """Copy the values into another array of the same shape (returned), or onto a context (a new array)."""
    if isinstance(other, Context):
        return _cast_to(self, self._kind.on(usable(other)))
    if not isinstance(other, NDArray):
        raise AttrError(f"copyto: an NDArray or a Context is needed, got {other!r}")
    if other is self:
        return other
    if other.shape != self.shape:
        raise ShapeError(f"copyto: shapes must be equal, got {self.shape} into {other.shape}")
    other[:] = self
    return other


def as_in_context(self: NDArray, context: Context) -> NDArray:
    """The array on `context`: itself if it is there, else a copy; recorded."""
    return self if self._kind.ctx == context else _cast_to(self, self._kind.on(usable(context)))
