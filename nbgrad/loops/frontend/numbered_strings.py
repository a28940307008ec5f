"""Strings that branches choose when a function runs: numbers in the generated function.

``mode = "b" if n > 3 else "a"`` and later ``if mode == "a":``, where the name is only compared with strings and None.
It is applied on demand: a string that the source alone shows decides which branches are generated.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from .syntax import subtrees

__all__ = ["can_be_numbered", "number_strings"]


def can_be_numbered(node: ast.FunctionDef, name: str) -> bool:
    """Whether a function binds a name to strings and None alone, and only compares it with such."""
    if any(isinstance(n, ast.arg) and n.arg == name for n in subtrees(node)):
        return False
    inner = [n for s in node.body for n in subtrees(s) if isinstance(n, ast.FunctionDef | ast.Lambda)]
    if any(_mentions(f, name) for f in inner):
        return False
    numbering = _Numbering(name)
    numbering.visit(copy.deepcopy(node))
    return numbering.replaced == _mentions(node, name)


def number_strings(node: ast.FunctionDef, names: set[str]) -> ast.FunctionDef:
    """The function with numbers instead of the strings that names stand for, where that can be."""
    for name in sorted(names):
        if can_be_numbered(node, name):
            node = _Numbering(name).visit(copy.deepcopy(node))
    return node


class _Numbering(ast.NodeTransformer):
    """Replaces the strings that a name is bound to or compared with; `replaced` counts the places."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.numbers: dict[object, int] = {}
        self.replaced = 0

    def visit_Assign(self, s: ast.Assign) -> ast.AST | list[ast.AST]:
        mine = [t for t in s.targets if self._is_name(t)]
        if not mine or not all(map(_is_string, _choices(s.value))):
            return self.generic_visit(s)
        self.replaced += len(mine)
        others = [t for t in s.targets if t not in mine]  # as in a = b = "start"
        rest = [ast.copy_location(ast.Assign(others, copy.deepcopy(s.value)), s)] if others else []
        numbered = ast.copy_location(ast.Assign(mine, self._numbered(s.value)), s)
        return [self.generic_visit(one) for one in (*rest, numbered)]

    def visit_Compare(self, test: ast.Compare) -> ast.AST:
        left, right, op = test.left, test.comparators[0], test.ops[0]
        if len(test.ops) > 1 or not (self._is_name(left) or self._is_name(right)):
            return self.generic_visit(test)
        if isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) and (_is_string(left) or _is_string(right)):
            self.replaced += 1
            equal = ast.Eq() if isinstance(op, ast.Eq | ast.Is) else ast.NotEq()
            return ast.copy_location(ast.Compare(self._numbered(left), [equal], [self._numbered(right)]), test)
        listed = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else []
        if isinstance(op, ast.In | ast.NotIn) and listed and all(map(_is_string, listed)):
            self.replaced += 1
            items = ast.copy_location(ast.Tuple([self._numbered(x) for x in listed], ast.Load()), right)
            return ast.copy_location(ast.Compare(left, [op], [items]), test)
        return self.generic_visit(test)

    def _is_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.name

    def _numbered(self, node: ast.expr) -> ast.expr:
        """An expression with numbers instead of strings."""
        if isinstance(node, ast.IfExp):
            node.body, node.orelse = self._numbered(node.body), self._numbered(node.orelse)
        elif isinstance(node, ast.Constant):
            return ast.copy_location(ast.Constant(self.numbers.setdefault(node.value, len(self.numbers))), node)
        return node


def _choices(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that a conditional expression chooses from."""
    if isinstance(node, ast.IfExp):
        yield from (*_choices(node.body), *_choices(node.orelse))
    else:
        yield node


def _is_string(node: ast.expr) -> bool:
    """Whether a node is None or a string, without values in it that are not known."""
    return isinstance(node, ast.Constant) and (node.value is None or type(node.value) is str)


def _mentions(node: ast.AST, name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name for n in subtrees(node))
