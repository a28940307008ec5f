"""Strong zeros within the chain of a statement: in ``exp(-r / s)`` the exponential may vanish where ``r`` is infinite.

A statement's cotangent is a strong zero. So must be what multiplies the derivative of an operand: at r = inf the
derivative for s is ``g * exp(u) * (r / s**2)``, whose middle factor is 0 and whose last one is infinite. It is
zero where the middle one is, as if ``u = -r / s`` were a statement of its own. Quotients vanish, too: ``1 / (1 + e)``
where ``e = exp(-z)`` overflows.

This is a select, and no strong product: where such a factor is zero, so are its own derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...ir.expr import (
    ONE,
    ZERO,
    Expr,
    eq,
    partials_of,
    scaled_partial,
    select,
    substitute,
    sum_of,
    topological_order,
    var,
    vjp,
)
from ...kernels import scalar as vm
from .singularities import is_sum_of_squares
from .terms import Element, Variable

__all__ = ["OVERFLOWING", "divides_by", "may_overflow", "may_vanish", "strong_vjp", "zero_where"]

#: Functions whose derivatives vanish for large arguments, faster than any pole of a quotient grows.
_SATURATING = {vm.exp, vm.expm1, vm.tanh, vm.sigmoid, vm.softplus, vm.log_sigmoid, vm.erf, vm.erfc, vm.ndtr}

#: Functions that overflow, and so do their derivatives.
OVERFLOWING = {vm.exp, vm.expm1, vm.sinh, vm.cosh}

Atom = Variable | Element


class _Value(NamedTuple):
    """The name of a variable that stands for the value of a function while what it is part of is differentiated."""

    function: Expr


def strong_vjp(e: Expr, g: Expr, atoms: Sequence[Atom], may_be_infinite: Callable[[Expr], bool]) -> list[Expr]:
    """The cotangents of `atoms` as :func:`vjp` gives them, strong in factors that vanish where later ones may be
    infinite.

    `may_be_infinite` says whether an expression reads a variable that may hold an infinity.
    """
    vanishing = {y: made for y in topological_order([e]) if (made := _strong_atoms(y, atoms, may_be_infinite))}
    if not vanishing:
        return vjp(e, g, atoms)
    value_of = {y: var(_Value(y)) for y in vanishing}
    function_of = {value: y for y, value in value_of.items()}
    cotangents = vjp(substitute(e, value_of), g, [*atoms, *(value.name for value in function_of)])
    cotangents = [substitute(p, function_of) for p in cotangents]
    parts = cotangents[: len(atoms)]
    for y, cotangent in zip(vanishing, cotangents[len(atoms) :], strict=True):
        for operand, partial, wanted in zip(y.args, partials_of(y), vanishing[y], strict=True):
            inner = strong_vjp(operand, scaled_partial(cotangent, partial), atoms, may_be_infinite)
            inner = [zero_where(partial, q) if a in wanted else q for a, q in zip(atoms, inner, strict=True)]
            parts = [sum_of(p, q) for p, q in zip(parts, inner, strict=True)]
    return parts


def may_vanish(partial: Expr, value: Expr | None) -> bool:
    """Whether a derivative is 0 where operands are infinite: that of a function that saturates, a quotient, or a
    selection that leaves them out.

    `value` stands for what such a function returned.
    """
    nodes = topological_order([partial])
    return value in nodes or any(
        y.fn in _SATURATING or (y.fn is not None and (y.fn.name == "div" or (y.fn.name == "select" and ZERO in y.args)))
        for y in nodes
    )


def divides_by(e: Expr, x: Expr) -> bool:
    """Whether `e` has a divisor that reads the variable `x`, or a power with such a base."""
    return any(
        node.fn is not None and node.fn.name in ("div", "pow", "power") and x in topological_order([_divisor(node)])
        for node in topological_order([e])
    )


def zero_where(factor: Expr, e: Expr) -> Expr:
    """`e`, which is a multiple of `factor`, or 0 where that is."""
    return e if e is ZERO else select(eq(factor, 0), ZERO, e)


def _strong_atoms(y: Expr, atoms: Sequence[Atom], may_be_infinite: Callable[[Expr], bool]) -> list[set[Atom]]:
    """For each operand of a function that may vanish, the atoms for which its derivative may be infinite then; nothing
    if there are none."""
    saturating = y.fn in _SATURATING
    quotient = y.fn is not None and y.fn.name in ("div", "pow", "power")
    overflowing = quotient and may_overflow(_divisor(y))
    if not (saturating or overflowing or (quotient and may_be_infinite(y))):
        return []
    found = [
        {
            a
            for a, p in zip(atoms, vjp(operand, ONE, atoms), strict=True)
            if may_be_infinite(p) or (saturating and _has_pole_in(p, var(a))) or (overflowing and may_overflow(p))
        }
        for operand in y.args
    ]
    return found if any(found) else []


def _divisor(y: Expr) -> Expr:
    """What a quotient is divided by, as the base of a power that may be negative; 1 if there is none."""
    if y.fn is not None and y.fn.name == "div":
        return y.args[1]
    return y.args[0] if (y.args[1].value or -1) < 0 else ONE


def may_overflow(e: Expr) -> bool:
    """Whether `e` has a factor or term that may overflow."""
    return any(node.fn in OVERFLOWING for node in topological_order([e]))


def _has_pole_in(e: Expr, x: Expr) -> bool:
    """Whether `e` may be infinite for some value of the variable `x`."""
    return any(
        node.fn is not None
        and node.fn.name == "div"
        and x in topological_order([node.args[1]])
        and not _is_positive(node.args[1])
        for node in topological_order([e])
    )


def _is_positive(e: Expr) -> bool:
    """Whether `e` is a product of sums of squares and positive constants."""
    if e.fn is None:
        return (e.value or 0) > 0
    if e.fn.name == "add":
        return any(_is_positive(a) and is_sum_of_squares(b, frozenset()) for a, b in (e.args, e.args[::-1]))
    return e.fn.name == "mul" and all(map(_is_positive, e.args))
