"""Sorting.

A sorted array is its own elements read in the order of ``argsort`` (:mod:`.along`); so derivatives of every order are
reads and adds at the same places.

The order is stable: equal elements keep theirs, whether ascending or descending. NaN comes last either way.
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray, from_host_values, full
from ..autodiff import tracing
from ..core.context import untraced_context
from ..core.dtypes import as_dtype, int64
from ..core.shapes import axis as resolve_axis
from ..errors import AttrError, DTypeError, ShapeError
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from . import sorting_device
from .along import DEEP, PLACES, add_along, read_along
from .host import arrayed
from .indexing import in_range, integers
from .reduce import split
from .shape import reshape

__all__ = ["argsort", "searchsorted", "sort", "take_along_axis", "topk"]


def _ordered(values: np.ndarray, axis: int, ascending: bool, count: int) -> np.ndarray:
    """The first `count` places in the stable order of elements along an axis, NaN last."""
    if not ascending:
        values = -values if values.dtype.kind == "f" else ~values  # -x overflows for integers
    order = np.argsort(values, axis=axis, kind="stable")
    return order if count == order.shape[axis] else order.take(range(count), axis)


@structured("_order", moves_only=True, method=False, differentiable=False, samples=sample_table(
    lambda a, axis, ascending, count: _ordered(a, axis, ascending, count),
    [(2, 7), {"axis": 1, "ascending": True, "count": 7}], [(2, 3, 2), {"axis": 1, "ascending": False, "count": 2}],
    [(1, 90), {"axis": 1, "ascending": False, "count": 90}], [(0, 2), {"axis": 1, "ascending": True, "count": 1}],
    result="int64",
))  # fmt: skip
def _order(data, axis=REQUIRED, ascending=REQUIRED, count=REQUIRED):
    """The first `count` places, as int64, in the stable order of the elements along an axis, NaN last."""
    shape = (*data._shape[:axis], count, *data._shape[axis + 1 :])
    return Spec(shape, int64, axis=axis, ascending=ascending, count=count)


@_order.run
def _(data, out, *, axis, ascending, count):
    np.copyto(out._view(), _ordered(data._view(), axis, ascending, count))


@_order.device
def _(operands, results, *, axis, ascending, count):
    ((shape, kind),) = operands
    return lambda x, out: sorting_device.order(x._buf, kind, out._buf, split(shape, axis), ascending, count)


def _order_of(x: NDArray, axis: int, ascending: bool, count: int | None = None) -> NDArray:
    count = x.shape[axis] if count is None else count
    if _here(x):
        return from_host_values(_ordered(x._view(), axis, ascending, count), x._kind.of(int64))
    return _order(x.detach(), axis=axis, ascending=bool(ascending), count=count)


def _here(*arrays: NDArray) -> bool:
    """Whether NumPy can be asked: nothing is traced, and the arrays are in the host's memory."""
    return tracing.current.graph is None and not any(x._kind.gpu for x in arrays)


def _axis_of(data: NDArray, axis, op: str) -> tuple[NDArray, int]:
    """The array and its axis, the flattened array's for None."""
    if axis is None:
        return reshape(data, (data.size,)), 0
    return data, resolve_axis(axis, data.ndim, op)


def _positions(index: NDArray, n: int, dtype, op: str) -> NDArray:
    """Positions below `n` as an array of `dtype`."""
    target = as_dtype(dtype)
    if target.name == "bool":
        raise DTypeError(f"{op}: positions cannot be of dtype bool; use dtype='int64'")
    limit = 2 ** (np.finfo(target.np).nmant + 1) if target.is_float else int(np.iinfo(target.np).max)
    if n - 1 > limit:
        raise DTypeError(f"{op}: positions below {n} are not exact in {target}; use dtype='int64'")
    return arrayed(index, target, index)


def _sorted(a: np.ndarray, axis=-1, is_ascend=True) -> np.ndarray:
    ordered = np.sort(a, axis)
    return ordered if is_ascend else np.flip(ordered, 0 if axis is None else axis)


@composite(
    method=True,
    samples=sample_table(
        _sorted,
        [(2, 4)],
        [(2, 4), {"is_ascend": False}],
        [(3, 2, 2), {"axis": 0}],
        [(2, 3), {"axis": None}],
        [(0, 3)],
        [(2, 0), {"axis": 1}],
    ),
)
def sort(data, axis=-1, is_ascend=True):
    """The elements in order along an axis.

    Parameters
    ----------
    data : NDArray
    axis : int or None
        None: the flattened array.
    is_ascend : bool
        Smallest first. Equal elements keep their order and NaN comes last either way.

    Returns
    -------
    NDArray
        Shape (1-d for axis None) and dtype of `data`.

    Raises
    ------
    IndexError
        If there is no such axis.

    Notes
    -----
    The gradient of an element is that of the place it goes to.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.sort(nd.array([3, 1, 2])).tolist(), nd.sort(nd.array([3, 1, 2]), is_ascend=False).tolist()
    ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    """
    x, k = _axis_of(as_array(data, "sort"), axis, "sort")
    return read_along(x, _order_of(x, k, is_ascend), k)


@composite(
    method=True,
    samples=sample_table(
        lambda a, axis=-1, is_ascend=True: np.argsort(a if is_ascend else -a.astype(float), axis, kind="stable"),
        [(2, 4)],
        [(2, 4), {"is_ascend": False}],
        [(3, 2, 2), {"axis": 0}],
        [(2, 3), {"axis": None}],
        result="float32",
    ),
    differentiable=False,
)
def argsort(data, axis=-1, is_ascend=True, dtype="float32"):
    """The positions of the elements in order along an axis; arguments as for ``sort``.

    Parameters
    ----------
    data : NDArray
    axis : int or None
    is_ascend : bool
    dtype : optional
        Of the positions; default float32, as in MXNet.

    Returns
    -------
    NDArray
        Shape of `data`.

    Raises
    ------
    DTypeError
        If `dtype` cannot hold the positions exactly.

    Notes
    -----
    Gradient: 0.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.argsort(nd.array([3, 1, 2]), dtype="int32").tolist()
    [1, 2, 0]
    """
    x, k = _axis_of(as_array(data, "argsort"), axis, "argsort")
    return _positions(_order_of(x, k, is_ascend), x.shape[k], dtype, "argsort")


def _top(a: np.ndarray, axis=-1, k=1, ret_typ="value", is_ascend=False) -> np.ndarray:
    ordered = _sorted(a, axis, is_ascend)
    return ordered.take(range(k), 0 if axis is None else axis)


@composite(
    method=True,
    samples=sample_table(
        _top,
        [(2, 4), {"k": 2, "ret_typ": "value"}],
        [(4, 2), {"k": 1, "ret_typ": "value", "axis": 0, "is_ascend": True}],
        [(2, 3), {"k": 2, "ret_typ": "value", "axis": None}],
    ),
)
def topk(data, axis=-1, k=1, ret_typ="indices", is_ascend=False, dtype="float32"):
    """The `k` greatest elements along an axis, the greatest first.

    Parameters
    ----------
    data : NDArray
    axis : int or None
        None: of the flattened array.
    k : int
        How many; all for one below 1.
    ret_typ : {'indices', 'value', 'mask', 'both'}
        Positions; elements; ones at the positions and zeros elsewhere, in the shape and dtype of `data`; or elements
        and positions.
    is_ascend : bool
        The smallest instead, the smallest first.
    dtype : optional
        Of the positions; default float32, as in MXNet.

    Returns
    -------
    NDArray, or list of two for 'both'

    Raises
    ------
    AttrError
        If there are fewer than `k` elements, or for another `ret_typ`.
    DTypeError
        If `dtype` cannot hold the positions exactly.

    Notes
    -----
    Of equal elements the first are taken; NaN only if there is nothing else. Gradients go to the elements taken;
    those of positions and masks are 0.

    Examples
    --------
    >>> from nbgrad import nd
    >>> x = nd.array([3, 1, 2])
    >>> nd.topk(x, k=2).tolist(), nd.topk(x, k=2, ret_typ="value").tolist(), nd.topk(x, k=2, ret_typ="mask").tolist()
    ([0.0, 2.0], [3.0, 2.0], [1.0, 0.0, 1.0])
    """
    data = as_array(data, "topk")
    x, along = _axis_of(data, axis, "topk")
    if ret_typ not in ("indices", "value", "mask", "both"):
        raise AttrError(f"topk: ret_typ must be 'indices', 'value', 'mask' or 'both', got {ret_typ!r}")
    n = x.shape[along]
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k > n:
        raise AttrError(f"topk: k must be an integer of at most {n} (the elements along axis {axis}), got {k!r}")
    chosen = _order_of(x, along, is_ascend, int(k) if k >= 1 else n)
    if ret_typ == "mask":
        ones = full(chosen.shape, 1, x._kind.dtype, untraced_context(x._kind.ctx), x._kind.conventions)
        return reshape(add_along(ones, chosen, along, n), data.shape)
    if ret_typ == "value":
        return read_along(x, chosen, along)
    positions = _positions(chosen, n, dtype, "topk")
    return positions if ret_typ == "indices" else [read_along(x, chosen, along), positions]


@composite(method=True, samples=sample_table(
    lambda a, i, axis=-1: np.take_along_axis(a, i.astype(int), axis),
    [(2, 3), PLACES], [(3, 2, 1), DEEP, {"axis": 1}],
    [(4,), Input(values=[3, -1, 0], dtype="float32"), {"axis": 0}],
    [(2, 2), Input(values=[3, 0], dtype="int32"), {"axis": None}],
), gradient="every element of g added at its place")  # fmt: skip
def take_along_axis(data, indices, axis=-1):
    """``data[..., indices[..., k, ...], ...]``: every row along an axis is read at places of its own.

    Parameters
    ----------
    data : NDArray
    indices : NDArray
        The shape of `data`, but for the axis. Negative ones count from the end.
    axis : int or None
        None: the flattened array, with 1-d `indices`.

    Returns
    -------
    NDArray
        Shape of `indices`, dtype of `data`.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    IndexError
        For an index out of range.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.take_along_axis(nd.array([[1, 2], [3, 4]]), nd.array([[1], [0]])).tolist()
    [[2.0], [3.0]]
    """
    x, k = _axis_of(as_array(data, "take_along_axis"), axis, "take_along_axis")
    index = integers(as_array(indices, "take_along_axis", "indices"), "take_along_axis", x)
    n = x.shape[k]
    expected = (*x.shape[:k], "any", *x.shape[k + 1 :])
    if index.ndim != x.ndim or any(a not in (b, "any") for a, b in zip(expected, index.shape)):
        shown = ", ".join(map(str, expected))
        raise ShapeError(f"take_along_axis: indices must have shape ({shown}), got {index.shape}")
    return read_along(x, in_range(index, n, "raise", "take_along_axis"), k)


@composite(samples=sample_table(
    np.searchsorted,
    [Input(values=[1, 2, 2, 5], dtype="float32"), (5,)],
    [Input(values=[1, 2, 2, 5], dtype="float32"), Input(values=[[2, 0], [9, 5]]), {"side": "right"}],
    [Input((0,), dtype="float32"), Input(values=1)],
    result="int64",
), differentiable=False)  # fmt: skip
def searchsorted(a, v, side="left"):
    """Where to insert the elements of `v` into the ascending vector `a` so that it stays in order.

    Parameters
    ----------
    a : NDArray
        1-d, ascending.
    v : NDArray
        Any shape.
    side : {'left', 'right'}
        Before, or after, elements of `a` that are equal.

    Returns
    -------
    NDArray
        Positions from 0 to ``a.size``, as int64, in the shape of `v`. Gradient: 0.

    Raises
    ------
    ShapeError
        If `a` is not a vector.
    AttrError
        If `side` is neither.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.searchsorted(nd.array([1, 2, 4]), nd.array([0, 2, 9])).tolist()
    [0, 1, 3]
    """
    a, v = as_array(a, "searchsorted", "a"), as_array(v, "searchsorted", "v")
    if a.ndim != 1:
        raise ShapeError(f"searchsorted: a must be a vector, got shape {a.shape}")
    if side not in ("left", "right"):
        raise AttrError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if _here(a, v):
        return from_host_values(np.asarray(np.searchsorted(a._view(), v._view(), side)), v._kind.of(int64))
    common = as_dtype(np.result_type(a.dtype, v.dtype, np.uint8))  # of bools, integers
    a, v = [arrayed(x.detach(), common, x) for x in (a, v)]
    return _places_in(a, v, right=side == "right")


@structured("_places_in", moves_only=True, method=False, differentiable=False)
def _places_in(a, v, right=REQUIRED):
    """Where the elements of `v` go in the ascending vector `a`, which has its dtype, as int64."""
    return Spec(v._shape, int64, right=right)


@_places_in.run
def _(a, v, out, *, right):
    np.copyto(out._view(), np.searchsorted(a._view(), v._view(), "right" if right else "left"))


@_places_in.device
def _(operands, results, *, right):
    kind = operands[0][1]
    return lambda a, v, out: sorting_device.search(a._buf, v._buf, kind, out._buf, right)
