"""Arithmetic of indices: sums of a text and a constant."""

from __future__ import annotations

import ast

from .statements import parse, unparse

__all__ = ["distance", "joined", "length", "minus", "offset", "parts", "plus"]


def parts(index: ast.expr) -> list[ast.expr]:
    """An index along each axis."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def joined(places: list[ast.expr]) -> ast.expr:
    """The other way."""
    return ast.Tuple(places, ast.Load()) if len(places) > 1 else places[0]


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


def length(node: ast.expr) -> bool:
    """Whether it is how many elements an array has, and nothing is done to that: not ``i % x.size``."""
    match node:
        case ast.Attribute(value=ast.Name(), attr="size") | ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Subscript(value=ast.Attribute(value=ast.Name(), attr="shape"), slice=ast.Constant()):
            return True
    return False


def minus(a: ast.expr, b: ast.expr) -> ast.expr:
    if isinstance(b, ast.Constant):
        return plus(a, -b.value)  # type: ignore[operator, arg-type]
    return ast.BinOp(a, ast.Sub(), b)


def plus(node: ast.expr, k: int) -> ast.expr:
    """``node + k``, with constants added up."""
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
