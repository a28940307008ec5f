"""The functions of ``scipy.special`` that loops may call: its ufuncs, and the C functions behind them, which Numba
calls by their addresses."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...backends.numba.wrapped_functions import address_of_c_function
from ...ir.expr import Expr, Fn
from ...kernels import scalar as vm
from ..ir.functions import FUNCTIONS, ScalarFunction

__all__ = ["known_ufunc"]

#: The expressions of functions of scalars, by their names in ``scipy.special``.
_EXPRESSIONS: dict[str, Fn | Callable[..., Expr]] = {
    "betaln": vm.betaln, "cbrt": vm.cbrt, "digamma": vm.digamma, "erf": vm.erf, "erfc": vm.erfc,
    "erfcinv": vm.erfcinv, "erfcx": vm.erfcx, "erfinv": vm.erfinv, "expit": vm.sigmoid, "expm1": vm.expm1,
    "gamma": vm.gamma, "gammainc": vm.gammainc, "gammaincc": vm.gammaincc, "gammainccinv": vm.gammainccinv,
    "gammaincinv": vm.gammaincinv, "gammaln": vm.gammaln, "log1p": vm.log1p, "log_expit": vm.log_sigmoid,
    "log_ndtr": vm.log_ndtr, "ndtr": vm.ndtr, "ndtri": vm.ndtri, "psi": vm.digamma, "xlog1py": vm.xlog1py,
    "xlogy": vm.xlogy,
}  # fmt: skip
#: The types of their C functions, as Cython writes them.
_OF_DOUBLES = (b"double (double, int __pyx_skip_dispatch)", b"double (double, double, int __pyx_skip_dispatch)")
_Capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_Signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)


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
