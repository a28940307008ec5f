"""Tuples and constants among the arguments of a call: which function is generated for what is left of them.

Code is generated for flat arguments. Strings, None and functions are constants of it. Bools, and integers that tests
compare with constants or that are axes, are where it cannot be generated otherwise: where they decide which array a
name is bound to, in which order it has its axes, or how many results there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backends.numba.compile import python
from ..errors import TraceError
from .arguments import DetailedPaths, parameters, types_of
from .frontend.source import Source
from .frontend.tuple_arguments import Structure, has_bools, structure

__all__ = ["FlattensArguments"]


class FlattensArguments:
    """What adjoints and tangents do with tuples and constants among their arguments."""

    _source: Source | None
    _argnums: int | tuple[int, ...] | None
    _generate: Callable
    _variant: Callable
    _fast_path: dict[tuple, tuple[Any, Callable]]
    _detailed_paths: dict[tuple, DetailedPaths]

    def _clear_caches(self) -> None:
        """Empty the caches."""
        self._flattened: dict[tuple, Any] = {}  # objects like this one for flattened tuple arguments
        self._constants: dict[tuple, tuple[bool, frozenset[str]]] = {}  # see `_constants_for`, by types of arguments

    def _flatten(self, args: tuple) -> tuple[Any, Structure, tuple] | None:
        """If an argument is a tuple or a constant: an object for the flattened arguments, their structure, and their
        values."""
        if self._source is None:
            return None
        name, names = self._source.name, parameters(self._source)
        form = structure(name, names, args)
        if len(args) == len(names):
            form = structure(name, names, args, *self._constants_for(form, args))
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

    def _remember(self, key: tuple, args: tuple, defaults: tuple, program: Any) -> None:
        """Let calls with arguments of these types, or of these shapes where more decides, enter generated code at
        once. `defaults` are the values of those that were left out."""
        if program.f.unit_axes or key in self._fast_path:  # whose code is not for these shapes
            entry = _with_defaults(program.exact_entry, defaults)
            self._remember_details(key, args, (), True, (program, entry))
        else:
            self._fast_path[key] = program, _with_defaults(program.scalar_entry, defaults)

    def _remember_flattened(
        self, key: tuple, given: tuple, args: tuple, inner: Any, form: Structure, flat: tuple
    ) -> None:
        """If calls with arguments of these types may enter generated code at once: make a function that does. `given`
        are the arguments without defaults."""
        types = types_of(flat)
        detailed = inner._detailed_paths.get(types)
        by_shapes = detailed is not None and detailed.get(flat) is not None
        found = detailed.get(flat) if by_shapes else inner._fast_path.get(types)
        if found is None or not form.holds_numbers:
            return
        program, entry = found
        names = [f"a{k}" for k in range(len(args))]
        leaves = ", ".join(form.written_leaves(names))
        gradients, classes = form.written_gradients(args, self._argnums, [f"g[{k}]" for k in range(len(flat))])
        lines = [f"def call({', '.join(names)}):", f"y, g = entry({leaves})", f"return y, {gradients}"]
        call = python(form.name, "\n    ".join(lines), {"entry": entry, **classes})
        known = program, _with_defaults(call, args[len(given) :])
        constants = tuple([k for k in form.constants if k < len(given)])
        if constants or by_shapes:
            self._remember_details(key, given, constants, by_shapes, known)
        else:
            self._fast_path[key] = known

    def _remember_details(
        self, key: tuple, args: tuple, constants: tuple[int, ...], by_shapes: bool, known: tuple[Any, Callable]
    ) -> None:
        """Keep an entry for arguments of these types with these constants, and shapes."""
        paths = self._detailed_paths.get(key)
        if paths is None or paths.constants != constants or (by_shapes and not paths.shaped):
            shaped = tuple([k for k in range(len(args)) if k not in constants]) if by_shapes else ()
            paths = self._detailed_paths[key] = DetailedPaths(constants, shaped)
        paths.put(args, known)

    def _constants_for(self, form: Structure | None, args: tuple) -> tuple[bool, frozenset[str]]:
        """Whether bools are constants, and the integers that are, so that code can be generated."""
        assert self._source is not None
        integers = {n for n, a in zip(parameters(self._source), args, strict=True) if type(a) is int}
        if not integers and not has_bools(args):
            return False, frozenset()
        inner, flat = (self, args) if form is None else (self._flattened_for(form, args), tuple(form.leaves(args)))
        key = form, *[(a.dtype, a.ndim) if isinstance(a, np.ndarray) else type(a) for a in flat]
        if (constants := self._constants.get(key)) is None:
            refused = False
            try:
                deciding = inner._variant(inner._generate, flat, True).f.deciding
            except TraceError as err:
                refused, deciding = True, getattr(err, "deciding", set())
            constants = has_bools(args) and (refused or bool(deciding)), frozenset(integers & deciding)
            self._constants[key] = constants
        return constants


def _with_defaults(entry: Callable, defaults: tuple) -> Callable:
    """An entry for arguments before these."""
    return (lambda *args: entry(*args, *defaults)) if defaults else entry
