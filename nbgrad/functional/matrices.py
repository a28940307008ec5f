"""Jacobians and Hessians as matrices, and products with Hessians.

A product with the Hessian is the gradient of a product with the gradient, :math:`Hv = \\nabla\\langle\\nabla f,
v\\rangle` (B. A. Pearlmutter, Fast exact multiplication by the Hessian, Neural Computation 6, 1994): one sweep back
over a recorded sweep back.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays.launch import Kind, kind_of
from ..arrays.ndarray import NDArray, from_value
from ..autodiff import tape
from ..autodiff.state import state
from ..autodiff.tracing import captured
from ..core.context import real
from ..core.dtypes import float64
from ..core.pickling import Transformed
from ..core.registry import operators
from ..core.shapes import size
from ..errors import AttrError, RangeError
from ..kernels.shape import reshape
from ..kernels.traced_index import one_hot
from ..operators.cast import cast
from .call import Argnums, Call, checked, sweep, zeros
from .derivatives import Linear, gradient_of, recorded_any
from .row_sweeps import over_rows

__all__ = ["hessian", "hvp", "jacobian"]


def hvp(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives products of the Hessian of `function` with a vector.

    The gradient is recorded and swept back once (Pearlmutter 1994): about the time of three gradients, however many
    variables there are. No matrix is formed.

    Parameters
    ----------
    function, argnums, has_aux
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `function` and after them, as the last positional one, the vector: in the form of the
        argument, a tuple of those for a tuple of `argnums` (negative ones do not count the vector). Gives the product
        in the same form, or ``(product, aux)``.

    Raises
    ------
    DTypeError, ShapeError, AttrError, RangeError
        As for :func:`grad`; also if the vector is not like the argument.

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
        seeds = call.alike(chosen, args[-1], "hvp: the vector")
        first = sweep([(call.scalar(), None)], call.variables, call.floor, True, True)
        recorded = call.open or (state.recording and recorded_any(seeds))
        found = sweep(zip(first, seeds, strict=True), call.variables, call.floor, recorded, False)
        result = call.gradients(found, recorded)
        return (result, call.value(call.aux)) if has_aux else result

    return Transformed(product, hvp, function, argnums, has_aux)


_MODES = ("reverse", "forward", None)


def jacobian(function: Callable, argnums: Argnums = 0, mode: str | None = None, has_aux: bool = False) -> Callable:
    """A function that gives the Jacobian of `function`.

    Parameters
    ----------
    function : callable
        Gives an NDArray or a tree of them.
    argnums : int or tuple of int
        As for :func:`value_and_grad`.
    mode : {'reverse', 'forward'}, optional
        By a sweep per element of the result, or per element of the argument (see :func:`jvp`). Default: whichever
        is less work; a forward sweep counts three times.
    has_aux : bool
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the same arguments and gives, for a result of shape s and an argument of shape t, an array of shape s + t.
        For trees, the result's form, and in the place of each of its arrays the argument's form. With `has_aux`, a
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
        found = build(iter([call.in_form([call.block(k, x) for k, x in enumerate(row)]) for row in blocks]))
        return (found, call.value(call.aux)) if has_aux else found

    return matrix


def _unit(shape: tuple[int, ...], kind: Kind, k: int) -> NDArray:
    kind = kind_of(kind.dtype, real(kind.ctx))
    x = zeros(shape, kind)
    x._buf[k : k + 1] = tape.ones_raw(kind, 1)
    return x


def _every(linear: Callable, shape: tuple[int, ...], kind: Kind, others: list, recorded: bool) -> list[NDArray]:
    """What a linear function of an array (a list of arrays, or None for zeros) gives for every unit array, stacked.

    `others`: shapes and kinds of what it gives.
    """
    n = size(shape)
    if kind.traced and n > 1:
        places = captured(from_value(np.arange(float(n))))
        units = cast(one_hot(places, n, 1.0, 0.0, float64), kind_of(kind.dtype, places._kind.ctx))
        rows = over_rows(lambda row: linear(row[0]), [reshape(units, (n, *shape))], recorded)
        return [zeros((n, *s), kind) if x is None else x for x, (s, kind) in zip(rows, others, strict=True)]
    found: list[list] = [[] for _ in others]
    for k in range(n):
        for row, x in zip(found, linear(_unit(shape, kind, k)), strict=True):
            row.append(x)
    return [_stacked(row, (n, *s), kind) for row, (s, kind) in zip(found, others, strict=True)]


def _rows(call: Call, results: list[NDArray]) -> list[list[NDArray]]:
    """The Jacobian's blocks, a list per result with one per variable, from a sweep per element of the results."""
    variables = [(p.shape, p.kind) for p in call.variables]
    blocks = []
    for y in results:

        def pull(u: NDArray, y: NDArray = y) -> list[NDArray | None]:
            return sweep([(y, u)], call.variables, call.floor, call.open, True)

        rows = _every(pull, y._shape, y._kind, variables, call.open)
        blocks.append([reshape(x, y._shape + p.shape) for x, p in zip(rows, call.variables, strict=True)])
    return blocks


def _columns(call: Call) -> list[list[NDArray]]:
    """The same from a sweep per element of the variables."""
    linear = Linear(call)
    blocks: list[list[NDArray]] = [[] for _ in linear.results]
    none = [None] * len(call.variables)
    results = [(y._shape, y._kind) for y in linear.results]
    for number, p in enumerate(call.variables):

        def push(t: NDArray, number: int = number) -> list[NDArray]:
            return linear([*none[:number], t, *none[number + 1 :]])[0]

        columns = _every(push, p.shape, p.kind, results, call.open)
        for block, x, y in zip(blocks, columns, linear.results, strict=True):
            flat = reshape(x, (size(p.shape), y._buf.size))
            block.append(reshape(operators["transpose"].call(flat), y._shape + p.shape))
    return blocks


def _stacked(parts: list[NDArray | None], shape: tuple[int, ...], kind: Kind) -> NDArray:
    """Arrays of equal size one after the other, as an array of the given shape; None is zeros."""
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
    """A function that gives the Hessian of `function`: the Jacobian of its gradient, in reverse mode.

    Parameters
    ----------
    function, argnums, has_aux
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the same arguments and gives, for an argument of shape s, an array of shape s + s. For trees, the
        argument's form, and in the place of each of its arrays that form again. With `has_aux`, a pair.

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
        call, found = gradient_of("hessian", function, argnums, args, kwargs, has_aux)
        return (found, call.aux) if has_aux else found

    run = _jacobian("hessian", gradient, argnums, "reverse", has_aux)
    return Transformed(run, hessian, function, argnums, has_aux)
