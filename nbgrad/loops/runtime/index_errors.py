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

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.numpy_support import as_dtype

from ...backends.numba.compile import intrinsic, module, python

__all__ = ["OUTSIDE_NAME", "SEARCH_FUNCTION", "SEARCH_MESSAGES", "OutOfRange", "outside"]

_latest_error = threading.local()
_SYMBOL = "nbgrad_outside"
_WORD = ir.IntType(64)
#: The names of the function that a program defines, and of its table of strings for errors.
SEARCH_FUNCTION, SEARCH_MESSAGES = "call", "TEXTS"
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
        else:
            rank = int(letter)
            shape, strides = (tuple(words[at + 1 + j * rank + k] for k in range(rank)) for j in (0, 1))
            arguments.append(np.asarray(_MemoryView(words[at], shape, strides, dtype)))
            at += 1 + 2 * rank
    return int(_search(program, arguments, True))


_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))(_from_compiled)
llvm.add_symbol(_SYMBOL, ctypes.cast(_callback, ctypes.c_void_p).value)


@intrinsic(prefer_literal=True)
def outside(context, doubt, program, given):
    """If `doubt` holds, run a search program, and raise :class:`OutOfRange` if it finds an index out of range.

    `program` is its source, a literal string; `given` are its arguments.
    """
    kinds = []
    for t in given.types:
        if isinstance(t, types.Array):
            kinds.append(f"{t.ndim}:{as_dtype(t.dtype).str}")
        else:
            kinds.append("f" if isinstance(t, types.Float) else "i")

    def code(context, builder, signature, args):
        with builder.if_then(context.is_true(builder, doubt, args[0]), likely=False):
            words = _words(context, builder, given, args[2])
            buffer = cgutils.alloca_once(builder, _WORD, size=max(len(words), 1))
            for k, value in enumerate(words):
                builder.store(value, builder.gep(buffer, [ir.IntType(32)(k)]))
            text = context.insert_const_string(builder.module, f"{','.join(kinds)}\n{program.literal_value}")
            kind = ir.FunctionType(_WORD, [text.type, buffer.type])
            callee = cgutils.get_or_insert_function(builder.module, kind, _SYMBOL)
            out_of_range = builder.icmp_signed("!=", builder.call(callee, [text, buffer]), _WORD(0))
            with builder.if_then(out_of_range, likely=False):
                context.call_conv.return_user_exc(builder, OutOfRange, ())
        return context.get_dummy_value()

    return types.void(doubt, program, given), code


def _words(context, builder, tuple_type, args) -> list:
    """Scalars and arrays as 64-bit integers."""
    words = []
    parts = cgutils.unpack_tuple(builder, args, len(tuple_type.types))
    for t, value in zip(tuple_type.types, parts, strict=True):
        if isinstance(t, types.Array):
            array = context.make_array(t)(context, builder, value)
            words.append(builder.ptrtoint(array.data, _WORD))
            words += cgutils.unpack_tuple(builder, array.shape, t.ndim)
            words += cgutils.unpack_tuple(builder, array.strides, t.ndim)
        elif isinstance(t, types.Float):
            words.append(builder.bitcast(context.cast(builder, value, t, types.float64), _WORD))
        else:
            words.append(context.cast(builder, value, t, types.int64))
    return words


class _PythonFallback(type(outside)):  # type: ignore[misc]
    def __call__(self, doubt: bool, program: str, given: tuple) -> None:
        """The same when generated code runs in Python."""
        if doubt and _search(program, list(given), False):
            raise OutOfRange


outside.__class__ = _PythonFallback
