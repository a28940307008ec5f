"""Pullbacks: from cotangents of outputs to gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import AttrError, TraceError
from .arguments import as_tuple, copy_written, flat_cotangents, output_names
from .frontend.tuple_arguments import unflatten
from .runtime.printing import silenced
from .variants import AdjointVariant, SplitVariant

__all__ = ["Pullback"]


class Pullback:
    """The result of :meth:`.api.Adjoint.vjp`: call it with cotangents. `form` arranges the gradients."""

    def __init__(
        self, form: Callable, program: AdjointVariant, args: tuple, results: tuple, halves: SplitVariant | None = None,
        state: tuple = (),
    ) -> None:  # fmt: skip
        self._gradient_form = form
        self._generated = program
        self._args = args
        self._results = results
        self._split_variant = halves
        self._state: tuple | None = state  # of the forward sweep, for one call
        self.parameters = tuple(program.f.parameters)
        self.outputs = tuple(output_names(program.f))
        self.value = None if program.f.results is None else unflatten(program.f.form, iter(results))

    def __call__(self, cotangents: Any, *more: Any) -> Any:
        f, program = self._generated.f, self._generated
        names = self.outputs
        if more:
            raise AttrError(
                f"{f.name}: the pullback takes one argument, {1 + len(more)} are given; put the cotangents of "
                f"({', '.join(names)}) in a tuple"
            )
        listed = isinstance(cotangents, list) and isinstance(f.form, tuple) and f.form[0] is list
        seeds = flat_cotangents(f, tuple(cotangents) if listed else as_tuple(cotangents))
        if len(seeds) != len(names):
            raise AttrError(
                f"{f.name}: {len(names)} cotangents expected ({', '.join(names)}), {len(seeds)} given; None means zeros"
            )
        by_output = dict(zip(names, seeds, strict=True))
        if self._split_variant is None:
            with silenced():  # the value was computed before
                return self._gradient_form(program(copy_written(f, self._args), by_output, self._results)[1])
        weights = self._split_variant.seed_arguments(self._args, self._results, by_output)
        state, self._state = self._state, None
        if state is None:
            if f.draws:
                raise TraceError(f"{f.name}: the pullback of a function that draws random numbers has one call")
            with silenced():
                state = self._split_variant.forward(copy_written(f, self._args))[1]
        return self._gradient_form(self._split_variant.backward(state, weights))
