"""Errors that no ``raise`` raises: what operations and functions raise in Python, where a ``try`` catches it.

Divisions by zero are errors, as they are in Python and Numba, those of elements of arrays, too, as in Numba. Functions
of ``math`` raise errors outside of their domains; in a function that Numba compiles they give NaN and infinities, as
they do there. Of NumPy's functions those are known that raise nothing, and a few whose errors are checked; others are
refused where a handler may catch what they raise. Where nothing catches an error, divisions give infinities and there
is no check, but for extrema of empty arrays.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..custom_rules import rule_of
from ..ir.affine import distance, offset, plus
from ..ir.functions import FUNCTIONS
from ..ir.names import called, literal
from ..ir.statements import Check, InRange
from ..ir.terms import ZERO, Binary, Call, Compare, Constant, Element, Logical, Term, Unary, Variable, subterms
from .array_expressions import Scalar
from .function_table import DEFINITIONS, MODULES, RANGES, row_of
from .integer_bounds import name_of
from .list_vectors import append_item, list_copy, list_items, new_list
from .lists_of_rows import exchanged_item, held_item, moved_item, new_rows, no_items, store_item, taken_item
from .syntax import unparse

if TYPE_CHECKING:
    from .array_expressions import ArrayExpr
    from .calls import Calls
    from .expressions import Expressions
    from .scope import Scope

__all__ = ["check_call", "check_division", "check_not_empty", "check_size", "in_range", "index_may_raise", "is_caught",
           "refuse_unknown_errors"]  # fmt: skip

Checks = list[tuple[type, Term]]


def check_division(low: Expressions, node: ast.expr, operands: list[ArrayExpr]) -> list[ArrayExpr]:
    """Before a division, a power or a shift of numbers: check that it raises no error; the operands, named where they
    are tested."""
    op = node.op if isinstance(node, ast.BinOp) and low.shared.attempts else None
    if not isinstance(op, _DIVISIONS | _SHIFTS | ast.Pow) or any(t.rank for t in operands):
        return operands
    if isinstance(op, _SHIFTS):
        return _checked(low, operands, _shift)
    if isinstance(op, ast.Pow):
        return operands if low.as_compiled else _checked(low, operands, _power_in_python)
    return operands if low.source.divides_as_numpy else _checked(low, operands, _division)


_DIVISIONS = ast.Div | ast.FloorDiv | ast.Mod
_SHIFTS = ast.LShift | ast.RShift


def check_call(low: Expressions, function: object, operands: list[ArrayExpr]) -> list[ArrayExpr]:
    """Before a call of a function of numbers: check that its operands are in its domain; the operands, named where they
    are tested."""
    if not low.shared.attempts or any(t.rank for t in operands):
        return operands
    if function is divmod:
        return operands if low.source.divides_as_numpy else _checked(low, operands, _division)
    rule = None if low.as_compiled else _DOMAINS.get(function)
    return operands if rule is None else _checked(low, operands, rule)


def check_size(low: Expressions, size: Term) -> Term:
    """Before an array is made: check that this length is not negative; the length, named where the error is caught.

    In loops and branches it is left to where memory is taken, unless the error is caught.
    """
    if low.nonnegative(size):
        return size
    if low.shared.attempts and is_caught(low, ValueError):
        size = low.name_or_constant(size)
    elif low.out is not low.shared.top or any(isinstance(t, Call | Element) for t in subterms(size)):
        return size
    low.emit(Check(_less(size, ZERO), "negative dimensions are not allowed", exact=True))
    return size


def check_not_empty(low: Scope, node: ast.expr, sizes: list[Term], rank: int) -> None:
    """Before an extremum over axes of an array of this `rank`: check that it has elements."""
    exact = low.source.module not in MODULES
    if exact and low.shared.attempts and is_caught(low, ValueError) and rank > len(sizes):
        raise low.source.refuse(node, f"{unparse(node)} along an axis, which may be empty, in try", _OUTSIDE)
    message = f"{low.source.name}: the array in '{unparse(node)}' is empty, it has no largest or smallest element"
    for size in sizes:
        if not low.nonnegative(plus(size, -1)):
            low.emit(Check(_at_most(size, ZERO), message, exact=exact))


def in_range(low: Expressions, node: ast.Subscript, index: Term, size: Term, what: str) -> InRange:
    """The check of an index; in NumPy's functions, the code of their definitions here has others than they have."""
    exact = low.source.module not in MODULES
    return InRange(index, size, what, exact=exact, source_location=low.user_location(node))


def index_may_raise(low: Expressions, index: Term | None, size: Term) -> bool:
    """Whether an error for this index, None for one that is not known, would be caught, and may be raised, as far as
    the ranges of counters tell."""
    if not low.shared.attempts or low.source.module in MODULES or not is_caught(low, IndexError):
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
    caught = [error for error, test in rule(*terms) if is_caught(low, error) and not _never(low, test)]
    if not caught:
        return operands
    terms = [low.name_or_constant(t) for t in terms]
    for error, test in rule(*terms):
        if error in caught:
            low.emit(Check(test, f"{error.__name__}, as Python raises it", error.__name__, exact=True))
    return [Scalar(t) for t in terms]


def is_caught(low: Scope, error: type) -> bool:
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
        case Variable(name):
            known = low.lowered_function.constants.get(name)
            return float(known) if isinstance(known, int | float | np.number) else None
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


def _shift(_: Term, count: Term) -> Checks:
    return [(ValueError, _less(count, ZERO))]


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

_OUTSIDE = "call it outside of try, or test for what it raises before"
_NO_ERRORS = (
    np.abs, np.add, np.all, np.allclose, np.any, np.append, np.argmax, np.argmin, np.argsort, np.argwhere,
    np.array, np.array_equal, np.asarray, np.ascontiguousarray, np.amax, np.amin, np.clip, np.column_stack,
    np.concatenate, np.copy, np.copyto, np.count_nonzero, np.cumprod, np.cumsum, np.deg2rad, np.degrees,
    np.divide, np.dot, np.empty, np.empty_like, np.equal, np.expand_dims, np.eye, np.fix, np.flatnonzero, np.flip,
    np.fliplr, np.flipud, np.floor_divide, np.full, np.full_like, np.greater, np.greater_equal, np.heaviside,
    np.hstack, np.identity, np.inner, np.isclose, np.less, np.less_equal, np.logaddexp, np.logical_and,
    np.logical_not, np.logical_or, np.matmul, np.max, np.mean, np.min, np.moveaxis, np.multiply, np.nan_to_num,
    np.nanmean, np.nanprod, np.nansum, np.ndenumerate, np.ndim, np.ndindex, np.negative, np.nonzero, np.not_equal,
    np.conj, np.imag, np.ones, np.ones_like, np.outer, np.positive, np.prod, np.rad2deg, np.radians, np.ravel, np.real,
    np.remainder,
    np.reshape, np.rot90, np.shape, np.sort, np.stack, np.std, np.subtract, np.sum, np.swapaxes, np.trace,
    np.transpose, np.tril, np.triu, np.var, np.vdot, np.vstack, np.where, np.zeros, np.zeros_like,
)  # fmt: skip


def _defined(functions: Iterable[Any]) -> list[object]:
    """What these functions are when they are called."""
    return [DEFINITIONS.get(f, f) for f in functions]


@cache
def _solvers() -> list[object]:
    """Functions that find out by rounding errors whether they raise one."""
    others = (np.linalg.norm, np.linalg.det, np.linalg.slogdet, np.linalg.multi_dot)
    return _defined(f for f in vars(np.linalg).values() if callable(f) and f not in others)


#: What lists are rewritten with.
_OF_LISTS = (append_item, exchanged_item, held_item, list_copy, list_items, moved_item, new_list, new_rows, no_items,
             store_item, taken_item)  # fmt: skip


@cache
def _without_errors() -> list[object]:
    """Functions that raise no errors, but those that are checked and those of shapes, which end the call."""
    return [
        *_defined(_NO_ERRORS),
        *_defined((np.linalg.norm, np.linalg.det, np.linalg.slogdet, math.cbrt, math.degrees, math.radians)),
        *_defined((np.random.random, np.random.rand, np.random.randn, np.random.standard_normal)),
        *_defined((np.ndarray.astype, np.ndarray.fill, np.ndarray.flatten, *_OF_LISTS)),
        *(all, any, dict, divmod, enumerate, isinstance, len, max, min, reversed, sum, type, zip, *RANGES),
    ]


def refuse_unknown_errors(low: Calls, node: ast.Call, called: object) -> None:
    """Refuse a call in ``try`` where it is not known when the function raises an error that is caught."""
    if not low.shared.attempts or low.source.module in MODULES:
        return
    what, instead = "whose errors are not known to the letter,", _OUTSIDE
    row = row_of(called)
    function = called if row is None or row.function is None else row.function
    if rule_of(called) is not None:
        what = "a primitive with a vjp, which may raise an error,"
        instead = "call it outside of try, or let it return a flag or NaN"
    elif any(called is f for f in _solvers()) and is_caught(low, np.linalg.LinAlgError):
        what = "which finds singular matrices by rounding errors,"
        instead = "call it outside of try, or test the determinant before"
    elif function in FUNCTIONS or any(function is f for f in _without_errors()):
        return
    elif row is None and all(called is not f for f in DEFINITIONS.values()):
        return  # the user's, which is looked into
    elif not any(is_caught(low, error) for error in (ValueError, IndexError, OverflowError, ZeroDivisionError)):
        return
    raise low.source.refuse(node, f"{unparse(node.func)}, {what} in try", instead)
