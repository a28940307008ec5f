"""Indices that are not one of an array's: what generated files import from here.

Whether an index is in range is compared in compiled code; where the comparison of its ends does not decide it,
a program does, which is rare: it goes through the turns of the loops, in a function that is compiled when it is
asked for the first time. So what is generated has a comparison and a call, and no loops for that.
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

__all__ = ["LOOK", "NAME", "TEXTS", "OutOfRange", "outside"]

_found = threading.local()
_SYMBOL = "nbgrad_outside"
_WORD = ir.IntType(64)
#: The function that a program defines, and the table of texts for errors.
LOOK, TEXTS = "call", "TEXTS"
#: What :func:`outside` is called in generated code.
NAME = "outside"


class OutOfRange(IndexError):
    """An index outside of an array: `what` and `where` are texts. Without arguments, it is the one that
    :func:`outside` has found in this thread."""

    def __init__(self, *given: Any) -> None:
        if not given:
            given = _found.last
            if isinstance(given, BaseException):
                raise given
        super().__init__(*given)

    def __str__(self) -> str:
        what, where, index, length = self.args
        return f"index {index} is out of bounds for {what} with size {length}: {where}"


@lru_cache(1024)
def _program(text: str, compiled: bool) -> tuple[Callable, tuple]:
    if compiled:
        head, start, body = text.partition(f"def {LOOK}(")
        look = module(LOOK, f"from numba import njit\n{head}@njit(error_model='numpy')\n{start}{body}")
        return look, look.py_func.__globals__[TEXTS]  # type: ignore[attr-defined]
    look = python(LOOK, text, {})
    return look, look.__globals__[TEXTS]


def _search(text: str, given: list, compiled: bool) -> bool:
    try:
        look, texts = _program(text, compiled)
        number, index, size = look(*given)
        if number < 0:
            return False
        _found.last = (*texts[number], int(index), int(size))
    except BaseException as err:  # it is raised where the compiled code raises
        _found.last = err
    return True


class _Seen:
    """Memory as an array."""

    def __init__(self, pointer: int, shape: tuple, strides: tuple, dtype: str) -> None:
        self.__array_interface__ = {
            "data": (pointer, True), "shape": shape, "strides": strides, "typestr": dtype, "version": 3,
        }  # fmt: skip


def _from_compiled(text: bytes, words: Any) -> int:
    kinds, _, program = text.decode().partition("\n")
    given: list[Any] = []
    at = 0
    for kind in filter(None, kinds.split(",")):
        letter, _, dtype = kind.partition(":")
        if letter == "i":
            given.append(words[at])
            at += 1
        elif letter == "f":
            given.append(float(np.int64(words[at]).view(np.float64)))
            at += 1
        else:
            rank = int(letter)
            shape, strides = (tuple(words[at + 1 + j * rank + k] for k in range(rank)) for j in (0, 1))
            given.append(np.asarray(_Seen(words[at], shape, strides, dtype)))
            at += 1 + 2 * rank
    return int(_search(program, given, True))


_callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))(_from_compiled)
llvm.add_symbol(_SYMBOL, ctypes.cast(_callback, ctypes.c_void_p).value)


@intrinsic(prefer_literal=True)
def outside(context, doubt, program, given):
    """If there is `doubt`, raise :class:`OutOfRange` where the text of a program finds an index that is."""
    kinds = []
    for t in given.types:
        if isinstance(t, types.Array):
            kinds.append(f"{t.ndim}:{as_dtype(t.dtype).str}")
        else:
            kinds.append("f" if isinstance(t, types.Float) else "i")

    def code(context, builder, signature, args):
        with builder.if_then(context.is_true(builder, doubt, args[0]), likely=False):
            words = _words(context, builder, given, args[2])
            room = cgutils.alloca_once(builder, _WORD, size=max(len(words), 1))
            for k, value in enumerate(words):
                builder.store(value, builder.gep(room, [ir.IntType(32)(k)]))
            text = context.insert_const_string(builder.module, f"{','.join(kinds)}\n{program.literal_value}")
            kind = ir.FunctionType(_WORD, [text.type, room.type])
            called = cgutils.get_or_insert_function(builder.module, kind, _SYMBOL)
            found = builder.icmp_signed("!=", builder.call(called, [text, room]), _WORD(0))
            with builder.if_then(found, likely=False):
                context.call_conv.return_user_exc(builder, OutOfRange, ())
        return context.get_dummy_value()

    return types.void(doubt, program, given), code


def _words(context, builder, given, args) -> list:
    """Numbers and arrays as integers of 64 bits."""
    words = []
    parts = cgutils.unpack_tuple(builder, args, len(given.types))
    for t, value in zip(given.types, parts, strict=True):
        if isinstance(t, types.Array):
            made = context.make_array(t)(context, builder, value)
            words.append(builder.ptrtoint(made.data, _WORD))
            words += cgutils.unpack_tuple(builder, made.shape, t.ndim)
            words += cgutils.unpack_tuple(builder, made.strides, t.ndim)
        elif isinstance(t, types.Float):
            words.append(builder.bitcast(context.cast(builder, value, t, types.float64), _WORD))
        else:
            words.append(context.cast(builder, value, t, types.int64))
    return words


class _Search(type(outside)):  # type: ignore[misc]
    def __call__(self, doubt: bool, program: str, given: tuple) -> None:
        """Where Python runs what was generated."""
        if doubt and _search(program, list(given), False):
            raise OutOfRange


outside.__class__ = _Search
