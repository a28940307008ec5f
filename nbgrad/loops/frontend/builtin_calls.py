"""Python's built-in functions and operators, in the form that is lowered."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ..ir.names import Names
from .canonical_form import Resolving
from .function_table import is_known
from .structured_control import with_location
from .syntax import Replaced, bound_name, copy_tree, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["BuiltinCalls", "called_with"]


class BuiltinCalls(Resolving):
    """Rewrite ``map(f, x)`` as ``(f(v) for v in x)``, ``list(x)`` as ``[v for v in x]``, ``tuple(f(v) for v in x)`` as
    that list, ``sorted(x)`` as that of ``np.sort(x)``, and ``(n, *shape)`` as ``(n,) + shape``; assignments lose their
    annotations, and ``a, b = tuple(x)`` the tuple."""

    def __init__(self, source: Source, names: Names) -> None:
        super().__init__(source)
        self.names = names

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """``y: list[float] = []`` as ``y = []``."""
        plain = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
        return self.generic_visit(ast.copy_location(plain, node))

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        match node:
            case ast.Assign([ast.Tuple() | ast.List()], ast.Call(function, [of], [])):
                if self.called(function) in (tuple, list) and not isinstance(of, ast.Starred | ast.GeneratorExp):
                    node.value = of
        return self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """What is returned as a tuple stays one: how many items there are must be known."""
        match node.value:
            case ast.Call(function, [_], []) if self.called(function) is tuple:
                node.value.args = [self.visit(node.value.args[0])]
                return node
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """``(a / b)``, without effect but errors, as ``unused = a / b``."""
        self.generic_visit(node)
        if not isinstance(node.value, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.Name | ast.Subscript):
            return node
        return with_location(ast.Assign([ast.Name(self.names.fresh("unused"), ast.Store())], node.value), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """``10 ** -4`` as 0.0001, as Python's compiler has it."""
        self.generic_visit(node)
        match node:
            case ast.BinOp(ast.Constant(int(base)), ast.Pow(), ast.UnaryOp(ast.USub(), ast.Constant(int(power)))):
                if base and 0 < power < 400:
                    return ast.copy_location(ast.Constant(float(base) ** -power), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``a < b <= f(c)`` as ``a < b and b <= f(c)``: Python does not call f where the first test fails."""
        self.generic_visit(node)
        if all(map(_is_plain, node.comparators[1:])):
            return node
        tests: list[ast.expr] = []
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            last = right is node.comparators[-1]
            if last or self.is_repeatable(right):
                tests.append(ast.Compare(left, [op], [right]))
                left = copy_tree(right)
            else:
                name = self.names.fresh("compared")
                tests.append(ast.Compare(left, [op], [ast.NamedExpr(ast.Name(name, ast.Store()), right)]))
                left = ast.Name(name, ast.Load())
        return with_location(ast.BoolOp(ast.And(), tests), node)

    def is_repeatable(self, node: ast.expr) -> bool:
        """Whether a second evaluation gives the same and changes nothing: it calls functions of the table alone."""
        for n in subtrees(node):
            if isinstance(n, ast.NamedExpr | ast.Lambda | ast.ListComp | ast.GeneratorExp):
                return False
            if isinstance(n, ast.Call) and not is_known(self.called(n.func)):
                return False
        return True

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = self.called(node.func)
        known = any(called is f for f in (map, list, tuple, sorted, reversed))
        if not known or any(isinstance(a, ast.Starred) for a in node.args):
            return node
        match called, node.args, node.keywords:
            case builtins.map, [function, *of], [] if of:
                values = [self.names.fresh("v") for _ in of]
                made = self.comprehension(ast.GeneratorExp, called_with(function, values), values, of)
            case builtins.list | builtins.tuple, [ast.GeneratorExp() | ast.ListComp() as inner], []:
                made = ast.ListComp(inner.elt, inner.generators)
            case builtins.reversed, [ast.ListComp(ast.Name(v), [ast.comprehension(ast.Name(w), of)])], [] if v == w:
                made = ast.Call(node.func, [of], [])
            case builtins.list | builtins.tuple, [of], []:
                made = self.items(of)
            case builtins.sorted, [of], [] | [ast.keyword(arg="reverse", value=ast.Constant(value=True | False))]:
                if isinstance(of, ast.List | ast.Tuple | ast.GeneratorExp):
                    of = ast.Call(bound_name(np.array, "np.array"), [of], [])
                made = ast.Call(bound_name(np.sort, "np.sort"), [of], [])
                if node.keywords and node.keywords[0].value.value:  # type: ignore[attr-defined]
                    backwards = ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
                    made = ast.Subscript(made, backwards, ast.Load())
                made = self.items(made)
            case _:
                return node
        return with_location(made, node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or not any(isinstance(e, ast.Starred) for e in node.elts):
            return node
        parts = [e.value if isinstance(e, ast.Starred) else ast.Tuple([e], ast.Load()) for e in node.elts]
        made = reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), [ast.Tuple([], ast.Load()), *parts])
        return with_location(made, node)

    def items(self, of: ast.expr) -> ast.expr:
        """``[v for v in of]``."""
        value = self.names.fresh("v")
        return self.comprehension(ast.ListComp, ast.Name(value, ast.Load()), [value], [of])

    def comprehension(self, kind: Callable, element: ast.expr, names: list[str], over: list[ast.expr]) -> ast.expr:
        """A comprehension over several iterables at once."""
        targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names]
        if len(names) == 1:
            return kind(element, [ast.comprehension(targets[0], over[0], [], 0)])
        zipped = ast.Call(bound_name(zip, "zip"), over, [])
        return kind(element, [ast.comprehension(ast.Tuple(targets, ast.Store()), zipped, [], 0)])


def _is_plain(node: ast.expr) -> bool:
    """Whether an operand may be evaluated twice, or where Python does not evaluate it: it calls nothing and cannot
    raise an error."""
    safe = (ast.Name, ast.Constant, ast.UnaryOp, ast.BinOp, ast.Attribute, ast.expr_context, ast.unaryop, ast.operator)
    wrong = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.MatMult)
    return all(isinstance(n, safe) and not isinstance(n, wrong) for n in ast.walk(node))


def called_with(function: ast.expr, names: list[str]) -> ast.expr:
    """The call of a function with these variables; of a lambda, its body."""
    if isinstance(function, ast.Lambda):
        a, inner = function.args, [n for n in subtrees(function.body) if isinstance(n, ast.arg)]
        plain = not (inner or a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults)
        if plain and len(a.args) == len(names):
            return Replaced(dict(zip([p.arg for p in a.args], names, strict=True))).visit(function.body)
    return ast.Call(function, [ast.Name(n, ast.Load()) for n in names], [])
