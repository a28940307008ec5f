"""Tests whose outcome the kinds of arguments and constants tell, so that one branch alone is lowered."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.affine import offset
from .scope import UNCERTAIN
from .views import NUMBERS

if TYPE_CHECKING:
    from .scope import Scope

__all__ = ["decided"]

_COMPARE = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
            ast.Gt: operator.gt, ast.GtE: operator.ge}  # fmt: skip


def decided(low: Scope, node: ast.expr) -> bool | None:
    """Whether a test holds, if that is known: of numbers of axes, integers that never change, strings and None, and
    numbers from outside. (Numba leaves such branches out, too: nothing may depend on what they make.)"""
    match node:
        case ast.BoolOp():
            found = [decided(low, v) for v in node.values]
            ends = isinstance(node.op, ast.Or)
            return ends if ends in found else None if None in found else not ends
        case ast.UnaryOp(op=ast.Not()):
            inner = decided(low, node.operand)
            return None if inner is None else not inner
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            value = _constant(low, left)
            held = (
                isinstance(left, ast.Name)
                and (left.id not in low.texts)
                and (low.known_here(left.id) or left.id in low.functions)
            )
            return (
                isinstance(op, ast.IsNot)
                if held
                else None
                if value is _UNKNOWN
                else (value is None) == isinstance(op, ast.Is)
            )
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple(elts=elements)]):
            value, *others = (_constant(low, n) for n in (left, *elements))
            return None if _UNKNOWN in (value, *others) else (value in others) == isinstance(op, ast.In)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            a, b = _constant(low, left), _constant(low, right)
            alike = type(a) is type(b) or (isinstance(a, int | float) and isinstance(b, int | float))
            if a is _UNKNOWN or b is _UNKNOWN or not (alike or isinstance(op, ast.Eq | ast.NotEq)):
                return None
            return _COMPARE[type(op)](a, b)
        case ast.Name() | ast.Attribute() | ast.Constant():
            value = _constant(low, node)
            return bool(value) if isinstance(value, bool | int | float) else None
    return None


_UNKNOWN = object()


def _constant(low: Scope, node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub()):
            inner = _constant(low, node.operand)
            return -inner if isinstance(inner, int | float) else _UNKNOWN
        case ast.Attribute(attr="ndim"):
            return _rank(low, node.value)
        case ast.Call(args=[only]) if low.function_of(node.func) is np.ndim:
            return _rank(low, only)
        case ast.Name() if node.id in low.texts:
            return _UNKNOWN if low.texts[node.id] is UNCERTAIN else low.texts[node.id]
        case ast.Name() if low.known_here(node.id) and low.array(node) is None:
            known = low.shared.known.get(low.local(node))
            name, k = ("?", 0) if known is None else offset(known)
            return _UNKNOWN if name else k
        case ast.Name() | ast.Attribute():
            found = low.resolve(node)
            return (
                found.item()
                if isinstance(found, np.generic)
                else found
                if isinstance(found, (*NUMBERS, str))
                else _UNKNOWN
            )
    return _UNKNOWN


def _rank(low: Scope, node: ast.expr) -> Any:
    view = low.array(node)
    if view is not None:
        return view.rank
    number = isinstance(node, ast.Name) and low.known_here(node.id) and low.tuple_of(node) is None
    return 0 if number else _UNKNOWN
