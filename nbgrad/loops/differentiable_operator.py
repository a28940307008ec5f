"""Functions with loops as operations: what :func:`nbgrad.primitive` makes of them, where no derivative is given."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..backends.numba.compile import is_nopython, module
from ..errors import NBGradError
from .analysis.activity import plan
from .arguments import completed, describe, narrow, parameters, wide
from .codegen.module_source import module as file_of
from .codegen.pure_functions import Pullback, function
from .frontend.captured_values import Moment
from .frontend.lowering import lower
from .frontend.source import Source, source_of
from .frontend.tuple_arguments import structure
from .ir.type_inference import infer

__all__ = ["Loops", "Variant", "without_fixed"]


class Loops:
    """A function, as far as it is in the subset that has adjoints; `why` says why it is not, if it is not."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self._source: Source | None = None
        self.why = ""
        self._made: dict[tuple, Variant | str] = {}
        try:
            self._source = source_of(function)
        except NBGradError as err:
            self.why = str(err)
            plain = getattr(function, "py_func", function)
            self._refused = Moment(plain) if isinstance(plain, FunctionType) else None

    @property
    def stale(self) -> bool:
        """Whether a name of the module stands for something else than when it was read; what Numba compiles stays."""
        if self._source is None:  # what was missing may be there
            return self._refused is not None and not self._refused.lasts()
        return not (is_nopython(self.function) or self._source.current())

    def completed(self, args: tuple) -> tuple:
        """The arguments of a call, with defaults."""
        return args if self._source is None else completed(self._source, args)

    def variant(self, args: list) -> Variant | str:
        """The operation for arguments like these, or why there is none."""
        if self._source is None:
            return self.why
        source, given = self._source, tuple(args)
        forms: tuple = ()
        if len(without_fixed(given)) < len(given) and (form := structure(source.name, parameters(source), given)):
            forms, given = form.forms, tuple(form.leaves(given))
            source = source.taken_apart(forms)
        try:
            ranks, kinds = describe(source, given)
        except NBGradError as err:
            return str(err)
        single = narrow(given)
        doubles = wide(source, given)
        key = (forms, single, doubles, *ranks.values(), *kinds.values())
        made = self._made.get(key)
        if made is None:
            try:
                made = Variant(self.function, source, (ranks, kinds, False, doubles), single, bool(forms))
            except NBGradError as err:
                made = str(err)
            self._made[key] = made
        return made


def without_fixed(args: tuple) -> tuple:
    """The arguments but strings and None, which are no arguments of variants; all if there are tuples."""
    if any(isinstance(a, tuple) for a in args):
        return args
    return tuple([a for a in args if not isinstance(a, str | None)])


class Variant:
    """An operation for one combination of ranks and kinds of arguments.

    Attributes
    ----------
    function : callable
        Compiled, of the arguments without strings and None. It leaves them alone and returns, after the results, the
        arrays that the function writes.
    """

    def __init__(self, original: Callable, source: Source, given: tuple, narrow: bool, apart: bool) -> None:
        self.source = source
        self.given = given  # what is known of arguments
        self.narrow = narrow
        self.parameters = parameters(source)
        f = self._lowered()
        # Numba read constants when it compiled, which may have been another moment than when we did.
        constants = any(s.moment.constants for s in source.every())
        plain = is_nopython(original) and not f.written and not apart and not constants
        self.function = original if plain else module(*function(f))
        results = list(f.results or [])
        self.outputs = [*results, *(n for n in f.written if n not in results)]
        self._pulls: dict[tuple, tuple[Any, list[int]]] = {}

    def _lowered(self):
        f = lower(self.source, *self.given)
        infer(f)
        f.narrow = self.narrow
        return f

    def pullback(self, places: tuple[int, ...], wrap: Callable) -> tuple[Any, list[int]]:
        """The gradients by the arguments at `places`, as a function of cotangents and the arguments that ``wrap(...)``
        made an operation; and of which outputs it takes cotangents."""
        found = self._pulls.get(places)
        if found is None:
            f = self._lowered()
            wrt = [f.parameters[k] for k in places]
            made = Pullback(f, plan(f, set(wrt)), wrt)
            compiled = module(made.entry, file_of(made.source(), f, made.free))
            found = self._pulls[places] = wrap(compiled), [self.outputs.index(n) for n in made.cotangents]
        return found
