"""Primitives in functions that are differentiated: those of numbers, with rules of their own, are like other functions.

Generated files import them, and their rules, from here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any

from numba.core.errors import NumbaError

from ..codegen.compile import is_nopython, returned
from ..errors import TraceError
from ..expr import Fn
from .algebra import FUNCTIONS

__all__ = ["adopted", "home"]

_rules: dict[Any, Callable] = {}  # of the primitives that were looked at
_primitives: dict[Any, Any] = {}  # by the functions of which they are made


def adopted(called: Any, module: str) -> Any:
    """What a function stands for in what is differentiated: of a primitive without a rule, what it is made of.

    A primitive with a rule is put among the functions that are known, if Numba compiled both for numbers. In a `module`
    that was generated, the function of which it is made stands for it.
    """
    if isinstance(called, Hashable) and module.startswith("nbgrad_"):
        return _primitives.get(called, called)
    if not all(hasattr(called, name) for name in ("forward", "vjp", "defvjp")):
        return called
    if called.vjp is None:
        return called.forward
    if _rules.get(called) is not called.vjp:
        _rules[called] = called.vjp
        _adopt(called)
    return called


def _adopt(called: Any) -> None:
    FUNCTIONS.pop(called, None)
    if not (is_nopython(called.forward) and is_nopython(called.vjp)):
        return
    count = len(inspect.signature(called.forward.py_func).parameters)
    try:
        form = returned(called.forward, (1.0,) * count), returned(called.vjp, (1.0,) * (count + 2))
    except NumbaError:
        return
    parts = form[1] if isinstance(form[1], tuple) else (form[1],)
    if form[0] == "number" and len(parts) == count and set(parts) <= {"number", None}:
        FUNCTIONS[called] = _function(called, parts, isinstance(form[1], tuple))
        _primitives[called.forward] = called


def home(name: str, helper: Any) -> str:
    """The module from which generated code imports a function."""
    return __name__ if globals().get(name) is helper else getattr(helper, "bodies", (helper,))[0].__module__


def _function(called: Any, parts: tuple, several: bool) -> Fn:
    name = called.name if called.name.isidentifier() else "function"
    while name in globals() or f"{name}_vjp" in globals():
        name += "_"
    rule = f"{name}_vjp"
    globals()[name], globals()[rule] = called.forward, called.vjp
    slots = ", ".join(f"{{{k}}}" for k in range(len(parts)))

    arguments = ", ".join(f"{{{k}}}" for k in range(1, len(parts) + 1))
    rules = [
        part and Fn(f"{rule}{k}", f"{rule}(1.0, {{0}}, {arguments}){f'[{k}]' if several else ''}", _ended(rule),
                    helpers={rule: called.vjp})
        for k, part in enumerate(parts)
    ]  # fmt: skip

    def partials(*args):  # the arguments, and the value
        *given, y = args
        found = tuple(r and r(y, *given) for r in rules)
        return found if len(found) > 1 else found[0]

    return Fn(name, f"{name}({slots})", partials, helpers={name: called.forward})


def _ended(rule: str) -> Callable:
    def partials(*args):
        raise TraceError(
            f"adjoint: {rule} has no derivative; let loops be differentiated, by a primitive without a vjp"
        )

    return partials
