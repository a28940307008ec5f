"""Outlining: move the bodies of ``prange`` loops in generated files into their own functions.

Numba outlines a parallel loop itself, but compiles the body without the passes of this package: it then knows less of
indices and arrays, and does not vectorise. Here a range of iterations becomes a function that is compiled like all
others, and Numba's loop runs over chunks of iterations. Their number does not depend on the number of threads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import count

__all__ = ["outline_parallel_loops"]

#: Most chunks of a loop: usually more than threads, so that all are busy until the end.
_MAX_CHUNKS = 64


def outline_parallel_loops(source: str) -> str:
    """Outline the ``prange`` loops of a source file. The first function with such a loop keeps its line number."""
    if " in prange(" not in source:
        return source
    lines, more = source.split("\n"), list[str]()
    for function in (node for node in reversed(ast.parse(source).body) if isinstance(node, ast.FunctionDef)):
        for loop in reversed(_loops(function.body)):
            lines[loop.lineno - 1 : loop.end_lineno], outlined = _outline_loop(lines, function, loop)
            more += outlined
    return "\n".join([*lines, *more, ""])


def _loops(body: list[ast.stmt]) -> list[ast.For]:
    """The outermost ``prange`` loops."""
    loops: list[ast.For] = []
    for s in body:
        if isinstance(s, ast.For) and isinstance(s.iter, ast.Call) and ast.unparse(s.iter.func) == "prange":
            loops.append(s)
        elif isinstance(s, ast.For | ast.While | ast.If):
            loops += [*_loops(s.body), *_loops(s.orelse)]
    return loops


def _outline_loop(lines: list[str], function: ast.FunctionDef, loop: ast.For) -> tuple[list[str], list[str]]:
    """The lines that replace a loop, and those of the function that they call."""
    assert isinstance(loop.iter, ast.Call)
    parameters = {a.arg for a in function.args.args}
    assigned, used = _names([function])
    mine, used_inside = _names([loop.target, *loop.body])
    captured = sorted((assigned | parameters) & used_inside - mine)
    first, last, turns, pieces, piece = (
        _fresh(n, used | parameters) for n in ("first", "last", "turns", "pieces", "piece")
    )
    name = f"{function.name}_turns{loop.lineno}"
    bounds = [ast.unparse(n) for n in loop.iter.args]
    start, stop = ["0", *bounds][-2:]
    range_bounds = [f"{start} + {turns} * {k} // {pieces}" for k in (piece, f"({piece} + 1)")]
    least = f"max({first}, {start})" if start.isdecimal() else first  # provably non-negative indices
    indent = " " * loop.col_offset
    replacement = [
        f"{turns} = max({stop} - ({start}), 0)",
        f"{pieces} = min({turns}, {_MAX_CHUNKS})",
        f"for {piece} in prange({pieces}):",
        f"    {name}({', '.join([*range_bounds, *captured])})",
    ]
    body = [line[len(indent) - 4 :] for line in lines[loop.lineno : loop.end_lineno]]
    outlined = [
        "",
        "",
        *(f"@{_serial(node)}" for node in function.decorator_list),
        f"def {name}({', '.join([first, last, *captured])}):",
        f"    for {ast.unparse(loop.target)} in range({least}, {last}):",
        *body,
    ]
    return [indent + line for line in replacement], outlined


def _names(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names that are assigned, and all names."""
    names = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}, {n.id for n in names}


def _serial(decorator: ast.expr) -> str:
    """The decorator without ``parallel``."""
    assert isinstance(decorator, ast.Call)
    return ast.unparse(ast.Call(decorator.func, [], [k for k in decorator.keywords if k.arg != "parallel"]))


def _fresh(name: str, taken: set[str]) -> str:
    return next(n for k in count() if (n := f"{name}{k or ''}") not in taken)
