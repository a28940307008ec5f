"""Loops over ``prange`` in generated files, as Numba compiles them best.

Numba makes a function of its own of the turns, and compiles that without the passes of this package: it knows less of
indices and arrays then, and uses no vector registers for what they would need to be known for. So the turns become a
function here, which is compiled as all others are, and Numba's loop goes over pieces of them. How many there are does
not depend on the number of threads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import count

__all__ = ["in_pieces"]

#: Pieces at most: more than there are threads as a rule, so that all have something to do until the end.
_PIECES = 64


def in_pieces(source: str) -> str:
    """The text of a file, with calls in its loops over ``prange``; the first function that has some begins where it
    did."""
    if " in prange(" not in source:
        return source
    lines, more = source.split("\n"), list[str]()
    for function in (node for node in reversed(ast.parse(source).body) if isinstance(node, ast.FunctionDef)):
        for loop in reversed(_loops(function.body)):
            lines[loop.lineno - 1 : loop.end_lineno], turns = _split(lines, function, loop)
            more += turns
    return "\n".join([*lines, *more, ""])


def _loops(body: list[ast.stmt]) -> list[ast.For]:
    """The outermost loops over ``prange``."""
    found: list[ast.For] = []
    for s in body:
        if isinstance(s, ast.For) and isinstance(s.iter, ast.Call) and ast.unparse(s.iter.func) == "prange":
            found.append(s)
        elif isinstance(s, ast.For | ast.While | ast.If):
            found += [*_loops(s.body), *_loops(s.orelse)]
    return found


def _split(lines: list[str], function: ast.FunctionDef, loop: ast.For) -> tuple[list[str], list[str]]:
    """What stands instead of a loop, and the function that it calls."""
    assert isinstance(loop.iter, ast.Call)
    parameters = {a.arg for a in function.args.args}
    known, taken = _names([function])
    mine, inside = _names([loop.target, *loop.body])
    given = sorted((known | parameters) & inside - mine)
    first, last, turns, pieces, piece = (
        _fresh(n, taken | parameters) for n in ("first", "last", "turns", "pieces", "piece")
    )
    name = f"{function.name}_turns{loop.lineno}"
    bounds = [ast.unparse(n) for n in loop.iter.args]
    start, stop = ["0", *bounds][-2:]
    places = [f"{start} + {turns} * {k} // {pieces}" for k in (piece, f"({piece} + 1)")]
    least = f"max({first}, {start})" if start.isdecimal() else first  # so it is seen that no index is below zero
    indent = " " * loop.col_offset
    instead = [
        f"{turns} = max({stop} - ({start}), 0)",
        f"{pieces} = min({turns}, {_PIECES})",
        f"for {piece} in prange({pieces}):",
        f"    {name}({', '.join([*places, *given])})",
    ]
    text = [line[len(indent) - 4 :] for line in lines[loop.lineno : loop.end_lineno]]
    made = [
        "",
        "",
        *(f"@{_serial(node)}" for node in function.decorator_list),
        f"def {name}({', '.join([first, last, *given])}):",
        f"    for {ast.unparse(loop.target)} in range({least}, {last}):",
        *text,
    ]
    return [indent + line for line in instead], made


def _names(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Those that are set, and all."""
    names = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}, {n.id for n in names}


def _serial(decorator: ast.expr) -> str:
    """The same decorator, for a function without loops over ``prange``."""
    assert isinstance(decorator, ast.Call)
    return ast.unparse(ast.Call(decorator.func, [], [k for k in decorator.keywords if k.arg != "parallel"]))


def _fresh(name: str, taken: set[str]) -> str:
    return next(n for k in count() if (n := f"{name}{k or ''}") not in taken)
