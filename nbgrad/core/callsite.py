"""Call sites: where the user's code called into this package, for messages that name the call and the line."""

from __future__ import annotations

import linecache
import os
import sys
from types import FrameType

__all__ = ["stack_level", "user_call"]

#: Packages whose frames lie between the user's code and the function it called.
_BETWEEN = frozenset({__name__.partition(".")[0], "numpy", "scipy", "pandas", "xarray"})

_SPOKEN = {
    "__array__": "numpy.asarray(x), or a function that calls it,",
    "__cuda_array_interface__": "x.__cuda_array_interface__",
    "__dlpack__": "from_dlpack(x), or another call of x.__dlpack__(),",
    "__bool__": "the truth value of an array (if, while, and, or, not, bool)",
    "__complex__": "complex(x), or a function that calls it,",
    "__ceil__": "math.ceil(x)",
    "__float__": "float(x), or a function that calls it,",
    "__floor__": "math.floor(x)",
    "__format__": "format(x)",
    "__index__": "an array as an index or a count (range, slices, operator.index)",
    "__int__": "int(x), or a function that calls it,",
    "__iter__": "iterating",
    "__len__": "len(x)",
    "__repr__": "print(x), repr(x) or str(x)",
    "__str__": "print(x), repr(x) or str(x)",
    "__trunc__": "math.trunc(x)",
    "full_of": "nd.full(shape, x)",
    "getitem": "x[...]",
    "setitem": "x[...] = value",
}


def stack_level() -> int:
    """The `stacklevel` with which a warning by the caller names the line of the user's code that led to it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_between(frame):
        level, frame = level + 1, frame.f_back
    return level


def _is_between(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN


def user_call() -> tuple[str, str, str]:
    """The call from the user's code that led here.

    Returns the function of this package that was called, in words; the call site: function, file, line and source; and
    the name of the function that the user's code called itself, possibly of another package."""
    frame = sys._getframe(1)
    method = outer = frame.f_code.co_name
    while frame.f_back is not None and _is_between(frame):
        if frame.f_globals["__name__"].partition(".")[0] == __name__.partition(".")[0]:
            method = frame.f_code.co_name
        outer, frame = frame.f_code.co_name, frame.f_back
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line).strip()
    site = f"{code.co_name} ({os.path.basename(code.co_filename)}, line {line})"
    return _SPOKEN.get(method, f"{method}()"), f"{site}: `{text}`" if text else site, outer
