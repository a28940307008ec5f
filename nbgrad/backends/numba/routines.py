"""Routines: functions that generated code calls, and whose machine code exists once in a process.

Numba links the code of a callee into every caller, optimizes it there again, and stores it with each of them: 1.2 s for
a product of matrices. A routine is called by a symbol instead. Its name has the hash of what the code depends on, so
stored callers fit to it, whichever process compiled it; and they say which routines must be there before they are
loaded (:func:`required`), for LLVM ends the process where a symbol is missing.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from numba import types

from .internals import (
    COMPILER_LOCK,
    CompileResult,
    CPUDispatcher,
    add_symbol,
    call_by_symbol,
    dynamic_globals,
    kernel_address,
    replace_in_target,
)

__all__ = ["Requirement", "Routine", "is_foreign", "provide", "required"]

#: Numba's own cache keeps no function with such a global, and its callers neither: it would not provide the routines.
_MARK = "numba.dynamic.globals.nbgrad.routine."


class Requirement(NamedTuple):
    """A routine for some types of arguments, under its symbol; `module` has it as `name`. Unless it `is_stored`, it is
    of this process alone."""

    symbol: str
    module: str
    name: str
    signature: tuple
    is_stored: bool


#: The routines in this process, by symbol.
_present: dict[str, Requirement] = {}


class Routine(CPUDispatcher):
    """The dispatcher of a routine. Constants among its arguments are no reason to compile it anew."""

    def get_call_template(self, args, kws):
        return super().get_call_template([types.unliteral(a) for a in args], kws)

    def compile(self, sig):
        with COMPILER_LOCK:  # callers are compiled before or after, not between compiling and publishing
            known = len(self.overloads)
            entry = super().compile(sig)
            if len(self.overloads) > known:
                (result,) = (r for r in self.overloads.values() if r.entry_point is entry)
                self._publish(result)
            return entry

    def _publish(self, result: CompileResult) -> None:
        """Let callers reach compiled code by its symbol."""
        function, arguments = self.py_func, result.signature.args
        where = self._cache.key(arguments)
        symbol = f"nbgrad.{function.__name__}.{where or len(_present)}"
        add_symbol(symbol, kernel_address(result))
        replace_in_target(self.targetctx, result, call_by_symbol(result, symbol, _MARK + symbol))
        _present[symbol] = Requirement(symbol, function.__module__, function.__name__, arguments, bool(where))


def required(result: CompileResult) -> list[Requirement]:
    """The routines that compiled code calls."""
    names = [n.removeprefix(_MARK) for n in dynamic_globals(result) if n.startswith(_MARK)]
    return [_present[n] for n in names]


def is_foreign(name: str) -> bool:
    """Whether a dynamic global of compiled code is no mark of a routine."""
    return not name.startswith(_MARK)


def provide(requirements: list[Requirement]) -> None:
    """Load or compile routines; raises ``KeyError`` if one has another symbol here."""
    for wanted in requirements:
        if wanted.symbol not in _present:
            routine: Any = getattr(importlib.import_module(wanted.module), wanted.name)
            routine.compile(wanted.signature)
        _present[wanted.symbol]
