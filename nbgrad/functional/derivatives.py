"""First derivatives of functions: gradients, vector-Jacobian and Jacobian-vector products.

Each transform calls the function once, recorded, and runs a reverse sweep over the recording (:mod:`.call`). A reverse
sweep computes :math:`J^T u`, which is linear in `u`; a reverse sweep over that one, with respect to `u` and from `v`,
gives :math:`J v` (J. Townsend, A new trick for calculating Jacobian vector products, 2017). The value of `u` is
irrelevant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arrays.ndarray import NDArray, zeros
from ..arrays.sharing import snapshot
from ..autodiff import tape
from ..autodiff.constants import variable_cotangent
from ..autodiff.state import state
from ..core.pickling import Transformed
from ..errors import DTypeError
from .call import Argnums, Call, as_array_like, checked, ones_like, sweep
from .pytrees import flatten_like

__all__ = ["LinearMap", "any_recorded", "elementwise_grad", "grad", "gradient_of", "jvp", "value_and_grad", "vjp"]


def value_and_grad(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that returns the value of `function` and its gradient.

    Parameters
    ----------
    function : callable
        Returns a scalar (an NDArray with one element).
    argnums : int or tuple of int
        The positional arguments to differentiate by; negative ones count from the end. They may be arrays, floats, and
        dicts, lists, tuples, namedtuples and dataclasses of them.
    has_aux : bool
        `function` returns a pair, of which the second is passed on and not differentiated.

    Returns
    -------
    callable
        Takes the same arguments and returns ``(value, gradient)``, or ``((value, aux), gradient)``. The gradient has
        the form of the argument, a tuple of those for a tuple of `argnums`; see :func:`grad`.

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

    def value_and_gradient(*args, **kwargs):
        call, gradient = gradient_of("value_and_grad", function, argnums, args, kwargs, has_aux)
        value = call.scalar_value(call.result)
        return ((value, call.value(call.aux)) if has_aux else value), gradient

    return Transformed(value_and_gradient, value_and_grad, function, argnums, has_aux)


def grad(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `function`.

    Parameters
    ----------
    function, argnums, has_aux
        As for :func:`value_and_grad`.

    Returns
    -------
    callable
        Takes the same arguments and returns the gradient, or ``(gradient, aux)``: arrays in the form of the argument,
        NDArrays for NDArrays, NumPy arrays for NumPy arrays (of the same dtype), and floats for floats. Where
        `function` does not depend on an argument they are zero. If the call depends on arrays recorded outside of it,
        they are NDArrays, so that they can be differentiated.

    Raises
    ------
    DTypeError
        If `function` cannot be called or does not return an NDArray, or if an argument to differentiate by is not a
        float.
    ShapeError
        If its result has more than one element.
    RangeError, AttrError
        If an argument does not exist, or is named twice.

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

    def gradient(*args, **kwargs):
        call, result = gradient_of("grad", function, argnums, args, kwargs, has_aux)
        return (result, call.value(call.aux)) if has_aux else result

    return Transformed(gradient, grad, function, argnums, has_aux)


def gradient_of(name: str, function: Callable, argnums: Argnums, args, kwargs, has_aux: bool) -> tuple[Call, Any]:
    """The recorded call of a scalar function, and its gradient."""
    call = Call(name, function, argnums, args, kwargs, has_aux)
    cotangents = sweep([(call.scalar(), None)], call.variables, call.floor, call.open, False)
    return call, call.gradients(cotangents, call.open)


def elementwise_grad(function: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that returns the derivative of an elementwise `function`: ``f'(x)`` in the shape of x.

    Parameters
    ----------
    function : callable
        Returns arrays of any shape. Each element of the result should depend only on the elements of the arguments at
        the same index; the gradient of the sum of the results is computed.
    argnums, has_aux
        As for :func:`grad`.

    Returns
    -------
    callable
        As for :func:`grad`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.elementwise_grad(nb.elementwise_grad(np.sin))(np.array([0.0, np.pi / 2]))
    array([-0., -1.])
    """
    argnums = checked("elementwise_grad", function, argnums)

    def derivative(*args, **kwargs):
        call = Call("elementwise_grad", function, argnums, args, kwargs, has_aux)
        heads = [(y, None) for y in call.arrays()[0]]
        result = call.gradients(sweep(heads, call.variables, call.floor, call.open, False), call.open)
        return (result, call.value(call.aux)) if has_aux else result

    return Transformed(derivative, elementwise_grad, function, argnums, has_aux)


def vjp(function: Callable, *args: Any, argnums: Argnums | None = None, has_aux: bool = False) -> tuple:
    """The value of `function`, and its pullback, which computes vector-Jacobian products.

    Parameters
    ----------
    function : callable
        Returns an NDArray or a tree of them.
    *args
        Its arguments.
    argnums : int or tuple of int, optional
        The arguments to differentiate by; default: all of them, as a tuple.
    has_aux : bool
        As for :func:`value_and_grad`.

    Returns
    -------
    value
    pullback : callable
        ``pullback(u)``, with `u` in the form of the value, returns :math:`u^T J` in the form of the arguments in
        `argnums`. It can be called any number of times, and keeps the recording alive.
    aux
        With `has_aux`.

    Raises
    ------
    DTypeError, ShapeError, AttrError, RangeError
        As for :func:`grad`; also by the pullback, if `u` does not have the form of the value.
    InPlaceError
        By the pullback, if an NDArray that it reads has been changed in place since.

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
    leaves = [snapshot(y) for y in leaves]  # the caller may write into the results

    def pullback(cotangents):
        pairs = flatten_like(shape, cotangents, "vjp: cotangent")
        seeds = [as_array_like(y, u, "vjp: cotangent" + path) for y, u, path in pairs]
        recorded = state.recording and (call.open or any_recorded(seeds))
        return call.gradients(
            sweep(zip(leaves, seeds, strict=True), call.variables, call.floor, recorded, True), recorded
        )

    value = call.value(call.result)
    return (value, pullback, call.value(call.aux)) if has_aux else (value, pullback)


def any_recorded(arrays: Sequence[NDArray]) -> bool:
    """Whether any of the arrays is on the tape."""
    return any(x._node is not None for x in arrays)


class LinearMap:
    """:math:`v \\mapsto J v` of one recorded call, by sweeps over its recorded pullback."""

    def __init__(self, call: Call) -> None:
        self.call = call
        results, self.build = call.arrays()
        self.results = [snapshot(y) for y in results]
        seeds = [variable_cotangent(y, ones_like(y)) for y in self.results]
        self._targets: dict = {u._node: 0 for u in seeds}
        self._floor = tape.next_seq()
        heads = zip(self.results, seeds, strict=True)
        self._pulled = sweep(heads, call.variables, call.floor, True, True)

    def __call__(self, tangents: Sequence[NDArray | None]) -> tuple[list[NDArray], bool]:
        """The tangents of the results for those of the variables (None is zero), and whether they are recorded."""
        heads = [(g, t) for g, t in zip(self._pulled, tangents, strict=True) if t is not None]
        recorded = state.recording and (self.call.open or any_recorded([t for _, t in heads]))
        pushed = sweep(heads, self._targets, self._floor, recorded, True)
        return [
            zeros(y._shape, y._kind) if t is None else t for y, t in zip(self.results, pushed, strict=True)
        ], recorded


def jvp(function: Callable, primals: Sequence, tangents: Sequence, has_aux: bool = False) -> tuple:
    """The value of `function`, and the product of its Jacobian with a vector: its derivative along `tangents`.

    It is computed by a reverse sweep over a recorded reverse sweep ("double vjp"): about the time of three gradients,
    independent of the number of arguments and results.

    Parameters
    ----------
    function : callable
        Returns an NDArray or a tree of them.
    primals : tuple or list
        Its arguments.
    tangents : tuple or list
        Their tangents, in the same form and of the same shapes.
    has_aux : bool
        As for :func:`value_and_grad`.

    Returns
    -------
    value, tangent
        And aux, with `has_aux`.

    Raises
    ------
    DTypeError, ShapeError
        As for :func:`grad`; also if `tangents` do not have the form of `primals`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> nb.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    (array([1., 4.]), array([ 2., 40.]))
    """
    for name, argument in (("primals", primals), ("tangents", tangents)):
        if not isinstance(argument, list | tuple):
            raise DTypeError(f"jvp: {name} must be a tuple, one entry per argument, got {argument!r}")
    argnums = checked("jvp", function, tuple(range(len(primals))))
    call = Call("jvp", function, argnums, primals, {}, has_aux)
    linear = LinearMap(call)
    pushed, recorded = linear(call.leaves_like_arguments(tuple(primals), tuple(tangents), "jvp: tangents"))
    tangent = linear.build(iter(pushed))
    value = call.value(call.result), tangent if recorded else call.value(tangent)
    return (*value, call.value(call.aux)) if has_aux else value
