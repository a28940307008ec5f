"""Guards for integers raised to negative powers.

Python gives a float, NumPy an error, and Numba silently 0; the subset raises an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import TraceError
from .statements import Block, Check, Function, If, Loop, Statement, duplicate, nested_blocks, unparse, walk

__all__ = ["guard_powers"]

_INSTEAD = "write float(...) around the base"


def guard_powers(f: Function, is_float: Callable[[ast.expr], bool]) -> None:
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
            checks: dict[str, Check] = {}
            for conditions, node in (found for n in _evaluated(s) for found in _powers(n, ())):
                if is_float(node.left) or is_float(node.right):
                    continue
                least = 0 if isinstance(node.right, ast.Name) and node.right.id in counters else _value(node.right)
                what = f"an integer to a negative power in '{s.line or unparse(node)}'"
                if least < 0 and least == least and not conditions:
                    raise TraceError(f"adjoint: {f.where}: {what}; {_INSTEAD}")
                if not least >= 0:
                    test: ast.expr = ast.Compare(duplicate(node.right), [ast.Lt()], [ast.Constant(0)])  # type: ignore[arg-type]
                    if conditions:
                        test = ast.BoolOp(ast.And(), [*(duplicate(c) for c in conditions), test])  # type: ignore[list-item]
                    checks[unparse(test)] = Check(test, f"{f.where}: {what}; {_INSTEAD}")
            block[k:k] = checks.values()

    guarded(f.body)


def _value(node: ast.expr) -> float:
    """The integer that `node` is a literal of, or NaN."""
    sign, node = (-1, node.operand) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else (1, node)
    return sign * node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else float("nan")


def _evaluated(s: Statement) -> list[ast.expr]:
    """The expressions that a statement evaluates itself; of a loop, its bounds."""
    names = ("start", "stop", "step") if isinstance(s, Loop) else ("test",) if isinstance(s, If) else ("value", "index")
    return [n for name in names if isinstance(n := getattr(s, name, None), ast.expr)]


def _powers(node: Any, conditions: tuple[ast.expr, ...]) -> Iterator[tuple[tuple[ast.expr, ...], ast.BinOp]]:
    """The powers in an expression, each with the conditions under which it is evaluated."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield conditions, node
    if isinstance(node, ast.IfExp):
        yield from _powers(node.test, conditions)
        yield from _powers(node.body, (*conditions, node.test))
        yield from _powers(node.orelse, (*conditions, ast.UnaryOp(ast.Not(), node.test)))
        return
    for k, child in enumerate(ast.iter_child_nodes(node)):
        known = conditions
        if isinstance(node, ast.BoolOp) and k > 1:
            before = node.values[: k - 1]
            known = (*known, *(before if isinstance(node.op, ast.And) else [ast.UnaryOp(ast.Not(), n) for n in before]))
        yield from _powers(child, known)
