"""From cotangents of outputs to gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import AttrError
from .arguments import kept, listed, one_by_one, outputs
from .frontend.tuple_arguments import put_together
from .variants import Backwards, Halves

__all__ = ["Pullback"]


class Pullback:
    """What :meth:`.api.Adjoint.vjp` gives; call it with cotangents. `form` puts gradients in their places."""

    def __init__(
        self, form: Callable, made: Backwards, args: tuple, results: tuple, halves: Halves | None = None,
        state: tuple = (),
    ) -> None:  # fmt: skip
        self._form = form
        self._generated = made
        self._args = args
        self._results = results
        self._halves = halves
        self._state: tuple | None = state  # of the first sweep, for one call
        self.parameters = tuple(made.f.parameters)
        self.outputs = tuple(outputs(made.f))
        self.value = None if made.f.results is None else put_together(made.f.form, iter(results))

    def __call__(self, cotangents: Any, *more: Any) -> Any:
        f, made = self._generated.f, self._generated
        names = self.outputs
        if more:
            raise AttrError(
                f"{f.name}: the pullback takes one argument, {1 + len(more)} are given; put the cotangents of "
                f"({', '.join(names)}) in a tuple"
            )
        given = one_by_one(f, listed(cotangents))
        if len(given) != len(names):
            raise AttrError(
                f"{f.name}: {len(names)} cotangents expected ({', '.join(names)}), {len(given)} given; "
                "None stands for zeros"
            )
        weights = dict(zip(names, given, strict=True))
        if self._halves is None:
            return self._form(made(kept(f, self._args), weights, self._results)[1])
        taken = self._halves.weights(self._args, self._results, weights)
        state, self._state = self._state, None
        if state is None:
            state = self._halves.forward(kept(f, self._args))[1]
        return self._form(self._halves.backward(state, taken))
