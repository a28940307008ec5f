"""What users wrote as source text of ours: values, names, and lines as comments.

Nothing else makes text of these for generated code. Whatever the value, name or line is, what comes out is one
expression that gives that value, one identifier, or comments alone.
"""

from __future__ import annotations

import keyword
import math
import unicodedata
from collections.abc import Collection
from typing import Any

import numpy as np

from ..errors import DTypeError

__all__ = ["comment", "constant", "file_lines", "identifier", "lines_of"]


def constant(value: Any) -> str:
    """An expression that gives this value, where `np` is NumPy: of numbers (those of NumPy, and of classes made of
    Python's, become Python's), texts, None, arrays of numbers, and tuples and sets of these.

    Examples
    --------
    >>> import numpy as np
    >>> constant(-0.0), constant(np.float32(0.5)), constant((1, float("-inf"))), constant('a "b"')
    ('-0.0', '0.5', '(1, -np.inf)', '\\'a "b"\\'')
    """
    if value is None:
        return "None"
    if isinstance(value, bool | np.bool_):
        return "True" if value else "False"
    if isinstance(value, int):
        # Python limits decimal digits. The methods are those of int itself, whatever a class made of it says.
        return int.__repr__(value) if abs(int.__index__(value)) < 1 << 64 else int.__format__(value, "#x")
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, complex):
        return f"complex({_float(value.real)}, {_float(value.imag)})"
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, np.generic) and value.dtype.kind in "iufc":
        number = value.item()
        if isinstance(number, int | float | complex):  # and not a longdouble
            return constant(number)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and value.dtype.itemsize < 16:
        shaped = "" if value.size else f".reshape({constant(value.shape)})"
        return f"np.array({constant(value.tolist())}, np.{value.dtype.name.replace('bool', 'bool_')}){shaped}"
    if isinstance(value, tuple):
        return f"({', '.join(map(constant, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(constant, value))}]"
    if isinstance(value, set | frozenset) and value:
        return f"{{{', '.join(sorted(map(constant, value)))}}}"
    raise DTypeError(f"a {type(value).__name__}, {value!r}, cannot be a constant of generated code")


def _float(value: float) -> str:
    if math.isfinite(value):
        return float.__repr__(value)
    return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"


def identifier(name: Any, taken: Collection[str] = ()) -> str:
    """A name like this one, under which something can be defined; none of those that are `taken`.

    Examples
    --------
    >>> identifier("step"), identifier("<lambda>"), identifier("class"), identifier("2 b")
    ('step', 'lambda_', 'class_', '_2_b')
    """
    text = unicodedata.normalize("NFKC", name if isinstance(name, str) else "")
    made = "".join(c if f"a{c}".isidentifier() else "_" for c in text)
    made = made if made == text else made.strip("_")
    made = made or "function"
    made = made if made.isidentifier() else f"_{made}"
    while keyword.iskeyword(made) or made in taken or made in ("None", "True", "False"):
        made += "_"
    return made


def comment(text: str) -> str:
    """A line as a comment: characters that end lines somewhere, and others that cannot be seen, are spaces."""
    seen = "".join(" " if c != "\t" and unicodedata.category(c) in _UNSEEN else c for c in text)
    return f"# {seen}"


_UNSEEN = {"Cc", "Zl", "Zp", "Cs"}


def lines_of(text: str) -> list[str]:
    """The lines of source text, as Python counts them: others end at form feeds, too, or at U+2028."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def file_lines(text: str) -> list[str]:
    """The same, each with its end, as :mod:`linecache` keeps them for tracebacks and those who read the source."""
    return [f"{line}\n" for line in lines_of(text)]
