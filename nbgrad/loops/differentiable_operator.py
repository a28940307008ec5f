"""Differentiable operators: functions with loops that :func:`nbgrad.primitive` gets without a vjp."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..backends.numba.compile import is_nopython, module
from ..backends.numba.wrapped_functions import plain_function
from ..errors import NBGradError, TraceError
from .arguments import float64_among_float32, has_float32, parameters, ranks_and_kinds, with_defaults
from .codegen.module_source import module as file_of
from .codegen.module_source import refusing_deep_nesting
from .codegen.pure_functions import Pullback, function
from .frontend.captured_values import CapturedSnapshot
from .frontend.lowering import lower
from .frontend.source import Source, source_of
from .frontend.tuple_arguments import is_container, is_static, structure
from .ir.statements import without_prints
from .planning import plan

__all__ = ["LoopOperator", "OperatorVariant", "without_constants"]


class LoopOperator:
    """The variants of a function; `refusal_reason` is the reason if it is outside of the subset that has adjoints."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self._source: Source | None = None
        self.refusal_reason = ""
        self._loop_operators: dict[tuple, OperatorVariant | str] = {}
        try:
            self._source = source_of(function)
        except NBGradError as err:
            self.refusal_reason = str(err)
            plain = plain_function(function)
            self._refused = CapturedSnapshot(plain) if isinstance(plain, FunctionType) else None

    @property
    def stale(self) -> bool:
        """Whether a global that the function uses was rebound since it was read; compiled functions stay."""
        if self._source is None:  # a missing global may exist now
            return self._refused is not None and not self._refused.still_current()
        return not (is_nopython(self.function) or self._source.current())

    def completed(self, args: tuple) -> tuple:
        """The arguments of a call, with defaults."""
        return args if self._source is None else with_defaults(self._source, args)

    def variant(self, args: list) -> OperatorVariant | str:
        """The operator for arguments like these, or the reason why there is none."""
        if self._source is None:
            return self.refusal_reason
        source, values = self._source, tuple(args)
        forms: tuple = ()
        if len(without_constants(values)) < len(values) and (
            form := structure(source.name, parameters(source), values)
        ):
            forms, values = form.forms, tuple(form.leaves(values))
            source = source.with_flat_tuples(forms)
        try:
            ranks, kinds = ranks_and_kinds(source, values)
        except NBGradError as err:
            return str(err)
        single = has_float32(values)
        doubles = float64_among_float32(source, values)
        key = (forms, single, doubles, *ranks.values(), *kinds.values())
        options: tuple = (ranks, kinds, False, doubles, frozenset(), False, single)
        operator = self._loop_operators.get(key)
        if operator is None:
            try:
                operator = OperatorVariant(self.function, source, options, single, bool(forms))
            except NBGradError as err:
                operator = str(err)
            self._loop_operators[key] = operator
        return operator


def without_constants(args: tuple) -> tuple:
    """The arguments except strings, None and functions, which variants do not take; all if any is a container."""
    if any(map(is_container, args)):
        return args
    return tuple([a for a in args if not is_static(a)])


class OperatorVariant:
    """An operator for one combination of ranks and kinds of arguments.

    Attributes
    ----------
    function : callable
        Compiled; it takes the arguments except strings and None. It does not modify them, and returns the results, then
        the arrays that the function writes.
    """

    def __init__(self, original: Callable, source: Source, types: tuple, narrow: bool, flat: bool) -> None:
        self.source = source
        self.lowering_options = types  # ranks and kinds of arguments, and options of :func:`lower`
        self.narrow = narrow
        self.parameters = parameters(source)
        f = self._lowered()
        if f.draws:
            raise TraceError(
                f"{f.name} draws random numbers, and would draw others in the reverse sweep; pass them to it"
            )
        # Numba read constants when it compiled; they may have changed before the source was read here.
        constants = any(s.captured_snapshot.constants for s in source.with_callees())
        plain = is_nopython(original) and not f.modified_parameters and not flat and not constants
        with refusing_deep_nesting(f):
            self.function = original if plain else module(*function(f))
        results = list(f.results or [])
        self.outputs = [*results, *(n for n in f.modified_parameters if n not in results)]
        self._pulls: dict[tuple, tuple[Any, list[int]]] = {}

    def _lowered(self):
        f = lower(self.source, *self.lowering_options)
        f.single_precision = self.narrow
        return f

    def pullback(self, positions: tuple[int, ...], wrap: Callable) -> tuple[Any, list[int]]:
        """The gradients with respect to the arguments at `positions`, and the outputs whose cotangents they take.

        The gradients are a function of those cotangents and the arguments, made an operator by ``wrap(...)``.
        """
        cached = self._pulls.get(positions)
        if cached is None:
            generated = self.printed_pullback(positions)
            f = generated.f
            with refusing_deep_nesting(f):
                compiled = module(generated.entry, file_of(generated.source(), f, generated.free))
            cached = self._pulls[positions] = wrap(compiled), [self.outputs.index(n) for n in generated.cotangents]
        return cached

    def printed_pullback(self, positions: tuple[int, ...]) -> Pullback:
        """The printer of the pullback to the arguments at `positions`."""
        f = self._lowered()
        f.body = without_prints(f.body)  # the operator has printed
        wrt = [f.parameters[k] for k in positions]
        return Pullback(f, plan(f, set(wrt)), wrt)
