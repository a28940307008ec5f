"""NumPy's elementwise functions, and the operators of arrays.

Each is an operator of the registry, or an expression of its own, called with NumPy's arguments and NumPy's rules for
dtypes: Python numbers take the dtype of the array (NEP 50), NumPy's scalars and arrays are promoted with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..core.conventions import NUMPY
from ..core.dtypes import as_dtype
from ..core.registry import operators
from ..errors import DTypeError
from ..ir.expr import Expr, const, either, eq, isnan, le, lt, select, var
from ..ir.expr_source import pretty
from ..kernels import scalar as vm
from ..kernels import unary as _unary  # noqa: F401  # declares operators
from ..operators.cast import cast
from ..operators.declare import scalar_forms
from ..operators.elementwise import Elementwise, derived, fast_binary
from ..protocols import in_place
from .arrays import as_array, ndarray, stored

__all__ = ["METHODS", "UFUNCS", "Ufunc"]

_SCALARS = frozenset({int, float, bool})
_MISSING: Any = object()


class Ufunc:
    """An elementwise function with NumPy's arguments, and NumPy's methods.

    Attributes
    ----------
    nin, nout, nargs : int
    rule : Elementwise
    """

    nin: int
    nout = 1
    __call__: Callable
    #: The dtype that operands are converted to, for functions that have one.
    dtype: Any = None

    def __init__(self, name: str, rule: Elementwise) -> None:
        self.__name__ = self.__qualname__ = name
        self.rule = rule
        self.nargs = self.nin + 1

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def __reduce__(self) -> tuple[Callable, tuple]:
        return _named, (self.__name__,)

    def __copy__(self) -> Ufunc:
        return self

    def __deepcopy__(self, memo: dict) -> Ufunc:
        return self

    def _general(self, operands: tuple, out: Any, where: Any, dtype: Any):
        """The function with all that NumPy's take."""
        name = self.__name__
        if isinstance(out, tuple):
            (out,) = out
        dtype = dtype or self.dtype
        operands = tuple([as_array(x, name).astype(dtype) for x in operands]) if dtype is not None else operands
        result = self._result(*operands)
        if result is NotImplemented:
            for x in operands:
                as_array(x, name)  # raises for what is no operand
        if where is not True:
            if out is None:
                raise DTypeError(f"{name}: where needs out, which has the other elements; or write np.where(...)")
            mask = as_array(where, name)
            mask = mask.reshape((1,) * (out.ndim - mask.ndim) + mask.shape)
            result = operators["where"].call(operators["broadcast_to"].call(mask, shape=out.shape), result, out)
        return stored(result, out, name)

    def _result(self, *operands):
        raise NotImplementedError

    # Methods of ufuncs.

    def reduce(self, a, axis=0, dtype=None, out=None, keepdims=False, **options):
        """Combine elements along an axis, the first by default; of add, multiply, maximum, minimum and logical ones.

        `options` are those of the reduction: ``initial`` and ``where``.
        """
        a = as_array(a, self.__name__) if dtype is None else as_array(a, self.__name__).astype(dtype)
        return self._method("reduce")(a, axis=axis, out=out, keepdims=keepdims, **options)

    def accumulate(self, a, axis=0, dtype=None, out=None):
        """Combine each element along an axis with those before it; of add and multiply."""
        return self._method("accumulate")(a, axis=axis, dtype=dtype, out=out)

    def outer(self, a, b):
        """The function of each pair of elements of `a` and of `b`."""
        a, b = as_array(a, self.__name__), as_array(b, self.__name__)
        return self(a.reshape(a.shape + (1,) * b.ndim), b)

    def at(self, a, indices, *b) -> None:
        """Change the elements of `a` at `indices` in place; one that is selected several times by `add` and `subtract`
        alone, each time."""
        name = f"{self.__name__}.at"
        if not isinstance(a, ndarray):
            raise DTypeError(f"{name}: a must be an array of nbgrad.np, not {type(a)}")
        if len(b) != self.nin - 1:
            raise TypeError(f"{name} takes {self.nin + 1} arguments ({len(b) + 2} given): a, indices" + ", b" * len(b))
        a[...] = a.at[indices]._changed_by(self, *b)

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        """Refused."""
        self._method("reduceat")

    def _method(self, name: str) -> Callable:
        method = METHODS.get(name, {}).get(self.__name__)
        if method is None:
            there = f"; it is there for {', '.join(METHODS[name])}" if name in METHODS else ""
            raise DTypeError(f"{self.__name__}.{name} is not supported{there}")
        return method


class Unary(Ufunc):
    """A function of one array."""

    nin = 1

    def __init__(self, name: str, rule: Elementwise) -> None:
        super().__init__(name, rule)
        self._apply = rule.apply1

    def __call__(self, x, /, out=None, *, where=True, dtype=None):
        """The function of each element; its own docstring has the parameters."""
        if x.__class__ is ndarray and out is None and where is True and dtype is None:
            return self._apply(x)
        return self._general((x,), out, where, dtype)

    def _result(self, x):
        return self._apply(as_array(x, self.__name__))


class Binary(Ufunc):
    """A function of two arrays.

    Parameters
    ----------
    name : str
    rule : Elementwise
    forms : (callable, callable), optional
        Those of a scalar and an array; see :func:`..operators.declare.scalar_forms`.
    """

    nin = 2

    def __init__(self, name: str, rule: Elementwise, forms: tuple[Callable, Callable] | None = None) -> None:
        super().__init__(name, rule)
        self._left, self._right = forms or scalar_forms(rule)
        #: The function without keywords, or NotImplemented; the operators of arrays call it.
        self.binary: Callable = fast_binary(rule, self._otherwise, ndarray)

    def __call__(self, x1, x2=_MISSING, /, out=None, *, where=True, dtype=None):
        """The function of each pair of elements; its own docstring has the parameters."""
        if out is None and where is True and dtype is None and self.dtype is None:
            result = self.binary(x1, x2)
            if result is not NotImplemented:
                return result
        return self._general((x1, x2), out, where, dtype)

    def _result(self, x1, x2):
        return self.binary(x1, x2)

    def _otherwise(self, a, b, out):
        """The function of two operands that are not both arrays of this class."""
        if out is not None or b is _MISSING:
            raise TypeError(f"{self.__name__}: two operands are expected, got {1 if b is _MISSING else 3}")
        if a.__class__ is ndarray and b.__class__ in _SCALARS:
            return self._with_scalar(self._right, a, b)
        if b.__class__ is ndarray and a.__class__ in _SCALARS:
            return self._with_scalar(self._left, b, a)
        if isinstance(a, NDArray) and isinstance(b, NDArray):
            return self.rule.apply((a, b))  # they follow those of nd if they may
        for x in (a, b):
            if not isinstance(x, NDArray) and (
                x is None or isinstance(x, str | bytes | dict | set) or type(x).__name__ in ("DataFrame", "Series")
            ):
                if self.__name__ in ("equal", "not_equal") and (x is None or isinstance(x, str | bytes)):
                    return self._of_no_number(a, b)
                return NotImplemented
        like = a._kind if a.__class__ is ndarray else b._kind if b.__class__ is ndarray else None
        return self.rule.apply((as_array(a, self.__name__, like), as_array(b, self.__name__, like)))

    def _of_no_number(self, a, b):
        """What no element is equal to."""
        x = a if isinstance(a, NDArray) else b
        return from_value(np.full(x.shape, self.__name__ == "not_equal"), ctx=x.ctx, conventions=NUMPY)

    def _with_scalar(self, form: Callable, x: NDArray, value):
        """The function of an array and a Python number, which takes the dtype of the array if it can."""
        kind = x._kind
        if kind.dtype.is_float:
            op, scalars = form(float(value))
            return op.apply1(x, scalars)
        if value.__class__ is float:
            x = cast(x, kind.as_float())
        elif kind.dtype.name == "bool":
            if value.__class__ is bool:
                other = as_array(value, self.__name__, kind)
                return self.rule.apply((x, other) if form is self._right else (other, x))
            x = cast(x, kind.of(_INT64))
        else:
            value = int(value)
            limits = np.iinfo(kind.dtype.np)
            if not limits.min <= value <= limits.max:
                raise OverflowError(f"{self.__name__}: the Python integer {value} does not fit {kind.dtype}")
        op, scalars = form(value)
        if not op.ints and not x._kind.dtype.is_float:
            x = cast(x, x._kind.as_float())
            scalars = tuple(map(float, scalars))
        return op.apply1(x, scalars)


#: The functions behind methods of ufuncs, by method and name; the module of reductions registers them.
METHODS: dict[str, dict[str, Callable]] = {"reduce": {}, "accumulate": {}}

_INT64 = as_dtype("int64")

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
    "exp2": _own("exp2", vm.power(const(2.0), x0), 1, ints=False),
    "fabs": _own("fabs", vm.absolute(x0), 1, ints=False),
    "float_power": _own("float_power", vm.power(x0, x1), ints=False),
    "fmax": _own("fmax", select(either(le(x1, x0), isnan(x1)), x0, x1)),
    "fmin": _own("fmin", select(either(le(x0, x1), isnan(x1)), x0, x1)),
    "fmod": _own("fmod", select(lt(x0, 0), -vm.floor_mod(-x0, _absolute), vm.floor_mod(x0, _absolute))),
    "heaviside": _own("heaviside", select(lt(x0, 0), 0, select(eq(x0, 0), x1, select(isnan(x0), x0, 1))), ints=False),
    "logaddexp2": _own("logaddexp2", vm.logaddexp(x0 * _LN2, x1 * _LN2) / _LN2, ints=False),
    "positive": Elementwise("positive", x0, 1),
    "real": Elementwise("real", x0, 1),
    "rint": _own("rint", vm.rint(x0), 1, ints=False),
}  # fmt: skip


def _all() -> dict[str, Ufunc]:
    found: dict[str, Ufunc] = {}
    for operator, names in _REGISTERED.items():
        entry = operators[operator]
        first, *others = names.split()
        found[first] = Binary(first, entry.rule, entry.scalar_forms) if entry.scalar_forms else Unary(first, entry.rule)
        found |= dict.fromkeys(others, found[first])
        _documented(found[first], entry.call.__doc__ or "")
    kinds = {1: Unary, 2: Binary}
    for name, rule in _EXPRESSIONS.items():
        found[name] = kinds[len(rule.operands)](name, rule)
        _documented(found[name], "")
    return found


_DOCUMENTATION = """{first}

Parameters
----------
{operands} : array_like
    {kinds}
out : ndarray, optional
    Where the result is stored.
where : array_like of bool
    Elements to compute; others are those of `out`, which must be given then.
dtype : optional
    The dtype that the operands are converted to first.

Returns
-------
ndarray
    {shape}
{notes}"""


def _documented(ufunc: Ufunc, doc: str) -> None:
    """Give a function its docstring, from that of the operator if it is one."""
    gradients = [line for line in doc.splitlines() if line.startswith("Gradient:")]
    notes = f"\nNotes\n-----\n{gradients[0]} (g is that of the result.)\n" if gradients else ""
    one = ufunc.nin == 1
    shown = pretty(ufunc.rule.expr).replace("x0", "x" if one else "a").replace("x1", "b")
    ufunc.__doc__ = _DOCUMENTATION.format(
        first=doc.partition("\n\n")[0] if doc else f"``{shown}`` of each element.",
        operands="x" if one else "x1, x2",
        kinds="Of any shape."
        if one
        else "a and b. Shapes broadcast, dtypes are promoted; Python numbers take the array's.",
        shape="The shape of `x`." if one else "The broadcast shape.",
        notes=notes.replace("`data`", "`x`").replace("`lhs`", "`x1`").replace("`rhs`", "`x2`"),
    )


def _named(name: str) -> Ufunc:
    return UFUNCS[name]


#: NumPy's elementwise functions, by name.
UFUNCS: dict[str, Any] = _all()
UFUNCS["float_power"].dtype = np.float64
# NumPy refuses these for bools, or gives int8, which would be no truth values.
for _name in ("floor_divide", "fmod", "mod", "negative", "positive", "power", "sign", "square", "subtract"):
    UFUNCS[_name].rule.of_bools = False


class Power(Binary):
    """The power, of integers not to negative ones."""

    def __init__(self, name: str, rule: Elementwise, forms: tuple[Callable, Callable] | None = None) -> None:
        super().__init__(name, rule, forms)
        fast = self.binary

        def binary(x1, x2, out=None):
            result = fast(x1, x2, out)
            if result is not NotImplemented and not result._kind.dtype.is_float and not result._kind.traced:
                exponents = x2._view() if isinstance(x2, NDArray) else np.asarray(x2)
                if exponents.size and exponents.min() < 0:
                    raise ValueError("power: integers to negative integer powers are not allowed; use floats")
            return result

        self.binary = binary


UFUNCS["power"] = UFUNCS["pow"] = Power("power", UFUNCS["power"].rule, operators["power"].scalar_forms)
_documented(UFUNCS["power"], operators["power"].call.__doc__ or "")
UFUNCS["conj"] = UFUNCS["conjugate"] = UFUNCS.pop("real")

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "mod",
    "pow": "power",
}  # fmt: skip
_COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_LOGICAL = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor"}


def _reflected(call: Callable) -> Callable:
    return lambda self, other: call(other, self)


def _logical(name: str) -> Callable:
    """``a & b`` of arrays of bools."""
    call = UFUNCS[name].binary

    def method(self, other):
        other = as_array(other, name, self._kind)
        if self.dtype != bool or other.dtype != bool:
            raise DTypeError(
                f"bitwise operators are for arrays of dtype bool here, got {self.dtype} and {other.dtype}; use "
                f"np.{name} for truth values"
            )
        return call(self, other)

    return method


def _invert(x: ndarray) -> ndarray:
    if x.dtype != bool:
        raise DTypeError(f"~ is for arrays of dtype bool here, got {x.dtype}; use np.logical_not for truth values")
    return UFUNCS["logical_not"](x)


def _attach() -> None:
    for short, name in (_OPERATORS | _COMPARISONS).items():
        setattr(ndarray, f"__{short}__", UFUNCS[name].binary)
    for short, name in _OPERATORS.items():
        setattr(ndarray, f"__r{short}__", _reflected(UFUNCS[name].binary))
        setattr(ndarray, f"__i{short}__", in_place.operator(name, UFUNCS[name].binary))
    for short, name in _LOGICAL.items():
        method = _logical(name)
        setattr(ndarray, f"__{short}__", method)
        setattr(ndarray, f"__r{short}__", method)
        setattr(ndarray, f"__i{short}__", in_place.operator(name, method))
    more: dict[str, Any] = {
        "__abs__": lambda self: UFUNCS["abs"](self),
        "__invert__": _invert,
        "__neg__": lambda self: UFUNCS["negative"](self),
        "__pos__": lambda self: UFUNCS["positive"](self),
        "__divmod__": lambda self, other: (self // other, self % other),
        "__rdivmod__": lambda self, other: (other // self, other % self),
    }
    for name, method in more.items():
        setattr(ndarray, name, method)


_attach()
