"""Terms of syntax trees: how the templates of functions enter the IR, and how terms spell operators."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .terms import (
    Binary,
    Call,
    Compare,
    Constant,
    DType,
    Element,
    Global,
    Item,
    Length,
    Logical,
    Prefix,
    Select,
    Shape,
    Term,
    Unary,
    Variable,
)

__all__ = ["BINARY", "COMPARE", "UNARY", "term_of_syntax"]

#: How terms spell the operators of syntax trees.
BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
           ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&"}  # fmt: skip
UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
#: What an attribute of an array is.
_OF_ARRAYS: dict[str, Callable[[str], Term]] = {"size": lambda a: Length(a, None), "shape": Shape, "dtype": DType}


def term_of_syntax(node: ast.expr, outside: Callable[[ast.expr], Global | None]) -> Term:
    """The term of a template, or of what a term was printed as.

    `outside` gives what is called by a name, and what an attribute of a module is; None for an attribute of an array.
    """

    def of(node: ast.expr) -> Term:
        match node:
            case ast.Name(id=name):
                return Variable(name)
            case ast.Constant(value=value):
                return Constant(value)  # type: ignore[arg-type]
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=array), attr="shape"), slice=ast.Constant(value=int(axis))
            ):
                return Length(array, axis)
            case ast.Subscript(value=ast.Name(id=array), slice=index):
                indices = index.elts if isinstance(index, ast.Tuple) else [index]
                if all(isinstance(i, ast.Slice) for i in indices):
                    return Prefix(array, tuple([of(i.upper) for i in indices]))  # type: ignore[attr-defined]
                return Element(array, tuple(map(of, indices)))
            case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int(number))):
                return Item(of(call), number)
            case ast.Attribute(value=ast.Name(id=array), attr=attribute):
                return outside(node) or _OF_ARRAYS[attribute](array)
            case ast.UnaryOp(op=op, operand=operand):
                return Unary(UNARY[type(op)], of(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return Binary(BINARY[type(op)], of(left), of(right))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return Compare(tuple([COMPARE[type(o)] for o in ops]), tuple(map(of, [left, *comparators])))
            case ast.BoolOp(op=op, values=values):
                return Logical("and" if isinstance(op, ast.And) else "or", tuple(map(of, values)))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return Select(of(test), of(body), of(orelse))
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=array)]):
                return Length(array, 0)
            case ast.Call(func=func, args=args, keywords=[]):
                function = outside(func)
                if function is not None:
                    return Call(function, tuple(map(of, args)))
        raise TypeError(f"{type(node).__name__} in lowered code: {ast.unparse(node)}")

    return of(node)
