"""Intrinsics: functions for compiled code that are given by their LLVM instructions.

One says two things: the type of the result, from the types of the arguments, and the instructions::

    @intrinsic(lambda x, y: x(x, x))
    def copy_sign(emit, x, y):
        return emit.llvm_intrinsic("copysign", x, y)

They are emitted where the function is called, on the CPU and on GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from numba import types

from .internals import Intrinsic, cgutils, llvm, populate_array
from .internals import intrinsic as _numba_intrinsic

__all__ = ["Emitter", "Intrinsic", "call_external", "call_llvm_intrinsic", "intrinsic", "llvm", "on_gpu", "types"]


class Emitter:
    """Emits the instructions of one call.

    Attributes
    ----------
    builder : llvm.IRBuilder
        Appends instructions at the place of the call.
    types : tuple
        The types of the arguments.
    result : type
        The type of the result.
    """

    __slots__ = ("_context", "builder", "result", "types")

    def __init__(self, context: Any, builder: Any, signature: Any) -> None:
        self._context = context
        self.builder, self.types, self.result = builder, signature.args, signature.return_type

    # Types and values.

    def value_type(self, kind: Any) -> Any:
        """The LLVM type of a value."""
        return self._context.get_value_type(kind)

    def element_type(self, kind: Any) -> Any:
        """The LLVM type of an array's element in memory."""
        return self._context.get_data_type(kind)

    def element_size(self, kind: Any) -> int:
        """The bytes of an array's element in memory."""
        return self._context.get_abi_sizeof(self.element_type(kind))

    def constant(self, kind: Any, value: Any) -> Any:
        """A constant of a scalar type."""
        return self._context.get_constant(kind, value)

    def cast(self, value: Any, given: Any, wanted: Any) -> Any:
        """A value of the type `given` as one of the type `wanted`."""
        return self._context.cast(self.builder, value, given, wanted)

    def is_true(self, kind: Any, value: Any) -> Any:
        """Whether a value counts as true, as one bit."""
        return self._context.is_true(self.builder, kind, value)

    def pack(self, kind: Any, values: list) -> Any:
        """A tuple of values."""
        return self._context.make_tuple(self.builder, kind, values)

    def unpack(self, values: Any, count: int) -> list:
        """The values of a tuple, or of an array's shape or strides."""
        return cgutils.unpack_tuple(self.builder, values, count)

    # Memory.

    def array(self, kind: Any, value: Any) -> Any:
        """An array's fields: data, shape, strides, nitems, itemsize."""
        return self._context.make_array(kind)(self._context, self.builder, value)

    def array_on(self, kind: Any, data: Any, length: Any) -> Any:
        """A contiguous array of one dimension on memory that it does not own."""
        array = self._context.make_array(kind)(self._context, self.builder)
        step = self.constant(types.intp, self.element_size(kind.dtype))
        populate_array(array, self.builder.bitcast(data, array.data.type), [length], [step], step, None)
        return array._getvalue()

    def stored(self, *values: Any) -> Any:
        """The address of words of stack memory, all of one type, that hold some values."""
        slots = cgutils.alloca_once(self.builder, values[0].type, size=len(values))
        for k, value in enumerate(values):
            self.builder.store(value, self.builder.gep(slots, [llvm.IntType(32)(k)]))
        return slots

    def string(self, text: str) -> Any:
        """The address of a constant string that ends with a zero."""
        return self._context.insert_const_string(self.builder.module, text)

    # Calls.

    def llvm_intrinsic(self, name: str, *args: Any, flags: tuple[str, ...] = ()) -> Any:
        """Call LLVM's function ``llvm.{name}`` of arguments and a result of one type."""
        return call_llvm_intrinsic(self.builder, name, args, flags)

    def external(self, name: str, result: Any, *args: Any) -> Any:
        """Call a function of C by its symbol; `result` is its LLVM type."""
        return call_external(self.builder, name, result, args)

    def raise_error(self, error: type[BaseException]) -> None:
        """Leave the function that is compiled by raising ``error()``."""
        self._context.call_conv.return_user_exc(self.builder, error, ())


def call_llvm_intrinsic(builder: Any, name: str, args: Any, flags: tuple[str, ...] = ()) -> Any:
    """Call LLVM's function ``llvm.{name}`` of arguments and a result of one type."""
    kind = args[0].type
    signature = llvm.FunctionType(kind, [kind] * len(args))
    return builder.call(builder.module.declare_intrinsic(f"llvm.{name}", [kind], signature), args, fastmath=flags)


def call_external(builder: Any, name: str, result: Any, args: Any) -> Any:
    """Call a function by its symbol; `result` is its LLVM type."""
    signature = llvm.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), args)


def on_gpu(builder: Any) -> bool:
    """Whether the code is for CUDA."""
    return "nvptx" in builder.module.triple


def same(first: Any, *others: Any) -> Any:
    """The types of a function of numbers of one type, which is also that of the result."""
    return first(first, *[first for _ in others])


def intrinsic(
    typed: Callable[..., Any] = same, *, literal: bool = False, python: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: a function for compiled code from its LLVM instructions.

    Parameters
    ----------
    typed : callable
        The result type from the types of the arguments, or a signature ``result(argument, ...)`` if arguments are
        converted, or None if the function does not take these.
    literal : bool
        Types of constant arguments carry their values.
    python : callable, optional
        What a call does when generated code runs in Python; an error otherwise.
    """

    def decorate(body: Callable[..., Any]) -> Any:
        @wraps(body)  # whose parameters Numba reads; the first is not counted
        def definition(_, *arguments):
            signature = typed(*arguments)
            if isinstance(signature, types.Type):
                signature = signature(*arguments)
            return None if signature is None else (signature, emitted)

        def emitted(context, builder, signature, args):
            value = body(Emitter(context, builder, signature), *args)
            return context.get_dummy_value() if signature.return_type == types.void else value

        made = _numba_intrinsic(prefer_literal=True)(definition) if literal else _numba_intrinsic(definition)
        if python is not None:
            made.__class__, made.in_python = _Callable, python
        return made

    return decorate


class _Callable(Intrinsic):
    """An intrinsic that Python can call, too."""

    def __call__(self, *args: Any) -> Any:
        return self.in_python(*args)
