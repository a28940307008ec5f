"""Affine index expressions of syntax trees; :mod:`..ir.affine` has those of terms."""

from __future__ import annotations

import ast

from .syntax import parse, unparse

__all__ = ["axis_indices", "distance", "is_array_length", "joined_index", "minus", "offset", "plus"]


def axis_indices(index: ast.expr) -> list[ast.expr]:
    """The index along each axis."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def joined_index(indices: list[ast.expr]) -> ast.expr:
    """The index for several axes: the inverse of :func:`axis_indices`."""
    return ast.Tuple(indices, ast.Load()) if len(indices) > 1 else indices[0]


def distance(a: ast.expr, b: ast.expr) -> int | None:
    """``a - b`` if it is a constant."""
    (name, p), (other, q) = offset(a), offset(b)
    return p - q if name == other else None


def offset(node: ast.expr) -> tuple[str, int]:
    """``i + 3`` as ("i", 3)."""
    match node:
        case ast.Constant(value=int() as n):
            return "", n
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as n)):
            return "", -n
        case ast.BinOp(left=rest, op=ast.Add(), right=ast.Constant(value=int() as n)):
            name, k = offset(rest)
            return name, k + n
        case ast.BinOp(left=ast.Constant(value=int() as n), op=ast.Add(), right=rest):
            name, k = offset(rest)
            return name, k + n
        case ast.BinOp(left=rest, op=ast.Sub(), right=ast.Constant(value=int() as n)):
            name, k = offset(rest)
            return name, k - n
    return unparse(node), 0


def is_array_length(node: ast.expr) -> bool:
    """Whether `node` is exactly an array length, such as ``x.shape[0]`` or ``len(x)``, and no expression of one."""
    match node:
        case ast.Attribute(value=ast.Name(), attr="size") | ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=ast.Constant()):
            return True
    return False


def minus(a: ast.expr, b: ast.expr) -> ast.expr:
    """``a - b``, with a constant `b` folded."""
    if isinstance(b, ast.Constant):
        return plus(a, -b.value)  # type: ignore[operator, arg-type]
    return ast.BinOp(a, ast.Sub(), b)


def plus(node: ast.expr, k: int) -> ast.expr:
    """``node + k``, with constants folded."""
    match node:
        case ast.Constant(value=int() as n):
            return _integer(n + k)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as n)):
            return _integer(k - n)
        case ast.BinOp(left=rest, op=ast.Add(), right=ast.Constant(value=int() as n)):
            return plus(rest, n + k)
        case ast.BinOp(left=rest, op=ast.Sub(), right=ast.Constant(value=int() as n)):
            return plus(rest, k - n)
    if k == 0:
        return node
    return ast.BinOp(node, ast.Add() if k > 0 else ast.Sub(), ast.Constant(abs(k)))


def _integer(n: int) -> ast.expr:
    return ast.Constant(n) if n >= 0 else parse(str(n))
