"""Whether numbers are floats, integers or truth values, as far as storing them asks."""

from __future__ import annotations

import ast
import math

from .algebra import PASSIVE
from .ir import Assign, Function, walk
from .subset import Source

__all__ = ["infer"]

_ORDER = ["bool", "int", "float"]


def infer(f: Function, source: Source) -> None:
    """Fill in the kinds of the numbers in `f`; a name that gets several has the widest."""
    for name, value in f.constants.items():
        f.kinds[name] = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    assigned = [s for s in walk(f.body) if isinstance(s, Assign)]
    grew = True
    while grew:
        grew = False
        for s in assigned:
            kind = _kind(s.value, f, source)
            known = f.kinds.get(s.name, "bool")
            widest = max(kind, known, key=_ORDER.index)
            if f.kinds.get(s.name) != widest:
                f.kinds[s.name] = widest
                grew = True


def _kind(node: ast.expr, f: Function, source: Source) -> str:
    match node:
        case ast.Constant():
            return "bool" if isinstance(node.value, bool) else "int" if isinstance(node.value, int) else "float"
        case ast.Name():
            return f.kinds.get(node.id, "bool")
        case ast.Subscript():
            return f.kinds[node.value.id] if isinstance(node.value, ast.Name) else "int"
        case ast.Attribute():
            return "int" if node.attr in ("size", "ndim") else "float"
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return "bool"
        case ast.UnaryOp():
            return max("int", _kind(node.operand, f, source), key=_ORDER.index)
        case ast.BinOp():
            if isinstance(node.op, ast.Div):
                return "float"
            return max("int", _kind(node.left, f, source), _kind(node.right, f, source), key=_ORDER.index)
        case ast.IfExp():
            return max(_kind(node.body, f, source), _kind(node.orelse, f, source), key=_ORDER.index)
        case ast.Call():
            called = source.resolve(node.func)
            if isinstance(node.func, ast.Name) and node.func.id in ("abs", "min", "max"):
                return max((_kind(a, f, source) for a in node.args), key=_ORDER.index)
            return "int" if called in PASSIVE and called in (int, len, math.floor, math.ceil, math.trunc) else "float"
    return "float"
