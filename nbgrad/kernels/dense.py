"""Dense layers: matrix products (:mod:`.linear`) with MXNet's arguments."""

from __future__ import annotations

from ..arrays.ndarray import NDArray
from ..core.registry import role
from ..core.shapes import size
from ..errors import DTypeError, ShapeError
from ..ir.expr import var
from ..ir.graph import ShapedValue
from ..operators.cast import unify
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import Spec, composite, structured
from .broadcasting import spreading
from .linear import matmul
from .reduce import sum_to
from .shape import reshape

__all__ = ["FullyConnected", "operands"]

#: How the product of data and weight is one.
_FLAGS = {"transpose_a": False, "transpose_b": True}


def _reference(x, w, b=None, num_hidden=None, no_bias=False, flatten=True):
    rows = x.reshape(len(x), -1) if flatten else x
    return rows @ w.T + (0 if no_bias else b)


def operands(op: str, data, weight, bias, no_bias: bool) -> list[NDArray]:
    """Data, weight and, unless `no_bias`, bias, in one floating dtype."""
    if bias is None and not no_bias:
        raise DTypeError(f"{op}: Argument bias is missing; give an NDArray, or no_bias=True")
    given = {"data": data, "weight": weight} | ({} if no_bias else {"bias": bias})
    return unify([as_array(x, op, name) for name, x in given.items()], op, ints=False)


@structured("_dense", method=False, samples=sample_table(lambda x, w, b: x @ w.T + b, [(3, 2), (4, 2), (4,)], ulp=4))
def _dense(data, weight, bias):
    """``data · weightᵀ + bias``; shapes (n, k), (m, k) and (m,)."""
    return Spec((data._shape[0], weight._shape[0]), data._kind.dtype)


@_dense.bind
def _(operands, results):
    (x, w, (b, kind)), ((shape, _),) = operands, results
    launch = matmul.bound((x, w), results, _FLAGS)
    add = spreading(kind, b, shape)

    def run(data, weight, bias, out):
        launch(data, weight, out)
        add(bias._buf, out._buf)

    return run


_dense.vjp(
    data=lambda g, weight: matmul(g, weight),
    weight=lambda g, data: matmul(g, data, transpose_a=True),
    bias=lambda g: sum_to(g, g._shape[1:]),
)


@_dense.raw
def _(operands, results):
    x, w, (b, kind) = operands
    assert matmul.raw_binder is not None
    pulls = matmul.raw_binder((x, w), results, _FLAGS)
    return None if pulls is None else (*pulls, role("unbroadcast_raw")(kind, results[0][0], b))


@_dense.lower
def _(graph, data, weight, bias):
    shape = (data.shape[0], weight.shape[0])
    assert matmul.lowering is not None
    y = matmul.lowering(graph, data, weight, **_FLAGS)
    dtype = bias.value.dtype
    return None if y is None else graph.map(var("x0") + var("x1"), [ShapedValue(y, shape), bias], shape, dtype, dtype)


def _plain(data, weight, bias, num_hidden, no_bias: bool) -> bool:
    """Whether the arguments are as :func:`_dense` takes them."""
    if no_bias or data.__class__ is not NDArray or weight.__class__ is not NDArray or bias.__class__ is not NDArray:
        return False
    kind, shape = data._kind, weight._shape
    return (
        kind is weight._kind is bias._kind
        and kind.dtype.is_float
        and len(data._shape) == 2 == len(shape)
        and data._shape[1] == shape[1]
        and bias._shape == shape[:1]
        and (num_hidden is None or num_hidden == shape[0])
    )


@composite("FullyConnected", samples=sample_table(
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
    if _plain(data, weight, bias, num_hidden, no_bias):  # the short way
        return _dense.invoke((data, weight, bias), {})
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
    y = _dense(rows, weight, rest[0]) if rest else matmul(rows, weight, transpose_b=True)
    return y if len(outer) == 1 else reshape(y, (*outer, hidden))
