"""Names in generated code: fresh variables, imports, and the spelling of known functions.

A fresh name collides with no variable, global, builtin, keyword or reserved name of the function being compiled.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import keyword
import math
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .terms import Call, Constant, Global, Term, Unary

__all__ = [
    "FUNCTION_NAMES",
    "RESERVED",
    "Import",
    "Names",
    "called",
    "literal",
    "nfkc_name",
]  # fmt: skip

#: The spelling of each known function in generated code.
FUNCTION_NAMES: dict[object, str] = {}
for _module, _prefix in ((np, "np"), (math, "math")):
    for _name in vars(_module):
        with contextlib.suppress(TypeError):  # unhashable: no function
            FUNCTION_NAMES.setdefault(getattr(_module, _name), f"{_prefix}.{_name}")
FUNCTION_NAMES |= {f: f.__name__ for f in (float, int, bool, abs, min, max, round, len, pow, range)}
FUNCTION_NAMES |= {t: f"np.{t.__name__}" for t in vars(np).values() if isinstance(t, type) and issubclass(t, np.number)}
#: Names with a fixed meaning throughout generated code: none of its variables may use them.
RESERVED = {
    *("np", "math", "njit", "prange", "grown", "plus", "ahead", "in_large_pages", "OutOfRange", "outside"),
    *("add_product", "add_to_triangle", "add_triangular_product", "large_product", "large_triangle", "print_values"),
    *("range", "len", "abs", "min", "max", "int", "float", "bool", "round", "pow"),
    *(n for n, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)),
}
#: Names that are never fresh: they would mislead the reader, or are keywords.
_MISLEADING = {*RESERVED, *dir(builtins), *keyword.kwlist, *keyword.softkwlist}
_MODULES = {"np": np, "math": math}


def called(function: object, *operands: Term) -> Call:
    """A call of a function of Python's or NumPy's."""
    return Call(Global(FUNCTION_NAMES[function], function), operands)


def literal(value: float) -> Term:
    """The term of a number, as Python parses it: ``-0.5`` is the negative of ``0.5``, an infinity is NumPy's."""
    if math.isinf(value):
        infinity = Global("np.inf", np.inf)
        return infinity if value > 0 else Unary("-", infinity)
    if math.isnan(value):
        return Global("np.nan", np.nan)
    return Unary("-", Constant(-value)) if math.copysign(1.0, value) < 0 else Constant(value)


class Import(NamedTuple):
    """A function that a generated file imports: its name in its module, the function, and what a call of it resolves
    to (the primitive that it implements, or the function itself)."""

    name: str
    function: object
    resolves_to: object


class Names:
    """All names in a function and in the code generated from it; gives out fresh ones.

    Attributes
    ----------
    taken : set of str
        The names in use: variables, parameters, free variables of the function and of those inlined into it, names
        given out, and the reserved names of Python and of generated code.
    free_names : set of str
        Those of them that are used only for free variables, whose constants or imports may keep the name.
    callee_names : set of str
        The names in functions being inlined; fresh names outside of these avoid them.
    imports : dict
        The functions that the generated file imports, by their names in it.
    """

    def __init__(self, taken: Iterable[str], outside: Iterable[str] = ()) -> None:
        self.taken = {*map(nfkc_name, taken), *_MISLEADING}
        self.free_names = set(outside) - _MISLEADING
        self.callee_names: set[str] = set()
        self.imports: dict[str, Import] = {}
        self._last: dict[tuple[str, int, bool], int] = {}  # suffixes tried

    def copy(self) -> Names:
        """A copy, for one of several files generated from a function."""
        other = copy.copy(self)
        other.taken, other.free_names, other.callee_names = (
            set(self.taken),
            set(self.free_names),
            set(self.callee_names),
        )
        other.imports, other._last = dict(self.imports), dict(self._last)
        return other

    def fresh(self, name: str, number: int = 1, plain: bool = True, of_theirs: bool = False) -> str:
        """A new name: `name`, or, if that is taken or not to be `plain`, with a numeric suffix from `number` on.

        `of_theirs`: the name is for a function being inlined.
        """
        name = nfkc_name(name)
        new, k = name, self._last.get((name, number, of_theirs), number)
        if not plain:
            new, k = f"{name}{k}", k + 1
        while new in self.taken or (new in self.callee_names and not of_theirs) or self._doubles_another(new):
            new, k = f"{name}{k}", k + 1
        self._last[name, number, of_theirs] = k
        self.taken.add(new)
        return new

    def _doubles_another(self, name: str) -> bool:
        """Whether two names differ in that one has twice the underscores: Numba compiles no parallel loop with both."""
        double, half = name.replace("_", "__"), name.replace("__", "_")
        return double != name and (double in self.taken or (half in self.taken and half.replace("_", "__") == name))

    def claim_free_name(self, name: str) -> str:
        """A name for a free variable: `name` if it is unused or used only for free variables, else a fresh one."""
        name = nfkc_name(name)
        if name not in self.free_names:
            return self.fresh(name)
        self.free_names.remove(name)  # it is bound to this one from now on
        return name

    def imported(self, name: str, function: object, meaning: object = None) -> str:
        """Import `function`, called `name` in its module; the name that the generated file binds it to."""
        for known_as, known_import in self.imports.items():
            if known_import.function is function:
                if meaning is not None and known_import.resolves_to is function:
                    self.imports[known_as] = Import(known_import.name, function, meaning)
                return known_as
        new = name if name in RESERVED and meaning is None else self.claim_free_name(name)
        self.imports[new] = Import(name, function, meaning or function)
        return new

    def bound_to(self, name: str) -> object:
        """The function or module that a name which is no variable is bound to in lowered code; None if unknown."""
        imported = self.imports.get(name)
        return imported.resolves_to if imported else _MODULES.get(name, getattr(builtins, name, None))


def nfkc_name(name: str) -> str:
    """`name` in NFKC, as Python compares identifiers (PEP 3131)."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)
