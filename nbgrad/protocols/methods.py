"""Attach the methods of NDArray: operators from the registry, indexing, gradients and protocols."""

from __future__ import annotations

from typing import Any

from .. import autograd
from ..arrays.ndarray import NDArray
from ..core.registry import operators
from ..errors import DTypeError
from ..kernels import creation, linear, subscript
from . import conversions, dlpack, in_place, numpy_functions

__all__: list[str] = []

_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "modulo",
    "pow": "power",
}
_BITS = {
    "and": ("&", "nd.logical_and"),
    "or": ("|", "nd.logical_or"),
    "xor": ("^", "nd.logical_xor"),
}
_COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "lesser",
    "le": "lesser_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def _reflected(call):
    def method(self, other):
        return call(other, self)

    return method


def _comparison(call):
    def method(self, other):
        if other is None or isinstance(other, str):
            raise TypeError(f"an NDArray cannot be compared with {other!r}")
        return call(self, other)

    return method


def _bits(sign: str, instead: str):
    """A method that refuses a bitwise operator."""

    def method(self, *other):
        raise DTypeError(
            f"{sign} is not defined for NDArrays, whose comparisons give zeros and ones; use {instead} "
            "(nd.logical_and(x > 0, x < 1)), or NumPy's on x.asnumpy().astype(bool)"
        )

    return method


def _attach() -> None:
    for entry in operators.values():
        if entry.method:
            for name in (entry.name, *entry.aliases):
                if not hasattr(NDArray, name):
                    setattr(NDArray, name, entry.call)
    for short, name in _BINARY.items():
        call = operators[name].operator
        setattr(NDArray, f"__{short}__", call)
        setattr(NDArray, f"__r{short}__", _reflected(call))
        setattr(NDArray, f"__i{short}__", in_place.operator(name, call))
    for short, name in _COMPARE.items():
        setattr(NDArray, f"__{short}__", _comparison(operators[name].operator))
    for short, (sign, instead) in _BITS.items():
        for form in (f"__{short}__", f"__r{short}__"):
            setattr(NDArray, form, _bits(sign, instead))
    more = {
        "__invert__": _bits("~", "nd.logical_not"),
        "__neg__": operators["negative"].call,
        "__pos__": creation.copy,
        "__abs__": operators["abs"].call,
        "__matmul__": linear.matmul_operator,
        "__rmatmul__": linear.matmul_reflected,
        "__divmod__": lambda self, other: (self // other, self % other),
        "__rdivmod__": lambda self, other: (other // self, other % self),
        "__round__": lambda self, ndigits=None: numpy_functions.rounded(self, ndigits or 0),
        "__getitem__": subscript.getitem,
        "__setitem__": subscript.setitem,
        "slice_assign": subscript.slice_assign,
        "slice_assign_scalar": subscript.slice_assign_scalar,
        "T": property(operators["transpose"].call, doc="The array with its axes in reverse order."),
        "astype": creation.astype,
        "copy": creation.copy,
        "copyto": creation.copyto,
        "tostype": creation.tostype,
        "as_in_context": creation.as_in_context,
        "as_in_ctx": creation.as_in_context,
        "attach_grad": autograd.attach_grad,
        "grad": property(autograd.get_grad, autograd.set_grad, doc=autograd.get_grad.__doc__),
        "_fresh_grad": property(autograd.get_fresh, autograd.set_fresh),
        "detach": autograd.detach,
        "backward": autograd.backward_method,
        "__dlpack__": dlpack.export,
        "__dlpack_device__": dlpack.device,
        "__cuda_array_interface__": property(dlpack.interface),
        "to_dlpack_for_read": dlpack.to_dlpack_for_read,
        "to_dlpack_for_write": dlpack.to_dlpack_for_write,
        "__array_ufunc__": numpy_functions.array_ufunc,
        "__array_function__": numpy_functions.array_function,
    }
    for name, value in more.items():
        setattr(NDArray, name, value)
    for name in conversions.IMPLICIT:
        member: Any = vars(NDArray)[name]
        getter: Any = member.fget if isinstance(member, property) else member
        method = conversions.guard_conversion(name, getter)
        setattr(NDArray, name, property(method) if isinstance(member, property) else method)


_attach()
