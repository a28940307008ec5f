"""Guards for integers raised to negative powers.

Python gives a float, NumPy an error, and Numba silently 0; the subset raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...errors import TraceError
from .statements import Assign, Block, Check, Function, If, InRange, Loop, Statement, Store, nested_blocks, walk
from .terms import ZERO, Binary, Compare, Constant, Logical, Select, Term, Unary, Variable

__all__ = ["guard_powers"]

_INSTEAD = "write float(...) around the base"


def guard_powers(f: Function, is_float: Callable[[Term], bool]) -> None:
    """Insert a :class:`Check` before each statement that may raise an integer to a negative power.

    A negative constant exponent that is evaluated unconditionally is refused at once. Loop counters that start at 0 or
    above and count up are non-negative, so they need no check.
    """
    counters = {s.index for s in walk(f.body) if isinstance(s, Loop) and _value(s.start) >= 0 and _value(s.step) > 0}

    def guarded(block: Block) -> None:
        for k in range(len(block) - 1, -1, -1):
            s = block[k]
            for inner in nested_blocks(s):
                guarded(inner)
            checks: dict[Term, Check] = {}
            for conditions, power in (found for t in _evaluated(s) for found in _powers(t, ())):
                if is_float(power.left) or is_float(power.right):
                    continue
                counter = isinstance(power.right, Variable) and power.right.name in counters
                least = 0 if counter else _value(power.right)
                what = f"an integer to a negative power in '{s.line or power}'"
                if least < 0 and least == least and not conditions:
                    raise TraceError(f"adjoint: {f.where}: {what}; {_INSTEAD}")
                if not least >= 0:
                    test: Term = Compare(("<",), (power.right, ZERO))
                    test = Logical("and", (*conditions, test)) if conditions else test
                    checks[test] = Check(test, f"{f.where}: {what}; {_INSTEAD}")
            block[k:k] = checks.values()

    guarded(f.body)


def _value(term: Term) -> float:
    """The integer that `term` is a literal of, or NaN."""
    match term:
        case Constant(int() as n):
            return n
        case Unary("-", Constant(int() as n)):
            return -n
    return float("nan")


def _evaluated(s: Statement) -> tuple[Term, ...]:
    """The terms that a statement evaluates itself; of a loop, its bounds."""
    match s:
        case Assign():
            return (s.value,)
        case Store():
            return s.value, *s.index
        case InRange():
            return (s.index,)
        case Loop():
            return s.start, s.stop, s.step
        case If():
            return (s.test,)
    return ()


def _powers(term: Term, conditions: tuple[Term, ...]) -> Iterator[tuple[tuple[Term, ...], Binary]]:
    """The powers in a term, each with the conditions under which it is evaluated."""
    if isinstance(term, Binary) and term.op == "**":
        yield conditions, term
    known = conditions
    for k, operand in enumerate(term.operands):
        if isinstance(term, Select) and k:
            known = (*conditions, term.test if k == 1 else Unary("not", term.test))
        elif isinstance(term, Logical) and k:
            before = term.operands[:k]
            known = (*conditions, *(before if term.op == "and" else [Unary("not", t) for t in before]))
        yield from _powers(operand, known)
