"""Affine index expressions: a term plus an integer constant."""

from __future__ import annotations

from .terms import Binary, Call, Constant, Length, Term, Unary, integer

__all__ = ["distance", "is_length", "minus", "offset", "plus", "total"]


def distance(a: Term, b: Term) -> int | None:
    """``a - b`` if it is a constant."""
    (base, p), (other, q) = offset(a), offset(b)
    return p - q if base is other else None


def offset(term: Term) -> tuple[Term | None, int]:
    """``i + 3`` as (i, 3), and ``4`` as (None, 4)."""
    match term:
        case Constant(int() as n):
            return None, n
        case Unary("-", Constant(int() as n)):
            return None, -n
        case Binary("+", rest, Constant(int() as n)) | Binary("+", Constant(int() as n), rest):
            base, k = offset(rest)
            return base, k + n
        case Binary("-", rest, Constant(int() as n)):
            base, k = offset(rest)
            return base, k - n
    return term, 0


def is_length(term: Term) -> bool:
    """Whether `term` is exactly a length, of an array or of a range: such a number is not negative."""
    return isinstance(term, Length) or (isinstance(term, Call) and term.function.value is len)


def total(a: Term, b: Term) -> Term:
    """``a + b``, added from left to right: ``a + b - c`` where `b` is ``b - c``."""
    if isinstance(b, Binary) and b.op in ("+", "-"):
        return Binary(b.op, total(a, b.left), b.right)
    return Binary("+", a, b)


def minus(a: Term, b: Term) -> Term:
    """``a - b``, with a constant `b` folded."""
    if isinstance(b, Constant):
        return plus(a, -b.value)  # type: ignore[arg-type]
    return Binary("-", a, b)


def plus(term: Term, k: int) -> Term:
    """``term + k``, with constants folded."""
    match term:
        case Constant(int() as n):
            return integer(n + k)
        case Unary("-", Constant(int() as n)):
            return integer(k - n)
        case Binary("+", rest, Constant(int() as n)):
            return plus(rest, n + k)
        case Binary("-", rest, Constant(int() as n)):
            return plus(rest, k - n)
    if k == 0:
        return term
    return Binary("+" if k > 0 else "-", term, Constant(abs(k)))
