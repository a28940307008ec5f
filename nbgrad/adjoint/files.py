"""Whole files around generated functions."""

from __future__ import annotations

import numpy as np

from .adopted import home
from .ir import Function
from .routines import routines

__all__ = ["module"]

#: Loops over prange, and nothing else, run on several threads.
_PARALLEL = ", parallel=dict.fromkeys(['fusion', 'inplace_binop', 'numpy', 'reduction', 'setitem'], False)"


def module(body: str, f: Function, helpers: dict[str, object]) -> str:
    """A whole file around a generated function, to be pasted anywhere."""
    parallel = " in prange(" in body
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
