"""Whole files around generated functions, with functions that these call."""

from __future__ import annotations

import numpy as np

from ..adopted import home
from ..statements.ir import Function
from ..statements.tapes import GROWN

__all__ = ["module", "routines"]

#: The schedule of checkpoints.
_AHEAD = '''def ahead(turns, snapshots):
    """How many of `turns` to run before the next snapshot, if there are `snapshots`, the present one among them."""
    if snapshots == 1:
        return turns - 1
    repeats, reach = 0, 1  # reach is the binomial coefficient of snapshots + repeats over repeats
    while reach < turns:
        repeats += 1
        reach = reach * (snapshots + repeats) // repeats
    fewer = reach * snapshots // (snapshots + repeats)  # with one snapshot less
    once = reach * repeats // (snapshots + repeats)  # with one repeat less
    twice = once * (repeats - 1) // (snapshots + repeats - 1)
    return max(twice, turns - fewer, 1)
'''


#: A sum whose additions may be reordered, so that it can be made in vector registers.
_PLUS = """def plus(total, term):
    return total + term
"""


def routines(body: str) -> str:
    """The definitions of those that `body` calls."""
    used = (text for text in (GROWN, _AHEAD, _PLUS) if f" {text[4 : text.index('(')]}(" in body)
    options = {_PLUS: '(fastmath={"reassoc", "nsz"}, forceinline=True)'}
    return "".join(f"@njit{options.get(text, '')}\n{text}\n\n" for text in used)


#: Loops over prange, and nothing else, run on several threads.
_PARALLEL = ", parallel=dict.fromkeys(['fusion', 'inplace_binop', 'numpy', 'reduction', 'setitem'], False)"


def module(body: str, f: Function, helpers: dict[str, object]) -> str:
    """A whole file around a generated function, to be pasted anywhere."""
    parallel = any(" in prange(" in line for line in body.split("\n") if not line.lstrip().startswith("#"))
    head = ["import math", "", "import numpy as np", f"from numba import njit{', prange' * parallel}"]
    helpers = {**f.helpers, **helpers}
    head += [f"from {home(k, v)} import {k}" for k, v in sorted(helpers.items())]
    plain = [(k, v) for k, v in f.constants.items()]
    options = "".join(f", {k}={_option(v)}" for k, v in f.options.items())
    if plain:
        head += ["", *(f"{k} = {_literal(v)}" for k, v in plain)]
    return (
        "\n".join([*head, "", "", ""])
        + routines(body)
        + f"@njit(nogil=True, error_model='numpy'{_PARALLEL * parallel}{options})\n"
        + body
    )


def _option(value: object) -> str:
    return repr(value) if isinstance(value, bool) else f"{{{', '.join(sorted(map(repr, value)))}}}"  # type: ignore[call-overload]


def _literal(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r}, np.{value.dtype.name})"
    return repr(value.item() if isinstance(value, np.generic) else value)
