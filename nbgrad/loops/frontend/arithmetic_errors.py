"""Errors of arithmetic: what numbers raise in Python, where a ``try`` catches it.

Divisions by zero are errors, as they are in Python and Numba, those of elements of arrays, too, as in Numba. Functions
of ``math`` raise errors outside of their domains; in a function that Numba compiles they give NaN and infinities, as
they do there. Functions and expressions of arrays raise none. Where nothing catches an error, there is no check, and
divisions give infinities.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ir.affine import distance, offset, plus
from ..ir.names import called, literal
from ..ir.statements import Check
from ..ir.terms import ZERO, Binary, Compare, Constant, Logical, Term, Unary, Variable
from .array_expressions import Scalar
from .function_table import DEFINITIONS, MODULES
from .integer_bounds import name_of
from .syntax import unparse

if TYPE_CHECKING:
    from .array_expressions import ArrayExpr
    from .expressions import Expressions

__all__ = ["check_call", "check_division", "index_may_raise", "refuse_unknown_errors"]

Checks = list[tuple[type, Term]]


def check_division(low: Expressions, node: ast.expr, operands: list[ArrayExpr]) -> list[ArrayExpr]:
    """Before a division, or a power, of numbers: check that it raises no error; the operands, named where they are
    tested."""
    op = node.op if isinstance(node, ast.BinOp) and low.shared.attempts else None
    if not isinstance(op, _DIVISIONS | ast.Pow) or any(t.rank for t in operands):
        return operands
    if isinstance(op, ast.Pow):
        return operands if low.as_compiled else _checked(low, operands, _power_in_python)
    return operands if low.source.divides_as_numpy else _checked(low, operands, _division)


_DIVISIONS = ast.Div | ast.FloorDiv | ast.Mod


def check_call(low: Expressions, function: object, operands: list[ArrayExpr]) -> list[ArrayExpr]:
    """Before a call of a function of numbers: check that its operands are in its domain; the operands, named where they
    are tested."""
    rule = _DOMAINS.get(function) if low.shared.attempts and not low.as_compiled else None
    return operands if rule is None or any(t.rank for t in operands) else _checked(low, operands, rule)


def index_may_raise(low: Expressions, index: Term | None, size: Term) -> bool:
    """Whether an error for this index, None for one that is not known, would be caught, and may be raised, as far as
    the ranges of counters tell."""
    if not low.shared.attempts or not _is_caught(low, IndexError):
        return False
    if index is None:
        return True
    base, k = offset(index)
    least, most = low.shared.ranges.get(name_of(base), (None, None)) if base is not None else (ZERO, ZERO)
    if least is None or most is None or not low.nonnegative(plus(least, k)):
        return True
    beyond = distance(plus(most, k), size)
    return beyond is None or beyond >= 0


def _checked(low: Expressions, operands: list[ArrayExpr], rule: Callable[..., Checks]) -> list[ArrayExpr]:
    """Emit the checks of `rule` whose errors are caught."""
    if low.source.module in MODULES:  # NumPy's functions raise no such errors
        return operands
    terms = [t.term for t in operands]  # type: ignore[attr-defined]
    caught = [error for error, test in rule(*terms) if _is_caught(low, error) and not _never(low, test)]
    if not caught:
        return operands
    terms = [low.name_or_constant(t) for t in terms]
    for error, test in rule(*terms):
        if error in caught:
            low.emit(Check(test, f"{error.__name__}, as Python raises it", error.__name__))
    return [Scalar(t) for t in terms]


def _is_caught(low: Expressions, error: type) -> bool:
    return any(a.handler_of(error) is not None for a in low.shared.attempts)


def _never(low: Expressions, test: Term) -> bool:
    """Whether a test of constants never holds."""
    if not isinstance(test, Compare) or len(test.ops) > 1:
        return False
    a, b = (_number(low, t) for t in test.operands)
    return a is not None and b is not None and not _COMPARE[test.ops[0]](a, b)


_COMPARE = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le}


def _number(low: Expressions, t: Term) -> float | None:
    """The value of a constant."""
    match t:
        case Constant(value=int() | float() as value):
            return value
        case Unary("-", operand):
            inner = _number(low, operand)
            return None if inner is None else -inner
        case Variable(name) if isinstance(value := low.lowered_function.constants.get(name), int | float | np.number):
            return float(value)
    return None


def _less(a: Term, b: Term) -> Term:
    return Compare(("<",), (a, b))


def _at_most(a: Term, b: Term) -> Term:
    return Compare(("<=",), (a, b))


def _equal(a: Term, b: Term) -> Term:
    return Compare(("==",), (a, b))


def _all(*tests: Term) -> Term:
    return Logical("and", tests)


def _number_term(value: float) -> Term:
    return literal(float(value))


_INFINITY = literal(math.inf)


def _infinite(x: Term) -> Term:
    return _equal(called(abs, x), _INFINITY)


def _finite(x: Term) -> Term:
    return _less(called(abs, x), _INFINITY)


def _whole(x: Term) -> Term:
    return _equal(x, called(np.floor, x))


def _domain(outside: Callable[..., Term]) -> Callable[..., Checks]:
    """The checks of a function with a domain."""
    return lambda *operands: [(ValueError, outside(*operands))]


def _overflow(limit: float) -> Callable[[Term], Checks]:
    """The checks of a function that overflows above a `limit`."""
    return lambda x: [(OverflowError, _all(_less(_number_term(limit), x), _less(x, _INFINITY)))]


def _division(_: Term, divisor: Term) -> Checks:
    return [(ZeroDivisionError, _equal(divisor, ZERO))]


def _power(a: Term, b: Term, error: type) -> Checks:
    """Powers of 0 with negative exponents, and of finite numbers that are too large."""
    exponent = b.value if isinstance(b, Constant) else None
    checks: Checks = []
    if exponent is None:
        checks.append((error, _all(_equal(a, ZERO), _less(b, ZERO), _less(Unary("-", _INFINITY), b))))
    if exponent not in (0, 1):
        size = called(abs, Binary("**", called(float, a), b))
        finite = [_finite(a)] if exponent is not None else [_finite(a), _finite(b)]
        checks.append((OverflowError, _all(_less(ZERO, called(abs, a)), *finite, _equal(size, _INFINITY))))
    return checks


def _power_in_python(a: Term, b: Term) -> Checks:
    return _power(a, b, ZeroDivisionError)


def _power_of_math(a: Term, b: Term) -> Checks:
    root = _all(_less(a, ZERO), _finite(a), _finite(b), Compare(("!=",), (b, called(np.floor, b))))
    return [*_power(a, b, ValueError), (ValueError, root)]


def _gamma(x: Term) -> Checks:
    poles = _all(_at_most(x, ZERO), _whole(x))  # -inf included
    near = _all(_less(ZERO, called(abs, x)), _less(called(abs, x), _number_term(5.562684646268004e-309)))
    return [(ValueError, poles), *_overflow(171.6243769563027)(x), (OverflowError, near)]


def _log_gamma(x: Term) -> Checks:
    poles = _all(_at_most(x, ZERO), _finite(x), _whole(x))
    return [(ValueError, poles), *_overflow(2.5599833278516383e305)(x)]


def _remainder(x: Term, y: Term) -> Checks:
    return [(ValueError, _all(_infinite(x), _equal(y, y))), (ValueError, _all(_equal(y, ZERO), _equal(x, x)))]


def _to_integer(x: Term, *_: Term) -> Checks:
    return [(ValueError, Compare(("!=",), (x, x))), (OverflowError, _infinite(x))]


#: When functions of Python raise an error.
_DOMAINS: dict[object, Callable[..., Checks]] = {
    math.sqrt: _domain(lambda x: _less(x, ZERO)),
    **dict.fromkeys((math.log, math.log2, math.log10), _domain(lambda x: _at_most(x, ZERO))),
    math.log1p: _domain(lambda x: _at_most(x, _number_term(-1))),
    **dict.fromkeys((math.asin, math.acos), _domain(lambda x: _less(_number_term(1), called(abs, x)))),
    math.acosh: _domain(lambda x: _less(x, _number_term(1))),
    math.atanh: _domain(lambda x: _at_most(_number_term(1), called(abs, x))),
    **dict.fromkeys((math.sin, math.cos, math.tan), _domain(_infinite)),
    **dict.fromkeys((math.exp, math.expm1), _overflow(709.782712893384)),
    **dict.fromkeys((math.cosh, math.sinh), lambda x: _overflow(710.4758600739439)(called(abs, x))),
    math.gamma: _gamma,
    math.lgamma: _log_gamma,
    math.fmod: _remainder,
    math.pow: _power_of_math,
    pow: _power_in_python,
    **dict.fromkeys((math.floor, math.ceil, math.trunc, int, round), _to_integer),
}  # fmt: skip

#: Functions that find out by rounding errors whether they raise one.
_SOLVERS = [
    DEFINITIONS.get(f, f)
    for f in vars(np.linalg).values()
    if callable(f) and f not in (np.linalg.norm, np.linalg.det, np.linalg.slogdet)
]


def refuse_unknown_errors(low: Expressions, node: ast.Call, called: object, own_rule: bool) -> None:
    """Refuse a call in ``try`` where it is not known when the function raises an error; `own_rule`: it is a primitive
    with a rule of its own."""
    if not low.shared.attempts or low.source.module in MODULES:
        return
    if own_rule:
        what, instead = "a primitive with a vjp, which may raise an error,", "let it return a flag or NaN"
    elif any(called is f for f in _SOLVERS) and _is_caught(low, np.linalg.LinAlgError):
        what, instead = "which finds singular matrices by rounding errors,", "test the determinant before"
    else:
        return
    raise low.source.refuse(node, f"{unparse(node.func)}, {what} in try", f"call it outside of try, or {instead}")
