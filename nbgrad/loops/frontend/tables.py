"""Lists of lists of numbers that are read and written by two indices: ``t = [[0.0] * m for _ in range(n)]`` and
``t[i][j] = v`` become an array of floats."""

from __future__ import annotations

import ast

import numpy as np

from .structured_control import with_location
from .syntax import Transformer, bound_name, own_nodes, stored_names, subtrees

__all__ = ["Tables"]


class Tables(Transformer):
    """Rewrites each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        made: dict[str, tuple[ast.Assign, ast.expr]] = {}
        uses: dict[str, int] = {}
        written: set[str] = set()
        for n in own_nodes(node):
            match n:
                case ast.Assign([ast.Name(id=name)], value) if (array := _array(value)) is not None:
                    made[name] = n, array
                case ast.Subscript(ast.Subscript(ast.Name(id=name), row), column, ctx):
                    if not isinstance(row, ast.Slice) and not isinstance(column, ast.Slice):
                        uses[name] = uses.get(name, 0) + 1
                        written |= {name} if isinstance(ctx, ast.Store) else set()
                case ast.Return(ast.Name(id=name)):
                    uses[name] = uses.get(name, 0) + 1
                case ast.Return(ast.Tuple(elts=items)):
                    for item in items:
                        if isinstance(item, ast.Name):
                            uses[item.id] = uses.get(item.id, 0) + 1
                case ast.Call(ast.Name("len"), [ast.Name(id=name) | ast.Subscript(ast.Name(id=name), ast.expr())], []):
                    uses[name] = uses.get(name, 0) + 1
        parameters = {n.arg for n in subtrees(node) if isinstance(n, ast.arg)} if made else set()
        stored = stored_names(node.body)
        for name, (s, array) in made.items():
            mentions = sum(isinstance(n, ast.Name) and n.id == name for n in subtrees(node))
            if name in written - parameters and stored.count(name) == 1 and mentions == uses[name] + 1:
                s.value = with_location(array, s)
        return node


def _array(value: ast.expr) -> ast.expr | None:
    """The array for a list of lists that is written out, or that repeats one number; None for other expressions."""
    match value:
        case ast.List(elts=rows) if rows and all(isinstance(r, ast.List) and r.elts for r in rows):
            inner = [e for r in rows for e in r.elts]  # type: ignore[attr-defined]
            if len({len(r.elts) for r in rows}) == 1 and not any(isinstance(e, ast.List | ast.Starred) for e in inner):  # type: ignore[attr-defined]
                floats = [ast.keyword("dtype", bound_name(np.float64, "np.float64"))]
                return ast.Call(bound_name(np.array, "np.array"), [value], floats)
        case ast.ListComp(element, [ast.comprehension(ast.Name(), ast.Call(ast.Name("range"), [count], []), [])]):
            match element:
                case ast.BinOp(ast.List([number]), ast.Mult(), length) if _is_number(number):
                    pass
                case ast.ListComp(
                    number, [ast.comprehension(ast.Name(), ast.Call(ast.Name("range"), [length], []), [])]
                ):
                    if not _is_number(number):
                        return None
                case _:
                    return None
            if isinstance(number, ast.Constant):
                number = ast.copy_location(ast.Constant(float(number.value)), number)  # type: ignore[arg-type]
            shape = ast.Tuple([count, length], ast.Load())
            return ast.Call(bound_name(np.full, "np.full"), [shape, number], [])
    return None


def _is_number(node: ast.expr) -> bool:
    """Whether it is a number that is written there, or infinity."""
    match node:
        case ast.Constant(bool()):
            return False
        case ast.UnaryOp(ast.USub(), inner):
            return _is_number(inner)
        case ast.Attribute(ast.Name(), "inf"):
            return True
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
