"""Jacobians and Hessians as matrices, and products with Hessians.

A product with the Hessian is the gradient of a product with the gradient, :math:`Hv = \\nabla\\langle\\nabla f,
v\\rangle` (B. A. Pearlmutter, Fast exact multiplication by the Hessian, Neural Computation 6, 1994): one reverse sweep
over a recorded reverse sweep.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray, from_value, zeros
from ..autodiff import tape
from ..autodiff.state import state
from ..autodiff.tracing import captured
from ..core.context import untraced_context
from ..core.dtypes import float64
from ..core.pickling import Transformed
from ..core.registry import operators
from ..core.shapes import size
from ..errors import AttrError, RangeError
from ..kernels.shape import reshape
from ..kernels.traced_index import one_hot
from ..operators.cast import cast
from .call import Argnums, Call, checked, sweep
from .derivatives import LinearMap, any_recorded, gradient_of
from .row_sweeps import batch_over_rows

__all__ = ["hessian", "hvp", "jacobian"]


def hvp(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that returns products of the Hessian of `function` with a vector.

    It runs one reverse sweep over the recorded gradient (Pearlmutter 1994): about the time of three gradients,
    independent of the number of variables. No matrix is formed.

    Parameters
    ----------
    function, argnums, has_aux
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `function` and, as the last positional one, the vector in the form of the argument, a
        tuple of these for a tuple of `argnums` (negative ones do not count the vector). Returns the product in the same
        form, or ``(product, aux)``.

    Raises
    ------
    DTypeError, ShapeError, AttrError, RangeError
        As for :func:`grad`; also if the vector does not have the form of the argument.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.hvp(lambda x: (x**3).sum())(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    argnums = checked("hvp", function, argnums)

    def product(*args, **kwargs):
        if len(args) < 2:
            raise RangeError(f"hvp: the function's arguments and then the vector are needed, got {len(args)} in all")
        point = args[:-1]
        call = Call("hvp", function, argnums, point, kwargs, has_aux)
        chosen = point[argnums] if isinstance(argnums, int) else tuple([point[k] for k in argnums])
        seeds = call.leaves_like_arguments(chosen, args[-1], "hvp: the vector")
        first = sweep([(call.scalar(), None)], call.variables, call.floor, True, True)
        recorded = call.open or (state.recording and any_recorded(seeds))
        cotangents = sweep(zip(first, seeds, strict=True), call.variables, call.floor, recorded, False)
        result = call.gradients(cotangents, recorded)
        return (result, call.value(call.aux)) if has_aux else result

    return Transformed(product, hvp, function, argnums, has_aux)


_MODES = ("reverse", "forward", None)


def jacobian(function: Callable, argnums: Argnums = 0, mode: str | None = None, has_aux: bool = False) -> Callable:
    """A function that returns the Jacobian of `function`.

    Parameters
    ----------
    function : callable
        Returns an NDArray or a tree of them.
    argnums : int or tuple of int
        As for :func:`value_and_grad`.
    mode : {'reverse', 'forward'}, optional
        One sweep per element of the result, or per element of the argument (see :func:`jvp`). Default: whichever is
        less work; a forward sweep counts as three.
    has_aux : bool
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the same arguments and returns, for a result of shape s and an argument of shape t, an array of shape
        s + t. For trees, each array of the result is replaced by a tree in the form of the argument. With `has_aux`, a
        pair.

    Raises
    ------
    AttrError
        For another mode.
    DTypeError, RangeError
        As for :func:`grad`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    argnums = checked("jacobian", function, argnums)
    if mode not in _MODES:
        raise AttrError(f"jacobian: mode must be 'reverse', 'forward' or None, got {mode!r}")

    run = _jacobian("jacobian", function, argnums, mode, has_aux)
    return Transformed(run, jacobian, function, argnums, mode, has_aux)


def _jacobian(name: str, function: Callable, argnums: Argnums, mode: str | None, has_aux: bool) -> Callable:
    def matrix(*args, **kwargs):
        call = Call(name, function, argnums, args, kwargs, has_aux)
        results, build = call.arrays()
        width, height = sum(size(p.shape) for p in call.variables), sum(y._buf.size for y in results)
        forward = 3 * width < height if mode is None else mode == "forward"
        blocks = _columns(call) if forward else _rows(call, results)
        tree = build(iter([call.in_form([call.block(k, x) for k, x in enumerate(row)]) for row in blocks]))
        return (tree, call.value(call.aux)) if has_aux else tree

    return matrix


def _unit(shape: tuple[int, ...], kind: Kind, k: int) -> NDArray:
    """The array that is 1 at flat index `k` and 0 elsewhere."""
    kind = kind.on(untraced_context(kind.ctx))
    x = zeros(shape, kind)
    x._buf[k : k + 1] = tape.ones_raw(kind, 1)
    return x


def _apply_to_units(
    linear: Callable, shape: tuple[int, ...], kind: Kind, others: list, recorded: bool
) -> list[NDArray]:
    """The stacked results of a linear function of an array for all unit arrays.

    It returns a list of arrays, or None for zeros; `others` are their shapes and kinds.
    """
    n = size(shape)
    if kind.traced and n > 1:
        indices = captured(from_value(np.arange(float(n))))
        units = cast(one_hot(indices, n, 1.0, 0.0, float64), kind.on(indices._kind.ctx))
        rows = batch_over_rows(lambda row: linear(row[0]), [reshape(units, (n, *shape))], recorded)
        return [zeros((n, *s), kind) if x is None else x for x, (s, kind) in zip(rows, others, strict=True)]
    columns: list[list] = [[] for _ in others]
    for k in range(n):
        for row, x in zip(columns, linear(_unit(shape, kind, k)), strict=True):
            row.append(x)
    return [_stacked(row, (n, *s), kind) for row, (s, kind) in zip(columns, others, strict=True)]


def _rows(call: Call, results: list[NDArray]) -> list[list[NDArray]]:
    """The blocks of the Jacobian, per result and variable, by one sweep per element of the results."""
    variables = [(p.shape, p.kind) for p in call.variables]
    blocks = []
    for y in results:

        def pull(u: NDArray, y: NDArray = y) -> list[NDArray | None]:
            return sweep([(y, u)], call.variables, call.floor, call.open, True)

        rows = _apply_to_units(pull, y._shape, y._kind, variables, call.open)
        blocks.append([reshape(x, y._shape + p.shape) for x, p in zip(rows, call.variables, strict=True)])
    return blocks


def _columns(call: Call) -> list[list[NDArray]]:
    """The same by one sweep per element of the variables."""
    linear = LinearMap(call)
    blocks: list[list[NDArray]] = [[] for _ in linear.results]
    none = [None] * len(call.variables)
    results = [(y._shape, y._kind) for y in linear.results]
    for number, p in enumerate(call.variables):

        def push(t: NDArray, number: int = number) -> list[NDArray]:
            return linear([*none[:number], t, *none[number + 1 :]])[0]

        columns = _apply_to_units(push, p.shape, p.kind, results, call.open)
        for block, x, y in zip(blocks, columns, linear.results, strict=True):
            flat = reshape(x, (size(p.shape), y._buf.size))
            block.append(reshape(operators["transpose"].call(flat), y._shape + p.shape))
    return blocks


def _stacked(parts: list[NDArray | None], shape: tuple[int, ...], kind: Kind) -> NDArray:
    """Arrays of equal size stacked into one of the given shape; None is zeros."""
    if not parts:
        return zeros(shape, kind)
    n = size(shape) // len(parts)
    if kind.traced or any(x is not None and x._node is not None for x in parts):
        rows = [zeros((n,), kind) if x is None else reshape(x, (n,)) for x in parts]
        return reshape(operators["stack"].call(*rows, axis=0), shape)
    out = zeros(shape, kind)
    for k, x in enumerate(parts):
        if x is not None:
            out._buf[k * n : (k + 1) * n] = x._buf
    return out


def hessian(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that returns the Hessian of `function`: the Jacobian of its gradient, in reverse mode.

    Parameters
    ----------
    function, argnums, has_aux
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the same arguments and returns, for an argument of shape s, an array of shape s + s. For trees, each array
        of the gradient is replaced by a tree in the form of the argument. With `has_aux`, a pair.

    Raises
    ------
    DTypeError, ShapeError, AttrError, RangeError
        As for :func:`grad`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    argnums = checked("hessian", function, argnums)

    def gradient(*args, **kwargs):
        call, result = gradient_of("hessian", function, argnums, args, kwargs, has_aux)
        return (result, call.aux) if has_aux else result

    run = _jacobian("hessian", gradient, argnums, "reverse", has_aux)
    return Transformed(run, hessian, function, argnums, has_aux)
