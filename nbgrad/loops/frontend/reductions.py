"""Reductions (sums, extrema, norms), scans and products of arrays."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from ..ir.affine import distance
from ..ir.names import called as call_of
from ..ir.statements import Assign, Block, If, Store
from ..ir.terms import ONE, ZERO, Binary, Compare, Constant, Logical, Term, Unary, Variable
from .advanced_indexing import common_mask, require_kind
from .array_expressions import (
    ArrayExpr,
    AxisLoop,
    Elementwise,
    FromFunction,
    Leaf,
    Lowered,
    Op,
    Scalar,
    TupleExpr,
    combine,
    copy_of_values,
    record_order,
)
from .element_kinds import element_kind, relied_on_kind
from .function_table import lowers
from .implicit_errors import check_not_empty
from .known_integers import integer_of
from .library.factors import nuclear_norm, smallest_value, spectral_norm
from .library.sums import column_norm, flattened, row_norm, vector_norm
from .numpy_spellings import first_value
from .operator_functions import of_arrays_of_bools
from .partial_evaluation import is_none, static_truth
from .structured_control import with_location
from .syntax import unparse
from .views import Axis, View, axis_length, compose, product

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["Reductions"]

#: Reductions over all axes, or over one.
_OVER_AXES = (np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.argmax, np.argmin, np.any, np.all)
#: Those that an array without elements has none of.
_EXTREMA = (np.max, np.min, np.amax, np.amin, np.argmax, np.argmin)
#: The arguments after the array, where they are not `axis` and `keepdims`; only the first may be given by position.
_PARAMETERS: dict[object, tuple[str, ...]] = {
    np.linalg.norm: ("ord", "axis", "keepdims"), np.std: ("axis", "ddof", "keepdims"),
    np.var: ("axis", "ddof", "keepdims"), np.cumsum: ("axis",), np.cumprod: ("axis",), np.diff: ("n", "axis"),
    np.trace: (), builtins.sum: (), np.maximum.accumulate: ("axis",), np.minimum.accumulate: ("axis",),
}  # fmt: skip
#: The kinds of reductions whose elements have another one than what they are of.
_KINDS: dict[object, str] = {
    **dict.fromkeys((np.any, np.all), "bool"), **dict.fromkeys((np.argmax, np.argmin), "int"),
    **dict.fromkeys((np.mean, np.std, np.var, np.linalg.norm), "float"),
}  # fmt: skip
#: Scans along an axis, with what combines the elements.
_SCANS = {np.cumsum: "+", np.cumprod: "*", np.maximum.accumulate: ">", np.minimum.accumulate: "<"}

#: Norms of matrices.
_BY_SINGULAR_VALUES = {2: spectral_norm, -2: smallest_value, "nuc": nuclear_norm}


class Reductions:
    """Lowers one call of a reduction."""

    ddof: Term = ZERO  # what a variance subtracts from the number of elements

    def __init__(self, lowering: Calls, node: ast.expr) -> None:
        self.low = lowering
        self.node = node
        self.loops = Elementwise(lowering, node)

    def refuse(self, what: str, instead: str) -> Exception:
        return self.low.source.refuse(self.node, what, instead)

    def reduce(self, called: object, args: list[ast.expr], keywords: list[ast.keyword], hint: str) -> ArrayExpr:
        masked = (
            common_mask(self.low, args[0]) if called in (np.sum, np.mean) and len(args) + len(keywords) == 1 else None
        )
        if masked is not None:
            return self.reduce_masked(called is np.mean, *masked)
        tree = self.low.tree(args[0])
        if called is builtins.sum and isinstance(tree, TupleExpr) and len(args) + len(keywords) == 1:
            return self.sum_of_items(tree.items)
        tree = self.low.as_array(args[0], tree)
        if tree.rank == 0:
            return self.of_number(called, tree, len(args) + len(keywords))
        given = self.given_arguments(called, args, keywords)
        axis, order = given.get("axis"), given.get("ord")
        if called is np.linalg.norm and order is not None and axis is None and "keepdims" not in given:
            return self.norm(tree, order)
        if called in _SCANS:
            return self.cumulative(args[0], tree, _SCANS[called], axis, hint)
        if called is np.diff:
            return self.differences(tree, given)
        if called is np.trace:
            return self.trace(args[0])
        if order is not None:
            called, tree = self.norm_of_order(tree, order)
        if "ddof" in given:
            self.ddof = self.low.value(given["ddof"])
        axes = list(range(tree.rank)) if is_none(self.low, axis) else self.axes(tree, called, axis)
        if called is builtins.sum:  # of the items, which are rows
            axes = [0]
        kept = given.get("keepdims")
        if kept is not None and static_truth(self.low, kept) is None:
            raise self.refuse(f"keepdims= in {unparse(self.node)}, which is no constant", "write True or False")
        return self.reduce_axes(tree, called, axes, kept is not None and bool(static_truth(self.low, kept)), hint)

    def sum_of_items(self, items: list[ArrayExpr]) -> ArrayExpr:
        """Python's sum of the items of a tuple: numbers or arrays. It is no item itself, even of one."""
        if not items:
            return Scalar(ZERO)
        if len(items) == 1 and items[0].rank and self.low.kind_of_tree(items[0]) in ("int", "float"):
            return copy_of_values(items[0])
        operands: list[ast.expr] = [Lowered(t) for t in items]
        if items[0].rank and self.low.kind_of_tree(items[0]) in ("bool", ""):  # of bools, integers
            operands.insert(0, Lowered(Scalar(ZERO)))
        added = reduce(lambda a, b: ast.BinOp(a, ast.Add(), b), operands)
        return self.low.tree(with_location(added, self.node))

    def of_number(self, called: object, tree: ArrayExpr, arguments: int) -> ArrayExpr:
        """The sum, product, largest or smallest of a single number, as of `a @ b`: the number."""
        if called not in (np.sum, np.prod, np.max, np.min) or arguments > 1 or not isinstance(tree, Scalar):
            raise self.refuse(f"{unparse(self.node)} of a number", "pass an array")
        return tree

    def reduce_masked(self, mean: bool, mask: ArrayExpr, node: ast.expr) -> ArrayExpr:
        """The sum or mean of the elements where a mask holds: no list of them is made."""
        tree = self.low.tree(node)
        if isinstance(mask, Leaf):
            require_kind(self.low, self.node, mask.view, "bool")
        self.loops.loop_over(tree)
        self.loops.comparing_mask = True
        holds = self.loops.element(mask)
        self.loops.comparing_mask = False
        element = self.loops.element(tree)
        total = self.accumulator("total", self.first_value(0, element), element)
        add: Block = [Assign(total.name, Binary("+", total, element))]
        if mean:
            count = self.new_accumulator("count", ZERO)
            add.append(Assign(count.name, Binary("+", count, ONE)))
        self.loops.emit_loops([If(holds, add, [])], "")
        return Scalar(Binary("/", total, count) if mean else total)

    def norm(self, tree: ArrayExpr, order: ast.expr) -> ArrayExpr:
        """A norm of a given order over all axes."""
        if is_none(self.low, order) or (tree.rank == 2 and getattr(order, "value", 0) == "fro"):
            return self.reduce_axes(tree, np.linalg.norm, list(range(tree.rank)), False, "")
        number = self.number(order)
        if tree.rank == 2 and number in (1, math.inf):
            return self.low.library(column_norm if number == 1 else row_norm, self.node, tree)
        if tree.rank == 2 and number in _BY_SINGULAR_VALUES:
            return self.low.library(_BY_SINGULAR_VALUES[number], self.node, tree)
        return self.low.library(vector_norm, self.node, tree, self.low.tree(order))

    def number(self, node: ast.expr) -> object:
        """The value of a constant, or of a name from outside."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.number(node.operand)
            return -value if isinstance(value, int | float) else None
        return getattr(node, "value", None) if isinstance(node, ast.Constant) else self.low.resolve(node)

    def given_arguments(self, called: object, args: list[ast.expr], keywords: list[ast.keyword]) -> dict[str, ast.expr]:
        """The arguments after the first one, by name."""
        names = _PARAMETERS.get(called, ("axis", "keepdims"))
        given = dict(zip(names[:1], args[1:], strict=False))
        for k in keywords:
            if k.arg not in names or k.arg in given:
                raise self.refuse(f"{k.arg}= in {unparse(self.node)}", "write a loop")
            given[k.arg] = k.value
        return given

    def axes(self, tree: ArrayExpr, called: object, axis: ast.expr | None) -> list[int]:
        """The axes that a reduction is along."""
        assert axis is not None
        along = self.low.tree(axis)
        items = along.items if isinstance(along, TupleExpr) else [along]
        numbers = [integer_of(self.low, t.term) if isinstance(t, Scalar) else None for t in items]
        axes = [d % tree.rank for d in numbers if d is not None and -tree.rank <= d < tree.rank]
        single = called in (np.argmax, np.argmin)
        if not axes or len(set(axes)) < len(items) or (single and isinstance(along, TupleExpr)):
            self.low.shared.may_decide.update(*[t.term.named for t in items if isinstance(t, Scalar)])
            raise self.refuse(f"the axis in {unparse(self.node)}", "give constants, each axis once, or write a loop")
        return axes

    def norm_of_order(self, tree: ArrayExpr, order: ast.expr) -> tuple[object, ArrayExpr]:
        """A norm along an axis as another reduction."""
        number = self.number(order)
        if isinstance(self.low.tree(self.keyword("axis")), TupleExpr) or number not in (1, 2, math.inf):
            raise self.refuse(f"ord= in {unparse(self.node)}", "give 1, 2 or np.inf and one axis, or write a loop")
        if number == 2:
            return np.linalg.norm, tree
        return (np.sum if number == 1 else np.max), Op(partial(call_of, abs), [tree])

    def keyword(self, name: str) -> ast.expr:
        return next((k.value for k in self.node.keywords if k.arg == name), ast.Constant(0))  # type: ignore[attr-defined]

    def reduce_axes(self, tree: ArrayExpr, called: object, axes: list[int], kept: bool, hint: str) -> ArrayExpr:
        self.loops.loop_over(tree)
        loops = self.loops.axis_loops
        if called in _EXTREMA:
            check_not_empty(self.low, self.node, [loops[d].size for d in axes], tree.rank)
        if len(axes) == tree.rank:
            total = self.reduce_over(tree, called, loops, loops)
            floats = self.kind_of_reduction(called, tree) == "float"
            made = ("float", self.loops.dtype(tree)) if floats else ("", None)
            return FromFunction([ONE] * tree.rank, lambda *_: total, *made) if kept else Scalar(total)
        self.loops.element(tree)  # emits the checks of lengths before the loops
        inner = [loops[d] for d in axes]
        reduced = self.array_of(tree, [t for t in loops if t not in inner], hint,
                                lambda: self.reduce_over(tree, called, inner, loops), like=tree,
                                kind=self.kind_of_reduction(called, tree))  # fmt: skip
        if not kept:
            return reduced
        order = iter(reduced.view.order)
        places = tuple([None if d in axes else next(order) for d in range(tree.rank)])
        return Leaf(replace(reduced.view, order=places), True)

    def array_of(
        self,
        tree: ArrayExpr,
        axis_loops: list[AxisLoop],
        hint: str,
        element: Callable[[], Term],
        outer: list[AxisLoop] | None = None,
        first: Assign | None = None,
        like: ArrayExpr | None = None,
        kind: str = "",
    ) -> Leaf:
        """A new array with one axis per loop, whose elements, of this kind if known, are computed from those of `tree`.

        `outer` are the loops that are to be outside, with the statement `first` in them, before the others. It has the
        order of `like` in memory.
        """
        low = self.low
        name = hint or low.names.fresh("table")
        line, low.line = low.line, ""
        if like is not None:
            record_order(low, name, like)
        low.allocate(name, self.node, [axis_length(t.axis) for t in axis_loops], "", self.loops.dtype(tree), "", line)
        if kind:
            low.shared.element_kinds[name] = kind
        saved, low.out = low.out, []
        value = element()
        low.emit(Store(name, tuple([t.position() for t in axis_loops]), value))
        inner, low.out = low.out, saved
        if outer and first is not None:
            inner = [first, *self.loops.nest(inner, "", [t for t in axis_loops if t not in outer])]
        self.loops.emit_loops(inner, "", outer or axis_loops)
        return Leaf(low.whole_view(name), True)

    def kind_of_reduction(self, called: object, tree: ArrayExpr) -> str:
        """The kind of the elements of a reduction along an axis, "" if not known yet."""
        if called in _KINDS:
            return _KINDS[called]
        kind = element_kind(self.low, tree)
        return "int" if kind == "bool" and called in (np.sum, np.prod, builtins.sum) else kind

    # Scalars.

    def reduce_over(self, tree: ArrayExpr, called: object, axis_loops: list[AxisLoop], every: list[AxisLoop]) -> Term:
        """The reduction over `axis_loops` of the elements at the counters of `every`."""
        if called in _EXTREMA:
            return self.lower_extremum(tree, called, axis_loops, every)
        if called in (np.any, np.all):
            return self.any_or_all(tree, called is np.any, axis_loops, every)
        if called is np.prod:
            return self.fold("product", 1, "*", self.loops.element(tree, every), axis_loops)
        if called in (np.std, np.var):
            return self.variance_or_std(tree, called, axis_loops, every)
        if called is np.linalg.norm:
            tree = Op(_square, [tree])
        total = self.fold("total", 0, "+", self.loops.element(tree, every), axis_loops)
        if called is np.linalg.norm:
            return call_of(math.sqrt, total)
        return Binary("/", total, self.size(axis_loops)) if called is np.mean else total

    def size(self, axis_loops: list[AxisLoop]) -> Term:
        return product([axis_length(t.axis) for t in axis_loops])

    def is_float(self, element: Term) -> bool:
        return element_kind(self.low, Scalar(element)) in ("float", "")

    def fold(
        self, name: str, start: int, op: str, element: Term, axis_loops: list[AxisLoop], reassociable: bool = False
    ) -> Term:
        """Combine the elements of `axis_loops`, from `start` on; only sums of floats are `reassociable`."""
        floats = self.is_float(element)
        result = self.accumulator(name, self.first_value(start, element), element)
        self.emit_loop(Assign(result.name, Binary(op, result, element), reassociable and floats), axis_loops)
        return result

    def dot(self, element: Term, axis_loops: list[AxisLoop]) -> Term:
        """A sum of products; it may be reassociated, as in the BLAS that NumPy calls."""
        return self.fold("total", 0, "+", element, axis_loops, True)

    def new_accumulator(self, name: str, value: Term) -> Variable:
        return Variable(self.low.fresh_scalar(name, value, final=False))

    def first_value(self, start: int, element: Term) -> Constant:
        """`start` as a number of the kind of the elements; an integer, if that is not known."""
        return Constant(float(start) if element_kind(self.low, Scalar(element)) == "float" else start)

    def accumulator(self, name: str, first: Constant, element: Term) -> Variable:
        """A variable that begins with `first`, to which elements are added, or the like."""
        found, kind = self.new_accumulator(name, first), element_kind(self.low, Scalar(element))
        if kind in ("bool", "int") and first.value is not False:
            self.low.shared.known_kinds[found.name] = "int"
        elif not kind:  # type inference tells
            self.low.lowered_function.accumulators.add(found.name)
        return found

    def emit_loop(self, s: Assign | If, axis_loops: list[AxisLoop]) -> None:
        self.loops.emit_loops([s], "", axis_loops)

    def variance_or_std(
        self, tree: ArrayExpr, called: object, axis_loops: list[AxisLoop], every: list[AxisLoop]
    ) -> Term:
        mean = self.new_accumulator("mean", self.reduce_over(tree, np.mean, axis_loops, every))
        second_pass = {t.counter: AxisLoop(self.low.names.fresh("k"), t.axis, t.size) for t in axis_loops}
        axis_loops, every = list(second_pass.values()), [second_pass.get(t.counter, t) for t in every]
        deviation = Binary("-", self.loops.element(tree, every), mean)
        count = self.size(axis_loops)
        if self.ddof is not ZERO:  # a division by 0 where there are too few elements, as in NumPy
            count = call_of(max, Binary("-", count, self.ddof), ZERO)
        variance = Binary("/", self.fold("total", 0, "+", _square(deviation), axis_loops), count)
        return call_of(math.sqrt, variance) if called is np.std else variance

    def any_or_all(self, tree: ArrayExpr, some: bool, axis_loops: list[AxisLoop], every: list[AxisLoop]) -> Term:
        element = self.loops.element(tree, every)
        result = self.new_accumulator("found", Constant(not some))
        test = element if some else Unary("not", element)
        self.emit_loop(If(test, [Assign(result.name, Constant(some))], []), axis_loops)
        return result

    def lower_extremum(
        self, tree: ArrayExpr, called: object, axis_loops: list[AxisLoop], every: list[AxisLoop]
    ) -> Term:
        """The extremum or its index: a search for the index, then a read there, which has the derivative."""
        best_index = {t.counter: self.new_accumulator("place", t.axis.start).name for t in axis_loops}
        at_best = [AxisLoop(best_index[t.counter], t.axis, t.size) if t.counter in best_index else t for t in every]
        best = self.new_accumulator("best", self.loops.element(tree, at_best))
        element = self.loops.element(tree, every)
        op = ">" if called in (np.max, np.amax, np.argmax) else "<"
        test = _is_better(op, element, best, self.is_float(element))
        update: Block = [Assign(place, Variable(counter)) for counter, place in best_index.items()]
        self.emit_loop(If(test, [Assign(best.name, element), *update], []), axis_loops)
        if called not in (np.argmax, np.argmin):
            return self.loops.element(tree, at_best)
        first, *others = [t for t in at_best if t.counter in best_index.values()]
        index = first.position()
        for t in others:
            index = Binary("+", Binary("*", index, t.size), t.position())
        return index

    def trace(self, node: ast.expr) -> ArrayExpr:
        view = self.low.view_of(self.low.array_like(node), node)
        if view.rank != 2:
            raise self.refuse("a trace", "pass a matrix")
        rows, columns = self.low.shape(view)
        axis_loop = self.loops.axis_loop(Axis(ZERO, rows if rows is columns else call_of(min, rows, columns)))
        element = view.at([axis_loop.index_along(view.axis(0)), axis_loop.index_along(view.axis(1))])
        return Scalar(self.fold("total", 0, "+", element, [axis_loop]))

    def cumulative(self, node: ast.expr, tree: ArrayExpr, op: str, axis: ast.expr | None, hint: str) -> ArrayExpr:
        """The sums, products or extrema of all elements up to each one along an axis."""
        if tree.rank > 1 and is_none(self.low, axis):
            tree = self.low.library(flattened, node, tree)
        along = 0 if tree.rank == 1 and is_none(self.low, axis) else self.axes(tree, np.argmax, axis)[0]
        self.loops.loop_over(tree)
        element, low, loops = self.loops.element(tree), self.low, self.loops.axis_loops
        extremum = op in ("<", ">")
        of_bools = extremum and element_kind(low, Scalar(element)) == "bool"
        start = Constant(False) if of_bools else self.first_value(int(op == "*"), element)
        running = self.accumulator("best" if extremum else "running", start, element)
        others = [t for t in loops if t is not loops[along]]

        def step() -> Term:
            if not extremum:
                low.assign_scalar(running.name, Binary(op, running, element))
                return running
            held = low.name_or_constant(element)
            first = Compare(("==",), (Variable(loops[along].counter), loops[along].axis.start))
            better = Logical("or", (first, _is_better(op, held, running, self.is_float(element))))
            low.out.append(If(better, [Assign(running.name, held)], []))
            return running

        kind = self.kind_of_reduction(np.max if extremum else np.sum, tree)
        return self.array_of(tree, loops, hint, step, others, Assign(running.name, start), tree, kind)

    def differences(self, tree: ArrayExpr, given: dict[str, ast.expr]) -> ArrayExpr:
        number = distance(self.low.value(given["n"]), ZERO) if "n" in given else 1
        (along,) = self.axes(tree, np.argmax, given.get("axis", Lowered(Scalar(Constant(tree.rank - 1)))))
        if number is None or number < 0:
            raise self.refuse(f"n= in {unparse(self.node)}, which is no constant", "write a loop")
        for _ in range(number):
            tree = self.difference(self.low.view_of(tree, self.node), along)
        return tree

    def difference(self, view: View, along: int) -> ArrayExpr:
        axis, size, source = view.axis(along), axis_length(view.axis(along)), view.order[along]
        if source is None:
            raise self.refuse(f"{unparse(self.node)} along a new axis", "write a loop")

        def part(start: Term, stop: Term) -> Leaf:
            parts = list(view.parts)
            parts[source] = compose(axis, start, stop, ONE)
            return Leaf(View(view.name, tuple(parts), view.order))

        parts: list[ArrayExpr] = [part(ONE, size), part(ZERO, Binary("-", size, ONE))]
        return of_arrays_of_bools(self.low, self.node, "diff", parts) or Op(partial(Binary, "-"), parts)


def _square(e: Term) -> Term:
    return Binary("**", e, Constant(2))


def _is_better(op: str, element: Term, best: Term, floats: bool) -> Term:
    """Whether an element is larger (or smaller) than the best one so far, or the first NaN."""
    test: Term = Compare((op,), (element, best))
    if not floats:
        return test
    first_nan = Logical("and", (Compare(("!=",), (element, element)), Compare(("==",), (best, best))))
    return Logical("or", (test, first_nan))


@lowers(*_OVER_AXES, np.cumsum, np.cumprod, arguments=(1, 2), methods=True, keywords=True)
@lowers(np.trace, arguments=(1, 1), methods=True, keywords=True)
@lowers(np.amax, np.amin, np.linalg.norm, arguments=(1, 2), keywords=True)
@lowers(np.diff, arguments=(1, 2), keywords=True)
def _reduce(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return Reductions(low, node).reduce(called, node.args, node.keywords, hint)


@lowers(builtins.sum, arguments=(1, 2), keywords=True)
def _sum(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """The sum of Python, which may begin with a number."""
    begin = [*node.args[1:], *(k.value for k in node.keywords if k.arg == "start")]
    others = [k for k in node.keywords if k.arg != "start"]
    tree = low.tree(node.args[0])
    if begin and isinstance(tree, TupleExpr) and not tree.items:
        return low.tree(begin[0])
    items = ast.copy_location(Lowered(tree), node.args[0])
    items.written = node.args[0]  # type: ignore[attr-defined]
    total = Reductions(low, node).reduce(called, [items], others, hint)
    return combine(partial(Binary, "+"), [low.tree(begin[0]), total]) if begin else total


@lowers(first_value, arguments=(2, 2))
def _first_value(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    before = len(low.out)
    array = low.array_like(node.args[1])
    kind = relied_on_kind(low, array)
    del low.out[before:]  # it is computed where it is reduced
    value = low.tree(node.args[0])
    if kind != "float" and low.kind_of_tree(value) not in ("int", "bool"):
        what = f"initial={unparse(node.args[0])} of an array of integers or bools, to which NumPy casts it,"
        raise low.source.refuse(node, what, "give an integer, or make the array one of floats (x * 1.0)")
    return value
