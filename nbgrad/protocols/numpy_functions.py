"""NumPy's functions on NDArrays: ``numpy.exp(x)`` is ``nd.exp(x)``, and is recorded.

Ufuncs (protocol ``__array_ufunc__``) are dispatched by name to the operators in the registry; so are the operators of
NumPy arrays with an NDArray on the right (``a * x`` is ``numpy.multiply(a, x)``). Other functions
(``__array_function__``) are dispatched by the table below, and else called with NumPy copies, which is not recorded.
Functions compiled by Numba ask for the type of an NDArray, and raise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from operator import attrgetter, index
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..autodiff.constants import carries_gradient
from ..autodiff.state import state
from ..backends.numba.internals import register_typeof
from ..core.registry import operators
from ..errors import AttrError, DTypeError, LostGradientError, ShapeError, TraceError
from ..kernels import linear, shape
from ..kernels.special_functions import SPECIAL, special_rule
from ..operators.elementwise import Elementwise
from ..operators.entry import lookup, public_name, store_out

__all__ = ["array_function", "array_ufunc"]

#: Operators with another name in NumPy or SciPy.
_NAMES = {
    "absolute": "abs",
    "deg2rad": "radians",
    "expit": "sigmoid",
    "less": "lesser",
    "less_equal": "lesser_equal",
    "log_expit": "log_sigmoid",
    "positive": "identity",
    "psi": "digamma",
    "rad2deg": "degrees",
    "remainder": "modulo",
}
#: Names with another meaning: scipy.special.round rounds halves to even.
_DIFFERENT_MEANING = {"round"}
_ALTERNATIVES: dict[Any, str] = {
    "append": "nd.concat",
    "average": "nd.mean",
    "bitwise_and": "nd.logical_and",
    "bitwise_or": "nd.logical_or",
    "bitwise_xor": "nd.logical_xor",
    "column_stack": "nd.concat and nd.stack",
    "dstack": "nd.concat and nd.stack",
    "eigvalsh": "nd.linalg.eigh",
    "exp2": "2**x",
    "float_power": "nd.power",
    "fmax": "nd.maximum",
    "fmin": "nd.minimum",
    "fmod": "nd.modulo",
    "hstack": "nd.concat",
    "invert": "nd.logical_not",
    "matrix_norm": "nd.norm",
    "svdvals": "nd.linalg.svd",
    "vector_norm": "nd.norm",
    "vstack": "nd.concat",
    ("add", "accumulate"): "nd.cumsum",
    ("add", "reduce"): "nd.sum",
    ("maximum", "reduce"): "nd.max",
    ("minimum", "reduce"): "nd.min",
    ("multiply", "accumulate"): "nd.cumprod",
    ("multiply", "reduce"): "nd.prod",
}


def _matmul(lhs, rhs) -> NDArray:
    return linear.matmul_operator(lhs, rhs) if isinstance(lhs, NDArray) else linear.matmul_reflected(rhs, lhs)


def _divmod(lhs, rhs) -> tuple[NDArray, NDArray]:
    return operators["floor_divide"].operator(lhs, rhs), operators["modulo"].operator(lhs, rhs)


_calls: dict[np.ufunc, Callable] = {np.matmul: _matmul, np.divmod: _divmod}


def _operator(ufunc: np.ufunc) -> Callable | None:
    """The operator in the registry for a ufunc of NumPy or SciPy; None if there is none."""
    known = _calls.get(ufunc)
    if known is not None:
        return known
    name = ufunc.__name__
    special = sys.modules.get("scipy.special")
    if name in _DIFFERENT_MEANING or not any(getattr(m, name, None) is ufunc for m in (np, special)):
        return None
    try:
        entry = lookup(_NAMES.get(name, name))
    except KeyError:
        in_table = name in SPECIAL and getattr(special, name, None) is ufunc
        return _calls.setdefault(ufunc, _special(name)) if in_table else None
    rule = entry.rule
    if not isinstance(rule, Elementwise) or len(rule.operands) != ufunc.nin or ufunc.nout != 1 or rule.params:
        return None
    return _calls.setdefault(ufunc, entry.operator)


def _special(name: str) -> Callable:
    """An elementwise function of ``scipy.special`` that is no operator of the registry."""
    rule = special_rule(name)

    def call(*inputs) -> NDArray:
        like = next(x._kind for x in inputs if isinstance(x, NDArray))
        return rule.apply([x if isinstance(x, NDArray) else from_value(x, like=like) for x in inputs])

    return call


def array_ufunc(self: NDArray, ufunc: np.ufunc, method: str, *inputs, **kwargs):
    """Implement ``__array_ufunc__``: call the operator of the same name.

    ``out`` may be an NDArray, or a NumPy array, which receives the values (also in ``a += x``). Other keywords, and
    methods such as ``numpy.add.reduce``, are not supported.

    Raises
    ------
    TypeError
        For a ufunc without an operator in nbgrad, and for keywords and methods.
    LostGradientError
        If a recorded result would be stored in a NumPy array, and its gradient lost.
    """
    if not kwargs and method == "__call__":
        call = _calls.get(ufunc) or _operator(ufunc)
        if call is not None:
            try:
                return call(*inputs)
            except DTypeError:
                if any(_has_own_ufuncs(x) for x in inputs):
                    return NotImplemented
                raise
    return _general(ufunc, method, inputs, kwargs)


def _has_own_ufuncs(x) -> bool:
    own = getattr(type(x), "__array_ufunc__", None)
    return own is not None and own is not np.ndarray.__array_ufunc__ and not isinstance(x, NDArray | np.generic)


def _general(ufunc: np.ufunc, method: str, inputs: tuple, kwargs: dict):
    """The protocol with keywords, and its errors."""
    name = f"numpy.{ufunc.__name__}" if getattr(np, ufunc.__name__, None) is ufunc else ufunc.__name__
    if method != "__call__":
        instead = _ALTERNATIVES.get((ufunc.__name__, method), "an operator of nd")
        raise DTypeError(f"{name}.{method} is not supported for an NDArray; use {instead}")
    call = _operator(ufunc)
    if call is None:
        instead = _ALTERNATIVES.get(ufunc.__name__, "operators of nd")
        raise DTypeError(
            f"{name} is no operator of nbgrad; use {instead}, or NumPy's on x.asnumpy(), which is not recorded"
        )
    for key in kwargs:
        if key != "out":
            raise DTypeError(f"{name}: keyword {key!r} is not supported for an NDArray; the only one is out")
    outs = kwargs.get("out", (None,) * ufunc.nout)
    if not any(isinstance(x, NDArray) for x in inputs):  # the only NDArray is out
        inputs = (from_value(inputs[0]), *inputs[1:])
    results = call(*inputs)
    if ufunc.nout == 1:
        return _store(results, outs[0], name)
    return tuple(_store(r, out, name) for r, out in zip(results, outs, strict=True))


def _store(result: NDArray, out, name: str):
    if out is None or isinstance(out, NDArray):
        return store_out(result, out, name)
    if carries_gradient(result):
        raise LostGradientError(
            f"{name}: the result is recorded, and in a NumPy array its gradient would be lost; "
            "use an NDArray (a = a + x instead of a += x), or x.detach()"
        )
    try:
        np.copyto(out, result._view(), casting="same_kind")
    except ValueError:
        raise ShapeError(
            f"{name}: a result of shape {result._shape} does not fit into out of shape {out.shape}"
        ) from None
    except TypeError:
        raise DTypeError(f"{name}: a result of dtype {result._kind.dtype} does not fit out's, {out.dtype}") from None
    return out


# Functions that are not ufuncs.

_REDUCE = "a | axis dtype out keepdims"
#: NumPy's function: our operator, and NumPy's parameters: operands | the rest, which has the same names in ours.
_FUNCTIONS = {
    "all": ("all", "a | axis out keepdims"),
    "amax": ("max", "a | axis out keepdims"),
    "amin": ("min", "a | axis out keepdims"),
    "any": ("any", "a | axis out keepdims"),
    "broadcast_to": ("broadcast_to", "array | shape"),
    "cumprod": ("cumprod", "a | axis dtype out"),
    "cumsum": ("cumsum", "a | axis dtype out"),
    "diag": ("diag", "v | k"),
    "dot": ("dot", "a b | out"),
    "expand_dims": ("expand_dims", "a | axis"),
    "fix": ("trunc", "x | out"),
    "linalg.cholesky": ("linalg_potrf", "a |"),
    "linalg.det": ("linalg_det", "a |"),
    "linalg.inv": ("linalg_inverse", "a |"),
    "linalg.pinv": ("linalg_pinv", "a |"),
    "linalg.solve": ("linalg_solve", "a b |"),
    "max": ("max", "a | axis out keepdims"),
    "mean": ("mean", _REDUCE),
    "median": ("median", "a | axis out overwrite_input keepdims"),
    "min": ("min", "a | axis out keepdims"),
    "moveaxis": ("moveaxis", "a | source destination"),
    "nanprod": ("nanprod", _REDUCE),
    "nansum": ("nansum", _REDUCE),
    "ones_like": ("ones_like", "a | dtype"),
    "outer": ("outer", "a b | out"),
    "prod": ("prod", _REDUCE),
    "repeat": ("repeat", "a | repeats axis"),
    "roll": ("roll", "a | shift axis"),
    "sinc": ("sinc", "x |"),
    "squeeze": ("squeeze", "a | axis"),
    "std": ("std", "a | axis dtype out ddof keepdims"),
    "sum": ("sum", _REDUCE),
    "tensordot": ("tensordot", "a b | axes"),
    "tile": ("tile", "A | reps"),
    "transpose": ("transpose", "a | axes"),
    "tril": ("tril", "m | k"),
    "triu": ("triu", "m | k"),
    "var": ("var", "a | axis dtype out ddof keepdims"),
    "zeros_like": ("zeros_like", "a | dtype"),
}


def _array(x, like: NDArray | None = None) -> NDArray:
    return x if isinstance(x, NDArray) else from_value(x, like=None if like is None else like._kind)


def _adapted(name: str, operator: str, parameters: str) -> Callable:
    """A function with NumPy's parameters that calls our operator."""
    operands, rest = (part.split() for part in parameters.split("|"))
    names = (*operands, *rest)

    def call(*args, **kwargs):
        arguments = dict(zip(names, args, strict=False)) | kwargs
        if len(args) > len(names) or any(n not in arguments for n in operands):
            raise DTypeError(f"numpy.{name}: for an NDArray, the arguments are {', '.join(names)}")
        arrays = [_array(arguments.pop(n)) for n in operands]
        arguments = {key: value for key, value in arguments.items() if value is not None}
        if "dtype" in arguments:
            arrays[0] = arrays[0].astype(arguments.pop("dtype"))
        return operators[operator].call(*arrays, **arguments)

    return call


def _concatenate(arrays, axis=0, out=None) -> NDArray:
    """``axis=None`` flattens the arrays, as in NumPy; so in all of these functions."""
    parts = [_array(x) for x in arrays]
    if axis is None:
        parts, axis = [_reshape(x, -1) for x in parts], 0
    return operators["concat"].call(*parts, axis=axis, out=out)


def _stack(arrays, axis=0, out=None) -> NDArray:
    return operators["stack"].call(*map(_array, arrays), axis=axis, out=out)


def _sort(a, axis=-1, kind=None, order=None, *, stable=None) -> NDArray:
    if order is not None:
        raise AttrError("numpy.sort: order is for arrays with fields, which an NDArray has not")
    return operators["sort"].call(_reshape(a, -1) if axis is None else a, axis=-1 if axis is None else axis)


def _take_along_axis(arr, indices, axis=-1) -> NDArray:
    arr = _array(arr)
    if axis is None:
        arr, axis = _reshape(arr, -1), 0
    return operators["take_along_axis"].call(arr, _array(indices), axis=axis)


def _where(condition, x, y) -> NDArray:
    condition, x, y = _array(condition), _array(x), _array(y)
    missing = max(x.ndim, y.ndim) - condition.ndim  # nd.where would align a 1-d condition with the first axis
    if condition.ndim == 1 and missing > 0:
        condition = condition.reshape((1,) * missing + condition.shape)
    return operators["where"].call(condition, x, y)


def _clip(a, a_min=None, a_max=None, out=None, *, min=None, max=None) -> NDArray:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    return operators["clip"].call(
        _array(a), a_min=-math.inf if low is None else low, a_max=math.inf if high is None else high, out=out
    )


def _reshape(a, shape, order="C", *, copy=None) -> NDArray:
    """NumPy's reshape: 0 is a length, and -1 is the only negative number allowed."""
    if order != "C" or copy is not None:
        raise AttrError("numpy.reshape: order='C' alone is supported for an NDArray, and no copy")
    wanted = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    known = math.prod(n for n in wanted if n != -1)
    free = wanted.count(-1)
    lengths = tuple(a.size // known if n == -1 and known else n for n in wanted)
    if free > 1 or min(lengths, default=0) < 0 or math.prod(lengths) != a.size:
        raise ShapeError(f"numpy.reshape: an array of shape {a.shape} cannot be given the shape {wanted}")
    return _to_shape(a, lengths)


def rounded(a, decimals=0, out=None) -> NDArray:
    """NumPy's round: to the nearest multiple of a power of ten; ties go to even."""
    digits = index(decimals)
    if not digits or not a._kind.dtype.is_float:
        if digits < 0:
            raise AttrError(f"round: integers need decimals of 0 or more, got {decimals!r}; use astype('float64')")
        return operators["rint"].call(a, out=out)
    power = 10.0 ** abs(digits)
    result = operators["rint"].call(a * power) / power if digits > 0 else operators["rint"].call(a / power) * power
    return store_out(result, out, "round")


def _take(a, indices, axis=None, out=None, mode="raise") -> NDArray:
    """NumPy's take: flattens by default, and negative indices count from the end."""
    x = _reshape(_array(a), -1) if axis is None else _array(a)
    return operators["take"].call(x, _array(indices, like=x), axis=axis or 0, mode=mode, out=out)


def _norm(x, ord=None, axis=None, keepdims=False) -> NDArray:
    if ord is not None:
        raise AttrError(f"numpy.linalg.norm: ord must be None for an NDArray, got {ord!r}; see nd.norm")
    return operators["norm"].call(x, axis=axis, keepdims=keepdims)


def _flip(m, axis=None) -> NDArray:
    return operators["flip"].call(m, axis=tuple(range(m.ndim)) if axis is None else axis)


def _einsum(subscripts, *operands, out=None, optimize=True) -> NDArray:
    return operators["einsum"].call(subscripts, *map(_array, operands), out=out, optimize=optimize)


def _split(ary, indices_or_sections, axis=0) -> list[NDArray]:
    return operators["split_v2"].call(ary, indices_or_sections, axis=axis)


def _memory(x):
    return x._view() if isinstance(x, NDArray) else x


_to_shape = shape.reshape
_functions: dict[Callable, Callable] = {
    np.around: rounded,
    np.clip: _clip,
    np.concatenate: _concatenate,
    np.copy: lambda a, order="K", subok=False: a.copy(),
    np.einsum: _einsum,
    np.flip: _flip,
    np.full_like: lambda a, fill_value, dtype=None: (
        operators["zeros_like"].call(a.astype(dtype or a.dtype)) + fill_value
    ),
    np.linalg.norm: _norm,
    np.may_share_memory: lambda a, b, max_work=None: np.may_share_memory(_memory(a), _memory(b), max_work),
    np.ndim: lambda a: a.ndim,
    np.ravel: lambda a, order="C": _reshape(a, -1, order),
    np.reshape: _reshape,
    np.round: rounded,
    np.shape: lambda a: a.shape,
    np.shares_memory: lambda a, b, max_work=None: np.shares_memory(_memory(a), _memory(b), max_work),
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.split: _split,
    np.sort: _sort,
    np.stack: _stack,
    np.swapaxes: lambda a, axis1, axis2: operators["swapaxes"].call(a, axis1, axis2),
    np.take: _take,
    np.take_along_axis: _take_along_axis,
    np.where: _where,
}
_functions.update(
    {attrgetter(name)(np): _adapted(name, *how) for name, how in _FUNCTIONS.items() if how[0] in operators}
)


#: Functions that write into their first argument; they would write into a copy.
_WRITERS = {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}


def array_function(self: NDArray, func: Callable, types, args: tuple, kwargs: dict):
    """Implement ``__array_function__``: our function if the table has it, else NumPy's on copies.

    Raises
    ------
    TypeError
        If a NumPy function would write into an NDArray; or, while recording, if it computes floats from an array that
        is on the tape: they would be constants, and gradients wrong.
    """
    call = _functions.get(func)
    if call is not None and not (func is np.where and len(args) < 3):
        return call(*args, **kwargs)
    out = kwargs.get("out")
    if func in _WRITERS and args:
        out = args[0]
    if isinstance(out, NDArray):
        raise DTypeError(
            f"numpy.{func.__name__} cannot write into an NDArray; assign to it (x[...] = ...), or use x.asnumpy()"
        )
    lost = state.recording and _any((args, kwargs), _recorded)
    if lost and out is not None:
        raise _lost(func)
    try:
        converted = _plain(args), _plain(kwargs)
    except TraceError:
        raise TraceError(
            f"{_name(func)} is no function of nbgrad, and asks for the numbers in an array of a traced function: under "
            f"jit there are none yet; use {_instead(func)}"
        ) from None
    result = func(*converted[0], **converted[1])
    if lost and _any(result, _has_floats):
        raise _lost(func)
    return result


def _lost(func: Callable) -> LostGradientError:
    return LostGradientError(
        f"{_name(func)} is no function of nbgrad: its result would be a constant, and gradients through it would be "
        f"lost; use {_instead(func)}, or call it with x.asnumpy() if a constant is meant"
    )


def _name(func: Callable) -> str:
    return f"{func.__module__}.{func.__name__}"


def _instead(func: Callable) -> str:
    return _ALTERNATIVES.get(func.__name__) or public_name(func.__name__) or "functions of nd"


def _any(x, holds: Callable) -> bool:
    """Whether `holds` for anything in nested lists, tuples and dicts."""
    if isinstance(x, dict):
        x = list(x.values())
    return any(_any(part, holds) for part in x) if isinstance(x, list | tuple) else holds(x)


def _recorded(x) -> bool:
    return isinstance(x, NDArray) and carries_gradient(x)


def _has_floats(x) -> bool:
    return isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "fc"


def _plain(x):
    """`x` with NumPy copies in place of NDArrays."""
    if isinstance(x, NDArray):
        return x.asnumpy()
    if type(x) in (list, tuple):
        return type(x)(map(_plain, x))
    return {key: _plain(value) for key, value in x.items()} if type(x) is dict else x


@register_typeof(NDArray)
def _refuse_typeof(x: NDArray, context: object) -> None:
    """Raise where Numba asks for the type of an NDArray: as an argument or a global of a compiled function."""
    raise DTypeError(
        f"a function that Numba compiles takes NumPy arrays, and was given an NDArray of shape {x._shape}; pass "
        "x.asnumpy(), of which nothing is recorded, or make the function an operation by nb.primitive, which "
        "differentiates its loops or takes a vjp; nb.adjoint differentiates a function of NumPy arrays itself"
    )
