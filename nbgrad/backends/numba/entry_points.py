"""Entry points: the functions by which Python calls kernels.

Numba compiles a wrapper with each function: half the time of compiling a small kernel, and 20 ns for each argument of
each call. What a wrapper does depends only on which arguments are arrays, integers and floats, so here one *trampoline*
serves all kernels of such a form. An entry point is a trampoline bound to the address of a kernel.

A trampoline reads NumPy's arrays directly. It raises TypeError for anything but contiguous arrays of one axis and of
the right item size, ints and floats; dtypes of one size are the caller's responsibility.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import types

from . import code_store
from .internals import (
    CompileResult,
    add_symbol,
    as_dtype,
    cgutils,
    kernel_address,
    llvm,
    populate_array,
)

__all__ = ["entry_point"]

_MISMATCH = (
    "a kernel takes contiguous arrays of one axis, ints and floats, as many and in the order that it is bound for"
)
_METH_FASTCALL = 0x80

#: Offsets of fields: the type ends an object's head; after it an array has its data, rank, shape and strides.
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_TYPE, _DATA, _RANK, _SHAPE, _STRIDES = (object.__basicsize__ + k * _POINTER for k in (-1, 0, 1, 2, 3))
#: Where the content of a bytes object is.
_BYTES = bytes.__basicsize__ - 1

#: The argument type for each form: the item size of an array, "i" or "f".
_TYPES: dict[int | str, Any] = {
    "i": types.int64,
    "f": types.float64,
    **{
        item.bitwidth // 8: types.Array(item, 1, "C")
        for item in (types.uint8, types.uint16, types.uint32, types.uint64, types.complex128)
    },
}

add_symbol("nbgrad_ndarray_type", id(np.ndarray))


class _MethodDefinition(ctypes.Structure):
    """Python's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Address(bytes):
    """The address of a kernel, which is the ``__self__`` of an entry point and keeps the code alive."""

    code: tuple


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
_new_function.restype = ctypes.py_object


def entry_point(result: CompileResult, signature: tuple) -> Callable:
    """A Python function that calls compiled code, without the GIL.

    Parameters
    ----------
    result : CompileResult
        The code of a function that returns nothing.
    signature : tuple
        Its argument types: flat C-contiguous arrays, int64 and float64.
    """
    forms = tuple(
        [as_dtype(t.dtype).itemsize if isinstance(t, types.Array) else "fi"[t == types.int64] for t in signature]
    )
    definition, library = _trampoline(forms)
    address = _Address(struct.pack("P", kernel_address(result)))
    address.code = result, library
    return _new_function(ctypes.addressof(definition), address, None)


@lru_cache(None)
def _trampoline(forms: tuple) -> tuple[_MethodDefinition, Any]:
    """The trampoline for arguments of these forms, and its code."""
    name = f"nbgrad_call_{'_'.join(map(str, forms))}"
    library = code_store.trampoline(name, lambda context, module: _emit(context, module, name, forms))
    function = library.get_pointer_to_function(name)
    return _MethodDefinition(b"kernel", function, _METH_FASTCALL, None), library


def _emit(context, module, name: str, forms: tuple) -> None:
    """Emit ``PyObject *trampoline(PyObject *self, PyObject *const *args, Py_ssize_t count)``."""
    byte, size = llvm.IntType(8), llvm.IntType(8 * _POINTER)
    pointer = byte.as_pointer()
    function = llvm.Function(module, llvm.FunctionType(pointer, [pointer, pointer.as_pointer(), size]), name)
    bound, args, count = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    mismatch, failed = function.append_basic_block("mismatch"), function.append_basic_block("failed")
    api = context.get_python_api(builder)
    ndarray = cgutils.add_global_variable(module, byte, "nbgrad_ndarray_type")

    def expect(condition, otherwise) -> None:
        following = function.append_basic_block()
        builder.cbranch(condition, following, otherwise).set_weights([1000, 1])
        builder.position_at_end(following)

    def field(base, offset: int, kind):
        return builder.load(builder.bitcast(builder.gep(base, [size(offset)]), kind.as_pointer()))

    def array(item, form: int):
        expect(builder.icmp_unsigned("==", field(item, _TYPE, pointer), ndarray), mismatch)
        expect(builder.icmp_unsigned("==", field(item, _RANK, llvm.IntType(32)), llvm.IntType(32)(1)), mismatch)
        length = field(field(item, _SHAPE, pointer), 0, size)
        contiguous = builder.icmp_signed("==", field(field(item, _STRIDES, pointer), 0, size), size(form))
        expect(builder.or_(contiguous, builder.icmp_signed("<=", length, size(1))), mismatch)
        value = context.make_array(_TYPES[form])(context, builder)
        data = builder.bitcast(field(item, _DATA, pointer), value.data.type)
        populate_array(value, data, shape=[length], strides=[size(form)], itemsize=size(form), meminfo=None)
        return value._getvalue()

    def scalar(item, form: str):
        if form == "i":
            value = api.long_as_longlong(item)
            in_doubt = builder.icmp_signed("==", value, value.type(-1))
        else:
            value = api.float_as_double(item)
            in_doubt = builder.fcmp_ordered("==", value, value.type(-1.0))
        with builder.if_then(in_doubt, likely=False):
            expect(cgutils.is_null(builder, api.err_occurred()), failed)
        return value

    expect(builder.icmp_signed("==", count, size(len(forms))), mismatch)
    values = []
    for k, form in enumerate(forms):
        item = builder.load(builder.gep(args, [size(k)]))
        values.append(array(item, form) if isinstance(form, int) else scalar(item, form))
    kinds = [_TYPES[form] for form in forms]
    convention = context.call_conv
    kernel = builder.inttoptr(field(bound, _BYTES, size), convention.get_function_type(types.none, kinds).as_pointer())
    state = api.save_thread()
    status, _ = convention.call_function(builder, kernel, types.none, kinds, values)
    api.restore_thread(state)
    with builder.if_then(status.is_ok, likely=True):
        api.return_none()
    convention.raise_error(builder, api, status)  # NUMBA_BOUNDSCHECK=1
    builder.branch(failed)
    builder.position_at_end(mismatch)
    api.err_set_string("PyExc_TypeError", _MISMATCH)
    builder.branch(failed)
    builder.position_at_end(failed)
    builder.ret(pointer(None))
