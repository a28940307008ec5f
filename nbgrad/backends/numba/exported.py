"""Dispatchers of compiled functions that users call, which check their arguments."""

from __future__ import annotations

from collections.abc import Callable

from numba import types

from ...core.dtypes import require_readable
from ...errors import DTypeError
from .compile_guard import run_uninterrupted
from .internals import NO_MATCH, CPUDispatcher, Dispatcher, argument_types

__all__ = ["CheckedDispatcher", "GeneratedDispatcher", "unchecked_call"]


class CheckedDispatcher(CPUDispatcher):
    """A dispatcher that also checks what Numba does not (:func:`.require_readable`)."""

    def __call__(self, *args, **kwargs):
        require_readable(self.__name__, (*args, *kwargs.values()) if kwargs else args)
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as err:
            given = str(err).removeprefix(NO_MATCH)
            if given == str(err):
                raise
        wanted = ", ".join(map(str, self.nopython_signatures[0].args))
        raise DTypeError(
            f"{self.__name__}: it was made for the arguments {wanted}, and was called with {given}; C is contiguous: "
            "pass numpy.array(x, dtype) for an array that is not, is read-only, or has another dtype, or make the "
            "function from examples like these"
        )


class GeneratedDispatcher(CheckedDispatcher):
    """The dispatcher of a generated file's function, compiled where no signal interrupts.

    `floats` are the positions of array arguments whose dtype must be a float, also where compiled code calls it."""

    floats: tuple[int, ...] = ()

    def compile(self, sig):
        for k, kind in enumerate(argument_types(sig)) if self.floats else ():
            if k in self.floats and isinstance(kind, types.Array) and not isinstance(kind.dtype, types.Float):
                name = self.py_func.__code__.co_varnames[k]
                raise DTypeError(
                    f"{self.__name__}: argument {name} is an array of {kind.dtype}, and one of floats is expected, for "
                    f"derivatives are stored in it or belong to it: pass {name}.astype('float64')"
                )
        return run_uninterrupted(super().compile, sig)


def unchecked_call(function: Callable) -> Callable:
    """The call of a dispatcher without the checks, for arguments that are checked already."""
    return CPUDispatcher.__call__.__get__(function) if isinstance(function, Dispatcher) else function
