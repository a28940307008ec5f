"""Bounds errors: runtime support for the index checks of generated files.

Compiled code compares the extreme values of an index with the bounds. Where that does not decide, which is rare, it
calls a program that searches the iterations of the loops for an index out of range, and that is compiled on first use.
So generated code has a comparison and a call, and no loops for the checks.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...backends.numba.compile import module, python
from ...backends.numba.internals import add_symbol, as_dtype
from ...backends.numba.intrinsics import intrinsic, llvm, types

__all__ = ["OUTSIDE_NAME", "SEARCH_FUNCTION", "SEARCH_MESSAGES", "WORD", "OutOfRange", "decoded", "encoded", "outside",
           "run_program"]  # fmt: skip

_latest_error = threading.local()
_SYMBOL = "nbgrad_outside"
WORD = llvm.IntType(64)
#: The names of the function that a program defines, and of its table of strings for errors.
SEARCH_FUNCTION, SEARCH_MESSAGES = "call", "MESSAGES"
#: The name of :func:`outside` in generated code.
OUTSIDE_NAME = "outside"


class OutOfRange(IndexError):
    """An index outside of an array: `what` and `where` are strings.

    Without arguments, it is the error that :func:`outside` found last in this thread.
    """

    def __init__(self, *details: Any) -> None:
        if not details:
            details = _latest_error.last
            if isinstance(details, BaseException):
                raise details
        super().__init__(*details)

    def __str__(self) -> str:
        what, where, index, length = self.args
        return f"index {index} is out of bounds for {what} with size {length}: {where}"


@lru_cache(1024)
def _program(text: str, compiled: bool) -> tuple[Callable, tuple]:
    if compiled:
        head, start, body = text.partition(f"def {SEARCH_FUNCTION}(")
        search = module(SEARCH_FUNCTION, f"from numba import njit\n{head}@njit(error_model='numpy')\n{start}{body}")
        return search, search.py_func.__globals__[SEARCH_MESSAGES]  # type: ignore[attr-defined]
    search = python(SEARCH_FUNCTION, text, {})
    return search, search.__globals__[SEARCH_MESSAGES]


def run_program(text: str, arguments: list) -> bool:
    """Run a program in Python; whether it failed. Its error is what :class:`OutOfRange` raises then."""
    try:
        python(SEARCH_FUNCTION, text, {})(*arguments)
    except BaseException as err:  # raised later, where the compiled code raises
        _latest_error.last = err
        return True
    return False


def _search(text: str, arguments: list, compiled: bool) -> bool:
    try:
        search, descriptions = _program(text, compiled)
        number, index, size = search(*arguments)
        if number < 0:
            return False
        _latest_error.last = (*descriptions[number], int(index), int(size))
    except BaseException as err:  # raised later, where the compiled code raises
        _latest_error.last = err
    return True


class _MemoryView:
    """Memory that NumPy can view as an array."""

    def __init__(self, pointer: int, shape: tuple, strides: tuple, dtype: str) -> None:
        self.__array_interface__ = {
            "data": (pointer, True), "shape": shape, "strides": strides, "typestr": dtype, "version": 3,
        }  # fmt: skip


def _from_compiled(text: bytes, words: Any) -> int:
    kinds, _, program = text.decode().partition("\n")
    return int(_search(program, decoded(kinds, words), True))


def decoded(kinds: str, words: Any) -> list[Any]:
    """The arguments that :func:`encoded` has stored."""
    arguments: list[Any] = []
    at = 0
    for kind in filter(None, kinds.split(",")):
        letter, _, dtype = kind.partition(":")
        if letter == "i":
            arguments.append(words[at])
            at += 1
        elif letter == "f":
            arguments.append(float(np.int64(words[at]).view(np.float64)))
            at += 1
        elif letter == "b":
            arguments.append(bool(words[at]))
            at += 1
        else:
            rank = int(letter)
            shape, strides = (tuple(words[at + 1 + j * rank + k] for k in range(rank)) for j in (0, 1))
            arguments.append(np.asarray(_MemoryView(words[at], shape, strides, dtype)))
            at += 1 + 2 * rank
    return arguments


_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))(_from_compiled)
add_symbol(_SYMBOL, ctypes.cast(_callback, ctypes.c_void_p).value)


def _search_in_python(doubt: bool, program: str, given: tuple) -> None:
    if doubt and _search(program, list(given), False):
        raise OutOfRange


@intrinsic(lambda doubt, program, given: types.void, literal=True, python=_search_in_python)
def outside(emit, doubt, program, given):
    """If `doubt` holds, run a search program, and raise :class:`OutOfRange` if it finds an index out of range.

    `program` is its source, a literal string; `given` are its arguments.
    """
    doubt_type, program_type, given_types = emit.types
    builder = emit.builder
    with builder.if_then(emit.is_true(doubt_type, doubt), likely=False):
        kinds, words = encoded(emit, given_types, given)
        text = emit.string(f"{kinds}\n{program_type.literal_value}")
        found = emit.external(_SYMBOL, WORD, text, words)
        with builder.if_then(builder.icmp_signed("!=", found, WORD(0)), likely=False):
            emit.raise_error(OutOfRange)


def encoded(emit, given_types, given) -> tuple:
    """What arguments are, as text, and a pointer to them as 64-bit integers."""
    return ",".join(map(_letters, given_types)), emit.stored(*_words(emit, given_types, given) or [WORD(0)])


def _letters(kind: types.Type) -> str:
    """An argument's type, for :func:`decoded`."""
    if isinstance(kind, types.Array):
        return f"{kind.ndim}:{as_dtype(kind.dtype).str}"
    return "f" if isinstance(kind, types.Float) else "b" if isinstance(kind, types.Boolean) else "i"


def _words(emit, kinds, packed) -> list:
    """Scalars and arrays as 64-bit integers."""
    words, builder = [], emit.builder
    for t, value in zip(kinds, emit.unpack(packed, len(kinds)), strict=True):
        if isinstance(t, types.Array):
            array = emit.array(t, value)
            words.append(builder.ptrtoint(array.data, WORD))
            words += emit.unpack(array.shape, t.ndim)
            words += emit.unpack(array.strides, t.ndim)
        elif isinstance(t, types.Float):
            words.append(builder.bitcast(emit.cast(value, t, types.float64), WORD))
        else:
            words.append(emit.cast(value, t, types.int64))
    return words
