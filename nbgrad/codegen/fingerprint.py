"""What compiled code depends on, as texts: the key of a stored kernel is made of them."""

from __future__ import annotations

import dis
import hashlib
import types
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from numba.core.dispatcher import Dispatcher

__all__ = ["of_function", "of_options", "of_value"]

#: Of functions looked at before: every kernel uses some of the same helpers.
_known: WeakKeyDictionary[Callable, str] = WeakKeyDictionary()


def of_function(function, within: tuple = ()) -> str:
    """A text that changes when the function, or anything it uses, changes. `within`: the functions that use it."""
    if function in within:
        return function.__name__
    found = _known.get(function)
    if found is None:
        text = _function_text(function, (*within, function))
        found = _known[function] = hashlib.sha256(text.encode()).hexdigest()
    return found


def _function_text(function, within: tuple) -> str:
    if function.__closure__:
        raise TypeError(f"{function.__name__}: a kernel must not be a closure; generate source instead")
    parts = [function.__name__, repr(function.__defaults__)]
    codes = [function.__code__]
    names: list[str] = []
    while codes:
        code = codes.pop()
        parts += [code.co_code.hex(), repr(code.co_varnames)]
        parts.append(repr(code.co_names))
        names += [i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"]
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                codes.append(const)
            else:
                parts.append(of_value(const, within))
    for name in dict.fromkeys(names):
        value = function.__globals__.get(name)
        parts.append(f"{name}={of_value(value, within)}")
    return ";".join(parts)


def of_options(options: dict) -> str:
    """The options as a text that is the same in every process."""
    return str(sorted((k, str(sorted(v) if isinstance(v, set) else v)) for k, v in options.items()))


def of_value(value, within: tuple = ()) -> str:
    if isinstance(value, Dispatcher):
        return of_options(value.targetoptions) + of_function(value.py_func, within)
    if hasattr(value, "bodies"):
        return "|".join(of_function(body, within) for body in value.bodies)
    if isinstance(value, types.FunctionType):
        return of_function(value, within)
    if hasattr(value, "_defn"):  # an intrinsic
        return of_function(value._defn, within)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if isinstance(value, set | frozenset):
        return repr(sorted(value, key=repr))
    if isinstance(value, types.ModuleType):
        return value.__name__
    return repr(value)
