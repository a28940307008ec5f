"""What users call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen.compile import module as compiled_module
from ..errors import AttrError, TraceError
from .analysis import plan
from .arguments import apart, cotangent, describe, outputs, wanted, written
from .ir import Function
from .kinds import infer
from .lower import lower
from .reverse import Reverse, module
from .subset import source_of

__all__ = ["Adjoint", "adjoint"]


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
    ...     return total ** 0.5
    >>> value, (x_bar,) = nb.adjoint(length).value_and_grad(np.array([3.0, 4.0]))
    >>> print(value, x_bar)
    5.0 [0.6 0.8]
    """
    return Adjoint(f, argnums)


class Adjoint:
    """What :func:`adjoint` gives."""

    def __init__(self, f: Callable, argnums: int | tuple[int, ...] | None) -> None:
        self._source = source_of(f)
        self._argnums = argnums
        self._made: dict[tuple, Generated] = {}
        self._last: Generated | None = None
        self.__name__ = f"{self._source.name}_adjoint"

    def __repr__(self) -> str:
        return f"<adjoint of {self._source.name}>"

    @property
    def source(self) -> str:
        """The generated file, for the arguments of the latest call."""
        if self._last is None:
            raise AttrError(f"{self.__name__}.source: it depends on the types of the arguments; call the adjoint first")
        return self._last.text

    def value_and_grad(self, *args) -> tuple[Any, Any]:
        """The result, a number, and its gradients.

        Arrays that the function writes are written.

        Returns
        -------
        value : float
        gradients : tuple, or a single one where `argnums` is an int
        """
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
        made = self._generated(args)
        snapshot = tuple(
            a.copy() if n in written(made.f) else a for n, a in zip(made.f.parameters, args, strict=True)
        )
        return Pullback(self, made, snapshot, made(args, {})[0])

    def report(self, *args) -> dict[str, int]:
        """Bytes stored for the sweep back, by the variable and the loop; the arguments are not changed."""
        made = self._generated(args)
        return made.measure(tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args))

    def _form(self, gradients: tuple) -> Any:
        return gradients[0] if isinstance(self._argnums, int) else gradients

    def _generated(self, args: tuple) -> Generated:
        ranks, kinds = describe(self._source, args)
        key = (*ranks.values(), *kinds.values())
        made = self._made.get(key)
        if made is None:
            f = lower(self._source, ranks, kinds)
            infer(f, self._source)
            wrt = wanted(self._source, kinds, self._argnums)
            made = self._made[key] = Generated(f, Reverse(f, plan(f, self._source, set(wrt)), wrt), wrt)
        apart(made.f, args)
        self._last = made
        return made


class Pullback:
    """What :meth:`Adjoint.vjp` gives; call it with cotangents."""

    def __init__(self, adjoint: Adjoint, made: Generated, args: tuple, results: tuple) -> None:
        self._adjoint = adjoint
        self._generated = made
        self._args = args
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
        return self._adjoint._form(made(args, dict(zip(names, given, strict=True)))[1])


class Generated:
    """The code for one combination of ranks and kinds of arguments."""

    def __init__(self, f: Function, reverse: Reverse, wrt: list[str]) -> None:
        self.f = f
        self.wrt = wrt
        self.reverse = reverse
        self.text = module(reverse.source(), f, reverse.helpers)
        self.entry = compiled_module(f"{f.name}_adjoint", self.text)

    def __call__(self, args: tuple, cotangents: dict[str, Any]) -> tuple[tuple, tuple]:
        """The results and the gradients."""
        f, names = self.f, self.reverse
        given = dict(zip(f.parameters, args, strict=True))
        bars = {n: cotangent(f, n, cotangents.get(n), given.get(n)) for n in dict.fromkeys([*names.seeds, *names.arrays])}
        found = self.entry(*args, *bars.values()) or ()
        count = len(f.results or [])
        numbers = dict(zip(names.numbers, found[count:], strict=True))
        gradients = []
        for n in self.wrt:
            if n in names.arrays:
                gradients.append(bars[n])
            else:
                gradients.append(numbers.get(n, np.zeros_like(given[n]) if f.ranks[n] else 0.0))
        return tuple(found[:count]), tuple(gradients)

    def measure(self, args: tuple) -> dict[str, int]:
        raise TraceError("not yet")
