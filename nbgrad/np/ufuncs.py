"""NumPy's elementwise functions, and the operators of arrays.

Each is an operator of the registry, or an expression of its own, called with NumPy's arguments and NumPy's rules for
dtypes: Python numbers take the dtype of the array (NEP 50), NumPy's scalars and arrays are promoted with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.registry import operators
from ..ir.expr import Expr, const, either, eq, isnan, le, lt, select, var
from ..kernels import bits
from ..kernels import scalar as vm
from ..kernels import unary as _unary  # noqa: F401  # declares operators
from ..operators.elementwise import Elementwise, derived
from ..protocols import in_place
from .arrays import ndarray
from .bits import bit_functions
from .elementwise import Binary, Ufunc, Unary, document, elementwise

__all__ = ["UFUNCS"]

x0, x1 = var("x0"), var("x1")
_LN2 = math.log(2.0)


def _own(name: str, expr: Expr, operands: int = 2, ints: bool = True, truth: bool = False) -> Elementwise:
    return derived(name, expr, operands, 0, ints, truth)


#: Functions that are operators of the registry, by NumPy's names: the operator's name, or names.
_REGISTERED = {
    "abs": "abs absolute", "arccos": "arccos acos", "arccosh": "arccosh acosh", "arcsin": "arcsin asin",
    "arcsinh": "arcsinh asinh", "arctan": "arctan atan", "arctan2": "arctan2 atan2", "arctanh": "arctanh atanh",
    "add": "add", "cbrt": "cbrt", "ceil": "ceil", "copysign": "copysign", "cos": "cos", "cosh": "cosh",
    "degrees": "degrees rad2deg", "divide": "divide true_divide", "equal": "equal", "exp": "exp", "expm1": "expm1",
    "floor": "floor", "floor_divide": "floor_divide", "greater": "greater", "greater_equal": "greater_equal",
    "hypot": "hypot", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "lesser": "less",
    "lesser_equal": "less_equal", "log": "log", "log10": "log10", "log1p": "log1p", "log2": "log2",
    "logaddexp": "logaddexp", "logical_and": "logical_and", "logical_not": "logical_not", "logical_or": "logical_or",
    "logical_xor": "logical_xor", "maximum": "maximum", "minimum": "minimum", "modulo": "mod remainder",
    "multiply": "multiply", "negative": "negative", "not_equal": "not_equal", "power": "power pow",
    "radians": "radians deg2rad", "reciprocal": "reciprocal", "sign": "sign", "sin": "sin",
    "sinc": "sinc", "sinh": "sinh", "sqrt": "sqrt", "square": "square", "subtract": "subtract", "tan": "tan",
    "tanh": "tanh", "trunc": "trunc fix",
}  # fmt: skip

_absolute = vm.absolute(x1)
#: Functions that are expressions, by NumPy's names.
_EXPRESSIONS = {
    "conjugate": Elementwise("conjugate", x0, 1),
    "exp2": _own("exp2", vm.power(const(2.0), x0), 1, ints=False),
    "fabs": _own("fabs", vm.absolute(x0), 1, ints=False),
    "float_power": _own("float_power", vm.power(x0, x1), ints=False),
    "fmax": _own("fmax", select(either(le(x1, x0), isnan(x1)), x0, x1)),
    "fmin": _own("fmin", select(either(le(x0, x1), isnan(x1)), x0, x1)),
    "fmod": _own("fmod", select(lt(x0, 0), vm.floor_mod(x0, -_absolute), vm.floor_mod(x0, _absolute))),
    "heaviside": _own("heaviside", select(lt(x0, 0), 0, select(eq(x0, 0), x1, select(isnan(x0), x0, 1))), ints=False),
    "logaddexp2": _own("logaddexp2", vm.logaddexp(x0 * _LN2, x1 * _LN2) / _LN2, ints=False),
    "positive": Elementwise("positive", x0, 1),
    "nextafter": _own("nextafter", bits.nextafter(x0, x1), ints=False),
    "rint": _own("rint", vm.rint(x0), 1, ints=False),
    "signbit": _own("signbit", lt(vm.copysign(const(1.0), x0), 0), 1, ints=False, truth=True),
}  # fmt: skip


def _all() -> dict[str, Ufunc]:
    found: dict[str, Ufunc] = {}
    for operator, names in _REGISTERED.items():
        entry = operators[operator]
        first, *others = names.split()
        forms = entry.scalar_forms
        found[first] = Binary(first, entry.rule, forms=forms) if forms else Unary(first, entry.rule)
        found |= dict.fromkeys(others, found[first])
        document(found[first], entry.call.__doc__ or "")
    found.update({name: elementwise(name, rule) for name, rule in _EXPRESSIONS.items()})
    return found


#: NumPy's elementwise functions, by name.
UFUNCS: dict[str, Any] = _all()
UFUNCS["float_power"].dtype = np.float64
# NumPy refuses these for bools, or gives int8, which would be no truth values.
for _name in ("floor_divide", "fmod", "mod", "negative", "positive", "power", "sign", "square", "subtract"):
    UFUNCS[_name].rule.of_bools = False


class Power(Binary):
    """The power, of integers not to negative ones."""

    def __init__(self, rule: Elementwise, forms: tuple[Callable, Callable]) -> None:
        super().__init__("power", rule, forms=forms)
        fast = self.binary

        def binary(x1, x2, out=None):
            result = fast(x1, x2, out)
            if result is not NotImplemented and not result._kind.dtype.is_float and not result._kind.traced:
                exponents = x2._view() if isinstance(x2, NDArray) else np.asarray(x2)
                if exponents.size and exponents.min() < 0:
                    raise ValueError("power: integers to negative integer powers are not allowed; use floats")
            return result

        self.binary = binary


UFUNCS["power"] = UFUNCS["pow"] = Power(UFUNCS["power"].rule, operators["power"].scalar_forms)
document(UFUNCS["power"], operators["power"].call.__doc__ or "")
UFUNCS["conj"] = UFUNCS["conjugate"]
UFUNCS.update(bit_functions(UFUNCS))

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "mod",
    "pow": "power",
}  # fmt: skip
_COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_BITS = {
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}


def _reflected(call: Callable) -> Callable:
    return lambda self, other: call(other, self)


def _attach() -> None:
    for short, name in (_OPERATORS | _BITS | _COMPARISONS).items():
        setattr(ndarray, f"__{short}__", UFUNCS[name].binary)
    for short, name in (_OPERATORS | _BITS).items():
        setattr(ndarray, f"__r{short}__", _reflected(UFUNCS[name].binary))
        setattr(ndarray, f"__i{short}__", in_place.operator(name, UFUNCS[name].binary))
    more: dict[str, Any] = {
        "__abs__": lambda self: UFUNCS["abs"](self),
        "__invert__": lambda self: UFUNCS["invert"](self),
        "__neg__": lambda self: UFUNCS["negative"](self),
        "__pos__": lambda self: UFUNCS["positive"](self),
        "__divmod__": lambda self, other: (self // other, self % other),
        "__rdivmod__": lambda self, other: (other // self, other % self),
    }
    for name, method in more.items():
        setattr(ndarray, name, method)


_attach()
