"""Custom rules: primitives with a vjp of their own in differentiated functions.

Primitives of scalars are treated like other scalar functions; for those of arrays see :mod:`.frontend.primitive_calls`.
Generated files import primitives and their vjps from here.
"""

from __future__ import annotations

import builtins
import inspect
import opcode
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numba import types

from ..backends.numba.compile import is_nopython, nopython_function
from ..backends.numba.internals import NumbaError, as_dtype
from ..backends.numba.result_types import result_form, result_type
from ..backends.numba.wrapped_functions import has_hash
from ..core.source_text import identifier, is_generated_name
from ..errors import TraceError
from ..ir.expr import Fn
from .ir.functions import FUNCTIONS, ScalarFunction
from .ir.names import RESERVED

__all__ = ["Forms", "Kind", "Rule", "RuleFamily", "adopted", "home", "kind_of_type", "member", "register_draws",
           "register_rule",
           "rule_of", "stand_in"]  # fmt: skip

_vjps: dict[Any, Callable] = {}  # the registered vjp, by primitive
_rules: dict[Any, Rule | RuleFamily] = {}  # by primitive; Numba compiled it and its vjp
_primitives: dict[Any, Any] = {}  # by their forward functions

Kind = tuple[int, str]  # the rank, and "float", "int", "bool", or "generator" for a random generator
_KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}
_NUMBERS = {"float": 1.0, "int": 1, "bool": True, "generator": np.random.default_rng(0)}
_DTYPES = {"float": np.float64, "int": np.int64, "bool": np.bool_}


@runtime_checkable
class RuleFamily(Protocol):
    """A function whose vjp depends on the ranks and kinds of its arguments: one primitive for each combination."""

    forward: Any
    signature: inspect.Signature

    def member(self, kinds: tuple[Kind, ...]) -> Any: ...


def adopted(called: Any, generated: bool) -> Any:
    """The function to differentiate for a called object: the forward function of a primitive without a vjp.

    A primitive with a vjp is registered as a rule, and as a scalar function if Numba compiles both for scalars. In
    `generated` code, forward functions are mapped back to their primitives.
    """
    if has_hash(called) and generated:
        return _primitives.get(called, called)
    if not hasattr(called, "forward"):
        return called
    if isinstance(called, RuleFamily):
        _rules[called] = called
        return called
    if not all(hasattr(called, name) for name in ("vjp", "defvjp")):
        return called
    if called.vjp is None:
        return called.forward
    if _vjps.get(called) is not called.vjp:
        _vjps[called] = called.vjp
        _adopt(called)
    return called


def register_draws(functions: Iterable[Callable]) -> list[Callable]:
    """The compiled versions of functions that draw random numbers, each with a rule that says so."""
    draws = [nopython_function(f) for f in functions]
    _rules.update({f: Rule(f.__name__, f, None, None) for f in draws})
    return draws


def register_rule(forward: Callable, vjp: Callable, infer: Callable, jvp: Callable | None = None) -> Rule:
    """A rule of the library's own; its functions are routines."""
    rule = _rules[forward] = Rule(forward.__name__, forward, vjp, infer, jvp)
    return rule


def rule_of(called: Any) -> Rule | RuleFamily | None:
    """The rule of a primitive, if Numba compiled it and its vjp."""
    return _rules.get(called) if has_hash(called) else None


def member(family: RuleFamily, kinds: tuple[Kind, ...]) -> tuple[Any, Rule]:
    """The primitive of a family for arguments of these kinds, and its rule."""
    called = adopted(family.member(kinds), False)
    _primitives[family.forward] = family
    rule = rule_of(called)
    assert isinstance(rule, Rule)
    return called, rule


def _adopt(called: Any) -> None:
    FUNCTIONS.pop(called, None)
    _rules.pop(called, None)
    vjp = getattr(called.vjp, "forward", called.vjp)  # it may be a primitive
    if not (is_nopython(called.forward) and is_nopython(vjp)):
        return
    rule = _rules[called] = Rule(called.name, called.forward, vjp, called.infer)
    _primitives[called.forward] = called
    if isinstance(getattr(called.vjp, "vjp", None), Callable):  # type: ignore[arg-type]
        adopted(called.vjp, False)
    count = len(inspect.signature(called.forward.py_func).parameters)
    try:
        form = result_form(called.forward, (1.0,) * count), result_form(vjp, (1.0,) * (count + 2))
    except NumbaError:
        return
    parts = form[1] if isinstance(form[1], tuple) else (form[1],)
    if form[0] == "number" and len(parts) == count and set(parts) <= {"number", None}:
        FUNCTIONS[called] = ScalarFunction(_function(rule, parts, isinstance(form[1], tuple)))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    frame = sys._getframe(1)
    importing = frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]
    raise (ImportError if importing else AttributeError)(  # an import replaces the message of an AttributeError
        f"{__name__} has no {name}: primitives are here once a function that calls them was differentiated in this "
        f"process; in a file of your own, import what nb.primitive was given as {name}"
    )


def home(name: str, helper: Any) -> str:
    """The module from which generated code imports `helper`."""
    return __name__ if globals().get(name) is helper else getattr(helper, "bodies", (helper,))[0].__module__


class Rule:
    """A primitive and its vjp; `name` and `vjp` are their names in generated code.

    One without a vjp `draws` random numbers: each call must run once, in order, and what it returns has no derivative.
    With a `jvp`, which is given the tangents of those arguments that have cotangents, the result and the arguments,
    tangents call that once; without, they call the vjp for each element of the result.
    """

    def __init__(self, name: str, forward: Any, vjp: Any, infer: Callable | None, jvp: Any = None) -> None:
        self.draws = vjp is None
        name = identifier(name, {*RESERVED, *vars(builtins), "ahead", "in_large_pages", "plus"})
        while is_generated_name(name) or name in globals() or f"{name}_vjp" in globals():
            name += "_"
        self.name, self.vjp, self.infer = name, f"{name}_vjp", infer
        self.helpers = {self.name: forward} if self.draws else {self.name: forward, self.vjp: vjp}
        self.jvp = "" if jvp is None else f"{name}_jvp"
        if self.jvp:
            self.helpers[self.jvp] = jvp
        globals().update(self.helpers)
        self._forms: dict[tuple[Kind, ...], Forms] = {}
        self._narrow: dict[tuple[Kind, ...], bool] = {}

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.helpers[self.name].py_func)

    def preserves_float32(self, kinds: tuple[Kind, ...]) -> bool:
        """Whether array results are float32 if the array arguments are."""
        if kinds not in self._narrow:
            args = [
                a.astype("float32") if isinstance(a := stand_in(k), np.ndarray) and k[1] == "float" else a
                for k in kinds
            ]
            returned = result_type(self.helpers[self.name], tuple(args))
            results = returned.types if isinstance(returned, types.BaseTuple) else (returned,)
            self._narrow[kinds] = not any(isinstance(p, types.Array) and p.dtype == types.float64 for p in results)
        return self._narrow[kinds]

    def result_types(self, kinds: tuple[Kind, ...]) -> Forms:
        """The result types for arguments of these kinds; raises what Numba raises if it does not compile them."""
        if kinds not in self._forms:
            self._forms[kinds] = Forms(self, kinds)
        return self._forms[kinds]


class Forms:
    """The types that a primitive and its vjp return for arguments of these kinds.

    Attributes
    ----------
    several, several_parts : bool
        Whether they return tuples.
    results : list of Kind
    parts : list of int or None
        The rank of each argument's cotangent, None for none.
    type_error : str
        Why they cannot be used, or "".
    """

    def __init__(self, rule: Rule, argument_kinds: tuple[Kind, ...]) -> None:
        args = tuple([stand_in(kind) for kind in argument_kinds])
        self.rule_returns_tuple, returned = _described(result_type(rule.helpers[rule.name], args))
        self.results: list[Kind] = [k for k in returned if isinstance(k, tuple)]
        self.cotangent_ranks: list[int | None] = []
        self.vjp_returns_tuple, self.type_error = False, ""
        if len(self.results) < len(returned) or not returned:
            self.type_error = "it returns something other than arrays and numbers"
            return
        if rule.draws:
            self.cotangent_ranks = [None for _ in argument_kinds]
            return
        results = [stand_in(kind) for kind in self.results]
        result = tuple(results) if self.rule_returns_tuple else results[0]
        self.vjp_returns_tuple, parts = _described(result_type(rule.helpers[rule.vjp], (result, result, *args)))
        parts += [None] * (len(argument_kinds) - len(parts))
        for k, (part, (rank, kind)) in enumerate(zip(parts, argument_kinds, strict=False)):
            differentiable = kind == "float" and part is not None
            if differentiable and not (isinstance(part, tuple) and part[0] == rank):
                self.type_error = f"its vjp does not give an array of {rank} axes for argument {k}" if rank else (
                    f"its vjp does not give a number for argument {k}")  # fmt: skip
            self.cotangent_ranks.append(rank if differentiable else None)
        if len(parts) > len(argument_kinds):
            self.type_error = f"its vjp gives {len(parts)} cotangents for {len(argument_kinds)} arguments"


def stand_in(kind: Kind) -> Any:
    """A value of this rank and kind."""
    rank, element = kind
    return np.empty((0,) * rank, _DTYPES[element]) if rank else _NUMBERS[element]


def _described(kind: types.Type) -> tuple[bool, list]:
    """Whether a type is a tuple, and its items: kinds, None, and Numba types for anything else."""
    several = isinstance(kind, types.BaseTuple)
    return several, [kind_of_type(part) for part in (kind.types if several else (kind,))]


def kind_of_type(kind: types.Type) -> Kind | types.Type | None:
    if isinstance(kind, types.NoneType):
        return None
    rank = kind.ndim if isinstance(kind, types.Array) else 0
    if not rank and not isinstance(kind, types.Number | types.Boolean):
        return kind
    return (rank, _KINDS[letter]) if (letter := as_dtype(kind.dtype if rank else kind).kind) in _KINDS else kind


#: Prefix of the names of these functions in expressions; names in the table of scalar functions are single words.
_OURS = "primitive"


def _function(rule: Rule, cotangents: tuple, several: bool) -> Fn:
    vjp = rule.vjp
    slots = ", ".join(f"{{{k}}}" for k in range(len(cotangents)))

    arguments = ", ".join(f"{{{k}}}" for k in range(1, len(cotangents) + 1))
    derivatives = [
        part and Fn(f"{_OURS} {vjp}{k}", f"{vjp}(1.0, {{0}}, {arguments}){f'[{k}]' if several else ''}", _ended(vjp),
                    helpers={vjp: rule.helpers[vjp]})
        for k, part in enumerate(cotangents)
    ]  # fmt: skip

    def partials(*args):  # the arguments, then the value
        *operands, y = args
        results = tuple(r and r(y, *operands) for r in derivatives)
        return results if len(results) > 1 else results[0]

    return Fn(f"{_OURS} {rule.name}", f"{rule.name}({slots})", partials, helpers={rule.name: rule.helpers[rule.name]})


def _ended(rule: str) -> Callable:
    def partials(*args):
        raise TraceError(
            f"adjoint: {rule} has no derivative; let loops be differentiated, by a primitive without a vjp"
        )

    return partials
