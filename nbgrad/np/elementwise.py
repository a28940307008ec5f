"""Elementwise functions with NumPy's arguments, methods and rules for dtypes.

Python numbers take the dtype of the array (NEP 50), NumPy's scalars and arrays are promoted with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..core.conventions import NUMPY
from ..core.dtypes import as_dtype
from ..core.registry import operators
from ..errors import DTypeError
from ..ir.expr_source import pretty
from ..operators.cast import cast
from ..operators.declare import scalar_forms
from ..operators.elementwise import Elementwise, fast_binary
from .arrays import as_array, ndarray, stored, with_common_dtype

__all__ = ["METHODS", "Binary", "Several", "Ufunc", "Unary", "document", "elementwise"]

_SCALARS = frozenset({int, float, bool})
_MISSING: Any = object()
_INT64 = as_dtype("int64")
#: The functions behind methods of ufuncs, by method and name; the module of reductions registers them.
METHODS: dict[str, dict[str, Callable]] = {"reduce": {}, "accumulate": {}}


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

    def __init__(self, name: str, rule: Elementwise, module: str = "nbgrad.np") -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = module
        self.rule = rule
        self.nargs = self.nin + 1

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def __reduce__(self) -> str:
        return self.__name__  # of its module

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

    def __init__(self, name: str, rule: Elementwise, module: str = "nbgrad.np") -> None:
        super().__init__(name, rule, module)
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
    module : str
        Where it is found by its name.
    forms : (callable, callable), optional
        Those of a scalar and an array; see :func:`..operators.declare.scalar_forms`.
    """

    nin = 2

    def __init__(
        self,
        name: str,
        rule: Elementwise,
        module: str = "nbgrad.np",
        forms: tuple[Callable, Callable] | None = None,
    ) -> None:
        super().__init__(name, rule, module)
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
        if like is None:
            return self.rule.apply(with_common_dtype(self.__name__, a, b))
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
                return self._beyond(x, value, form is self._left, kind)
            if value >= 2**63:
                value -= 2**64  # which is passed to kernels as int64
        op, scalars = form(value)
        if not op.ints and not x._kind.dtype.is_float:
            x = cast(x, x._kind.as_float())
            scalars = tuple(map(float, scalars))
        return op.apply1(x, scalars)

    def _beyond(self, x: NDArray, value: int, reflected: bool, kind: Any):
        """The function of an array of integers and a Python integer that its dtype does not hold."""
        if not self.rule.truth:
            raise OverflowError(f"{self.__name__}: the Python integer {value} does not fit {kind.dtype}")
        pair = (value, 0) if reflected else (0, value)
        return from_value(np.full(x.shape, getattr(np, self.__name__)(*pair)), ctx=x.ctx, conventions=NUMPY)


class Several(Ufunc):
    """A function of three arrays or more."""

    def __init__(self, name: str, rule: Elementwise, module: str = "nbgrad.np") -> None:
        self.nin = len(rule.operands)
        super().__init__(name, rule, module)

    def __call__(self, *operands, out=None, where=True, dtype=None):
        """The function of each group of elements; its own docstring has the parameters."""
        if len(operands) == self.nin + 1 and out is None:
            *operands, out = operands  # type: ignore[assignment]
        if len(operands) != self.nin:
            raise TypeError(f"{self.__name__}: {self.nin} operands are expected, got {len(operands)}")
        return self._general(tuple(operands), out, where, dtype)

    def _result(self, *operands):
        return self.rule.apply(with_common_dtype(self.__name__, *operands))


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


def document(ufunc: Ufunc, doc: str, names: Sequence[str] = ()) -> None:
    """Give a function its docstring, from that of the operator if it is one; `names` are those of its arguments."""
    gradients = [line for line in doc.splitlines() if line.startswith("Gradient:")]
    notes = f"\nNotes\n-----\n{gradients[0]} (g is that of the result.)\n" if gradients else ""
    one = ufunc.nin == 1
    letters = names or (["x"] if one else ["a", "b"])
    shown = pretty(ufunc.rule.expr)
    for k, letter in enumerate(letters):
        shown = shown.replace(f"x{k}", letter)
    operands = ", ".join(names or (["x"] if one else ["x1", "x2"]))
    kinds = "Of any shape." if one else "Shapes broadcast, dtypes are promoted; Python numbers take the array's."
    ufunc.__doc__ = _DOCUMENTATION.format(
        first=doc.partition("\n\n")[0] if doc else f"``{shown}`` of each element.",
        operands=operands,
        kinds=kinds if one or names else f"a and b. {kinds}",
        shape=f"The shape of `{operands}`." if one else "The broadcast shape.",
        notes=notes.replace("`data`", "`x`").replace("`lhs`", "`x1`").replace("`rhs`", "`x2`"),
    )


def elementwise(
    name: str, rule: Elementwise, module: str = "nbgrad.np", doc: str = "", names: Sequence[str] = ()
) -> Ufunc:
    """The function of a rule, with its docstring: see :func:`document`."""
    kinds: dict[int, Any] = {1: Unary, 2: Binary}
    found = kinds.get(len(rule.operands), Several)(name, rule, module)
    document(found, doc, names)
    return found
