"""Functions and methods of arrays that are lowered in a few lines each: selections, shapes and conversions."""

from __future__ import annotations

import ast
import builtins
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..ir.names import called as call_of
from ..ir.terms import MINUS_ONE, Binary, Constant, Length, Select
from .array_creation import ArrayCreation
from .array_expressions import ArrayExpr, Leaf, Lowered, Scalar, TupleExpr, combine, copy_of_values
from .function_table import MANY, lowers, method
from .reductions import Reductions
from .reshaping import contiguous, reshaped
from .syntax import unparse
from .views import fold_negation

if TYPE_CHECKING:
    from .calls import Calls

__all__: list[str] = []  # it registers


# Selections.


@lowers(np.where, arguments=(1, 3))
def _where(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    operands = low.operands(node, 1, 3)
    return combine(Select, operands) if len(operands) == 3 else low.library(np.nonzero, node, *operands)


@lowers(np.clip, arguments=(3, 3), methods=True)
def _clip(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    x, lowest, highest = low.operands(node, 3)
    return low.apply(np.minimum, [low.apply(np.maximum, [x, lowest]), highest])


@lowers(builtins.max, builtins.min, arguments=(1, MANY))
def _extremum(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """Of several numbers, of a tuple, or of a vector."""
    only = low.tree(node.args[0]) if len(node.args) == 1 else None
    if only is not None and only.rank == 1:
        argument = ast.copy_location(Lowered(only), node)
        return Reductions(low, node).reduce(np.max if called is builtins.max else np.min, [argument], [], "")
    if only is not None and not only.rank and not isinstance(only, TupleExpr):
        raise low.source.refuse(node, f"the call {unparse(node)}", "give it several numbers, a tuple or a vector")
    return low.elementwise_call(node, None if only is None else [only])


@lowers(divmod, arguments=(2, 2))
def _divmod(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    a, b = (Scalar(low.name_or_constant(low.value(n))) for n in node.args)
    return TupleExpr([combine(partial(Binary, op), [a, b]) for op in ("//", "%")])


# Shapes.


@lowers(len, arguments=(1, 1))
def _len(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    argument = node.args[0]
    pack = low.tuple_of(argument)
    if pack is not None:
        return Scalar(Constant(len(pack.items)))
    if isinstance(argument, ast.Call) and low.function_of(argument.func) is range:
        return Scalar(call_of(len, call_of(range, *map(low.value, argument.args))))
    view = low.view(argument)
    if low.is_whole(view) and isinstance(argument, ast.Name) and view.name in low.lowered_function.parameters:
        return Scalar(Length(view.name, 0))
    return Scalar(low.shape(view)[0])


@lowers(np.ndim, arguments=(1, 1))
def _ndim(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return Scalar(Constant(low.operands(node, 1)[0].rank))


@lowers(np.reshape, arguments=(1, MANY), methods=True, keywords=True, shares=True)
def _reshape(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    if node.keywords or len(node.args) < 2:
        raise low.source.refuse(node, f"the call {unparse(node)}", "pass the array, and its lengths, in C order")
    array, *lengths = node.args
    view = low.view(array)
    sizes = ArrayCreation(low, node).shape(lengths[0]) if len(lengths) == 1 else [low.value(n) for n in lengths]
    return Leaf(reshaped(low, node, view, [fold_negation(n) for n in sizes]))


@lowers(np.ravel, arguments=(1, 1), methods=True, shares=True)
@lowers(np.ndarray.flatten, arguments=(1, 1))
def _flat(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    view = low.view(node.args[0])
    is_contiguous = contiguous(low, view)
    flat = Leaf(view)
    if view.rank != 1:
        source = view if is_contiguous else low.view_of(copy_of_values(flat), node)
        flat = Leaf(reshaped(low, node, source, [MINUS_ONE]))
    return flat if is_contiguous and called is np.ravel else copy_of_values(flat)


@lowers(np.ndarray.transpose, arguments=(1, 1), shares=True)
def _transpose(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return Leaf(low.view(node.args[0]).transposed)


# Conversions, and methods that are functions of the library.


@lowers(np.ndarray.astype, arguments=(2, 2))
def _astype(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    creation = ArrayCreation(low, node)
    return creation.converted(low.tree(node.args[0]), *creation.dtype_of(node.args[1]))


def _library(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return low.library(called, node, *map(low.tree, node.args))


for _function in (np.argsort, np.repeat, np.take, np.nonzero):
    method(_function, _library)
