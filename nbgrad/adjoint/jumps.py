"""Where statements jump to: break, continue and return."""

from __future__ import annotations

import ast

__all__ = ["ends", "jumps"]


def jumps(s: ast.stmt, kinds: type | tuple = (ast.Break, ast.Continue, ast.Return)) -> bool:
    """Whether `s` contains a jump out of itself (break and continue of inner loops do not count)."""
    if isinstance(s, kinds):
        return True
    if isinstance(s, ast.For | ast.While):
        return any(jumps(b, ast.Return) for b in s.body) and (kinds is ast.Return)
    if isinstance(s, ast.If):
        return any(jumps(b, kinds) for b in [*s.body, *s.orelse])
    return False


def ends(body: list[ast.stmt]) -> bool:
    """Whether `body` always ends with a jump."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return ends(last.body) and ends(last.orelse)
    return isinstance(last, ast.Break | ast.Continue | ast.Return)
