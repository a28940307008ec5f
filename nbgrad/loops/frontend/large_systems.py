"""Calls of np.linalg by LAPACK, where matrices are large.

Loops are the better code for small matrices: for systems of 2, value and gradient take an eighth of the time that they
take by LAPACK, for 12 as long, for 200 ten times as long. How large they are is known at a call only, and guessed from
its arguments: code for large ones is generated when it is first needed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..custom_rules import Rule, register_rule
from ..runtime.lapack import RULES
from ..runtime.lapack_factors import DET
from . import primitive_calls
from .array_expressions import ArrayExpr, Lowered, TupleExpr
from .function_table import DEFINITIONS
from .library.factors import qr_of_large
from .library.linalg import qr_in_loops

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["are_large", "lower_by_lapack"]

#: From this length on, matrices are large.
_LARGE = 16
#: The rule that takes the place of a definition, by the ranks of the arguments, or the other definition that does.
_OF_LARGE: dict[tuple, Rule | Callable] = {
    (DEFINITIONS[function], *ranks): register_rule(*rule) for (function, *ranks), rule in RULES.items()
}
_OF_LARGE |= {(DEFINITIONS[np.linalg.det], 2): register_rule(*DET), (qr_in_loops, 2): qr_of_large}
_FUNCTIONS = {function for function, *_ in _OF_LARGE}


def are_large(args: tuple) -> bool:
    """Whether the matrices among the arguments, or else the vectors, are so large that LAPACK is faster than loops."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    if any(a.dtype == np.float32 for a in arrays):
        return False
    matrices = [a for a in arrays if a.ndim > 1]
    return any(min(a.shape[-2:]) > _LARGE for a in matrices or arrays)


def lower_by_lapack(low: Calls, node: ast.Call, function: Any, arguments: dict[str, ast.expr]) -> ArrayExpr | None:
    """The result of a call of a function of np.linalg, given its definition; None if that is to be inlined."""
    if function not in _FUNCTIONS:
        return None
    low.lowered_function.has_systems = True
    if not low.shared.large_systems or low.shared.parallel:
        return None
    trees = [low.array_like(a) for a in arguments.values()]
    rule = _OF_LARGE.get((function, *(t.rank for t in trees)))
    if rule is None or any(low.kind_of_tree(t) != "float" for t in trees):
        arguments |= {p: ast.copy_location(Lowered(t), node) for p, t in zip(arguments, trees, strict=True)}
        return None
    low.lowered_function.large_systems = True
    if not isinstance(rule, Rule):
        return low.library(rule, node, *trees)
    results = primitive_calls.lower_primitive_call(low, node, rule, trees, "")
    return TupleExpr(results) if isinstance(results, list) else results
