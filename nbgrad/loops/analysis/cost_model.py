"""Cost model: which expressions are cheaper to store than to compute again."""

from __future__ import annotations

from ..ir import functions
from ..ir.terms import Binary, Call, Constant, Term, Unary

__all__ = ["is_cheap_power", "is_expensive"]


def is_expensive(term: Term) -> bool:
    """Whether `term` is an expensive call or power."""
    if isinstance(term, Call):
        return functions.is_expensive(term.function.value)
    return isinstance(term, Binary) and term.op == "**" and not is_cheap_power(term.right)


def is_cheap_power(exponent: Term) -> bool:
    """Whether a power compiles to a few products or a root."""
    if isinstance(exponent, Unary):
        exponent = exponent.operand
    return isinstance(exponent, Constant) and (isinstance(exponent.value, int) or exponent.value == 0.5)
