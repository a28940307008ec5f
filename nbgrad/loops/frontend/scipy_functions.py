"""The functions of ``scipy.special`` that loops may call: its ufuncs, and the C functions behind them, which Numba
calls by their addresses."""

from __future__ import annotations

import ctypes
import importlib
import sys
from functools import cache
from typing import Any

import numpy as np

from ...backends.numba.wrapped_functions import address_of_c_function
from ...ir.expr import Fn
from ...kernels.special_functions import SPECIAL
from ..ir.functions import FUNCTIONS, ScalarFunction

__all__ = ["function_of_numpy", "known_ufunc"]

#: The functions of scalars that generated code calls, by their names in ``scipy.special``.
_EXPRESSIONS = {name: row.expression for name, row in SPECIAL.items() if isinstance(row.expression, Fn)}
#: The types of their C functions, as Cython writes them.
_OF_DOUBLES = tuple(f"double ({'double, ' * n}int __pyx_skip_dispatch)".encode() for n in (1, 2, 3))
_Capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_Signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)


#: The namespaces of arrays of this library, and those whose names they have.
_NAMESPACES = {"nbgrad.np": "numpy", "nbgrad.np.linalg": "numpy.linalg", "nbgrad.scipy.special": "scipy.special"}


def function_of_numpy(value: Any) -> Any:
    """NumPy's or SciPy's function for that of the same name in ``nbgrad.np`` or ``nbgrad.scipy.special``, which is for
    arrays of this library; other values as they are."""
    _, theirs = _functions_of_numpy(tuple([n for n in _NAMESPACES if n in sys.modules])).get(id(value), (value, value))
    return theirs


@cache
def _functions_of_numpy(namespaces: tuple[str, ...]) -> dict[int, tuple[Any, Any]]:
    """The functions of `namespaces` and those that they are named after, by the ids of the first: C functions are
    callable and have no hash."""
    found: dict[int, tuple[Any, Any]] = {}
    for own in namespaces:
        theirs = importlib.import_module(_NAMESPACES[own])
        functions = {n: f for n, f in vars(sys.modules[own]).items() if callable(f) and hasattr(theirs, n)}
        found |= {id(f): (f, getattr(theirs, n)) for n, f in functions.items()}
    return found


def known_ufunc(value: Any) -> Any:
    """The ufunc that a ufunc or C function of ``scipy.special`` is, with a row in the table of scalar functions; other
    values as they are."""
    if isinstance(value, np.ufunc):
        special: Any = sys.modules.get("scipy.special")
        name, number = value.__name__, value.nin
        if special is not None and name in _EXPRESSIONS and getattr(special, name, None) is value:
            row = ScalarFunction(_EXPRESSIONS[name], elementwise=True, arguments=(number, number))
            FUNCTIONS.setdefault(value, row)
        return value
    if (address := address_of_c_function(value)) is None:
        return value
    found = _names_by_address().get(address)
    return known_ufunc(getattr(sys.modules["scipy.special"], found)) if found else value


@cache
def _names_by_address() -> dict[int, str]:
    """The names of the C functions of doubles, by their addresses."""
    from scipy.special import cython_special

    pointer = _Capsule(("PyCapsule_GetPointer", ctypes.pythonapi))
    signature = _Signature(("PyCapsule_GetName", ctypes.pythonapi))
    found, capsules = {}, cython_special.__pyx_capi__
    for name in _EXPRESSIONS:
        for variant in (name, f"__pyx_fuse_0{name}", f"__pyx_fuse_1{name}"):  # Cython's names of those for one type
            kind = signature(capsules[variant]) if variant in capsules else b""
            if kind in _OF_DOUBLES:
                found[pointer(capsules[variant], kind)] = name
    return found
