"""Messages: strings with values in them, for errors. The value is not computed: its expression stays in the text."""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from .structured_control import with_location
from .syntax import Transformer, free_variables, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["STRING_METHODS", "Message", "Messages", "WithBuiltins", "makes_text", "method_of_string"]


#: The methods of strings that give a string or bool.
STRING_METHODS = frozenset({
    "capitalize", "casefold", "center", "endswith", "isalpha", "isdigit", "isidentifier", "islower", "isspace",
    "isupper", "ljust", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rjust", "rstrip", "startswith",
    "strip", "swapcase", "title", "upper", "zfill",
})  # fmt: skip


class Message(str):
    """The text of a string with values in it, which are not known when code is generated."""

    __slots__ = ()


class WithBuiltins(Transformer):
    """A transformer that knows which names stand for Python's own functions where it is."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.builtins = {n for n, f in vars(builtins).items() if source.outer_values.get(n) is f}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        around = self.builtins
        self.builtins = around & free_variables(node)
        self.generic_visit(node)
        self.builtins = around
        return node


def makes_text(function: ast.Name, names: Collection[str]) -> bool:
    """Whether a name is ``str`` or ``repr``, and among the `names` of Python's own functions."""
    return function.id in ("str", "repr") and function.id in names


class Messages(WithBuiltins):
    """Rewrite ``f"n is {n}"``, ``"n is %d" % n``, ``"n is {}".format(n)`` and ``"n is " + str(n)`` as messages."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        strings = any(
            isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and isinstance(n.value, str))
            for n in subtrees(node)
        )
        return super().visit_FunctionDef(node) if strings else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        parts = [n.value if isinstance(n, ast.Constant) else f"{{{ast.unparse(n.value)}}}" for n in node.values]  # type: ignore[attr-defined]
        return _message("".join(map(str, parts)), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = _text(node.left), _text(node.right)
        if isinstance(node.op, ast.Mod) and left is not None:
            return _message(left, node)
        if not isinstance(node.op, ast.Add) or (left is None and right is None):
            return node
        both = (left is not None and right is not None) and not {type(left), type(right)} & {Message}
        text = "".join(f"{{{ast.unparse(n)}}}" if t is None else t for n, t in ((node.left, left), (node.right, right)))
        return with_location(ast.Constant(text), node) if both else _message(text, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
                return _message(text, node)
            case ast.Call(func=ast.Name() as function, args=[value]) if makes_text(function, self.builtins):
                return _message(f"{{{ast.unparse(value)}}}", node)
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=Message() as text))):
                return _message(text, node)  # as its values are not known
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr=name), args=args):
                values = [a.value for a in args if isinstance(a, ast.Constant)]
                if len(values) == len(args) and (found := method_of_string(name, text, *values)) is not None:
                    return with_location(ast.Constant(found), node)
        return node


def method_of_string(name: str, text: object, *values: Any) -> str | bool | None:
    """What a method gives; None if it is not one of :data:`STRING_METHODS` of a known string."""
    if name in STRING_METHODS and isinstance(text, str) and not isinstance(text, Message) and None not in values:
        with contextlib.suppress(TypeError, ValueError):  # Numba and Python say what is wrong
            return getattr(text, name)(*values)
    return None


def _message(text: str, node: ast.AST) -> ast.AST:
    return with_location(ast.Constant(Message(text)), node)


def _text(node: ast.expr) -> Any:
    """The string or message that a node is; None for others."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
