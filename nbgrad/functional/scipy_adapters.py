"""Adapters for SciPy's solvers: functions of one flat float64 vector, with their derivatives.

Parameters may be any tree of floats. It is sliced from the vector by recorded operations, so all derivatives are with
respect to one vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..autodiff.scopes import pause
from ..core.dtypes import as_dtype
from ..core.registry import operators
from ..errors import DTypeError, ShapeError
from ..kernels.shape import reshape
from ..operators.cast import cast, reinterpreted
from .call import Call, checked, conventions_of, sweep
from .derivatives import LinearMap, value_and_grad
from .matrices import hessian, hvp, jacobian
from .pytrees import flatten, leaf_path, map_leaves

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

__all__ = ["ScipyObjective", "ScipyResiduals", "hessian_operator", "jacobian_operator"]


def _given_part(leaf: Any, values: np.ndarray) -> Any:
    """The values in the form of `leaf`."""
    if isinstance(leaf, NDArray):
        return from_value(values.reshape(leaf.shape), dtype=leaf.dtype, conventions=leaf._kind.conventions)
    if isinstance(leaf, np.ndarray):
        return values.reshape(leaf.shape).astype(leaf.dtype)
    return type(leaf)(values[0])


class _VectorFunction:
    """A function of parameters as a function of a vector."""

    #: The initial parameters as a vector; None if there are none.
    x0: np.ndarray | None

    def __init__(self, function: Callable, x0: Any = None) -> None:
        name = type(self).__name__
        checked(name, function, 0)
        if isinstance(x0, list | tuple) and all(isinstance(v, int | float | np.number) for v in x0):
            x0 = np.array(x0, "float64")  # a sequence of numbers is a vector, as everywhere in SciPy
        leaves: list = []
        flatten(x0, leaves)
        for k, leaf in enumerate(leaves):
            is_float_leaf = isinstance(leaf, NDArray | np.ndarray | np.floating | float)
            if not is_float_leaf or np.dtype(getattr(leaf, "dtype", float)).kind != "f":
                raise DTypeError(f"{name}: x0{leaf_path(x0, k)} must be floating point numbers, got {leaf!r}")
        self._function = function
        self._tree = x0
        self._conventions = conventions_of(leaves)
        self.x0 = None if x0 is None else self.pack(x0)

    def pack(self, tree: Any) -> np.ndarray:
        """The vector of a tree of parameters: its leaves, flattened and concatenated."""
        leaves: list = []
        flatten(tree, leaves)
        return np.concatenate([np.empty(0), *[np.asarray(leaf, "float64").reshape(-1) for leaf in leaves]])

    def unpack(self, x) -> Any:
        """The parameters with vector `x`, in the form of the initial ones."""
        return self._cut(np.array(x, "float64"), _given_part)

    def _cut(self, x: Any, part: Callable) -> Any:
        """The parameters with vector `x`; each leaf is ``part(initial leaf, slice of x)``."""
        if self.x0 is None:
            return x
        if x.shape != self.x0.shape:
            raise ShapeError(
                f"{type(self).__name__}: x must be a vector of {self.x0.size} numbers, as x0 is; its shape is {x.shape}"
            )
        if getattr(self._tree, "shape", None) == x.shape:
            return part(self._tree, x)
        place = 0

        def next_part(leaf):
            nonlocal place
            first, place = place, place + int(np.size(leaf))
            return part(leaf, x[first:place])

        return map_leaves(self._tree, next_part)

    def _recorded_part(self, leaf: Any, values: NDArray) -> NDArray:
        conventions = leaf._kind.conventions if isinstance(leaf, NDArray) else self._conventions
        kind = values._kind.by(conventions).of(as_dtype(getattr(leaf, "dtype", float)))
        shaped = reinterpreted(reshape(values, np.shape(leaf)), conventions)
        return shaped if shaped._kind is kind else cast(shaped, kind)

    def _of_vector(self, x: NDArray, *args: Any) -> Any:
        return self._function(self._cut(x, self._recorded_part), *args)


def _vector(x) -> np.ndarray:
    return np.asarray(x, "float64")


class ScipyObjective(_VectorFunction):
    """A scalar function for ``scipy.optimize.minimize``.

    Every method takes a vector, and then the ``args`` that SciPy passes on.

    Parameters
    ----------
    function : callable
        Takes the parameters and returns a scalar (an NDArray with one element).
    x0 : tree of floating point numbers, optional
        Parameters in the form that `function` takes: an array of any shape, a dict of arrays, ... Default: a vector.

    Attributes
    ----------
    x0 : numpy.ndarray or None
        The parameters as a vector.

    Raises
    ------
    DTypeError
        If `function` cannot be called, or a leaf of `x0` is not floating point.
    ShapeError
        By the methods, for a vector of another length than `x0`, or if the function's result is not a scalar.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> from scipy.optimize import minimize
    >>> def distance(p):
    ...     return (p["a"] - 3) ** 2 + ((p["b"] - np.array([1.0, 2.0])) ** 2).sum()
    >>> problem = nb.ScipyObjective(distance, {"a": 0.0, "b": np.zeros(2)})
    >>> found = minimize(problem.fun_and_jac, problem.x0, jac=True, hessp=problem.hessp, method="trust-ncg")
    >>> problem.unpack(found.x.round(6))
    {'a': 3.0, 'b': array([1., 2.])}
    """

    def fun(self, x, *args) -> float:
        """The value."""
        call = Call("ScipyObjective", self._of_vector, 0, (_vector(x), *args), {})
        return float(call.scalar())

    def jac(self, x, *args) -> np.ndarray:
        """The gradient, a vector."""
        return self.fun_and_jac(x, *args)[1]

    def fun_and_jac(self, x, *args) -> tuple[float, np.ndarray]:
        """Value and gradient, for ``jac=True``."""
        value, gradient = value_and_grad(self._of_vector)(_vector(x), *args)
        return float(value), gradient

    def hess(self, x, *args) -> np.ndarray:
        """The Hessian, a matrix."""
        return hessian(self._of_vector)(_vector(x), *args)

    def hessp(self, x, p, *args) -> np.ndarray:
        """The product of the Hessian with the vector `p`."""
        return hvp(self._of_vector)(_vector(x), *args, _vector(p))

    def operator(self, x, *args) -> LinearOperator:
        """The Hessian at `x` as a linear operator; see :func:`hessian_operator`."""
        with pause(train_mode=None):
            call = Call("hessian_operator", self._of_vector, 0, (_vector(x), *args), {}, keep=True)
        (gradient,) = sweep([(call.scalar(), None)], call.variables, call.floor, True, True)

        def product(v) -> np.ndarray:
            seed = from_value(_vector(v).reshape(-1))
            return call.gradients(sweep([(gradient, seed)], call.variables, call.floor, False, True), False)

        return _operator((np.size(x), np.size(x)), product, product)


class ScipyResiduals(_VectorFunction):
    """A function with several results, for ``scipy.optimize.least_squares``, ``root`` and ``NonlinearConstraint``.

    Every method takes a vector, and then the ``args`` that SciPy passes on.

    Parameters
    ----------
    function : callable
        Takes the parameters and returns an NDArray, or a tree of them, which becomes one vector.
    x0 : tree of floating point numbers, optional
        As for :class:`ScipyObjective`.

    Attributes
    ----------
    x0 : numpy.ndarray or None
        The parameters as a vector.

    Raises
    ------
    DTypeError, ShapeError
        As for :class:`ScipyObjective`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> from scipy.optimize import least_squares
    >>> t = np.array([0.0, 1.0, 2.0])
    >>> problem = nb.ScipyResiduals(lambda p: p[0] * np.exp(p[1] * t) - 2 * np.exp(-0.5 * t))
    >>> least_squares(problem.fun, [1.0, 0.0], jac=problem.jac).x.round(6)
    array([ 2. , -0.5])
    """

    def _flat(self, x: NDArray, *args: Any) -> Any:
        """The results as one vector; if a leaf is not an array, :class:`.Call` raises later."""
        result = self._of_vector(x, *args)
        leaves: list = []
        flatten(result, leaves)
        if not leaves or not all(isinstance(y, NDArray) for y in leaves):
            return result
        parts = [reshape(y, (y._buf.size,)) for y in leaves]
        return parts[0] if len(parts) == 1 else operators["concat"].call(*parts, dim=0)

    def fun(self, x, *args) -> np.ndarray:
        """The results."""
        call = Call("ScipyResiduals", self._flat, 0, (_vector(x), *args), {})
        return call.value(call.array(call.result))

    def jac(self, x, *args) -> np.ndarray:
        """The Jacobian: a row per result, a column per parameter."""
        return jacobian(self._flat)(_vector(x), *args)

    def fun_and_jac(self, x, *args) -> tuple[np.ndarray, np.ndarray]:
        """Both, for ``root(..., jac=True)``."""

        def twice(x, *args):
            y = self._flat(x, *args)
            return y, y

        matrix, value = jacobian(twice, has_aux=True)(_vector(x), *args)
        return value, matrix

    def hess(self, x, v, *args) -> np.ndarray:
        """The Hessian of the results' sum weighted with `v`, for ``NonlinearConstraint``."""
        return hessian(lambda x, v, *args: (self._flat(x, *args) * v).sum())(_vector(x), _vector(v), *args)

    def operator(self, x, *args) -> LinearOperator:
        """The Jacobian at `x` as a linear operator; see :func:`jacobian_operator`."""
        with pause(train_mode=None):
            call = Call("jacobian_operator", self._flat, 0, (_vector(x), *args), {}, keep=True)
            linear = LinearMap(call)
        (y,) = linear.results

        def product(v) -> np.ndarray:
            with pause(train_mode=None):
                (pushed,), _ = linear([from_value(_vector(v).reshape(-1))])
            return pushed._view()

        def transposed(u) -> np.ndarray:
            seed = from_value(_vector(u).reshape(-1))
            return call.gradients(sweep([(y, seed)], call.variables, call.floor, False, True), False)

        return _operator((y.size, np.size(x)), product, transposed)


def _operator(shape: tuple[int, int], product: Callable, transposed: Callable) -> LinearOperator:
    from scipy.sparse.linalg import LinearOperator  # takes as long to import as all of nbgrad

    return LinearOperator(shape, matvec=product, rmatvec=transposed, dtype=np.dtype("float64"))


def jacobian_operator(function: Callable, x: Any, *args: Any) -> LinearOperator:
    """The Jacobian of `function` at `x` as a ``scipy.sparse.linalg.LinearOperator``; no matrix is formed.

    The function is called once. A product with the Jacobian or its transpose is a sweep over that recording.

    Parameters
    ----------
    function : callable
        Takes `x` and `args` and returns an NDArray, or a tree of them, which becomes one vector.
    x : tree of floating point numbers
        As for :class:`ScipyObjective`.
    *args
        Further arguments of the function.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator
        With ``matvec`` (see :func:`jvp`) and ``rmatvec`` (see :func:`vjp`).

    Raises
    ------
    DTypeError
        As for :class:`ScipyResiduals`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> J = nb.jacobian_operator(lambda x: x[:2] * x[1:], np.array([1.0, 2.0, 3.0]))
    >>> J.shape, J @ np.ones(3), J.T @ np.ones(2)
    ((2, 3), array([3., 5.]), array([2., 4., 2.]))
    """
    problem = ScipyResiduals(function, x)
    return problem.operator(problem.x0, *args)


def hessian_operator(function: Callable, x: Any, *args: Any) -> LinearOperator:
    """The Hessian of `function` at `x` as a ``scipy.sparse.linalg.LinearOperator``; no matrix is formed.

    Function and gradient are computed once. A product is a sweep over that recording (see :func:`hvp`).

    Parameters
    ----------
    function : callable
        Takes `x` and `args` and returns a scalar.
    x, *args
        As for :func:`jacobian_operator`.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator
        It is symmetric: ``matvec`` and ``rmatvec`` are the same.

    Raises
    ------
    DTypeError, ShapeError
        As for :class:`ScipyObjective`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> from scipy.sparse.linalg import cg
    >>> H = nb.hessian_operator(lambda x: (x**4).sum() / 12, np.array([1.0, 2.0]))
    >>> cg(H, np.array([1.0, 4.0]))[0]
    array([1., 1.])
    """
    problem = ScipyObjective(function, x)
    return problem.operator(problem.x0, *args)
