"""Outlining: move the bodies of ``prange`` loops in generated files into their own functions.

Numba outlines a parallel loop itself, but compiles the body without the passes of this package: it then knows less of
indices and arrays, and does not vectorise. Here a range of iterations becomes a function that is compiled like all
others, and Numba's loop runs over chunks of iterations. Their number does not depend on the number of threads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import count

from ...core.source_text import parsed

__all__ = ["outline_parallel_loops"]

#: Most chunks of a loop: usually more than threads, so that all are busy until the end.
_MAX_CHUNKS = 64


def outline_parallel_loops(source: str) -> str | ast.Module:
    """What to compile of a file: its ``prange`` loops are outlined, and all statements keep their line numbers."""
    if " in prange(" not in source:
        return source
    tree = parsed(source)
    outlining = _Outlining()
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        outlining.function, outlining.names = function, _names([function])
        outlining.visit(function)
    tree.body += outlining.outlined
    return tree


class _Outlining(ast.NodeTransformer):
    """Replaces the outermost ``prange`` loops of `function`; `outlined` are the functions that they then call."""

    function: ast.FunctionDef
    names: tuple[set[str], set[str]]

    def __init__(self) -> None:
        self.outlined: list[ast.stmt] = []

    def visit_For(self, loop: ast.For) -> ast.AST | list[ast.stmt]:
        if not isinstance(loop.iter, ast.Call) or ast.unparse(loop.iter.func) != "prange":
            return self.generic_visit(loop)
        parameters = {a.arg for a in self.function.args.args}
        assigned, used = self.names
        mine, used_inside = _names([loop.target, *loop.body])
        captured = sorted((assigned | parameters) & used_inside - mine)
        first, last, trips, pieces, piece = (
            _fresh(n, used | parameters) for n in ("first", "last", "trips", "pieces", "piece")
        )
        name = f"{self.function.name}_trips{loop.lineno}"
        start, stop = ["0", *map(ast.unparse, loop.iter.args)][-2:]
        range_bounds = [f"{start} + {trips} * {k} // {pieces}" for k in (piece, f"({piece} + 1)")]
        least = f"max({first}, {start})" if start.isdecimal() else first  # provably non-negative indices
        head = f"def {name}({', '.join([first, last, *captured])}):"
        (outlined,) = _parsed(f"{head}\n for {ast.unparse(loop.target)} in range({least}, {last}): pass", loop)
        assert isinstance(outlined, ast.FunctionDef) and isinstance(outlined.body[0], ast.For)
        outlined.body[0].body = loop.body
        outlined.decorator_list = [_serial(node) for node in self.function.decorator_list]
        self.outlined.append(outlined)
        code = f"""{trips} = max({stop} - ({start}), 0)
{pieces} = min({trips}, {_MAX_CHUNKS})
for {piece} in prange({pieces}):
    {name}({", ".join([*range_bounds, *captured])})"""
        return _parsed(code, loop)


def _parsed(code: str, at: ast.AST) -> list[ast.stmt]:
    """The statements of `code`, located where `at` is."""
    statements = parsed(code).body
    for node in (node for s in statements for node in ast.walk(s)):
        ast.copy_location(node, at)
    return statements


def _names(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that are assigned, and all names."""
    names = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}, {n.id for n in names}


def _serial(decorator: ast.expr) -> ast.expr:
    """The decorator without ``parallel``."""
    assert isinstance(decorator, ast.Call)
    serial = ast.Call(decorator.func, [], [k for k in decorator.keywords if k.arg != "parallel"])
    return ast.copy_location(serial, decorator)


def _fresh(name: str, taken: set[str]) -> str:
    return next(n for k in count() if (n := f"{name}{k or ''}") not in taken)
