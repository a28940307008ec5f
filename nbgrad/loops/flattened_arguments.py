"""Tuples and constants among the arguments of a call: which function is generated for what is left of them.

Code is generated for flat arguments. Strings, None and functions are constants of it; bools are where it cannot be
generated otherwise: where they decide which array a name is bound to, or how many results there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import TraceError
from .arguments import parameters
from .frontend.source import Source
from .frontend.tuple_arguments import Structure, has_bools, structure

__all__ = ["FlattensArguments"]


class FlattensArguments:
    """What adjoints and tangents do with tuples and constants among their arguments."""

    _source: Source | None
    _argnums: int | tuple[int, ...] | None
    _generate: Callable
    _variant: Callable

    def _clear_caches(self) -> None:
        """Empty the caches."""
        self._flattened: dict[tuple, Any] = {}  # objects like this one for flattened tuple arguments
        self._bools_known: dict[tuple, bool] = {}  # whether bools are constants, by types of arguments

    def _flatten(self, args: tuple) -> tuple[Any, Structure, tuple] | None:
        """If an argument is a tuple or a constant: an object for the flattened arguments, their structure, and their
        values."""
        if self._source is None:
            return None
        name, names = self._source.name, parameters(self._source)
        form = structure(name, names, args)
        if len(args) == len(names) and has_bools(args) and self._needs_bools(form, args):
            form = structure(name, names, args, True)
        if form is None:
            return None
        flattened, flat = self._flattened_for(form, args), tuple(form.leaves(args))
        if form.has_records:
            form.check_sharing(args, flattened._variant(flattened._generate, flat, True).f)
        return flattened, form, flat

    @contextmanager
    def _written_back(self, flattened: Any, form: Structure, flat: tuple, args: tuple) -> Iterator[None]:
        """Copy fields that were written back into the arguments, also those that were when an error leaves the call."""
        try:
            yield
        finally:
            if flattened._last is not None:
                form.write_back(args, flat, flattened._last.f)

    def _flattened_for(self, form: Structure, args: tuple) -> Any:
        """An object like this one for arguments that are flattened so."""
        assert self._source is not None
        key = form, form.argnums(args, self._argnums)
        if (flattened := self._flattened.get(key)) is None:
            flattened = self._flattened[key] = object.__new__(type(self))
            flattened.__dict__ |= self.__dict__
            flattened._source, flattened._argnums = self._source.with_flat_tuples(form.forms), key[1]
            flattened._clear_caches()
        return flattened

    def _needs_bools(self, form: Structure | None, args: tuple) -> bool:
        """Whether code can be generated for known bools only."""
        inner, flat = (self, args) if form is None else (self._flattened_for(form, args), tuple(form.leaves(args)))
        key = form, *[(a.dtype, a.ndim) if isinstance(a, np.ndarray) else type(a) for a in flat]
        if (known := self._bools_known.get(key)) is None:
            try:
                inner._variant(inner._generate, flat, True)
            except TraceError:
                known = True
            self._bools_known[key] = known = bool(known)
        return known
