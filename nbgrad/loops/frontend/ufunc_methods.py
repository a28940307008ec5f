"""Methods of NumPy's functions of two numbers: ``np.add.reduce``, ``np.maximum.accumulate``, ``np.subtract.outer``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.functions import FUNCTIONS
from .array_expressions import ArrayExpr, Leaf, Scalar
from .function_table import lowers
from .operator_functions import OPERATORS, operation
from .reductions import Reductions

if TYPE_CHECKING:
    from .calls import Calls

__all__: list[str] = []  # it registers


#: The reductions that ``reduce`` is, and the scans that ``accumulate`` is, both along the first axis by default.
_REDUCTIONS: dict[Any, object] = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
                                  np.logical_and: np.all, np.logical_or: np.any}  # fmt: skip
_SCANS: dict[Any, object] = {np.add: np.cumsum, np.multiply: np.cumprod,
                             **{f: f.accumulate for f in (np.maximum, np.minimum)}}  # fmt: skip


def _along_first_axis(function: object) -> Callable:
    def lower(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
        if any(k.arg == "axis" for k in node.keywords) or len(node.args) > 1:
            keywords = node.keywords
        else:
            keywords = [*node.keywords, ast.keyword("axis", ast.copy_location(ast.Constant(0), node))]
        return Reductions(low, node).reduce(function, node.args, keywords, hint)

    return lower


for _known, _method in ((_REDUCTIONS, "reduce"), (_SCANS, "accumulate")):
    for _ufunc, _function in _known.items():
        lowers(getattr(_ufunc, _method), arguments=(1, 2), keywords=True)(_along_first_axis(_function))


def _outer(ufunc: np.ufunc) -> Callable:
    """Each element of the first argument with each of the second."""

    def lower(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
        first, second = low.operands(node, 2)
        if isinstance(first, Scalar) or isinstance(second, Scalar):
            pair = [first, second]
        else:
            view = low.view_of(first, node.args[0])
            pair = [Leaf(replace(view, order=(*view.order, *[None] * second.rank))), second]
        return operation(low, node, OPERATORS[ufunc], pair) if ufunc in OPERATORS else low.apply(ufunc, pair)

    return lower


for _function in (*OPERATORS, *FUNCTIONS):
    if isinstance(_function, np.ufunc) and _function.nin == 2:
        lowers(_function.outer, arguments=(2, 2))(_outer(_function))
