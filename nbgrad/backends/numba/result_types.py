"""What compiled functions give: the types that Numba infers, for arguments like some values."""

from __future__ import annotations

import numba
from numba import types

from .compile_guard import run_uninterrupted

__all__ = ["result_form", "result_type"]


def result_form(function, args: tuple) -> object:
    """The form of a compiled function's result for `args`: "array", "number", None, a tuple of these, or a type."""
    return _form(result_type(function, args))


def result_type(function, args: tuple) -> types.Type:
    """Numba's type of a compiled function's result for arguments like `args`."""
    signature = tuple([numba.typeof(x) for x in args])
    run_uninterrupted(function.compile, signature)
    return function.overloads[signature].signature.return_type


def _form(kind: types.Type) -> object:
    if isinstance(kind, types.BaseTuple):
        return tuple([_form(part) for part in kind.types])
    known = {types.Array: "array", types.Number: "number", types.Boolean: "number", types.NoneType: None}
    return next((form for parent, form in known.items() if isinstance(kind, parent)), kind)
