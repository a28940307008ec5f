"""Source of a whole module around a generated function: imports, constants, and the routines that it calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ...core.source_text import constant_source
from ...errors import TraceError
from ..custom_rules import home
from ..ir.names import Names
from ..ir.printer import Definition
from ..ir.statements import Function
from ..ir.tapes import GROWN

__all__ = ["module", "refusing_deep_nesting", "routines"]

#: The schedule of checkpoints.
_AHEAD = '''def ahead(trips, snapshots):
    """How many of `trips` to run before the next snapshot, if there are `snapshots`, the present one among them."""
    if snapshots == 1:
        return trips - 1
    repeats, reach = 0, 1  # reach is the binomial coefficient of snapshots + repeats over repeats
    while reach < trips:
        repeats += 1
        reach = reach * (snapshots + repeats) // repeats
    fewer = reach * snapshots // (snapshots + repeats)  # with one snapshot less
    once = reach * repeats // (snapshots + repeats)  # with one repeat less
    twice = once * (repeats - 1) // (snapshots + repeats - 1)
    return max(twice, trips - fewer, 1)
'''


#: A sum whose additions may be reordered, so that it can be vectorized.
_PLUS = """def plus(total, term):
    return total + term
"""


_ROUTINES = {
    "grown": f"@njit\n{GROWN}",
    "ahead": f"@njit\n{_AHEAD}",
    "plus": f'@njit(fastmath={{"reassoc", "nsz"}}, forceinline=True)\n{_PLUS}',
}


def routines(calls: Collection[str]) -> str:
    """The definitions of the routines that are among `calls`."""
    return "".join(f"{text}\n\n" for name, text in _ROUTINES.items() if name in calls)


#: Numba options that parallelize loops over prange, and nothing else.
_PARALLEL = ", parallel=dict.fromkeys(['fusion', 'inplace_binop', 'numpy', 'reduction', 'setitem'], False)"


def module(body: Definition, f: Function, names: Names) -> str:
    """The source of a self-contained module around the generated function `body`; `names` are the names in it."""
    parallel = "prange" in body.routines
    head = ["import math", "", "import numpy as np", f"from numba import njit{', prange' * parallel}"]
    head += [f"from {home(i.name, i.function)} import {i.name}{f' as {k}' * (k != i.name)}"
             for k, i in sorted(names.imports.items())]  # fmt: skip
    plain = [(k, v) for k, v in f.constants.items()]
    options = "".join(f", {k}={constant_source(v)}" for k, v in f.options.items())
    if plain:
        head += ["", *(f"{k} = {constant_source(v)}" for k, v in plain)]
    return (
        "\n".join([*head, "", "", ""])
        + routines(body.routines)
        + f"@njit(nogil=True, error_model='numpy'{_PARALLEL * parallel}{options})\n"
        + body.text
    )


@contextmanager
def refusing_deep_nesting(f: Function) -> Iterator[None]:
    """Compile code generated for `f`; an error about its nesting becomes one about the function."""
    try:
        yield
    except (IndentationError, RecursionError, MemoryError):  # depending on how deep the nesting is
        raise TraceError(
            f"adjoint: {f.where}: branches and loops are nested too deeply, where each elif counts as a level: Python "
            "allows 100; choose by an index into an array, or in a loop"
        ) from None
