"""The table of scalar functions: all that the compiler knows of those of Python's and NumPy's that loops may call.

A row says which expression a call stands for, and so its derivative; of which kind the result is; and whether it is
cheap. The rest follows from the expression's own row in :mod:`nbgrad.kernels.scalar`: how generated code spells it,
whether LLVM can vectorize it, and what it is on a GPU. To add a function, add a line here.

Functions that are no functions of scalars have rows in :mod:`nbgrad.loops.frontend.function_table`.
"""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np

from ...ir.expr import ZERO, Expr, Fn, const, either, isnan, le, lt, select
from ...kernels import scalar as vm
from ..runtime.conversions import as_float
from .names import FUNCTION_NAMES

__all__ = [
    "FUNCTIONS",
    "MANY",
    "MATH_FUNCTIONS",
    "ScalarFunction",
    "helper_of",
    "is_cheap",
    "is_expensive",
    "is_passive",
    "vectorized",
]


class ScalarFunction(NamedTuple):
    """What is known of a scalar function.

    Attributes
    ----------
    expression : callable or None
        Builds the expression of a call; None if the function is passive: its derivative is zero wherever it exists.
    kind : str
        The kind of the result: "float", "int" or "bool"; "" for the widest among the operands.
    cheap : bool
        It compiles to a few instructions: to compute it again costs less than to store it.
    elementwise : bool
        It may be called with arrays, too.
    arguments : tuple of int
        How many arguments it takes, at least and at most.
    """

    expression: Callable[..., Expr] | None
    kind: str = "float"
    cheap: bool = False
    elementwise: bool = False
    arguments: tuple[int, int] = (0, 1 << 30)  # of a primitive: its signature is bound


#: More arguments than a call has.
MANY = 1 << 30
#: The rows, by function.
FUNCTIONS: dict[object, ScalarFunction] = {}
#: The functions of the math module, or builtins, that generated code calls for those of the table.
MATH_FUNCTIONS: dict[Fn, object] = {}


def _add(
    expression: Callable[..., Expr] | None,
    *functions: object,
    kind: str = "float",
    cheap: bool = False,
    elementwise: bool = False,
    arguments: tuple[int, int] | None = None,
) -> None:
    number = arguments or _number_of_arguments(expression)
    for function in functions:
        arrays = elementwise or isinstance(function, np.ufunc)
        FUNCTIONS[function] = ScalarFunction(expression, kind, cheap, arrays, number)
        if isinstance(expression, Fn) and getattr(function, "__module__", "") in ("math", "builtins"):
            MATH_FUNCTIONS.setdefault(expression, function)


def _number_of_arguments(expression: Callable[..., Expr] | None) -> tuple[int, int]:
    """Of a function of one, or of that which builds its expression."""
    if isinstance(expression, Fn):
        number = expression.template.count("{")
    else:
        number = 1 if expression is None else len(inspect.signature(expression).parameters)
    return number, number


# Exponentials, logarithms and powers.
_add(vm.exp, math.exp, np.exp)
_add(vm.expm1, math.expm1, np.expm1)
_add(lambda x: vm.power(const(2.0), x), np.exp2)
_add(vm.log, math.log, np.log)
_add(vm.log2, math.log2, np.log2)
_add(vm.log10, math.log10, np.log10)
_add(vm.log1p, math.log1p, np.log1p)
_add(vm.power, math.pow, np.float_power)
_add(vm.power, builtins.pow, np.power, kind="", elementwise=True)
_add(vm.sqrt, math.sqrt, np.sqrt, cheap=True)
_add(vm.cbrt, np.cbrt)
_add(vm.hypot, math.hypot, np.hypot)
_add(lambda x: x * x, np.square, kind="", cheap=True)
_add(lambda x: 1 / x, np.reciprocal)

# Trigonometric and hyperbolic functions.
_add(vm.sin, math.sin, np.sin)
_add(vm.cos, math.cos, np.cos)
_add(vm.tan, math.tan, np.tan)
_add(vm.arcsin, math.asin, np.arcsin)
_add(vm.arccos, math.acos, np.arccos)
_add(vm.arctan, math.atan, np.arctan)
_add(vm.arctan2, math.atan2, np.arctan2)
_add(vm.sinh, math.sinh, np.sinh)
_add(vm.cosh, math.cosh, np.cosh)
_add(vm.tanh, math.tanh, np.tanh)
_add(vm.arcsinh, math.asinh, np.arcsinh)
_add(vm.arccosh, math.acosh, np.arccosh)
_add(vm.arctanh, math.atanh, np.arctanh)
_add(vm.sinc, np.sinc, elementwise=True)

# The error function and the gamma function.
_add(vm.erf, math.erf)
_add(vm.erfc, math.erfc)
_add(vm.gamma, math.gamma)
_add(vm.gammaln, math.lgamma)


# Magnitudes, signs and selections.
def _fold(function: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
    return lambda *args: reduce(function, args)


_add(vm.absolute, builtins.abs, np.absolute, kind="", cheap=True, elementwise=True)
_add(vm.absolute, math.fabs, np.fabs, cheap=True)
_add(vm.copysign, math.copysign, np.copysign, cheap=True)
_add(vm.nextafter, np.nextafter)
_add(vm.maximum, np.maximum, kind="", cheap=True)
_add(vm.minimum, np.minimum, kind="", cheap=True)
_add(lambda a, b: select(either(le(b, a), isnan(b)), a, b), np.fmax, kind="", cheap=True)  # NaN is no maximum
_add(lambda a, b: select(either(le(a, b), isnan(b)), a, b), np.fmin, kind="", cheap=True)
_add(_fold(lambda a, b: select(b > a, b, a)), builtins.max, kind="", cheap=True, arguments=(1, MANY))
_add(_fold(lambda a, b: select(b < a, b, a)), builtins.min, kind="", cheap=True, arguments=(1, MANY))


def _remainder(a: Expr, b: Expr) -> Expr:
    """The remainder of a division rounded towards zero."""
    divisor = vm.absolute(b)
    return select(lt(a, ZERO), -vm.floor_mod(-a, divisor), vm.floor_mod(a, divisor))


_add(_remainder, math.fmod, np.fmod)

# Conversions.
_add(lambda x: x, float, np.float64, np.float32, cheap=True)
_add(None, int, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8, kind="int")
_add(None, bool, np.bool_, kind="bool")

# Rounding, and what else is constant between jumps.
_add(None, len, math.floor, math.ceil, math.trunc, kind="int")
_add(None, round, arguments=(1, 2))  # an integer if it has one operand: type_inference.kind_of
_add(None, np.floor, np.ceil, np.trunc, np.rint, elementwise=True)
_add(None, np.round, np.around, elementwise=True, arguments=(1, 2))
_add(None, np.sign, kind="")
_add(None, math.isnan, math.isinf, math.isfinite, np.isnan, np.isinf, np.isfinite, np.signbit, kind="bool")

# Functions of this library, which generated code calls.
for _fn in vars(vm).values():
    if isinstance(_fn, Fn) and _fn.called is not None:
        FUNCTIONS[_fn.called[1]] = ScalarFunction(_fn)


#: What generated code calls for operands that may be integers, of functions whose arithmetic is that of floats.
FUNCTIONS[as_float] = ScalarFunction(
    Fn("as_float", "as_float({0})", lambda x, y: const(1.0), helpers={"as_float": as_float}), cheap=True
)


def is_passive(function: object) -> bool:
    """Whether the derivative of a function is zero wherever it exists; False for functions that are not known."""
    row = FUNCTIONS.get(function)
    return row is not None and row.expression is None


def is_cheap(function: object) -> bool:
    """Whether a function compiles to a few instructions of arithmetic."""
    row = FUNCTIONS.get(function)
    return row is not None and row.cheap


def is_expensive(function: object) -> bool:
    """Whether the value of a function is better stored than computed again."""
    row = FUNCTIONS.get(function)
    return row is not None and row.expression is not None and not row.cheap


def vectorized(function: object) -> tuple[str, object] | None:
    """The name and the function of this library that `function` is equal to, and that LLVM can vectorize; or None."""
    fn = getattr(FUNCTIONS.get(function), "expression", None)
    return fn.called if isinstance(fn, Fn) and fn.vectorizes else None


def helper_of(function: object) -> tuple[str, object] | None:
    """The name and the function to import for a call of a function of this library, or of a user's primitive; None for
    functions of Python's and NumPy's."""
    fn = getattr(FUNCTIONS.get(function), "expression", None)
    return fn.called if isinstance(fn, Fn) and function not in FUNCTION_NAMES else None
