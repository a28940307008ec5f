"""The errors that ``raise`` names, and their messages."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import TYPE_CHECKING

import numpy as np

from ...core.source_text import constant_source
from .static_values import static_text, static_value
from .syntax import unparse

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["error_text", "raised_error"]


def raised_error(low: Lowering, s: ast.Raise) -> str:
    """The name of the error that a statement raises. One of the user's that nothing catches is imported: it must be
    made as Python's are, and be found where it is defined."""
    kind = s.exc.func if isinstance(s.exc, ast.Call) else s.exc
    error = low.source.resolve(kind) if kind is not None else None
    if kind is None:
        raise low.source.refuse(s, "raise without an error", "raise one, with a string")
    if not (isinstance(error, type) and issubclass(error, Exception)):
        what = f"raise {unparse(kind)}, which is not known to be a class of errors (a subclass of Exception)"
        raise low.source.refuse(s, what, "name one of Python's, with a string")
    if error.__module__ == "builtins":
        return error.__name__
    if error is np.linalg.LinAlgError:
        low.shared.error_classes["np.linalg.LinAlgError"] = error
        return "np.linalg.LinAlgError"
    name = f"{error.__module__}.{error.__qualname__}"
    if not any(a.handler_of(error) is not None for a in low.shared.attempts):
        if (why := _why_not_raised(low, error, s.exc)) is not None:
            what = f"raise {unparse(kind)}, an error of your own {why}"
            raise low.source.refuse(s, what, "raise one of Python's, or this one from a function that calls it")
        name = low.names.imported(error.__name__, error, error)
    low.shared.error_classes[name] = error
    return name


def _why_not_raised(low: Lowering, error: type[Exception], raised: ast.expr | None) -> str | None:
    """Why generated code cannot raise an error of the user's, or None: it must be made as Python's are, and be found
    in its module: in that of a program another process, which loads the code, would not find it."""
    if getattr(sys.modules.get(error.__module__), error.__name__, None) is not error or error.__module__ == "__main__":
        return "that is not defined in a file that is imported"
    arguments = isinstance(raised, ast.Call) and bool(raised.args or raised.keywords)
    if arguments:
        text = static_value(low, raised.args[0]) if len(raised.args) == 1 and not raised.keywords else None  # type: ignore[union-attr]
        if text is None or not isinstance(text.value, str):
            return "with other arguments than one string"
    if any("__new__" in vars(c) for c in error.__mro__ if c.__module__ != "builtins"):
        return "with a __new__"
    if any("__init__" in vars(c) for c in error.__mro__ if c.__module__ != "builtins"):
        try:
            inspect.signature(error.__init__).bind(None, *["text"] * arguments)
        except TypeError:
            return "with an __init__ that takes other arguments than these"
    return None


def error_text(low: Lowering, args: list[ast.expr]) -> str:
    """The message of an error with these arguments; those that are not known are as they are written."""
    parts = []
    for a in args:
        known = static_text(low, a)
        parts.append(known or (str(a.value) if isinstance(a, ast.Constant) else unparse(a)))
        if len(args) > 1 and known:
            parts[-1] = constant_source(known)
    return f"({', '.join(parts)})" if len(args) > 1 else "".join(parts)
