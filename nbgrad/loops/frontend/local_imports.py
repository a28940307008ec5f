"""Imports inside of a function: names that are bound to modules, or to what is in them, as names from outside are."""

from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING, Any

from .structured_control import with_location
from .syntax import subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["take_imports"]


def take_imports(source: Source, function: ast.FunctionDef, package: str) -> dict[str, object]:
    """What the imports among the statements of a function bind; they are taken out of it."""
    bound: dict[str, object] = {}
    for k, s in enumerate(function.body):
        if isinstance(s, ast.Import | ast.ImportFrom):
            for alias in s.names:
                name, value = _imported(source, s, alias, package)
                _require_alone(source, s, function, name)
                if bound.setdefault(name, value) is not value:
                    raise source.refuse(s, f"{name}, which is imported as two things", "use two names")
            function.body[k] = with_location(ast.Pass(), s)
    return bound


def _imported(source: Source, s: ast.Import | ast.ImportFrom, alias: ast.alias, package: str) -> tuple[str, Any]:
    """The name that an import binds, and to what."""
    try:
        if isinstance(s, ast.Import):
            top = __import__(alias.name)  # of numpy.linalg, numpy
            return (alias.asname, importlib.import_module(alias.name)) if alias.asname else (top.__name__, top)
        module = importlib.import_module("." * s.level + (s.module or ""), package)
        if not hasattr(module, alias.name):
            importlib.import_module(f"{module.__name__}.{alias.name}")
        return alias.asname or alias.name, getattr(module, alias.name)
    except ImportError as err:
        raise source.refuse(s, f"an import that fails ({err})", "import what can be found") from None


def _require_alone(source: Source, s: ast.stmt, function: ast.FunctionDef, name: str) -> None:
    """Refuse a name that is also set, or read before it is imported."""
    for n in subtrees(function):
        match n:
            case ast.Name(id=other, ctx=ast.Store()) | ast.arg(arg=other) | ast.FunctionDef(name=other):
                if other == name and n is not function:
                    raise source.refuse(s, f"{name}, which is imported and also something else", "use two names")
        if isinstance(n, ast.Name) and n.id == name and n.lineno < s.lineno:
            raise source.refuse(s, f"{name}, which is read before it is imported", "import it before")
