"""Safe quoting for generated code: users' values, names and source lines as constants, identifiers and comments.

All text of users in generated code goes through these functions. Whatever the input, the output is a single expression
with that value, a single identifier, or a comment.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import unicodedata
from collections.abc import Collection
from typing import Any

import numpy as np

from ..errors import DTypeError
from . import fork_safety

__all__ = ["checked_helpers", "comment_source", "constant_source", "file_lines", "identifier", "is_generated_name",
           "lines_of", "parsed"]  # fmt: skip


def constant_source(value: Any) -> str:
    """An expression for a value, where `np` is NumPy.

    It may be a number (NumPy's, and those of subclasses, become Python's), a string, None, an array of numbers, or a
    tuple, list or set of these.

    Examples
    --------
    >>> import numpy as np
    >>> [constant_source(x) for x in (-0.0, np.float32(0.5), (1, float("-inf")), 'a "b"')]
    ['-0.0', '0.5', '(1, -np.inf)', '\\'a "b"\\'']
    """
    if value is None:
        return "None"
    if isinstance(value, bool | np.bool_):
        return "True" if value else "False"
    if isinstance(value, int):
        # Python limits decimal digits. Subclasses' own methods are bypassed.
        return int.__repr__(value) if abs(int.__index__(value)) < 1 << 64 else int.__format__(value, "#x")
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, complex):
        return f"complex({_float(value.real)}, {_float(value.imag)})"
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, np.generic) and value.dtype.kind in "iufc":
        number = value.item()
        if isinstance(number, int | float | complex):  # not a longdouble
            return constant_source(number)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and value.dtype.itemsize < 16:
        shaped = "" if value.size else f".reshape({constant_source(value.shape)})"
        return f"np.array({constant_source(value.tolist())}, np.{value.dtype.name.replace('bool', 'bool_')}){shaped}"
    if isinstance(value, tuple):
        return f"({', '.join(map(constant_source, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(constant_source, value))}]"
    if isinstance(value, set | frozenset) and value:
        return f"{{{', '.join(sorted(map(constant_source, value)))}}}"
    raise DTypeError(f"a {type(value).__name__}, {value!r}, cannot be a constant of generated code")


def _float(value: float) -> str:
    if math.isfinite(value):
        return float.__repr__(value)
    return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"


def identifier(name: Any, taken: Collection[str] = ()) -> str:
    """A valid identifier similar to `name`, and none of those that are `taken`.

    Examples
    --------
    >>> identifier("step"), identifier("<lambda>"), identifier("class"), identifier("2 b")
    ('step', 'lambda_', 'class_', '_2_b')
    """
    text = unicodedata.normalize("NFKC", name if isinstance(name, str) else "")
    valid = "".join(c if f"a{c}".isidentifier() else "_" for c in text)
    valid = valid if valid == text else valid.strip("_")
    valid = valid or "function"
    valid = valid if valid.isidentifier() else f"_{valid}"
    while keyword.iskeyword(valid) or valid in taken or valid in ("None", "True", "False"):
        valid += "_"
    return valid


def comment_source(text: str) -> str:
    """A line as a comment; line separators and other invisible characters become spaces."""
    visible = "".join(" " if c != "\t" and unicodedata.category(c) in _UNSEEN else c for c in text)
    return f"# {visible}"


_UNSEEN = {"Cc", "Zl", "Zp", "Cs"}


def lines_of(text: str) -> list[str]:
    """The lines of source text as Python counts them; ``splitlines`` also splits at form feeds and U+2028."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def file_lines(text: str) -> list[str]:
    """The lines with their line ends, as :mod:`linecache` stores them for tracebacks and ``inspect``."""
    return [f"{line}\n" for line in lines_of(text)]


_parsing = fork_safety.lock("parsing")


def parsed(source: str, mode: str = "exec") -> Any:
    """The syntax tree of `source`. Python counts the depth of all threads' trees in one place: they take turns."""
    with _parsing:
        return ast.parse(source, mode=mode)


def is_generated_name(name: str) -> bool:
    """Whether a name may be that of a variable in generated code: a letter or a word of loops, and a number."""
    return re.fullmatch(r"([a-z]|low|high|out)\d+", name) is not None


def checked_helpers(name: str, helpers: dict[str, Any]) -> dict[str, Any]:
    """The global names that the code of a function uses; an error if variables of generated code may be called so."""
    if taken := [h for h in helpers if is_generated_name(h)]:
        raise ValueError(f"{name}: {taken[0]} is what generated code calls variables; name the helper otherwise")
    return helpers
