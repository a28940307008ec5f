"""Compiled functions that are handed to users, who call them with anything."""

from __future__ import annotations

from collections.abc import Callable

from numba.core import sigutils, types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

from ...core.dtypes import demand_readable
from ...errors import DTypeError
from .compile_guard import uninterrupted

__all__ = ["Generated", "Handed", "trusting"]

_NO_MATCH = "No matching definition for argument type(s) "


class Handed(CPUDispatcher):
    """One that looks at what Numba does not: see :func:`.demand_readable`."""

    def __call__(self, *args, **kwargs):
        demand_readable(self.__name__, (*args, *kwargs.values()) if kwargs else args)
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as err:
            given = str(err).removeprefix(_NO_MATCH)
            if given == str(err):
                raise
        wanted = ", ".join(map(str, self.nopython_signatures[0].args))
        raise DTypeError(
            f"{self.__name__}: it was made for the arguments {wanted}, and was called with {given}; C is contiguous: "
            "pass numpy.array(x, dtype) for an array that is not, is read-only, or has another dtype, or make the "
            "function from examples like these"
        )


class Generated(Handed):
    """What Numba makes of a generated file's function, compiled where nothing interrupts. `floats` are the places of
    its arrays that must have floats in them, also where other compiled code calls it."""

    floats: tuple[int, ...] = ()

    def compile(self, sig):
        for k, kind in enumerate(sigutils.normalize_signature(sig)[0]) if self.floats else ():
            if k in self.floats and isinstance(kind, types.Array) and not isinstance(kind.dtype, types.Float):
                name = self.py_func.__code__.co_varnames[k]
                raise DTypeError(
                    f"{self.__name__}: argument {name} is an array of {kind.dtype}, and one of floats is expected, for "
                    f"derivatives are stored in it or belong to it: pass {name}.astype('float64')"
                )
        return uninterrupted(super().compile, sig)


def trusting(function: Callable) -> Callable:
    """What calls such a function without looking at arguments, which somebody has done before."""
    return CPUDispatcher.__call__.__get__(function) if isinstance(function, Dispatcher) else function
