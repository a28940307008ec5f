"""Primitives in functions that are differentiated, with rules of their own.

Those of numbers are like other functions; for those of arrays see :mod:`.ruled`. Generated files import them, and their
rules, from here.
"""

from __future__ import annotations

import builtins
import inspect
import opcode
import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import NumbaError
from numba.np.numpy_support import as_dtype

from ..backends.numba.compile import is_nopython, result_type, returned
from ..core.source_text import identifier
from ..errors import TraceError
from ..ir.expr import Fn
from .ir.algebra import FUNCTIONS
from .ir.names import RESERVED

__all__ = ["Forms", "Kind", "Rule", "adopted", "home", "rule_of"]

_vjps: dict[Any, Callable] = {}  # of the primitives that were looked at
_rules: dict[Any, Rule] = {}  # of primitives that Numba compiled
_primitives: dict[Any, Any] = {}  # by the functions of which they are made

Kind = tuple[int, str]  # a number of axes, and "float", "int" or "bool"
_KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}
_NUMBERS = {"float": 1.0, "int": 1, "bool": True}
_DTYPES = {"float": np.float64, "int": np.int64, "bool": np.bool_}


def adopted(called: Any, generated: bool) -> Any:
    """What a function stands for in what is differentiated: of a primitive without a rule, what it is made of.

    A primitive with a rule is put among the functions that are known, if Numba compiled both for numbers. In what
    was `generated`, the function of which it is made stands for it.
    """
    if isinstance(called, Hashable) and generated:
        return _primitives.get(called, called)
    if not all(hasattr(called, name) for name in ("forward", "vjp", "defvjp")):
        return called
    if called.vjp is None:
        return called.forward
    if _vjps.get(called) is not called.vjp:
        _vjps[called] = called.vjp
        _adopt(called)
    return called


def rule_of(called: Any) -> Rule | None:
    """The rule of a primitive that has one, if Numba compiled both."""
    return _rules.get(called) if isinstance(called, Hashable) else None


def _adopt(called: Any) -> None:
    FUNCTIONS.pop(called, None)
    _rules.pop(called, None)
    vjp = getattr(called.vjp, "forward", called.vjp)  # it may be a primitive
    if not (is_nopython(called.forward) and is_nopython(vjp)):
        return
    _rules[called] = Rule(called.name, called.forward, vjp, called.infer)
    _primitives[called.forward] = called
    if isinstance(getattr(called.vjp, "vjp", None), Callable):  # type: ignore[arg-type]
        adopted(called.vjp, False)
    count = len(inspect.signature(called.forward.py_func).parameters)
    try:
        form = returned(called.forward, (1.0,) * count), returned(vjp, (1.0,) * (count + 2))
    except NumbaError:
        return
    parts = form[1] if isinstance(form[1], tuple) else (form[1],)
    if form[0] == "number" and len(parts) == count and set(parts) <= {"number", None}:
        FUNCTIONS[called] = _function(_rules[called], parts, isinstance(form[1], tuple))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    frame = sys._getframe(1)
    importing = frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]
    raise (ImportError if importing else AttributeError)(  # an import makes a message of its own of the latter
        f"{__name__} has no {name}: primitives are here once a function that calls them was differentiated in this "
        f"process; in a file of your own, import what nb.primitive was given as {name}"
    )


def home(name: str, helper: Any) -> str:
    """The module from which generated code imports a function."""
    return __name__ if globals().get(name) is helper else getattr(helper, "bodies", (helper,))[0].__module__


class Rule:
    """A primitive and its vjp; `name` and `vjp` are what they are called in generated code."""

    def __init__(self, name: str, forward: Any, vjp: Any, infer: Callable | None) -> None:
        name = identifier(name, {*RESERVED, *vars(builtins), "ahead", "in_large_pages", "plus"})
        while name in globals() or f"{name}_vjp" in globals():
            name += "_"
        self.name, self.vjp, self.infer = name, f"{name}_vjp", infer
        self.helpers = {self.name: forward, self.vjp: vjp}
        globals().update(self.helpers)
        self._forms: dict[tuple[Kind, ...], Forms] = {}
        self._narrow: dict[tuple[Kind, ...], bool] = {}

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.helpers[self.name].py_func)

    def narrows(self, given: tuple[Kind, ...]) -> bool:
        """Whether results are of float32 where the arrays that are given are."""
        if given not in self._narrow:
            args = [
                a.astype("float32") if isinstance(a := _like(k), np.ndarray) and k[1] == "float" else a for k in given
            ]
            found = result_type(self.helpers[self.name], tuple(args))
            parts = found.types if isinstance(found, types.BaseTuple) else (found,)
            self._narrow[given] = not any(isinstance(p, types.Array) and p.dtype == types.float64 for p in parts)
        return self._narrow[given]

    def forms(self, given: tuple[Kind, ...]) -> Forms:
        """What comes out for arguments like these; an error of Numba's if it does not compile them."""
        if given not in self._forms:
            self._forms[given] = Forms(self, given)
        return self._forms[given]


class Forms:
    """What a primitive and its vjp give for arguments of these kinds.

    Attributes
    ----------
    several, several_parts : bool
        Whether they give tuples.
    results : list of Kind
    parts : list of int or None
        The number of axes of each argument's cotangent, None for none.
    wrong : str
        What is wrong with them.
    """

    def __init__(self, rule: Rule, given: tuple[Kind, ...]) -> None:
        args = tuple([_like(kind) for kind in given])
        self.several, found = _described(result_type(rule.helpers[rule.name], args))
        self.results: list[Kind] = [k for k in found if isinstance(k, tuple)]
        self.parts: list[int | None] = []
        self.several_parts, self.wrong = False, ""
        if len(self.results) < len(found) or not found:
            self.wrong = "it gives something else than arrays and numbers"
            return
        results = [_like(kind) for kind in self.results]
        result = tuple(results) if self.several else results[0]
        self.several_parts, parts = _described(result_type(rule.helpers[rule.vjp], (result, result, *args)))
        parts += [None] * (len(given) - len(parts))
        for k, (part, (rank, kind)) in enumerate(zip(parts, given, strict=False)):
            wanted = kind == "float" and part is not None
            if wanted and not (isinstance(part, tuple) and part[0] == rank):
                self.wrong = f"its vjp does not give an array of {rank} axes for argument {k}" if rank else (
                    f"its vjp does not give a number for argument {k}")  # fmt: skip
            self.parts.append(rank if wanted else None)
        if len(parts) > len(given):
            self.wrong = f"its vjp gives {len(parts)} cotangents for {len(given)} arguments"


def _like(kind: Kind) -> Any:
    rank, name = kind
    return np.empty((0,) * rank, _DTYPES[name]) if rank else _NUMBERS[name]


def _described(kind: types.Type) -> tuple[bool, list]:
    """Whether a type is a tuple, and its parts: kinds, None, and types for anything else."""
    several = isinstance(kind, types.BaseTuple)
    return several, [_kind(part) for part in (kind.types if several else (kind,))]


def _kind(kind: types.Type) -> Kind | types.Type | None:
    if isinstance(kind, types.NoneType):
        return None
    rank = kind.ndim if isinstance(kind, types.Array) else 0
    if not rank and not isinstance(kind, types.Number | types.Boolean):
        return kind
    return (rank, _KINDS[letter]) if (letter := as_dtype(kind.dtype if rank else kind).kind) in _KINDS else kind


#: Of a function's name among expressions; those of the table are one word.
_OURS = "primitive"


def _function(found: Rule, parts: tuple, several: bool) -> Fn:
    rule = found.vjp
    slots = ", ".join(f"{{{k}}}" for k in range(len(parts)))

    arguments = ", ".join(f"{{{k}}}" for k in range(1, len(parts) + 1))
    rules = [
        part and Fn(f"{_OURS} {rule}{k}", f"{rule}(1.0, {{0}}, {arguments}){f'[{k}]' if several else ''}", _ended(rule),
                    helpers={rule: found.helpers[rule]})
        for k, part in enumerate(parts)
    ]  # fmt: skip

    def partials(*args):  # the arguments, and the value
        *given, y = args
        made = tuple(r and r(y, *given) for r in rules)
        return made if len(made) > 1 else made[0]

    return Fn(
        f"{_OURS} {found.name}", f"{found.name}({slots})", partials, helpers={found.name: found.helpers[found.name]}
    )


def _ended(rule: str) -> Callable:
    def partials(*args):
        raise TraceError(
            f"adjoint: {rule} has no derivative; let loops be differentiated, by a primitive without a vjp"
        )

    return partials
