"""NumPy's functions that are operators, such as ``np.add``."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

import numpy as np

from .syntax import parse

__all__ = ["OPERATORS"]


def _binary(op: type[ast.operator]) -> Callable[..., ast.expr]:
    return lambda a, b: ast.BinOp(a, op(), b)


def _times(factor: str) -> Callable[..., ast.expr]:
    return lambda a: ast.BinOp(a, ast.Mult(), parse(f"({factor})"))


def _compared(op: type[ast.cmpop]) -> Callable[..., ast.expr]:
    return lambda a, b: ast.Compare(a, [op()], [b])


#: Functions that are operators: the function object to the function that builds the syntax tree for one element.
OPERATORS: dict[object, Callable[..., ast.expr]] = {
    np.add: _binary(ast.Add), np.subtract: _binary(ast.Sub), np.multiply: _binary(ast.Mult),
    np.divide: _binary(ast.Div), np.remainder: _binary(ast.Mod), np.floor_divide: _binary(ast.FloorDiv),
    np.negative: lambda a: ast.UnaryOp(ast.USub(), a), np.positive: lambda a: ast.UnaryOp(ast.UAdd(), a),
    np.less: _compared(ast.Lt), np.less_equal: _compared(ast.LtE), np.greater: _compared(ast.Gt),
    np.greater_equal: _compared(ast.GtE), np.equal: _compared(ast.Eq), np.not_equal: _compared(ast.NotEq),
    np.logical_and: lambda a, b: ast.BoolOp(ast.And(), [a, b]),
    np.logical_or: lambda a, b: ast.BoolOp(ast.Or(), [a, b]),
    np.logical_not: lambda a: ast.UnaryOp(ast.Not(), a),
    math.radians: _times("math.pi / 180.0"), np.radians: _times("math.pi / 180.0"),
    np.deg2rad: _times("math.pi / 180.0"), math.degrees: _times("180.0 / math.pi"),
    np.degrees: _times("180.0 / math.pi"), np.rad2deg: _times("180.0 / math.pi"),
}  # fmt: skip
