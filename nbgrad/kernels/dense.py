"""Dense layers: matrix products (:mod:`.linear`) with MXNet's arguments."""

from __future__ import annotations

from ..cast import unify
from ..entry import as_array
from ..errors import DTypeError, ShapeError
from ..ndarray import NDArray
from ..samples import table
from ..shapes import size
from ..structured import composite
from .linear import matmul
from .shape import reshape

__all__ = ["FullyConnected", "operands"]


def _reference(x, w, b=None, num_hidden=None, no_bias=False, flatten=True):
    rows = x.reshape(len(x), -1) if flatten else x
    return rows @ w.T + (0 if no_bias else b)


def operands(op: str, data, weight, bias, no_bias: bool) -> list[NDArray]:
    """Data, weight and, unless `no_bias`, bias, in one floating dtype."""
    if bias is None and not no_bias:
        raise DTypeError(f"{op}: Argument bias is missing; give an NDArray, or no_bias=True")
    given = {"data": data, "weight": weight} | ({} if no_bias else {"bias": bias})
    return unify([as_array(x, op, name) for name, x in given.items()], op, ints=False)


@composite("FullyConnected", samples=table(
        _reference,
        [(3, 2, 2), (5, 4), (5,)],
        [(2, 3, 4), (2, 4), {"flatten": False, "no_bias": True}],
        ulp=8, ints=False,
    ))  # fmt: skip
def FullyConnected(data, weight, bias=None, num_hidden=None, no_bias=False, flatten=True):
    """``data · weightᵀ + bias``.

    Parameters
    ----------
    data : NDArray
        Shape (n, ...), seen as (n, k) with `flatten`, else (..., k).
    weight : NDArray
        Shape (num_hidden, k).
    bias : NDArray, optional
        Shape (num_hidden,); needed unless `no_bias`.
    num_hidden : int
        Default what `weight` has.
    no_bias : bool
    flatten : bool

    Returns
    -------
    NDArray
        Shape (n, num_hidden), or (..., num_hidden) without `flatten`.

    Raises
    ------
    ShapeError
        If shapes and attributes do not agree.

    Notes
    -----
    Gradient: ``g weight`` for `data`, ``g^T data`` for `weight`, the sum of the rows of g for `bias`.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.FullyConnected(nd.ones((1, 2)), nd.array([[1, 2], [3, 4]]), nd.array([0, 1]), num_hidden=2).tolist()
    [[3.0, 8.0]]
    """
    op = "FullyConnected"
    data, weight, *rest = operands(op, data, weight, bias, no_bias)
    if weight.ndim != 2 or (num_hidden is not None and num_hidden != weight.shape[0]):
        raise ShapeError(
            f"{op}: weight must have shape (num_hidden, inputs) with num_hidden {num_hidden}, got {weight.shape}"
        )
    if data.ndim == 0:
        raise ShapeError(f"{op}: data needs at least one axis")
    hidden, inputs = weight.shape
    outer = data.shape[:1] if flatten else data.shape[:-1]
    length = size(data.shape[1:]) if flatten else data.shape[-1]
    if length != inputs:
        raise ShapeError(
            f"{op}: data of shape {data.shape} has {length} inputs, weight of shape {weight.shape} takes {inputs}"
        )
    if rest and rest[0].shape != (hidden,):
        raise ShapeError(f"{op}: bias must have shape ({hidden},), got {rest[0].shape}")
    rows = data if data.ndim == 2 else reshape(data, (size(outer), inputs))
    y = matmul(rows, weight, transpose_b=True)
    if rest:
        y = y + rest[0]
    return y if len(outer) == 1 else reshape(y, (*outer, hidden))
