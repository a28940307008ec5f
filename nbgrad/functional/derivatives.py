"""Functions from functions: gradients, products with Jacobians and Hessians, and those matrices themselves.

Each transform calls the function once, recorded, and sweeps back over the record (:mod:`.call`). Two formulas make
more of sweeps back than gradients:

* A product with the Hessian is the gradient of a product with the gradient, :math:`Hv = \\nabla\\langle\\nabla f,
  v\\rangle` (B. A. Pearlmutter, Fast exact multiplication by the Hessian, Neural Computation 6, 1994): one sweep over
  a recorded sweep.
* A sweep back computes :math:`J^T u`, which is linear in `u`; swept back in turn, with respect to `u` and from `v`, it
  gives :math:`J v` (J. Townsend, A new trick for calculating Jacobian vector products, 2017). The value of `u` makes
  no difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tape
from ..codegen.launch import Kind
from ..errors import AttrError, DTypeError, RangeError
from ..kernels.shape import reshape
from ..ndarray import NDArray
from ..registry import operators
from ..shapes import size
from ..state import state
from .call import Argnums, Call, checked, like, ones_like, sweep, zeros
from .trees import flatten_like

__all__ = ["Linear", "elementwise_grad", "grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"]


def value_and_grad(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives the value of `function` and its gradient.

    Parameters
    ----------
    function : callable
        Gives a scalar (an NDArray with one element).
    argnums : int or tuple of int
        Which positional arguments to differentiate by; negative ones count from the end. Arrays, floats, and dicts,
        lists, tuples, namedtuples and dataclasses of them.
    has_aux : bool
        `function` gives a pair, of which the second is handed on and not differentiated.

    Returns
    -------
    callable
        Takes the same arguments and gives ``(value, gradient)``, or ``((value, aux), gradient)``. The gradient has the
        form of the argument, a tuple of those for a tuple of `argnums`; see :func:`grad`.

    Raises
    ------
    DTypeError, ShapeError, AttrError, RangeError
        As for :func:`grad`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """
    argnums = checked("value_and_grad", function, argnums)

    @functools.wraps(function)
    def with_gradient(*args, **kwargs):
        call, gradient = _gradient("value_and_grad", function, argnums, args, kwargs, has_aux)
        value = call.scalar_value(call.result)
        return ((value, call.value(call.aux)) if has_aux else value), gradient

    return with_gradient


def grad(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of `function`.

    Parameters
    ----------
    function, argnums, has_aux
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the same arguments and gives the gradient, or ``(gradient, aux)``: arrays in the form of the argument,
        NDArrays for NDArrays, NumPy arrays for NumPy arrays (of the same dtype), and floats for floats. Where
        `function` does not depend on an argument they are zero. What is recorded outside of the call stays an NDArray,
        so that it can be differentiated.

    Raises
    ------
    DTypeError
        If `function` cannot be called, if it is to be differentiated by integers or something that is no number, or
        does not give an NDArray.
    ShapeError
        If its result has more elements than one.
    RangeError, AttrError
        If there are not so many arguments, or one is named twice.

    Examples
    --------
    >>> import nbgrad as nb
    >>> from nbgrad import nd
    >>> nb.grad(nb.grad(nb.grad(lambda x: x**4)))(2.0)
    48.0
    >>> def loss(model, x):
    ...     return nd.tanh(model["w"] * x + model["b"]).sum()
    >>> nb.grad(loss)({"w": 0.0, "b": 0.0}, nd.array([1.0, 2.0]))
    {'w': 3.0, 'b': 2.0}
    """
    argnums = checked("grad", function, argnums)

    @functools.wraps(function)
    def gradient(*args, **kwargs):
        call, found = _gradient("grad", function, argnums, args, kwargs, has_aux)
        return (found, call.value(call.aux)) if has_aux else found

    return gradient


def _gradient(name: str, function: Callable, argnums: Argnums, args, kwargs, has_aux: bool) -> tuple[Call, Any]:
    call = Call(name, function, argnums, args, kwargs, has_aux)
    found = sweep([(call.scalar(), None)], call.variables, call.floor, call.open, False)
    return call, call.gradients(found, call.open)


def elementwise_grad(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives the derivative of `function`, which works element by element: ``f'(x)`` in the shape of x.

    Parameters
    ----------
    function : callable
        Gives arrays of any shape. Each element of the result should depend on the element of the arguments in its
        place alone; what is computed is the gradient of the sum of the results.
    argnums, has_aux
        As for :func:`grad`.

    Returns
    -------
    callable
        As :func:`grad` does.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.elementwise_grad(nb.elementwise_grad(np.sin))(np.array([0.0, np.pi / 2]))
    array([-0., -1.])
    """
    argnums = checked("elementwise_grad", function, argnums)

    @functools.wraps(function)
    def derivative(*args, **kwargs):
        call = Call("elementwise_grad", function, argnums, args, kwargs, has_aux)
        heads = [(y, None) for y in call.arrays()[0]]
        found = call.gradients(sweep(heads, call.variables, call.floor, call.open, False), call.open)
        return (found, call.value(call.aux)) if has_aux else found

    return derivative


def vjp(function: Callable, *args: Any, argnums: Argnums | None = None, has_aux: bool = False) -> tuple:
    """The value of `function`, and its pullback: products of a vector with its Jacobian.

    Parameters
    ----------
    function : callable
        Gives an NDArray or a tree of them.
    *args
        Its arguments.
    argnums : int or tuple of int, optional
        Which to differentiate by; default: all of them, as a tuple.
    has_aux : bool
        As for :func:`value_and_grad`.

    Returns
    -------
    value
    pullback : callable
        ``pullback(u)``, with `u` like the value, gives :math:`u^T J` like the arguments named by `argnums`. It can be
        called as often as one likes and keeps the record as long as it lives.
    aux
        With `has_aux`.

    Raises
    ------
    DTypeError, ShapeError, AttrError, RangeError
        As for :func:`grad`; also by the pullback, if `u` is not like the value.
    InPlaceError
        By the pullback, if an NDArray that it reads was changed in place since.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> value, pullback = nb.vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> value, pullback(np.array([1.0, 0.0]))
    (array([3., 8.]), (array([3., 0.]), array([1., 0.])))
    """
    argnums = checked("vjp", function, tuple(range(len(args))) if argnums is None else argnums)
    call = Call("vjp", function, argnums, args, {}, has_aux, keep=True)
    leaves, build = call.arrays()
    shape = build(iter(leaves))

    def pullback(cotangents):
        pairs = flatten_like(shape, cotangents, "vjp: cotangent")
        seeds = [like(y, u, "vjp: cotangent" + path) for y, u, path in pairs]
        recorded = state.recording and (call.open or _recorded(seeds))
        return call.gradients(
            sweep(zip(leaves, seeds, strict=True), call.variables, call.floor, recorded, True), recorded
        )

    value = call.value(call.result)
    return (value, pullback, call.value(call.aux)) if has_aux else (value, pullback)


def _recorded(arrays: Sequence[NDArray]) -> bool:
    return any(x._node is not None for x in arrays)


class Linear:
    """:math:`v \\mapsto J v` of one recorded call, by sweeps over its recorded pullback."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.results, self.build = call.arrays()
        seeds = [tape.constant(ones_like(y), ()) for y in self.results]
        self._targets: dict = {u._node: 0 for u in seeds}
        self._floor = tape.next_seq()
        heads = zip(self.results, seeds, strict=True)
        self._pulled = sweep(heads, call.variables, call.floor, True, True)

    def __call__(self, tangents: Sequence[NDArray | None]) -> tuple[list[NDArray], bool]:
        """The results' tangents, from those of the variables (None is zero); and whether they are recorded."""
        heads = [(g, t) for g, t in zip(self._pulled, tangents, strict=True) if t is not None]
        recorded = state.recording and (self.call.open or _recorded([t for _, t in heads]))
        found = sweep(heads, self._targets, self._floor, recorded, True)
        return [
            zeros(y._shape, y._kind) if t is None else t for y, t in zip(self.results, found, strict=True)
        ], recorded


def jvp(function: Callable, primals: Sequence, tangents: Sequence, has_aux: bool = False) -> tuple:
    """The value of `function`, and the product of its Jacobian with a vector: its derivative along `tangents`.

    The sweep back is recorded and swept back in turn, which gives the product forward ("double vjp"): about three times
    the time of the function, whatever the number of arguments and results.

    Parameters
    ----------
    function : callable
        Gives an NDArray or a tree of them.
    primals : tuple or list
        Its arguments.
    tangents : tuple or list
        The same with numbers of the same shapes.
    has_aux : bool
        As for :func:`value_and_grad`.

    Returns
    -------
    value, tangent
        And aux, with `has_aux`.

    Raises
    ------
    DTypeError, ShapeError
        As for :func:`grad`; also if `tangents` are not like `primals`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 4.]), array([ 2., 40.]))
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, list | tuple):
            raise DTypeError(f"jvp: {name} must be a tuple, one entry per argument, got {given!r}")
    argnums = checked("jvp", function, tuple(range(len(primals))))
    call = Call("jvp", function, argnums, primals, {}, has_aux)
    linear = Linear(call)
    pushed, recorded = linear(call.alike(tuple(primals), tuple(tangents), "jvp: tangents"))
    tangent = linear.build(iter(pushed))
    value = call.value(call.result), tangent if recorded else call.value(tangent)
    return (*value, call.value(call.aux)) if has_aux else value


def hvp(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives products of the Hessian of `function` with a vector.

    The gradient is recorded and swept back once (Pearlmutter 1994): a few times the time of the function, however many
    variables it has. No matrix is formed.

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

    @functools.wraps(function)
    def product(*args, **kwargs):
        if len(args) < 2:
            raise RangeError(f"hvp: the function's arguments and then the vector are needed, got {len(args)} in all")
        point = args[:-1]
        call = Call("hvp", function, argnums, point, kwargs, has_aux)
        chosen = point[argnums] if isinstance(argnums, int) else tuple([point[k] for k in argnums])
        seeds = call.alike(chosen, args[-1], "hvp: the vector")
        first = sweep([(call.scalar(), None)], call.variables, call.floor, True, True)
        recorded = call.open or (state.recording and _recorded(seeds))
        found = sweep(zip(first, seeds, strict=True), call.variables, call.floor, recorded, False)
        result = call.gradients(found, recorded)
        return (result, call.value(call.aux)) if has_aux else result

    return product


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
        By a sweep per element of the result, or per element of the argument (see :func:`jvp`); default: whichever
        are fewer.
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

    @functools.wraps(function)
    def matrix(*args, **kwargs):
        call = Call("jacobian", function, argnums, args, kwargs, has_aux)
        results, build = call.arrays()
        places = list(call.variables)
        width, height = sum(size(p.shape) for p in places), sum(y._buf.size for y in results)
        blocks = _columns(call) if mode == "forward" or (mode is None and width < height) else _rows(call, results)
        found = build(iter([call.in_form([call.block(k, x) for k, x in enumerate(row)]) for row in blocks]))
        return (found, call.value(call.aux)) if has_aux else found

    return matrix


def _unit(shape: tuple[int, ...], kind: Kind, k: int) -> NDArray:
    x = zeros(shape, kind)
    x._buf[k : k + 1] = tape.ones_raw(kind, 1)
    return x


def _rows(call: Call, results: list[NDArray]) -> list[list[NDArray]]:
    """The Jacobian's blocks, a list per result with one per variable, from a sweep per element of the results."""
    blocks = []
    for y in results:
        rows: list[list] = [[] for _ in call.variables]
        for k in range(y._buf.size):
            found = sweep([(y, _unit(y._shape, y._kind, k))], call.variables, call.floor, call.open, True)
            for row, g in zip(rows, found, strict=True):
                row.append(g)
        blocks.append([_stacked(row, y._shape + p.shape, p.kind) for row, p in zip(rows, call.variables, strict=True)])
    return blocks


def _columns(call: Call) -> list[list[NDArray]]:
    """The same from a sweep per element of the variables."""
    linear = Linear(call)
    blocks: list[list[NDArray]] = [[] for _ in linear.results]
    none = [None] * len(call.variables)
    for number, p in enumerate(call.variables):
        columns: list[list] = [[] for _ in linear.results]
        for k in range(size(p.shape)):
            pushed, _ = linear([*none[:number], _unit(p.shape, p.kind, k), *none[number + 1 :]])
            for column, t in zip(columns, pushed, strict=True):
                column.append(t)
        for block, column, y in zip(blocks, columns, linear.results, strict=True):
            flat = _stacked(column, (size(p.shape), y._buf.size), y._kind)
            block.append(reshape(operators["transpose"].call(flat), y._shape + p.shape))
    return blocks


def _stacked(parts: list[NDArray | None], shape: tuple[int, ...], kind: Kind) -> NDArray:
    """Arrays of equal size one after the other, as an array of the given shape; None is zeros."""
    out = zeros(shape, kind)
    if not parts:
        return out
    n = out._buf.size // len(parts)
    if any(x is not None and x._node is not None for x in parts):
        rows = [zeros((n,), kind) if x is None else reshape(x, (n,)) for x in parts]
        return reshape(operators["stack"].call(*rows, axis=0), shape)
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
        call, found = _gradient("hessian", function, argnums, args, kwargs, has_aux)
        return (found, call.aux) if has_aux else found

    return functools.wraps(function)(jacobian(gradient, argnums, "reverse", has_aux))
