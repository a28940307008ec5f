"""Functions that are operators, such as ``np.add``: the term of one element for each."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..ir.terms import ZERO, Binary, Compare, Constant, Global, Logical, Term, Unary
from ..runtime.conversions import as_float
from .array_expressions import ArrayExpr, combine
from .element_kinds import element_kind, sample_element
from .function_table import lowers
from .syntax import unparse

if TYPE_CHECKING:
    from .calls import Calls
    from .expressions import Expressions

__all__ = ["OPERATORS", "are_bools", "floats_for", "of_arrays_of_bools", "operation"]

_PI, _HALF_TURN = Global("math.pi", math.pi), Constant(180.0)


def _radians(angle: Term) -> Term:
    return Binary("*", angle, Binary("/", _PI, _HALF_TURN))


def _degrees(angle: Term) -> Term:
    return Binary("*", angle, Binary("/", _HALF_TURN, _PI))


def _compared(op: str) -> Callable[..., Term]:
    return lambda a, b: Compare((op,), (a, b))


def _joined(op: str) -> Callable[..., Term]:
    return lambda a, b: Logical(op, (a, b))


#: Functions that are operators, with the term of one element.
OPERATORS: dict[object, Callable[..., Term]] = {
    np.add: partial(Binary, "+"), np.subtract: partial(Binary, "-"), np.multiply: partial(Binary, "*"),
    np.divide: partial(Binary, "/"), np.remainder: partial(Binary, "%"), np.floor_divide: partial(Binary, "//"),
    np.negative: partial(Unary, "-"), **dict.fromkeys((np.positive, np.conj), partial(Unary, "+")),
    np.logical_not: partial(Unary, "not"),
    np.bitwise_and: partial(Binary, "&"), np.bitwise_or: partial(Binary, "|"), np.bitwise_xor: partial(Binary, "^"),
    np.invert: partial(Unary, "~"), np.left_shift: partial(Binary, "<<"), np.right_shift: partial(Binary, ">>"),
    np.less: _compared("<"), np.less_equal: _compared("<="), np.greater: _compared(">"),
    np.greater_equal: _compared(">="), np.equal: _compared("=="), np.not_equal: _compared("!="),
    np.logical_and: _joined("and"), np.logical_or: _joined("or"),
    math.radians: _radians, np.radians: _radians, np.deg2rad: _radians,
    math.degrees: _degrees, np.degrees: _degrees, np.rad2deg: _degrees,
}  # fmt: skip


def operation(low: Expressions, node: ast.expr, build: Callable[..., Term], args: list[ArrayExpr]) -> ArrayExpr:
    """The operator that `build` makes terms of. Of arrays of bools NumPy's ``+`` is "or" and ``*`` "and"; numbers are
    those of Numba, where they are integers."""
    known = isinstance(build, partial) and build.func in (Binary, Unary)
    op = build.args[0] if known and len(args) > (build.args[0] == "+") else ""  # type: ignore[attr-defined]
    return of_arrays_of_bools(low, node, op, args) or combine(build, args)


def are_bools(low: Expressions, node: ast.AST, op: str, args: Sequence[ArrayExpr]) -> bool:
    """Whether the operands of an operator are bools, by what is known, or what inference found in earlier attempts."""
    kinds, samples = {element_kind(low, a) for a in args}, tuple(map(sample_element, args))
    refused = low.source.refuse(
        node, "an operator on bools here and on numbers there", "use another name for each, or give the arrays a dtype"
    )
    if "" not in kinds or not kinds <= {"bool", ""}:
        low.lowered_function.operations.append((samples, kinds == {"bool"}, refused))
        return kinds == {"bool"}
    place = (*low.call_path, low.place_of(node), op)
    low.lowered_function.may_be_bools.append((place, samples, refused))
    of_bools = place in low.shared.findings.operations_on_bools
    low.lowered_function.operations.append((samples, of_bools, refused))
    return of_bools


def of_arrays_of_bools(low: Expressions, node: ast.AST, op: str, args: list[ArrayExpr]) -> ArrayExpr | None:
    """An operator, or "diff", of arrays of bools; None for other arrays, and other operators.

    Where kinds are not known yet, type inference tells, after which lowering begins again.
    """
    if op not in _OF_BOOLS or not any(a.rank for a in args):
        return None
    build = _OF_BOOLS[op]
    if build is None:  # type inference tells whether it is refused
        what, instead = f"{unparse(node)}, of bools", "write ~a, a ^ b, or .astype(np.int64) of the arrays"
        samples = tuple(map(sample_element, args))
        low.lowered_function.operations.append((samples, None, low.source.refuse(node, what, instead)))
        return None
    return combine(build, args) if are_bools(low, node, op, args) else None


#: What operators are of arrays of bools; None where NumPy has none.
_OF_BOOLS: dict[str, Callable[..., Term] | None] = {
    "+": _joined("or"), "*": _joined("and"), "-": None, "~": partial(Unary, "not"), "diff": _compared("!="),
}  # fmt: skip


def _operator(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    args = [low.array_like(a) for a in node.args]
    if called in (np.logical_and, np.logical_or):  # of numbers whether they are not 0
        args = [combine(_is_true, [a]) if element_kind(low, a) in ("float", "int") else a for a in args]
    return operation(low, node, OPERATORS[called], args)


def _is_true(number: Term) -> Term:
    return Compare(("!=",), (number, ZERO))


for _function in OPERATORS:
    _number = getattr(_function, "nin", 1)
    lowers(_function, arguments=(_number, _number))(_operator)
for _method in (np.ndarray.conj, np.ndarray.conjugate):
    lowers(_method, arguments=(1, 1), shares=True)(lambda low, node, called, hint: low.tree(node.args[0]))  # of reals


def floats_for(low: Expressions, function: object, args: list[ArrayExpr]) -> list[ArrayExpr]:
    """The operands of a function of SciPy's, whose arithmetic is that of floats, with integers as such."""
    if not isinstance(function, np.ufunc):
        return args
    return [a if low.kind_as_it_looks(a) == "float" else low.apply(as_float, [a]) for a in args]
