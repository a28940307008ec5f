"""``match`` on numbers and strings: rewritten as ``if`` and ``elif``.

Patterns are literals, constants with a dot in their name, None, ``|`` of these, names and ``_``, with guards.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ..ir.names import Names
from .structured_control import with_location
from .syntax import Transformer, all_names, subtrees

if TYPE_CHECKING:
    from .source import Source

__all__ = ["MatchStatements"]


class MatchStatements(Transformer):
    """Rewrites them."""

    def __init__(self, source: Source, node: ast.AST) -> None:
        self.source = source
        captured = {n.name for n in subtrees(node) if isinstance(n, ast.MatchAs | ast.MatchStar) and n.name}
        self.names = Names({*all_names(node), *captured})

    def visit_Match(self, node: ast.Match) -> Any:
        self.generic_visit(node)
        subject, before = node.subject, []
        if not isinstance(subject, ast.Name | ast.Constant):
            if isinstance(subject, ast.Tuple | ast.List):
                raise self._refused(subject, "a sequence after match")
            name = self.names.fresh("subject")
            before = [ast.Assign([ast.Name(name, ast.Store())], subject)]
            subject = ast.Name(name, ast.Load())
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            rest = self._case(subject, case, rest)
        statements = [with_location(s, node) for s in (*before, *rest)]
        return statements or with_location(ast.Pass(), node)

    def _case(self, subject: ast.expr, case: ast.match_case, rest: list[ast.stmt]) -> list[ast.stmt]:
        """The statements for one case, where `rest` are those for the cases after it."""
        pattern, name = case.pattern, ""
        if isinstance(pattern, ast.MatchAs):
            name = pattern.name or ""
            if pattern.pattern is not None and case.guard is not None and name:
                raise self._refused(pattern, "as with a guard")
        named: list[ast.stmt] = []
        if name and not (isinstance(subject, ast.Name) and subject.id == name):
            named = [ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], subject), pattern)]
        test = self._test(subject, pattern.pattern if isinstance(pattern, ast.MatchAs) else pattern)
        if test is None:  # it always matches, and is bound even where the guard does not hold
            return [*named, *([ast.If(case.guard, case.body, rest)] if case.guard is not None else case.body)]
        if case.guard is not None:
            test = ast.BoolOp(ast.And(), [test, case.guard])
        return [with_location(ast.If(test, [*named, *case.body], rest), pattern)]

    def _test(self, subject: ast.expr, pattern: ast.pattern | None) -> ast.expr | None:
        """The test of a pattern without names; None for one that always matches."""
        match pattern:
            case None | ast.MatchAs(pattern=None, name=None):
                return None
            case ast.MatchValue(value=value):
                return ast.Compare(subject, [ast.Eq()], [value])
            case ast.MatchSingleton(value=None):
                return ast.Compare(subject, [ast.Is()], [ast.Constant(None)])
            case ast.MatchOr(patterns=patterns):
                tests = [self._test(subject, p) for p in patterns]
                known = [t for t in tests if t is not None]
                return ast.BoolOp(ast.Or(), known) if len(known) == len(tests) else None
        what = {ast.MatchSingleton: "True or False", ast.MatchAs: "a name inside"}.get(type(pattern), "this")
        raise self._refused(pattern, what)

    def _refused(self, node: ast.AST, what: str) -> Exception:
        instead = "use numbers, strings, None, |, names and _, or write if and elif"
        return self.source.refuse(node, f"{what} as a pattern", instead)
