"""Recursion: calls of a function by itself, or by functions that it calls, are inlined while its depth is a constant.

Arguments whose values are known are constants in the called function, so that the test that ends the recursion is
decided when code is generated (:mod:`.partial_evaluation`), and only one branch is lowered.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.statements import Check
from ..ir.terms import TRUE, integer
from .array_expressions import ArrayExpr, Scalar, Static
from .known_integers import integer_of
from .partial_evaluation import parameters_in

if TYPE_CHECKING:
    from .calls import Calls
    from .source import Source

__all__ = ["MAX_DEPTH", "constant_argument", "ends_recursion", "too_deep"]

#: How often a function may be in itself, and how many recursive calls are inlined.
MAX_DEPTH = 64
MAX_CALLS = 256
#: How deep calls of functions of numbers are inlined where values decide about it: many call themselves once, with
#: another sign.
DEPTH_OF_NUMBERS = 3


def constant_argument(low: Calls, source: Source, tree: ArrayExpr) -> ArrayExpr:
    """An argument of a call of `source`: a constant for an integer that is known, if the function calls itself."""
    if source.definition_site not in low.within or not isinstance(tree, Scalar):
        return tree
    known = integer_of(low, tree.term)
    return tree if known is None else Scalar(integer(known))


def _known_value(low: Calls, tree: ArrayExpr) -> object:
    """The value of an argument that is known when code is generated, to be compared; None for any other."""
    if isinstance(tree, Static):
        return tree.value if isinstance(tree.value, str) else id(tree.value)
    return integer_of(low, tree.term) if isinstance(tree, Scalar) else None


def ends_recursion(low: Calls, inner: Calls, node: ast.Call, source: Source, trees: list[ArrayExpr]) -> bool:
    """Whether a call of `source`, which `inner` is to lower, with the arguments `trees`, ends in an error when it is
    made: the function calls itself, values decide how deep, and so deep it is not inlined. Refuse the call if it is
    too deep by what is known."""
    depth = low.within.count(source.definition_site)
    inner.calls_around = (*low.calls_around, (source.definition_site, known := [_known_value(low, t) for t in trees]))
    if not depth:
        return False
    low.shared.recursive_calls += 1
    unknown = [t for t, value in zip(trees, known, strict=True) if value is None]
    no_integers = all(isinstance(t, Scalar) and low.kind_of_tree(t) in ("float", "bool", "") for t in unknown)
    again = inner.calls_around[-1] in low.calls_around  # what is known goes round: it does not end the recursion
    if len(unknown) == len(trees) or (again and no_integers):
        if not no_integers or low.shared.recursive_calls > MAX_CALLS:
            for t in unknown:  # which are known if code is generated for each value of these arguments
                low.shared.may_decide |= parameters_in(low, t.term, ("int",)) if isinstance(t, Scalar) else set()
            raise low.source.refuse(node, f"{source.name}, which calls itself to a depth that is not known", _INSTEAD)
        if depth <= DEPTH_OF_NUMBERS:
            return False
        text = f"{source.name} calls itself more than {DEPTH_OF_NUMBERS} deep, which values decide; {_INSTEAD}"
        low.emit(Check(TRUE, text, "RecursionError"))
        return True
    if depth > MAX_DEPTH or low.shared.recursive_calls > MAX_CALLS:
        limit = f"more than {MAX_DEPTH} deep" if depth > MAX_DEPTH else f"more than {MAX_CALLS} times"
        raise low.source.refuse(node, f"{source.name}, which calls itself {limit}", _INSTEAD)
    return False


_INSTEAD = ("pass a constant that counts down to a test of it, write a loop, or make it a primitive with a vjp "
            "(nb.primitive)")  # fmt: skip


def too_deep(low: Calls, node: ast.Call, source: Source) -> Exception:
    """The error where Python's stack has ended."""
    what = f"{source.name}, in which calls are nested too deeply for Python's stack"
    return low.source.refuse(node, what, _INSTEAD)
