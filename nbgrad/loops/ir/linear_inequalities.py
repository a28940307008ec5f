"""Linear inequalities of integers: whether some have no solution.

A form is a dictionary of coefficients by name, with the constant under the empty name; it stands for ``form >= 0``.
Variables are eliminated one after the other (Fourier and Motzkin), with constants rounded down to integers.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

__all__ = ["Form", "compared", "impossible", "less", "linear"]

Form = dict[str, int]
#: Systems that grow beyond this are given up.
_MOST = 150


def linear(node: ast.expr, symbol: Callable[[ast.expr], str | None]) -> Form | None:
    """`node` as a form. `symbol` names what is no sum, difference or multiple; None where that is not possible."""
    match node:
        case ast.Constant(value=int() as n):
            return {"": n}
        case ast.UnaryOp(op=ast.USub()):
            inner = linear(node.operand, symbol)
            return None if inner is None else _scaled(inner, -1)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            a, b = linear(node.left, symbol), linear(node.right, symbol)
            if a is None or b is None:
                return None
            return less(_scaled(b, -1), a) if isinstance(node.op, ast.Add) else less(b, a)
        case ast.BinOp(op=ast.Mult()):
            a, b = linear(node.left, symbol), linear(node.right, symbol)
            for p, q in ((a, b), (b, a)):
                if p is not None and q is not None and set(p) <= {""}:
                    return _scaled(q, p.get("", 0))
            return None
    name = symbol(node)
    return None if name is None else {name: 1}


def less(a: Form, b: Form, gap: int = 0) -> Form:
    """``a + gap <= b``."""
    made = dict(b)
    for name, k in a.items():
        made[name] = made.get(name, 0) - k
    made[""] = made.get("", 0) - gap
    return {n: k for n, k in made.items() if k}


def compared(a: Form, op: type[ast.cmpop], b: Form, holds: bool = True) -> list[Form]:
    """What a comparison says, if it holds or not."""
    if op in (ast.Gt, ast.GtE):
        return compared(b, ast.Lt if op is ast.Gt else ast.LtE, a, holds)
    if op in (ast.Lt, ast.LtE):
        return [less(a, b, int(op is ast.Lt))] if holds else [less(b, a, int(op is ast.LtE))]
    return [less(a, b), less(b, a)] if (op is ast.Eq) == holds and op in (ast.Eq, ast.NotEq) else []


def _scaled(form: Form, k: int) -> Form:
    return {name: c * k for name, c in form.items()}


def impossible(forms: list[Form]) -> bool:
    """Whether no integers make all forms at least zero; False where that is not found out."""
    return _impossible(frozenset(_key(_tight(f)) for f in forms))


@lru_cache(4096)
def _impossible(current: frozenset | set) -> bool:
    while True:
        if any(all(not n for n, _ in f) and sum(k for _, k in f) < 0 for f in current):
            return True
        above, below = (Counter(n for f in current for n, k in f if n and (k > 0) == up) for up in (True, False))
        names = {*above, *below}
        if not names or len(current) > _MOST:
            return False
        name = min(sorted(names), key=lambda n: above[n] * below[n])
        dicts = [dict(f) for f in current]
        low = [d for d in dicts if d.get(name, 0) > 0]
        high = [d for d in dicts if d.get(name, 0) < 0]
        current = {_key(d) for d in dicts if not d.get(name)}
        for a in low:
            for b in high:
                p, q = -b[name], a[name]
                current.add(_key(_tight(less(_scaled(a, -p), _scaled(b, q)))))


def _tight(form: Form) -> Form:
    common = math.gcd(*(k for n, k in form.items() if n)) if any(form) else 1
    return {n: (k // common) for n, k in form.items()} if common > 1 else form


def _key(form: Form) -> frozenset:
    return frozenset((n, k) for n, k in form.items() if k)
