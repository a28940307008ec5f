"""Whether the text that is read is that of the function in memory.

Files are edited, cells run again, while functions stay. What the text compiles to is therefore compared with what the
function runs: names, constants and instructions, at the same line.
"""

from __future__ import annotations

import linecache
from functools import lru_cache
from types import CodeType, FunctionType

__all__ = ["changed"]


def changed(function: FunctionType) -> bool:
    """Whether the source of a function, read now, is another one than that which it was compiled from."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        found = _codes(text, code.co_filename).get((code.co_name, code.co_firstlineno), [])
    except (SyntaxError, ValueError):  # what is in a file as a whole need not be Python: magics of a notebook
        return False
    rewritten = "@pytest_ar" in _all_names(code)  # of assertions, by pytest
    return not (rewritten or any(_same(code, c) for c in found))


@lru_cache(64)
def _codes(text: str, file: str) -> dict[tuple[str, int], list[CodeType]]:
    """All functions in a text, by name and first line."""
    found: dict[tuple[str, int], list[CodeType]] = {}
    stack = [compile(text, file, "exec", dont_inherit=True)]
    while stack:
        code = stack.pop()
        found.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        stack += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


def _same(a: CodeType, b: CodeType) -> bool:
    return (
        (a.co_code, a.co_names, a.co_varnames, a.co_cellvars, a.co_freevars)
        == (b.co_code, b.co_names, b.co_varnames, b.co_cellvars, b.co_freevars)
        and len(a.co_consts) == len(b.co_consts)
        and all(map(_same_constant, a.co_consts, b.co_consts))
    )


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return _same(a, b)
    return type(a) is type(b) and repr(a) == repr(b)  # which tells 0.0 from -0.0, and takes NaN for NaN


def _all_names(code: CodeType) -> set[str]:
    return {*code.co_names, *(n for c in code.co_consts if isinstance(c, CodeType) for n in _all_names(c))}
