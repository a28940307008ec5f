"""``nbgrad.fixed_point``: iterations that solve an equation, whose derivative is that of the equation.

By the implicit function theorem ``F(z(a), a) = 0`` has ``dz/da = -(dF/dz)**-1 dF/da`` (Griewank and Walther,
*Evaluating Derivatives*, 2nd edition, section 15.5). So the vjp solves one linear system, with the transposed Jacobian
of the residual, and pulls its solution back through the residual; the steps of the iteration leave no trace.

A vjp is generated per combination of ranks and kinds of arguments, around the pullback of the residual. It is in the
subset that has adjoints, so it has derivatives of any order itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..backends.numba.compile import module, nopython_function
from ..backends.numba.result_types import result_type
from ..core.pickling import Derived
from ..errors import AttrError, DTypeError, TraceError
from ..loops.codegen.implicit_function import implicit_vjp
from ..loops.custom_rules import Kind, kind_of_type, stand_in
from ..loops.differentiable_operator import LoopOperator, OperatorVariant
from .primitive import Primitive

__all__ = ["FixedPoint", "fixed_point"]


def fixed_point(iterate: Callable | None = None, residual: Callable | None = None, *, infer: Callable | None = None):
    """Give an iteration the derivative of the equation that it solves.

    The derivative of the steps of an iteration is another thing than that of its solution: a bisection moves its bounds
    by tests, so that its steps have no derivative at all, Newton's method stops where the value has converged and the
    derivative has not, and a tape of thousands of steps takes memory.

    Parameters
    ----------
    iterate : callable
        ``iterate(a, b, ...)`` returns the solution `z`, a float or a vector of floats. Numba compiles it; it does not
        have to be in the subset of :func:`nbgrad.adjoint`. It must not write into its arguments, which are arrays and
        numbers.
    residual : callable
        ``residual(z, a, ...)`` is 0 for the solution: a number, or a vector of the length of `z`. Its parameters after
        the first one are those of `iterate`, by their names, in any order; those that it does not take (a first guess,
        a tolerance) have derivative 0. It is in the subset of :func:`nbgrad.adjoint`. For ``z = g(z, a)`` it is
        ``z - g(z, a)``.
    infer : callable, optional
        As in :func:`nbgrad.primitive`: ``infer(a, b, ...)`` returns an argument of the shape of the solution, or
        ``(shape, dtype)``. It is needed for vectors in functions that ``nbgrad.jit`` compiles and, for second
        derivatives, in loops.

    Returns
    -------
    callable
        Takes the arguments of `iterate`, with NDArrays for arrays, and returns NDArrays if an argument is one. It may
        be called in functions that :func:`nbgrad.adjoint`, :func:`nbgrad.tangent`, ``nbgrad.grad`` and ``nbgrad.jit``
        take, and has derivatives of any order.

    Raises
    ------
    AttrError
        If `residual` takes a parameter that `iterate` does not have.
    TraceError
        At the first call with these types, if `residual` is outside of the subset, or its result has not the form of
        the solution.
    numpy.linalg.LinAlgError
        In the reverse sweep, if the Jacobian of a vector residual is singular. For numbers, a residual of derivative 0
        gives infinities and NaN.

    Notes
    -----
    ``dz = -(dF/dz)**-1 dF/da da``, Griewank and Walther, *Evaluating Derivatives*, 2nd edition, section 15.5. It is as
    exact as the solution; whether the iteration has converged is not checked.

    Examples
    --------
    Kepler's equation by bisection: ``dE/dM = 1 / (1 - e cos E)``.

    >>> import math
    >>> import nbgrad as nb
    >>> def equation(E, M, e):
    ...     return E - e * math.sin(E) - M
    >>> @nb.fixed_point(residual=equation)
    ... def kepler(M, e):
    ...     low, high = M - e, M + e
    ...     while high - low > 1e-13:
    ...         E = (low + high) / 2
    ...         if E - e * math.sin(E) < M:
    ...             low = E
    ...         else:
    ...             high = E
    ...     return (low + high) / 2
    >>> E, (slope, _) = nb.adjoint(lambda M, e: kepler(M, e)).value_and_grad(1.0, 0.5)
    >>> round(slope, 9), round(1 / (1 - 0.5 * math.cos(E)), 9)
    (1.037362022, 1.037362022)
    """
    if iterate is None:
        return functools.partial(fixed_point, residual=residual, infer=infer)
    return FixedPoint(iterate, residual, infer)


class FixedPoint(Derived):
    """The result of :func:`fixed_point`: a family of primitives, one per combination of ranks and kinds."""

    def __init__(self, iterate: Callable, residual: Callable | None, infer: Callable | None = None) -> None:
        for what, function in (("iterate", iterate), ("residual", residual), ("infer", infer)):
            if not callable(function) and (function is not None or what != "infer"):
                raise DTypeError(f"fixed_point: {what} must be a function, got {function!r}")
        functools.update_wrapper(self, iterate, updated=())
        self._made_of = iterate, residual, infer
        self.name = getattr(iterate, "__name__", type(iterate).__name__)
        self.forward: Any = nopython_function(iterate)
        self.signature = inspect.signature(self.forward.py_func)
        self.parameters = list(self.signature.parameters)
        named = [p.name for p in inspect.signature(residual).parameters.values()]  # type: ignore[arg-type]
        if not named or (unknown := [n for n in named[1:] if n not in self.parameters]):
            what = f"residual takes {', '.join(unknown)}, which {self.name}" if named else f"residual of {self.name}"
            raise AttrError(
                f"fixed_point: {what} does not; it takes the solution, then parameters of {self.name} by their names: "
                f"{', '.join(self.parameters)}"
            )
        self.equation_parameters = named[1:]
        self._residual = LoopOperator(residual)  # type: ignore[arg-type]
        self._infer = infer
        self._members: dict[tuple[Kind, ...], Primitive] = {}

    def __repr__(self) -> str:
        return f"<fixed point {self.name}>"

    def _origin(self) -> tuple[Callable, tuple]:
        return FixedPoint, self._made_of

    def __call__(self, *args, **kwargs):
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args = bound.args
        if not any(isinstance(a, NDArray) for a in args):
            return self.forward(*args)
        return self.member(tuple([self._kind(n, a) for n, a in zip(self.parameters, args, strict=True)]))(*args)

    def _kind(self, name: str, value: Any) -> Kind:
        array = isinstance(value, NDArray | np.ndarray | np.generic | bool | int | float)
        dtype = np.dtype(value.dtype if hasattr(value, "dtype") else type(value)) if array else None
        kind = {"f": "float", "i": "int", "u": "int", "b": "bool"}.get(dtype.kind) if dtype is not None else None
        if kind is None:
            raise DTypeError(
                f"{self.name}: argument {name} must be an array of real numbers or a number, got {value!r}"
            )
        return len(getattr(value, "shape", ())), kind

    def member(self, kinds: tuple[Kind, ...]) -> Primitive:
        """The primitive for arguments of these ranks and kinds."""
        if kinds not in self._members:
            vjp, solution = self._vjp(kinds)
            infer = self._infer or (None if solution[0] else lambda *args: ((), np.float64))
            self._members[kinds] = Primitive(self.forward, Primitive(vjp, None, None), infer)
        return self._members[kinds]

    def _vjp(self, kinds: tuple[Kind, ...]) -> tuple[Callable, Kind]:
        """The compiled vjp, and the rank and kind of the solution."""
        arguments = dict(zip(self.parameters, kinds, strict=True))
        returned = result_type(self.forward, tuple(map(stand_in, kinds)))
        solution = kind_of_type(returned)
        if not isinstance(solution, tuple) or solution[0] > 1 or solution[1] != "float":
            raise TraceError(
                f"{self.name}: the solution is {returned}; let it be a float or a vector of floats, as np.array([x, y])"
            )
        taken = [solution, *(arguments[n] for n in self.equation_parameters)]
        operator = self._residual.variant([stand_in(kind) for kind in taken])
        if not isinstance(operator, OperatorVariant):
            raise TraceError(f"{self.name}: its residual has no derivative: {operator}")
        wrt = tuple([k for k, (_, kind) in enumerate(taken) if kind == "float"])
        pullback = operator.printed_pullback(wrt)
        ranks = [pullback.f.ranks.get(n, 0) for n in operator.outputs]
        if ranks != [solution[0]] or pullback.f.modified_parameters:
            raise TraceError(
                f"{self.name}: its residual must return {'a vector' if solution[0] else 'a number'} like the solution, "
                "and leave its arguments alone"
            )
        if not pullback.cotangents or pullback.f.parameters[0] not in pullback.bars:
            raise TraceError(f"{self.name}: its residual does not depend on the solution")
        axes = {n: rank for n, (rank, _) in arguments.items()}
        return module(*implicit_vjp(self.name, pullback, solution[0], axes, self.equation_parameters)), solution
