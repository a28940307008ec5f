"""Functions and methods of arrays that are lowered in a few lines each: selections, shapes and conversions."""

from __future__ import annotations

import ast
import builtins
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..ir.names import called as call_of
from ..ir.statements import Check
from ..ir.terms import FALSE, MINUS_ONE, ONE, TRUE, ZERO, Binary, Compare, Constant, Length, Logical, Select, Term
from .array_attributes import imaginary_part
from .array_creation import ArrayCreation
from .array_expressions import (
    ArrayExpr,
    FromFunction,
    Leaf,
    Lowered,
    Scalar,
    TupleExpr,
    combine,
    copy_of_values,
)
from .function_table import MANY, lowers
from .implicit_errors import check_call
from .known_integers import integer_of
from .memory_order import record_sharing
from .overloads import may_be_float32
from .partial_evaluation import is_none, static_truth
from .record_types import is_record
from .records import shape_of_record
from .reductions import Reductions
from .reshaping import contiguous, reshaped
from .structured_control import with_location
from .syntax import bound_name, unparse
from .views import View, axis_length, fold_negation
from .views_without_axes import element_of

if TYPE_CHECKING:
    from .calls import Calls

__all__: list[str] = []  # it registers


# Selections.


@lowers(np.where, arguments=(1, 3))
def _where(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    operands = low.operands(node, 1, 3)
    return combine(Select, operands) if len(operands) == 3 else low.library(np.nonzero, node, *operands)


@lowers(np.clip, arguments=(1, 3), methods=True, keywords=True)
def _clip(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    names = {"a_min": 0, "min": 0, "a_max": 1, "max": 1}
    x, *given = node.args
    limits: list[ast.expr | None] = [*given, None, None][:2]
    for k in node.keywords:
        if k.arg not in names or limits[names[k.arg]] is not None:
            raise low.source.refuse(node, f"{k.arg}= in {unparse(node)}", "give min= and max=, or two limits")
        limits[names[k.arg]] = k.value
    tree = low.array_like(x)
    for limit, function in zip(limits, (np.maximum, np.minimum), strict=True):
        if not is_none(low, limit):
            tree = low.apply(function, [tree, low.array_like(limit)])  # type: ignore[arg-type]
    return tree


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


@lowers(tuple, arguments=(1, 1))
def _tuple(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """A tuple that is returned, of items whose number is known."""
    (made,) = node.args
    if isinstance(made, ast.GeneratorExp | ast.ListComp) and len(made.generators) == 1 and not made.generators[0].ifs:
        items = low.static_items(low.forwards(made.generators[0].iter))  # type: ignore[attr-defined]
        if items is not None:
            return low.tree(ast.copy_location(ast.Tuple(low.elements_for(made.generators[0], made.elt, items)), node))  # type: ignore[attr-defined]
    tree = low.tree(made)
    if isinstance(tree, TupleExpr):
        return TupleExpr(tree.items)
    what = f"{unparse(node)}, whose number of items is not known"
    raise low.source.refuse(node, what, "return an array, or a tuple that is written out")


@lowers(any, all, arguments=(1, 1))
def _any_or_all(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    tree = low.tree(node.args[0])
    if isinstance(tree, TupleExpr) and all(isinstance(t, Scalar) for t in tree.items):
        terms = [
            t.term if low.kind_of_tree(t) == "bool" else Compare(("!=",), (t.term, ZERO))
            for t in tree.items
            if isinstance(t, Scalar)
        ]
        empty: Term = FALSE if called is any else TRUE
        joined = Logical("or" if called is any else "and", tuple(terms)) if len(terms) > 1 else [*terms, empty][0]
        return Scalar(joined)
    if tree.rank != 1:
        raise low.source.refuse(node, f"{unparse(node)} of something other than a vector", "write np.any or np.all")
    function, text = (np.any, "np.any") if called is any else (np.all, "np.all")
    made = ast.Call(bound_name(function, text), [ast.copy_location(Lowered(tree), node)], [])
    return low.known_call(ast.copy_location(made, node), function, hint)


@lowers(np.select, arguments=(2, 3), keywords=True)
def _select(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    tests, choices = (low.tree(a) for a in node.args[:2])
    given = [*node.args[2:], *(k.value for k in node.keywords if k.arg == "default")]
    matched = isinstance(tests, TupleExpr) and isinstance(choices, TupleExpr) and len(tests.items) == len(choices.items)
    if not matched or len(given) != len(node.args) + len(node.keywords) - 2:
        raise low.source.refuse(node, f"the call {unparse(node)}", "give as many conditions as choices, in lists")
    found = low.array_like(given[0]) if given else Scalar(ZERO)
    for test, choice in reversed(list(zip(tests.items, choices.items, strict=True))):  # type: ignore[attr-defined]
        found = combine(Select, [test, choice, found])
    return found


@lowers(np.divmod, arguments=(2, 2))
def _divmod_of_arrays(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    operands: list[ast.expr] = [ast.copy_location(Lowered(a), node) for a in low.operands(node, 2)]
    functions = [bound_name(np.floor_divide, "np.floor_divide"), bound_name(np.remainder, "np.remainder")]
    return TupleExpr([low.tree(with_location(ast.Call(f, operands, []), node)) for f in functions])


@lowers(isinstance, arguments=(2, 2))
def _isinstance(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    holds = static_truth(low, node)
    if holds is None:
        what = f"{unparse(node)}, which is not known here"
        instead = "test an argument that is not set again, or name Python's class beside NumPy's, as (int, np.integer)"
        raise low.source.refuse(node, what, instead)
    return Scalar(Constant(holds))


@lowers(divmod, arguments=(2, 2))
def _divmod(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    operands: list[ArrayExpr] = [Scalar(low.name_or_constant(low.value(n))) for n in node.args]
    a, b = check_call(low, called, operands)
    return TupleExpr([combine(partial(Binary, op), [a, b]) for op in ("//", "%")])


# Shapes.


@lowers(len, arguments=(1, 1))
def _len(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    argument = node.args[0]
    pack = low.plain_tuple(argument)
    if pack is not None:
        return Scalar(Constant(len(pack.items)))
    sizes = low.shape_of(argument)
    if sizes is not None:
        return Scalar(Constant(len(sizes)))
    if isinstance(argument, ast.Call) and low.function_of(argument.func) is range:
        return Scalar(call_of(len, call_of(range, *map(low.value, argument.args))))
    if is_record(tree := low.tree(argument)):
        return Scalar(shape_of_record(low, node, tree)[0])  # type: ignore[arg-type]
    if isinstance(tree, TupleExpr):
        return Scalar(Constant(len(tree.items)))
    view = low.view_of(tree, argument)
    if low.is_whole(view) and isinstance(argument, ast.Name) and view.name in low.lowered_function.parameters:
        return Scalar(Length(view.name, 0))
    return Scalar(low.shape(view)[0])


@lowers(np.ndim, arguments=(1, 1))
def _ndim(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return Scalar(Constant(low.operands(node, 1)[0].rank))


def _array(low: Calls, node: ast.expr) -> View:
    """The view of an array, or of the array that NumPy makes of a list."""
    return low.view_of(low.array_like(node), node)


@lowers(np.reshape, arguments=(1, MANY), methods=True, keywords=True, shares=True)
def _reshape(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    order = [k for k in node.keywords if k.arg == "order" and getattr(k.value, "value", "") == "C"]
    function = not hasattr(node, "written")  # it takes one shape, where the method takes several lengths
    if len(node.keywords) > len(order) or len(node.args) < 2 or (function and len(node.args) > 2):
        raise low.source.refuse(node, f"the call {unparse(node)}", "pass the array, and its lengths, in C order")
    array, *lengths = node.args
    view = _array(low, array)
    record_sharing(low, node, view, view.name)
    sizes = ArrayCreation(low, node).shape(lengths[0]) if len(lengths) == 1 else [low.value(n) for n in lengths]
    return Leaf(reshaped(low, node, view, [fold_negation(low.with_known_integers(n)) for n in sizes]))


@lowers(np.ravel, arguments=(1, 1), methods=True, shares=True)
@lowers(np.ndarray.flatten, arguments=(1, 1))
def _flat(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    view = _array(low, node.args[0]).without_new_axes
    is_contiguous, shares = contiguous(low, view), called is np.ravel
    flat = Leaf(view)
    if view.rank != 1:
        source = view if is_contiguous else low.view_of(copy_of_values(flat), node)
        flat = Leaf(reshaped(low, node, source, [MINUS_ONE]))
    if not shares:
        return copy_of_values(flat)
    if not is_contiguous:
        return copy_of_values(flat, named=partial(record_sharing, low, node, view))
    record_sharing(low, node, view, view.name)
    return flat


@lowers(np.transpose, arguments=(1, MANY), methods=True, shares=True)
def _transpose(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    view, axes = _array(low, node.args[0]), integers(low, node, node.args[1:])
    if not axes:
        return Leaf(view.transposed)
    order = [a % max(view.rank, 1) for a in axes if -view.rank <= a < view.rank]
    if sorted(order) != list(range(view.rank)) or len(axes) != view.rank:
        raise low.source.refuse(node, f"the axes in {unparse(node)}", f"give each of the {view.rank} axes once")
    return Leaf(replace(view, order=tuple([view.order[a] for a in order])))


@lowers(np.swapaxes, arguments=(3, 3), methods=True, shares=True)
@lowers(np.moveaxis, arguments=(3, 3), shares=True)
def _exchange(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    view, axes = _array(low, node.args[0]), integers(low, node, node.args[1:])
    if len(axes) != 2 or not all(-view.rank <= a < view.rank for a in axes):
        raise low.source.refuse(node, f"the axes in {unparse(node)}", f"give two of the {view.rank} axes")
    first, second = (a % view.rank for a in axes)
    order = list(view.order)
    if called is np.moveaxis:
        order.insert(second, order.pop(first))
    else:
        order[first], order[second] = order[second], order[first]
    return Leaf(replace(view, order=tuple(order)))


@lowers(np.expand_dims, arguments=(1, 2), keywords=True, shares=True)
def _expand_dims(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    tree = low.array_like(node.args[0])
    axes = integers(low, node, [*node.args[1:], *(k.value for k in node.keywords if k.arg == "axis")])
    if len(axes) != 1 or len(node.args) + len(node.keywords) != 2 or not -tree.rank - 1 <= axes[0] <= tree.rank:
        raise low.source.refuse(node, f"the call {unparse(node)}", "give one axis")
    if isinstance(tree, Scalar):
        return Leaf(low.tuple_as_array(node, TupleExpr([tree])), True)
    view = low.view_of(tree, node.args[0])
    at = axes[0] % (view.rank + 1)
    return Leaf(replace(view, order=(*view.order[:at], None, *view.order[at:])))


@lowers(np.squeeze, arguments=(1, 2), methods=True, keywords=True, shares=True)
def _squeeze(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """Without axes of length 1: those given, or those that the source and the lengths of arguments show."""
    tree = low.array_like(node.args[0])
    view, shares = low.view_of(tree, node.args[0]), isinstance(tree, Leaf) and not tree.fresh
    given = [*node.args[1:], *(k.value for k in node.keywords if k.arg == "axis")]
    if len(given) != len(node.args) + len(node.keywords) - 1 or len(given) > 1:
        raise low.source.refuse(node, f"the call {unparse(node)}", "give it an array, and perhaps an axis")
    if given and not is_none(low, given[0]):
        axes = integers(low, node, given)
        if not all(-view.rank <= a < view.rank for a in axes) or len({a % view.rank for a in axes}) < len(axes):
            raise low.source.refuse(node, f"the axes in {unparse(node)}", f"give axes of the {view.rank}, each once")
        return _without_axes(low, node, view, {a % view.rank for a in axes}, shares)
    lengths = low.shape(view)
    for length in lengths:
        low.lowered_function.compared_lengths.append((length, ZERO))  # code of its own where one has length 1
        if not isinstance(length, Constant):
            message = f"{low.source.name}: an axis of length 1 in '{unparse(node)}' that is not known: give axis="
            low.out.append(Check(Compare(("==",), (length, ONE)), message))
    return _without_axes(low, node, view, {d for d, length in enumerate(lengths) if length is ONE}, shares)


def _without_axes(low: Calls, node: ast.Call, view: View, axes: set[int], shares: bool) -> ArrayExpr:
    """A view without these axes, whose lengths are 1."""
    parts, order = list(view.parts), list(view.order)
    for d in sorted(axes, reverse=True):
        length, dim = axis_length(view.axis(d)), order.pop(d)
        if length is not ONE:
            message = f"{low.source.name}: axis {d} in '{unparse(node)}' has not length 1"
            low.out.append(Check(Compare(("!=",), (length, ONE)), message))
        if dim is not None:
            parts[dim] = view.axis(d).start
    squeezed = View(view.name, tuple(parts), tuple(order))
    if squeezed.rank:
        return Leaf(squeezed)
    return element_of(low, node, squeezed) if shares else Scalar(squeezed.at([]))


@lowers(np.atleast_1d, np.atleast_2d, np.atleast_3d, arguments=(1, MANY), shares=True)
def _at_least(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    results = [_with_axes(low, node, low.array_like(a), _AXES_IN_FRONT[called]) for a in node.args]
    return results[0] if len(results) == 1 else TupleExpr(results)


#: The axes in front of those of an array with as many axes, and behind them.
_AXES_IN_FRONT: dict[object, list[tuple[int, int]]] = {
    np.atleast_1d: [(1, 0)], np.atleast_2d: [(2, 0), (1, 0)], np.atleast_3d: [(3, 0), (1, 1), (0, 1)],
}  # fmt: skip


def _with_axes(low: Calls, node: ast.Call, tree: ArrayExpr, table: list[tuple[int, int]]) -> ArrayExpr:
    """A number or array with the new axes that the table has for its rank."""
    front, behind = table[tree.rank] if tree.rank < len(table) else (0, 0)
    if isinstance(tree, Scalar):
        term = tree.term
        return FromFunction([ONE] * front, lambda *_: term)
    view = low.view_of(tree, node)
    return Leaf(replace(view, order=(*[None] * front, *view.order, *[None] * behind)))


def integers(low: Calls, node: ast.Call, arguments: list[ast.expr]) -> list[int]:
    """Integers that are known at the call: several, or one tuple of them."""
    trees = [low.tree(a) for a in arguments]
    items = trees[0].items if len(trees) == 1 and isinstance(trees[0], TupleExpr) else trees
    numbers = [integer_of(low, t.term) if isinstance(t, Scalar) else None for t in items]
    if None in numbers:
        low.shared.may_decide.update(*[t.term.named for t in items if isinstance(t, Scalar)])
        raise low.source.refuse(node, f"axes in {unparse(node)} that are not constants", "give integers")
    return numbers  # type: ignore[return-value]


@lowers(np.nextafter, arguments=(2, 2))
def _nextafter(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    trees = low.operands(node, 2)
    if any(isinstance(t, Scalar) for t in trees) and any(may_be_float32(low, t) for t in trees):
        # Numbers are float64 here: the step to its next number is none of float32.
        what = f"{unparse(node)} with a number, where arrays are float32"
        raise low.source.refuse(node, what, "give arrays of float32, as np.full_like(x, np.inf)")
    return low.elementwise_call(node, trees)


# Conversions, and methods that are functions of the library.


@lowers(np.ndarray.astype, arguments=(2, 2))
def _astype(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    creation = ArrayCreation(low, node)
    return creation.converted(low.tree(node.args[0]), *creation.dtype_of(node.args[1]))


@lowers(np.ndarray.item, arguments=(1, MANY))
def _item(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    tree, indices = low.tree(node.args[0]), node.args[1:]
    if indices:
        array: ast.expr = Lowered(tree)
        if len(indices) < tree.rank:  # among all elements
            array = ast.Call(bound_name(np.ravel, "np.ravel"), [array], [])
        index = indices[0] if len(indices) == 1 else ast.Tuple(indices, ast.Load())
        return low.tree(with_location(ast.Subscript(array, index, ast.Load()), node))
    if not isinstance(tree, Scalar):
        raise low.source.refuse(node, "the method item of an array with axes", "give it an index")
    return tree


@lowers(np.real, arguments=(1, 1))
def _real(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return low.tree(node.args[0])


@lowers(np.imag, arguments=(1, 1))
def _imag(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return imaginary_part(low.tree(node.args[0]))


def _by_function(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """A method as a call of the function of its name."""
    name = getattr(called, "__name__", "")
    return low.call(with_location(ast.Call(bound_name(getattr(np, name), name), node.args, node.keywords), node), hint)


for _name in ("argpartition", "argsort", "compress", "diagonal", "nonzero", "repeat", "round", "searchsorted", "take"):
    lowers(getattr(np.ndarray, _name), arguments=(1, MANY), keywords=True)(_by_function)


@lowers(np.ndarray.view, arguments=(1, 1), shares=True)
def _view(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return low.tree(node.args[0])


@lowers(math.log, arguments=(1, 2))
def _log(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    if len(node.args) == 1:
        return low.elementwise_call(node)
    logarithms = [ast.Call(bound_name(math.log, "math.log"), [a], []) for a in node.args]
    return combine(partial(Binary, "/"), [low.tree(with_location(n, node)) for n in logarithms])
