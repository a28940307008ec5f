"""Statements that call ``print``: their strings stay, their values become operands (see :mod:`.print_lowering`)."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TYPE_CHECKING

from .function_table import MANY, lowers
from .messages import WithBuiltins, makes_text
from .structured_control import with_location
from .syntax import bound_name, subtrees

if TYPE_CHECKING:
    from .array_expressions import ArrayExpr
    from .calls import Calls

__all__ = ["PrintStatements", "parameter", "prints"]


def prints(*values: object) -> None:
    """What calls of ``print`` become: the source of the call, in which names stand for values, and the values."""


@lowers(prints, arguments=(1, MANY))
def _as_value(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    raise low.source.refuse(node, "print as a value", "call it as a statement of its own")


class PrintStatements(WithBuiltins):
    """Rewrites statements that call ``print``."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        called = any(isinstance(n, ast.Name) and n.id == "print" for n in subtrees(node))
        return super().visit_FunctionDef(node) if called else node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        match node.value:
            case ast.Call(func=ast.Name(id="print") as f, args=args, keywords=keywords) as call if (
                f.id in self.builtins
            ):
                wrong = [k.arg for k in keywords if k.arg not in ("sep", "end", "flush")]
                if wrong:
                    what = f"{wrong[0] or '**'} in {ast.unparse(call)}"
                    raise self.source.refuse(node, what, "print strings and values, with sep= and end=")
                template = _Template(self.builtins)
                parts = [template.of(a) for a in args]
                printed = ast.Call(call.func, parts, [ast.keyword(k.arg, template.of(k.value)) for k in keywords])
                operands = [ast.Constant(ast.unparse(ast.fix_missing_locations(printed))), *template.values]
                return with_location(ast.Expr(ast.Call(bound_name(prints, "print"), operands, [])), node)
        return node


class _Template:
    """An expression of texts, in which names stand for `values`."""

    def __init__(self, names: Collection[str]) -> None:
        self.values: list[ast.expr] = []
        self.names = names  # those of Python's own functions

    def value(self, node: ast.expr) -> ast.expr:
        self.values.append(node)
        return ast.Name(parameter(len(self.values) - 1), ast.Load())

    def of(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Constant():
                return node
            case ast.JoinedStr(values=parts):
                return ast.JoinedStr([self.of(p) for p in parts])
            case ast.FormattedValue():
                shape = None if node.format_spec is None else self.of(node.format_spec)
                return ast.FormattedValue(self.value(node.value), node.conversion, shape)
            case ast.BinOp(left=left, op=ast.Mod(), right=right) if _is_text(left, self.names):
                values = [self.of(e) for e in right.elts] if isinstance(right, ast.Tuple) else [self.of(right)]
                return ast.BinOp(self.of(left), node.op, ast.Tuple(values, ast.Load()))
            case ast.BinOp(left=left, right=right) if _is_text(node, self.names):
                return ast.BinOp(self.of(left), node.op, self.of(right))
            case ast.Call(func=ast.Name() as function, args=[value]) if makes_text(function, self.names):
                return ast.Call(function, [self.of(value)], [])
            case ast.Call(func=ast.Attribute(value=text, attr="format")) if _is_text(text, self.names):
                given = [ast.keyword(k.arg, self.of(k.value)) for k in node.keywords]
                filled = ast.Attribute(self.of(text), "format", ast.Load())
                return ast.Call(filled, [self.of(a) for a in node.args], given)
        return self.value(node)


def parameter(k: int) -> str:
    """The name that stands for a value."""
    return f"v{k}"


def _is_text(node: ast.expr, names: Collection[str]) -> bool:
    """Whether an expression is a string by its form."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, op=ast.Mod()):
            return _is_text(left, names)
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Mult()):
            return _is_text(left, names) or _is_text(right, names)
        case ast.Call(func=ast.Name() as function, args=[_]) if makes_text(function, names):
            return True
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return _is_text(text, names)
    return False
