"""Functions that Numba's decorators make of kernels: ``vectorize``, ``guvectorize`` and ``stencil``; and C functions
that it calls."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, cast

from numba import types

from .internals import (
    CFunc,
    DUFunc,
    GUFunc,
    JitClassType,
    NumbaError,
    StencilFunc,
    as_dtype,
    core_dimensions,
    kernel_of_stencil,
    loops_of_gufunc,
    overloads_of,
    prefers_literals,
    stencil_result,
)

__all__ = [
    "AmbiguousOverloadError",
    "Generalized",
    "Operand",
    "Stencil",
    "TypeOf",
    "address_of_c_function",
    "has_hash",
    "implementation",
    "is_jitclass",
    "is_overloaded",
    "kernel_of",
    "package_of",
    "plain_function",
    "uncached",
    "wrapped_function",
]

#: What an argument is: the kind and rank of a number or an array, a string, None, or a tuple of these.
TypeOf = Any
_ELEMENTS = {"float": types.float64, "int": types.int64, "bool": types.boolean}
_POINTER = type(ctypes.pythonapi.PyObject_Str).__mro__[1]  # the class of all functions of ctypes
#: What arrays may be: their layouts, and the types of their integers.
_ARRAYS = [("C", types.int64), ("A", types.int64), ("F", types.int64), ("C", types.int32)]


class AmbiguousOverloadError(Exception):
    """The body that an overload chooses depends on more than is known of the arguments."""


class Operand(NamedTuple):
    """How the kernel of a generalized ufunc takes an operand."""

    kind: str  # of the elements, as NumPy's dtypes have it
    bits: int
    is_array: bool


class Generalized(NamedTuple):
    """A function of ``numba.guvectorize``: the names of the core dimensions of each input and output, and the operands
    of each loop that was declared. `dynamic`: none was, so that outputs must be passed."""

    kernel: Callable
    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]
    loops: tuple[tuple[Operand, ...], ...]
    dynamic: bool


class Stencil(NamedTuple):
    """A function of ``numba.stencil``. `cval` is None where it was not given."""

    kernel: Callable
    cval: Any
    neighborhood: tuple[tuple[int, int], ...] | None
    standard_indexing: tuple[str, ...]
    function: Any

    def result(self, arguments: list[tuple[int, Any]]) -> Any:
        """The dtype of the elements that Numba computes from arguments of these ranks and dtypes; None if it cannot
        compile the kernel for them."""
        try:
            return as_dtype(stencil_result(self.function, tuple([_type_of(rank, d) for rank, d in arguments])))
        except (NumbaError, NotImplementedError):
            return None


def is_overloaded(function: Any) -> bool:
    """Whether ``numba.extending.overload`` has other bodies for a user's function of Python."""
    own = isinstance(function, FunctionType) and (function.__module__ or "").split(".")[0] != "numpy"
    return own and bool(overloads_of(function))


def implementation(function: Any, arguments: list[TypeOf], keywords: dict[str, TypeOf]) -> Callable | None:
    """The body that Numba would compile for arguments of these types; None if there is none.

    Raises
    ------
    AmbiguousOverloadError
        If it may depend on more: on the layout of arrays, the size of their integers, or the values of constants.
    """
    if any(map(prefers_literals, overloads_of(function))):
        raise AmbiguousOverloadError("has prefer_literal=True, so that the values of constants may choose its body")
    bodies = []
    for layout, integer in _ARRAYS:
        given = [_numba_type(a, layout, integer) for a in arguments]
        named = {k: _numba_type(a, layout, integer) for k, a in keywords.items()}
        chosen = (choose(*given, **named) for choose in overloads_of(function))
        body = next((b for b in chosen if b is not None), None)
        bodies.append(plain_function(body))
    if len({getattr(b, "__code__", None) for b in bodies}) > 1:
        raise AmbiguousOverloadError("depends on the layout of arrays, or on the size of their integers")
    return bodies[0]


def _numba_type(kind: TypeOf, layout: str, integer: types.Type) -> types.Type:
    match kind:
        case None:
            return types.none
        case str():
            return types.unicode_type
        case (str(name), int(rank)):
            element = integer if rank and name == "int" else _ELEMENTS[name]
            return types.Array(element, rank, layout) if rank else element
    return types.BaseTuple.from_types([_numba_type(k, layout, integer) for k in kind])


def _type_of(rank: int, dtype: Any) -> types.Type:
    element = types.Tuple(()) if dtype is None else getattr(types, str(dtype))
    return types.Array(element, rank, "A") if rank else element


def plain_function(function: Any) -> Any:
    """The function of Python that Numba compiled; other objects as they are, and so what wraps a compiled function, to
    which ``functools.wraps`` gives its attributes."""
    return function if isinstance(function, FunctionType) else getattr(function, "py_func", function)


def package_of(value: Any) -> str:
    """The package that a function or class is of; "" if it does not say."""
    return str(getattr(value, "__module__", None) or "").split(".")[0]


def has_hash(value: object) -> bool:
    """Whether a value can be looked up in tables of functions: C functions and arrays cannot, nor objects made of
    arrays, of whatever class."""
    try:
        hash(value)
    except Exception:  # TypeError of most, ValueError of a timedelta64 without a unit, anything of users' classes
        return False
    return True


def uncached(function: Any) -> Any:
    """The function that ``functools.lru_cache`` or ``numba.cfunc`` was given; other objects as they are, and cached
    functions that may draw random numbers, for which it makes a difference."""
    if isinstance(function, CFunc):
        return function.__wrapped__
    if not isinstance(function, functools._lru_cache_wrapper):
        return function
    inner = function.__wrapped__
    code = getattr(plain_function(inner), "__code__", None)
    return function if code is None or "random" in code.co_names else inner


def is_jitclass(value: object) -> bool:
    """Whether a value is a class that ``jitclass`` made, or an object of one."""
    return isinstance(value, JitClassType) or isinstance(getattr(value, "_numba_type_", None), types.ClassInstanceType)


def kernel_of(function: object) -> Callable | None:
    """The function that one of the decorators was given; None for other functions."""
    if isinstance(function, DUFunc | GUFunc):
        return function.__wrapped__
    return kernel_of_stencil(function) if isinstance(function, StencilFunc) else None


def wrapped_function(function: object) -> Generalized | Stencil | None:
    """What ``guvectorize`` or ``stencil`` made; None for other functions."""
    if isinstance(function, GUFunc):
        inputs, outputs = core_dimensions(function)
        loops = tuple([tuple(map(_operand, loop)) for loop in loops_of_gufunc(function)])
        return Generalized(function.__wrapped__, inputs, outputs, loops, function.is_dynamic)
    if isinstance(function, StencilFunc):
        options = function.options
        standard = options.get("standard_indexing", ())
        near = options.get("neighborhood")
        return Stencil(
            kernel_of_stencil(function),
            options.get("cval"),
            None if near is None else tuple([(int(a), int(b)) for a, b in near]),
            (standard,) if isinstance(standard, str) else tuple(standard),
            function,
        )
    return None


def _operand(kind: Any) -> Operand:
    array = isinstance(kind, types.Array)
    dtype = as_dtype(kind.dtype if array else kind)
    return Operand(dtype.kind, 8 * dtype.itemsize, array)


def address_of_c_function(value: object) -> int | None:
    """The address of a C function that Numba calls, of ctypes or with a type of its own; None for other objects."""
    if isinstance(value, _POINTER):
        return ctypes.cast(cast(Any, value), ctypes.c_void_p).value
    return value.__wrapper_address__() if hasattr(value, "__wrapper_address__") else None
