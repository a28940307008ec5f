"""Primitives in functions that are differentiated: those of numbers, with rules of their own, are like other functions.

Generated files import them, and their rules, from here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba.core.errors import NumbaError

from ..codegen.compile import is_nopython, returned
from ..errors import TraceError
from ..expr import Fn
from .algebra import FUNCTIONS

__all__ = ["adopt", "home", "original"]

_rules: dict[Any, Callable] = {}


def original(called: Any) -> Any:
    """The function of which a primitive without a rule is made; anything else as it is."""
    return called.forward if _is_primitive(called) and called.vjp is None else called


def adopt(called: Any) -> None:
    """Put a primitive with a rule of its own among the functions that are known, if Numba compiled both for numbers."""
    if not _is_primitive(called) or _rules.get(called) is called.vjp:
        return
    if not (is_nopython(called.forward) and is_nopython(called.vjp)):
        return
    count = len(inspect.signature(called.forward.py_func).parameters)
    try:
        form = returned(called.forward, (1.0,) * count), returned(called.vjp, (1.0,) * (count + 2))
    except NumbaError:
        return
    parts = form[1] if isinstance(form[1], tuple) else (form[1],)
    if form[0] == "number" and len(parts) == count and set(parts) <= {"number", None}:
        FUNCTIONS[called] = FUNCTIONS[called.forward] = _function(called, parts, isinstance(form[1], tuple))
        _rules[called] = called.vjp


def home(name: str, helper: Any) -> str:
    """The module from which generated code imports a function."""
    return __name__ if globals().get(name) is helper else getattr(helper, "bodies", (helper,))[0].__module__


def _is_primitive(called: Any) -> bool:
    return all(hasattr(called, name) for name in ("forward", "vjp", "defvjp"))


def _function(called: Any, parts: tuple, several: bool) -> Fn:
    name = called.name if called.name.isidentifier() else "function"
    while name in globals() or f"{name}_vjp" in globals():
        name += "_"
    rule = f"{name}_vjp"
    globals()[name], globals()[rule] = called.forward, called.vjp
    slots = ", ".join(f"{{{k}}}" for k in range(len(parts)))

    def partials(*args):  # the arguments, and the value
        *given, y = args
        rules = [
            Fn(f"{rule}{k}", f"{rule}(1.0, {{0}}, {_shifted(len(parts))}){f'[{k}]' if several else ''}", _ended(rule),
               helpers={rule: called.vjp})
            for k in range(len(parts))
        ]  # fmt: skip
        found = tuple(r(y, *given) if part is not None else None for r, part in zip(rules, parts, strict=True))
        return found if len(found) > 1 else found[0]

    return Fn(name, f"{name}({slots})", partials, helpers={name: called.forward})


def _shifted(count: int) -> str:
    return ", ".join(f"{{{k + 1}}}" for k in range(count))


def _ended(rule: str) -> Callable:
    def partials(*args):
        raise TraceError(
            f"adjoint: {rule} has no derivative; let loops be differentiated, by a primitive without a vjp"
        )

    return partials
