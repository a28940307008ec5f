"""Printing from compiled code: Python prints, from a program in the generated code."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...backends.numba.internals import add_symbol
from ...backends.numba.intrinsics import intrinsic, types
from .index_errors import WORD, OutOfRange, decoded, encoded, run_program

__all__ = ["PRINT_NAME", "print_values", "silenced"]

_SYMBOL = "nbgrad_print"
#: The name of :func:`print_values` in generated code.
PRINT_NAME = "print_values"
_thread = threading.local()


@contextmanager
def silenced() -> Iterator[None]:
    """Print nothing in this thread: code that has printed runs again."""
    before, _thread.silent = getattr(_thread, "silent", False), True
    try:
        yield
    finally:
        _thread.silent = before


def _print(program: str, arguments: list) -> bool:
    """Run a program that prints; whether it failed."""
    return not getattr(_thread, "silent", False) and run_program(program, arguments)


def _from_compiled(text: bytes, words: Any) -> int:
    kinds, _, program = text.decode().partition("\n")
    return int(_print(program, decoded(kinds, words)))


_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))(_from_compiled)
add_symbol(_SYMBOL, ctypes.cast(_callback, ctypes.c_void_p).value)


def _in_python(test: bool, program: str, given: tuple) -> None:
    if _print(program, list(given)):
        raise OutOfRange  # the error of the program


@intrinsic(lambda test, program, given: types.void, literal=True, python=_in_python)
def print_values(emit, test, program, given):
    """Run a program that prints: its source, a literal string, defines a function of the arguments `given`.

    `test` is True. An error of the program is raised.
    """
    _, program_type, given_types = emit.types
    kinds, words = encoded(emit, given_types, given)
    failed = emit.external(_SYMBOL, WORD, emit.string(f"{kinds}\n{program_type.literal_value}"), words)
    with emit.builder.if_then(emit.builder.icmp_signed("!=", failed, WORD(0)), likely=False):
        emit.raise_error(OutOfRange)
