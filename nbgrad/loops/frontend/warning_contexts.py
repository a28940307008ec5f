"""Contexts about warnings, ``with np.errstate(...)`` and ``with warnings.catch_warnings()``, which become their bodies.

Compiled code does not warn, so what asks for no warnings changes nothing. What asks for an error is refused.
"""

from __future__ import annotations

import ast
import warnings

import numpy as np

from .canonical_form import Resolving
from .structured_control import with_location
from .syntax import subtrees

__all__ = ["WarningContexts"]

#: What NumPy may be told to do where a result is not finite, in code that does not look whether it is.
_QUIET = {"ignore", "warn", "print", "log"}
_FILTERS = {warnings.simplefilter, warnings.filterwarnings}


class WarningContexts(Resolving):
    """Rewrites contexts that are about warnings alone, and statements that set filters."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        concerned = any(isinstance(n, ast.With) for n in subtrees(node))
        return super().visit_FunctionDef(node) if concerned else node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        kept = [item for item in node.items if item.optional_vars is not None or not self._is_quiet(item.context_expr)]
        if len(kept) == len(node.items):
            return node
        node.items = kept
        return node if kept else node.body

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        match node.value:
            case ast.Call(func=function, args=[ast.Constant("ignore"), *_]) if self.called(function) in _FILTERS:
                return with_location(ast.Pass(), node)
        return node

    def _is_quiet(self, context: ast.expr) -> bool:
        if not isinstance(context, ast.Call) or context.args:
            return False
        called = self.called(context.func)
        if called is warnings.catch_warnings:
            return not context.keywords
        modes = [k.value.value if k.arg and isinstance(k.value, ast.Constant) else None for k in context.keywords]
        return called is np.errstate and bool(modes) and _QUIET.issuperset(modes)
