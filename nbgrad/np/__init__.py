"""NumPy with gradients: arrays, functions and linear algebra under NumPy's names, with its shapes and dtypes.

>>> import nbgrad as nb
>>> import nbgrad.np as np
>>> def loss(x):
...     return np.sum(np.sin(x) ** 2)
>>> nb.grad(loss)(np.array([0.0, 0.5]))
array([0.        , 0.84147098])
"""

from __future__ import annotations

from functools import wraps as _wraps
from typing import TYPE_CHECKING, Any

import numpy as _numpy

from ..ir.graph import current as _current
from . import (
    applying,
    calculus,
    convolution,
    creation,
    files,
    lib,
    linalg,
    manipulation,
    parts,
    places,
    polynomials,
    products,
    random,
    reductions,
    selection,
    sets,
    standard,
    writing,
)
from .arrays import as_nd, as_np, ndarray
from .index_tricks import c_, mgrid, ogrid, r_, vectorize
from .methods import attach as _attach
from .traced_writes import mark_made as _mark_made
from .ufuncs import UFUNCS as _UFUNCS

__all__ = ["as_nd", "as_np", "geterr", "issubdtype", "iterable", "lib", "linalg", "min_scalar_type", "ndarray",
           "printoptions", "promote_types", "random", "set_printoptions", "seterr"]  # fmt: skip

e, euler_gamma, inf, nan, newaxis, pi = (
    _numpy.e,
    _numpy.euler_gamma,
    _numpy.inf,
    _numpy.nan,
    _numpy.newaxis,
    _numpy.pi,
)
bool_ = bool = _numpy.bool_
float16, float32, float64 = _numpy.float16, _numpy.float32, _numpy.float64
int8, int16, int32, int64 = _numpy.int8, _numpy.int16, _numpy.int32, _numpy.int64
uint8, uint16, uint32, uint64 = _numpy.uint8, _numpy.uint16, _numpy.uint32, _numpy.uint64
int_, intp, uint, half, single, double = _numpy.int_, _numpy.intp, _numpy.uint, float16, float32, float64
generic, number, inexact, floating = _numpy.generic, _numpy.number, _numpy.inexact, _numpy.floating
integer, signedinteger, unsignedinteger = _numpy.integer, _numpy.signedinteger, _numpy.unsignedinteger
s_, index_exp, ndindex, True_, False_ = _numpy.s_, _numpy.index_exp, _numpy.ndindex, _numpy.True_, _numpy.False_
dtype, errstate, finfo, iinfo = _numpy.dtype, _numpy.errstate, _numpy.finfo, _numpy.iinfo
broadcast_shapes = _numpy.broadcast_shapes
promote_types, issubdtype, min_scalar_type = _numpy.promote_types, _numpy.issubdtype, _numpy.min_scalar_type
printoptions, set_printoptions, iterable = _numpy.printoptions, _numpy.set_printoptions, _numpy.iterable
geterr, seterr = _numpy.geterr, _numpy.seterr


if TYPE_CHECKING:  # for type checkers, which do not see the names that are added below

    def __getattr__(name: str) -> Any: ...


_MODULES = (
    applying, creation, manipulation, selection, reductions, products, calculus, convolution, files, parts, places,
    polynomials, sets, standard, writing,
)  # fmt: skip


#: What the modules have for each other.
_INSIDE = {"Flat", "axis_of", "backwards", "expanded", "from_numpy_values", "part_of_convolution", "sliding_products",
           "together"}  # fmt: skip


def _marking(function: Any) -> Any:
    """`function`, whose results a traced function may write into."""

    @_wraps(function)
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        return result if _current.graph is None else _mark_made(result)

    return call


def _fill() -> None:
    names = globals()
    for module in _MODULES:
        for name in sorted({*module.__all__} - _INSIDE):
            function = getattr(module, name)
            names[name] = function = _marking(function) if module is creation else function
            __all__.append(name)
            if hasattr(_numpy, name) and "Parameters\n" not in function.__doc__ and "``numpy." not in function.__doc__:
                function.__doc__ += f"\n\nThe arguments are those of ``numpy.{name}``."
    names.update(_UFUNCS)
    __all__.extend(_UFUNCS)


_fill()


def shape(a: Any) -> tuple[int, ...]:
    """The lengths of the axes. As ``numpy.shape``."""
    return a.shape if isinstance(a, ndarray) else _numpy.shape(a)


#: The version of the Python array API standard whose functions of real numbers are here.
__array_api_version__ = "2025.12"


def __array_namespace_info__() -> standard.Info:
    """What there is, as the Python array API standard asks for it."""
    return standard.Info()


def isscalar(element: Any) -> Any:
    """Whether something is a number: Python's, NumPy's, or a single element of an array. As ``numpy.isscalar``."""
    return _numpy.isscalar(element) or (isinstance(element, ndarray) and not element.shape)


def ndim(a: Any) -> int:
    """The number of axes. As ``numpy.ndim``."""
    return len(shape(a))


def size(a: Any, axis: int | None = None) -> int:
    """The number of elements, or the length of an axis. As ``numpy.size``."""
    lengths = shape(a)
    return int(_numpy.prod(lengths, dtype=int)) if axis is None else lengths[axis]


_attach({n: f for n, f in globals().items() if not n.startswith("_")})
__all__ += [
    "False_",
    "True_",
    "bool_",
    "broadcast_shapes",
    "c_",
    "double",
    "dtype",
    "e",
    "errstate",
    "euler_gamma",
    "finfo",
    "float16",
    "float32",
    "float64",
    "floating",
    "generic",
    "half",
    "iinfo",
    "index_exp",
    "inexact",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "integer",
    "intp",
    "isscalar",
    "mgrid",
    "nan",
    "ndim",
    "ndindex",
    "newaxis",
    "number",
    "ogrid",
    "pi",
    "r_",
    "s_",
    "shape",
    "signedinteger",
    "single",
    "size",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
    "vectorize",
]  # fmt: skip
