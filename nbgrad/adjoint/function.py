"""What users call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AttrError
from .arguments import apart, completed, describe, outputs, wanted, written
from .generated import Backwards, Forwards
from .kinds import infer
from .lower import lower
from .subset import source_of

__all__ = ["Adjoint", "Tangent", "adjoint", "tangent"]


def adjoint(f: Callable, argnums: int | tuple[int, ...] | None = None) -> Adjoint:
    """The adjoint of a function with loops: reverse mode, as source code that Numba compiles.

    Parameters
    ----------
    f : callable
        A Python function, or one that Numba compiles, of numbers and NumPy arrays, in the subset of Python that
        ``docs/adjoint.md`` lists.
    argnums : int or tuple of int, optional
        The arguments to differentiate with respect to; without it, all that are floats or arrays of floats.

    Returns
    -------
    Adjoint

    Examples
    --------
    >>> import numpy as np
    >>> import nbgrad as nb
    >>> def length(x):
    ...     total = 0.0
    ...     for i in range(x.size):
    ...         total += x[i] * x[i]
    ...     return total**0.5
    >>> value, (x_bar,) = nb.adjoint(length).value_and_grad(np.array([3.0, 4.0]))
    >>> print(value, x_bar)
    5.0 [0.6 0.8]
    """
    return Adjoint(f, argnums)


def tangent(f: Callable, argnums: int | tuple[int, ...] | None = None) -> Tangent:
    """The tangent of a function with loops: forward mode, as source code that Numba compiles.

    Parameters
    ----------
    f, argnums
        As for :func:`adjoint`.

    Returns
    -------
    Tangent

    Examples
    --------
    >>> import nbgrad as nb
    >>> def cube(x):
    ...     y = 1.0
    ...     for i in range(3):
    ...         y *= x
    ...     return y
    >>> nb.tangent(cube).jvp((2.0,), (1.0,))
    (8.0, 12.0)
    """
    return Tangent(f, argnums)


def _copies(args: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


class _Differentiated:
    """What adjoints and tangents share: code per combination of ranks and kinds of arguments."""

    _how: Callable

    def __init__(self, f: Callable, argnums: int | tuple[int, ...] | None) -> None:
        self._source = source_of(f)
        self._argnums = argnums
        self._made: dict[tuple, Any] = {}
        self._last: Any = None
        self.__name__ = f"{self._source.name}_{type(self).__name__.lower()}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self._source.name}>"

    @property
    def source(self) -> str:
        """The generated file, for the arguments of the latest call."""
        if self._last is None:
            raise AttrError(f"{self.__name__}.source depends on the types of the arguments: make a call first")
        return self._last.text

    def _generated(self, args: tuple) -> Any:
        made = self._variant(type(self)._how, args, True)
        apart(made.f, args)
        self._last = made
        return made

    def _variant(self, how: Callable, args: tuple, differentiated: bool) -> Any:
        ranks, kinds = describe(self._source, args)
        key = (differentiated, *ranks.values(), *kinds.values())
        made = self._made.get(key)
        if made is None:
            f = lower(self._source, ranks, kinds)
            infer(f)
            wrt = wanted(self._source, kinds, self._argnums) if differentiated else []
            made = self._made[key] = how(f, wrt)
        return made


class Tangent(_Differentiated):
    """What :func:`tangent` gives."""

    _how = Forwards

    def jvp(self, args: tuple, tangents: tuple) -> tuple[Any, Any]:
        """The outputs and their derivatives in a direction.

        Parameters
        ----------
        args : tuple
            The arguments. Arrays that the function writes are left alone; their new values are outputs.
        tangents : tuple
            One per argument that is differentiated; None for zeros.

        Returns
        -------
        outputs, derivatives
            The results, in order, and then the arrays of floats that the function writes: a tuple, or the output
            itself if there is one.
        """
        args = completed(self._source, tuple(args))
        made = self._generated(args)
        given = tangents if isinstance(tangents, tuple) else (tangents,)
        if len(given) != len(made.wrt):
            raise AttrError(
                f"{made.f.name}: {len(made.wrt)} tangents expected ({', '.join(made.wrt)}), {len(given)} given"
            )
        values, derivatives = made(args, dict(zip(made.wrt, given, strict=True)))
        return (values[0], derivatives[0]) if len(values) == 1 else (values, derivatives)


class Adjoint(_Differentiated):
    """What :func:`adjoint` gives."""

    _how = Backwards

    def value_and_grad(self, *args) -> tuple[Any, Any]:
        """The result, a number, and its gradients.

        Arrays that the function writes are written.

        Returns
        -------
        value : float
        gradients : tuple, or a single one where `argnums` is an int
        """
        args = completed(self._source, args)
        made = self._generated(args)
        f = made.f
        if f.results is None or len(f.results) != 1 or f.ranks.get(f.results[0], 0):
            raise AttrError(f"{f.name}: value_and_grad is for functions that return one number; use vjp")
        results, gradients = made(args, {f.results[0]: 1.0})
        return results[0], self._form(gradients)

    def vjp(self, *args) -> Pullback:
        """Call the function, and get what takes cotangents of its outputs to those of its arguments.

        The outputs are the results, in order, and then the arrays of floats that the function writes. Called with one
        cotangent per output (a tuple; the cotangent itself if there is one output; None for zeros), the pullback gives
        a tuple with one gradient per argument. ``.value`` is what the function returned.
        """
        args = completed(self._source, args)
        made = self._generated(args)
        snapshot = tuple(a.copy() if n in written(made.f) else a for n, a in zip(made.f.parameters, args, strict=True))
        return Pullback(self, made, snapshot, self._primal(args))

    def report(self, *args) -> dict[str, int]:
        """Bytes stored for the sweep back, by variable and loops. The function runs, on copies of the arguments."""
        args = completed(self._source, args)
        made = self._generated(args)
        return made.stored(_copies(args), self._primal(_copies(args)))

    def _primal(self, args: tuple) -> tuple:
        """Call the function itself, compiled; its results."""
        return self._variant(Forwards, args, False).run(args)

    def _form(self, gradients: tuple) -> Any:
        return gradients[0] if isinstance(self._argnums, int) else gradients


class Pullback:
    """What :meth:`Adjoint.vjp` gives; call it with cotangents."""

    def __init__(self, adjoint: Adjoint, made: Backwards, args: tuple, results: tuple) -> None:
        self._adjoint = adjoint
        self._generated = made
        self._args = args
        self._results = results
        self.parameters = tuple(made.f.parameters)
        self.outputs = tuple(outputs(made.f))
        self.value = None if made.f.results is None else results[0] if len(results) == 1 else results

    def __call__(self, cotangents: Any) -> Any:
        f, made = self._generated.f, self._generated
        names = self.outputs
        given = cotangents if isinstance(cotangents, tuple) else (cotangents,)
        if len(given) != len(names):
            raise AttrError(f"{f.name}: {len(names)} cotangents expected ({', '.join(names)}), {len(given)} given")
        args = tuple(a.copy() if n in written(f) else a for n, a in zip(f.parameters, self._args, strict=True))
        return self._adjoint._form(made(args, dict(zip(names, given, strict=True)), self._results)[1])
