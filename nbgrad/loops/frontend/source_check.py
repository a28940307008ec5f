"""Staleness check: the source lines of a function, and whether they are still those that it was compiled from.

Files are edited and cells run again while functions stay in memory. The source is therefore compiled again and compared
with the code of the function: names, constants and instructions, at the same line.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from functools import lru_cache
from types import CodeType, FunctionType

from ...backends.numba.generated_module import is_generated
from ...core.source_text import parsed

__all__ = ["lambda_definition", "source_changed", "source_lines"]


def source_lines(function: FunctionType) -> tuple[list[str], int]:
    """The lines of a function and the number of the first, as ``inspect.getsourcelines`` gives them, which looks for
    the module of the function among all that are imported.

    Raises
    ------
    OSError
        If they cannot be read.
    """
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 :]
    if not lines:
        raise OSError("could not get source code")
    if not is_generated(function):
        return inspect.getblock(lines), code.co_firstlineno
    body = next(k for k, line in enumerate(lines, 1) if line.startswith("def "))
    end = next((k for k, line in enumerate(lines[body:], body) if line[:1] not in (" ", "\n")), None)
    return lines[:end], code.co_firstlineno


def lambda_definition(function: FunctionType, name: str) -> tuple[list[str], ast.FunctionDef] | None:
    """All lines of the file of a lambda, and the lambda as a definition of `name`; None if it is not found."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    try:
        nodes = [n for n in ast.walk(parsed("".join(lines))) if isinstance(n, ast.Lambda)]
    except (SyntaxError, ValueError):
        return None
    places = [p for p in code.co_positions() if None not in p and p[3]]
    best: ast.Lambda | None = None
    for n in nodes:
        begin, end = (n.body.lineno, n.body.col_offset), (n.body.end_lineno, n.body.end_col_offset)
        inside = all(begin <= (first, left) and (last, right) <= end for first, last, left, right in places)
        if n.lineno == code.co_firstlineno and places and inside and (best is None or best.col_offset < n.col_offset):
            best = n  # the innermost one: those around it contain it
    if best is None:
        return None
    body = ast.copy_location(ast.Return(best.body), best.body)
    return lines, ast.copy_location(ast.FunctionDef(name, best.args, [body], []), best)


def source_changed(function: FunctionType) -> bool:
    """Whether the source of a function has changed since it was compiled."""
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        candidates = _codes(source, code.co_filename).get((code.co_name, code.co_firstlineno), [])
    except (SyntaxError, ValueError):  # a cell with magics need not be Python as a whole
        return False
    rewritten = "@pytest_ar" in _all_names(code)  # assertions rewritten by pytest
    return not (rewritten or any(_same(code, c) for c in candidates))


@lru_cache(64)
def _codes(source: str, file: str) -> dict[tuple[str, int], list[CodeType]]:
    """The code objects of all functions in a source, by name and first line."""
    codes: dict[tuple[str, int], list[CodeType]] = {}
    stack = [compile(source, file, "exec", dont_inherit=True)]
    while stack:
        code = stack.pop()
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        stack += [c for c in code.co_consts if isinstance(c, CodeType)]
    return codes


def _same(a: CodeType, b: CodeType) -> bool:
    """Whether two code objects do the same with the same names."""
    return (
        (a.co_code, a.co_names, a.co_varnames, a.co_cellvars, a.co_freevars)
        == (b.co_code, b.co_names, b.co_varnames, b.co_cellvars, b.co_freevars)
        and len(a.co_consts) == len(b.co_consts)
        and all(map(_same_constant, a.co_consts, b.co_consts))
    )


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return _same(a, b)
    return type(a) is type(b) and repr(a) == repr(b)  # repr tells 0.0 from -0.0, and NaN equals NaN


def _all_names(code: CodeType) -> set[str]:
    """The global names and attributes in a code object, nested ones included."""
    return {*code.co_names, *(n for c in code.co_consts if isinstance(c, CodeType) for n in _all_names(c))}
