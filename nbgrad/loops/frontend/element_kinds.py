"""Kinds of the elements of arrays while they are lowered, before type inference knows all of them."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.mixed_kinds import ENGLISH
from ..ir.terms import ZERO, DType, Element, Global, Term, Variable, subterms
from ..ir.type_inference import ZEROS, kind_of
from .array_expressions import ArrayExpr, Elementwise, FromFunction, Leaf, Op, Scalar, leaves
from .function_table import MODULES
from .syntax import all_names

if TYPE_CHECKING:
    from .scope import Scope

__all__ = ["element_kind", "refuse_rounding", "relied_on_kind", "sample_element"]


def element_kind(low: Scope, tree: ArrayExpr) -> str:
    """The kind of the elements of `tree` as it looks now, "" if not known yet. Nothing may depend on it that is wrong
    for others: an array may be bound anew, further down in the body of a loop."""
    sample = sample_element(tree)
    possible = {kind_of(sample, _Guess(low, guess)) for guess in ("bool", "float")}  # type: ignore[arg-type]
    return possible.pop() if len(possible) == 1 else ""


def relied_on_kind(low: Scope, tree: ArrayExpr, certain: bool = False) -> str:
    """The kind of the elements of `tree`, "" if not known yet. If it is another one in the end, the code is refused.

    `certain`: also for numbers, and where an integer that is written there would become a float.
    """
    kind, sample = element_kind(low, tree), sample_element(tree)
    arrays = sorted({t.array for t in subterms(sample) if isinstance(t, Element)} - {*low.lowered_function.parameters})
    if certain and not arrays and isinstance(sample, Variable) and sample.name not in low.lowered_function.parameters:
        arrays = [sample.name]
    if kind and arrays:
        user: Any = low
        while user.source.module in MODULES and user.outer is not None:
            user = user.outer
        statements, k = user.block_position
        one = f"an array of {ENGLISH[kind]}" if tree.rank or not certain else f"one of {ENGLISH[kind]}"
        what = f"{one} here, and of others there,"
        named = [n for n in arrays if low.named_by_user(n) in all_names(user.source.node)]
        what = f"{low.named_by_user(named[0])}, {what}" if named else what
        refused = partial(
            user.source.refuse, statements[k], what, "use another name for each, or convert them (x * 1.0)"
        )
        low.lowered_function.relied_on_kinds.append((sample, kind, certain, refused))
    return kind


def refuse_rounding(low: Scope, node: ast.AST, array: str, tree: ArrayExpr) -> None:
    """Refuse to bind the name of an array of float32 to one of float64, whose elements would be rounded."""

    def is_single(dtype: Term) -> bool:
        if isinstance(dtype, DType):
            argument = dtype.array in low.lowered_function.parameters and low.shared.float32_arguments
            return argument and dtype.array not in low.shared.float64_parameters
        return isinstance(dtype, Global) and dtype.value is np.float32

    def is_double(operand: ArrayExpr) -> bool:
        if not operand.rank or element_kind(low, operand) == "bool":
            return False
        if isinstance(operand, Leaf) and operand.view.name in low.shared.made_by_library:
            return False  # factors and the like, which are float64 here alone
        return element_kind(low, operand) == "int" or not is_single(Elementwise(low, node).dtype(operand))

    if is_single(low.shared.dtypes.get(array, DType(array))) and any(map(is_double, leaves(tree))):
        what = f"{low.named_by_user(array)}, an array of float32 here or before, and of float64 there,"
        raise low.source.refuse(node, what, "make it float64 from the beginning, or round it (.astype(np.float32))")


def sample_element(tree: ArrayExpr) -> Term:
    """Some element, for its kind alone."""
    match tree:
        case Scalar():
            return tree.term
        case Leaf():
            return tree.view.at([ZERO] * tree.rank)
        case FromFunction() if tree.build is not None:
            return tree.build(*[ZERO] * tree.rank)
        case FromFunction(kind=str(kind)) if kind:
            return ZEROS[kind]
        case Op():
            return tree.build(*map(sample_element, tree.args))
    return ZEROS["float"]


class _Guess:
    """Kinds of names for :func:`.kind_of`, with `guess` for those not known yet."""

    def __init__(self, low: Scope, guess: str) -> None:
        self.low, self.guess = low, guess

    @property
    def kinds(self) -> _Guess:
        return self

    def __getitem__(self, name: str) -> str:
        f, shared = self.low.lowered_function, self.low.shared
        if name in shared.element_kinds:
            return shared.element_kinds[name] or self.guess
        if name in f.parameters or name in f.constants or name in shared.induction_variables or f.ranks.get(name):
            return f.kinds[name]
        if name in shared.length_upper_bounds:  # a length
            return "int"
        if name in shared.known_kinds:
            return shared.known_kinds[name]
        if name in shared.float_scalars:
            return "float"
        known = shared.known_integers.get(name, Variable(name))
        return self.guess if known is Variable(name) else kind_of(known, self)  # type: ignore[arg-type]

    def get(self, name: str, default: str) -> str:
        return self[name]
