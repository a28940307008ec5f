"""Elementwise operators with parameters, of three operands, or of any number of them."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..core.dtypes import bool_
from ..core.shapes import broadcast_shape
from ..errors import DTypeError, ShapeError
from ..ir.expr import const, lt, ne, select, var
from ..operators.cast import cast, unify
from ..operators.declare import parametric
from ..operators.elementwise import Elementwise
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import composite
from . import scalar as vm
from .binary import add, divide, multiply, not_equal, subtract
from .shape import reshape

__all__ = ["clip", "where"]

x = var("x")

clip = parametric(
    "clip",
    vm.minimum(vm.maximum(x, var("a_min")), var("a_max")),
    "x limited to [a_min, a_max]. Gradient: 1 inside and at both ends, else 0.",
    {"a_min": None, "a_max": None},
    ints=True,
    examples=[{"a_min": -1, "a_max": 1}, {"a_min": 0, "a_max": 1}],
    ulp=0,
    reference=lambda a, a_min, a_max: np.clip(a, a_min, a_max),
)
hard_sigmoid = parametric(
    "hard_sigmoid",
    vm.minimum(const(1), vm.maximum(const(0), var("alpha") * x + var("beta"))),
    "alpha*x + beta limited to [0, 1]. Gradient: alpha inside, 0 at both ends and beyond.",
    {"alpha": 0.2, "beta": 0.5},
    examples=[{}, {"alpha": 0.25, "beta": 0.6}],
    ulp=4,
    reference=lambda a, alpha=0.2, beta=0.5: np.clip(alpha * a + beta, 0, 1),
)
_s2 = var("scalar") * var("scalar")
smooth_l1 = parametric(
    "smooth_l1",
    select(lt(vm.absolute(x), 1 / _s2), 0.5 * (_s2 * (x * x)), vm.absolute(x) - 0.5 / _s2),
    "Huber's loss: with s = scalar, 0.5*(s*x)^2 where |x| < 1/s^2, else |x| - 0.5/s^2. "
    "Gradient: s^2*x, or sign(x).\n\nReferences\n----------\nGirshick 2015, Fast R-CNN.",
    {"scalar": 1.0},
    examples=[{}, {"scalar": 2.0}],
    reference=lambda a, scalar=1.0: np.where(
        np.abs(a) < 1 / scalar**2, 0.5 * (scalar * a) ** 2, np.abs(a) - 0.5 / scalar**2
    ),
)
_where = Elementwise("where", select(ne(var("x0"), 0), var("x1"), var("x2")), 3)


@composite(
    method=False,
    samples=sample_table(
        np.where,
        [Input(values=[1, 0, 1], dtype="float32"), (3,), (3,)],
        [Input(values=[[True, False]], dtype="bool"), (2, 1), (2,)],
        [Input(values=1, dtype="int32"), (), (2, 2)],
        [Input((0,), dtype="float32"), (0,), (0,)],
    )
    + sample_table(lambda c, x, y: np.where(c[:, None], x, y), [Input(values=[1, 0], dtype="float32"), (2, 2), (2, 2)]),
)
def where(condition, x, y):
    """Elements of `x` where `condition` is not zero, of `y` elsewhere.

    Parameters
    ----------
    condition : NDArray
        Any dtype. Broadcasts with `x` and `y`, except that one with a single axis goes along axis 0 of arrays with
        more.
    x, y : NDArray or number

    Returns
    -------
    NDArray

    Notes
    -----
    Gradient: g where the operand was taken, 0 elsewhere; none for `condition`.

    The gradient goes to the operand an element was taken from; `condition` gets none.
    """
    condition = as_array(condition, "where", "condition")
    arrays = [v for v in (x, y) if isinstance(v, NDArray)]
    if not arrays:
        x = from_value(x)
        arrays = [x]
    x, y = (
        v if isinstance(v, NDArray) else from_value(v, like=arrays[0]._kind, dtype=_like(v, arrays[0])) for v in (x, y)
    )
    shape = broadcast_shape([x.shape, y.shape], "where")
    if condition.ndim == 1 and len(shape) > 1:
        if condition.shape[0] not in (1, shape[0]):
            raise ShapeError(
                f"where: a condition of shape {condition.shape} goes along axis 0, which has length {shape[0]} in "
                f"{shape}; reshape it to (1, {condition.shape[0]}) to have it go along the last axis"
            )
        condition = reshape(condition, condition.shape + (1,) * (len(shape) - 1))
    x, y = unify([x, y], "where")
    chosen = condition.detach()
    if chosen._kind is not x._kind:  # the condition's dtype has no part in the result's
        chosen = cast(chosen if chosen._kind.dtype is bool_ else not_equal(chosen, 0), x._kind)
    return _where.apply((chosen, x, y))


def _like(value, array: NDArray):
    """A Python number takes the array's dtype, except a float beside integers."""
    if isinstance(value, int | float) and (array._kind.dtype.is_float or isinstance(value, int)):
        return array._kind.dtype
    return None


@composite(
    aliases=("ElementWiseSum", "elemwise_sum"),
    samples=sample_table(
        lambda *a: sum(a), [(2, 3)], [(3,), (3,)], [(), (), ()], [(2, 2), (2, 2), (2, 2), (2, 2)], ulp=2
    ),
)
def add_n(*args):
    """Sum of any number of arrays of one shape.

    Parameters
    ----------
    *args : NDArray
        At least one; equal shapes.

    Returns
    -------
    NDArray
        Of the common shape.

    Raises
    ------
    ShapeError
        If the shapes differ.

    Notes
    -----
    Gradient: g for every array.
    """
    args = tuple(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else args
    if not args:
        raise DTypeError("add_n: at least one array is needed")
    for k, a in enumerate(args):
        if as_array(a, "add_n", f"{k}").shape != args[0].shape:
            raise ShapeError(f"add_n: shapes must be equal; argument {k} has {a.shape}, the first {args[0].shape}")
    return reduce(add, args) if len(args) > 1 else args[0].copy()


def _equal_shapes(name: str, operator, reference, result: str = "same"):
    def call(lhs, rhs):
        for side, a in (("lhs", lhs), ("rhs", rhs)):
            as_array(a, name, side)
        if lhs.shape != rhs.shape:
            raise ShapeError(
                f"{name}: shapes must be equal, got {lhs.shape} and {rhs.shape}; nd.{operator.__name__} broadcasts"
            )
        return operator(lhs, rhs)

    call.__name__ = name
    call.__doc__ = (
        f"nd.{operator.__name__} of arrays of equal shapes.\n\nRaises\n------\nShapeError\n    If they differ."
    )
    apart = Input((2, 3), 0.3, 3.0)
    samples = sample_table(reference, [apart, apart], [Input((), 0.3, 3.0)] * 2, ulp=1, result=result)
    gradient = f"as for ``nd.{operator.__name__}``"
    return composite(name, aliases=(f"_{name}",), samples=samples, gradient=gradient)(call)


elemwise_add = _equal_shapes("elemwise_add", add, np.add)
elemwise_sub = _equal_shapes("elemwise_sub", subtract, np.subtract)
elemwise_mul = _equal_shapes("elemwise_mul", multiply, np.multiply)
elemwise_div = _equal_shapes("elemwise_div", divide, np.divide, "float")
