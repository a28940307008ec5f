"""Array creation: constructors, copies and concatenation."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.names import called as call_of
from ..ir.statements import Check, Like, Store
from ..ir.terms import ONE, ZERO, Binary, Compare, Constant, DType, Global, Select, Term
from ..ir.type_inference import DTYPES
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
    copy_of_values,
    record_order,
)
from .element_kinds import element_kind, sample_element
from .element_types import ElementType
from .function_table import elements_of, floats_of, lowers, numbers_of
from .implicit_errors import check_size
from .known_integers import integer_of
from .library.sums import flattened
from .memory_order import record_sharing
from .number_types import named_dtype
from .numpy_spellings import r_
from .partial_evaluation import parameters_in
from .reshaping import contiguous
from .static_values import static_value
from .structured_control import with_location
from .syntax import bound_name, unparse
from .views import View, add_indices, axis_length, multiply_indices, product

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["ArrayCreation"]

_LIKE = {np.empty_like, np.zeros_like, np.ones_like, np.full_like}
#: Functions that create arrays, with the parameters that are supported.
_PARAMETERS: dict[Any, str] = {
    np.empty: "shape dtype", np.zeros: "shape dtype", np.ones: "shape dtype", np.full: "shape fill_value dtype",
    np.empty_like: "prototype dtype", np.zeros_like: "a dtype", np.ones_like: "a dtype",
    np.full_like: "a fill_value dtype", np.copy: "a order", np.array: "object dtype copy", np.asarray: "a dtype",
    np.ascontiguousarray: "a dtype", np.eye: "N M k dtype", np.identity: "n dtype",
    np.arange: "start stop step dtype", np.linspace: "start stop num endpoint",
}  # fmt: skip
#: Functions that join arrays: the default axis for vectors and for others, and the axes that vectors are expanded to.
_JOIN_FUNCTIONS: dict[Any, tuple[tuple[int, int], tuple | None]] = {
    np.concatenate: ((0, 0), None),
    np.append: ((0, 0), None),
    np.hstack: ((0, 1), None),
    np.vstack: ((0, 0), (None, 0)),
    np.stack: ((0, 0), (None, 0)),
    np.column_stack: ((1, 1), (0, None)),
    r_: ((0, 0), None),
}
#: The conversion to each kind.
_CASTS = {f.__name__: f for f in (float, int, bool)}
_NUMBERS: dict[object, type] = {"float": float, "bool": bool}


class ArrayCreation:
    """Lowers calls that create arrays."""

    def __init__(self, lowering: Calls, node: ast.Call) -> None:
        self.low = lowering
        self.node = node
        self.keywords: dict[str | None, ast.expr] = {k.arg: k.value for k in node.keywords}

    def refuse(self, what: str, instead: str) -> Exception:
        return self.low.source.refuse(self.node, what, instead)

    def lower_creation(self, called: object, hint: str) -> ArrayExpr:
        if called in _JOIN_FUNCTIONS:
            return self.lower_join(called, hint)
        names, args = _PARAMETERS[called].split(), self.node.args
        positional = dict(zip(names, args, strict=False))
        if (
            not args + self.node.keywords
            or len(args) > len(names)
            or set(self.keywords) - (set(names) - set(positional))
        ):
            raise self.refuse(f"the call {unparse(self.node)}", f"it may have {', '.join(names)} here")
        self.keywords.update(positional)
        first = self.keywords.get(names[0])
        if called in (np.eye, np.identity):
            return self.eye(first)
        if called is np.linspace:
            return self.linspace()
        if called is np.arange:
            return self.arange()
        copy = self.keywords.get("copy")
        if first is None or (copy is not None and unparse(copy) != "True"):
            instead = f"give it {names[0]}" if first is None else "write np.asarray where no copy is needed"
            raise self.refuse(f"the call {unparse(self.node)}", instead)
        if called not in (np.copy, np.array, np.asarray, np.ascontiguousarray):
            return self.filled(called, first)
        if isinstance(first, ast.List | ast.Tuple):
            return self.from_display(first, hint)
        tree = self.low.tree(first)
        made_of_list = self.low.is_list(tree)
        if isinstance(tree, Leaf) and tree.fresh:
            listed = self.low.shared.lists.pop(tree.view.name, 0)
            copied = called in (np.copy, np.array) and not self.low.names_of(tree.view.name)
            if listed or copied:  # by NumPy, with the items of a list
                self.low.shared.read_only_copies.pop(tree.view.name, None)
            if "dtype" not in self.keywords:
                return tree
        if isinstance(tree, Scalar) and called in (np.array, np.asarray):  # without axes, and not written: a number
            kind, dtype = self.dtype()
            if isinstance(kind, Like):
                kind = self.low.lowered_function.kinds[kind.name]
            if not isinstance(dtype, Global):  # none, or that of an array
                return tree if dtype is None or kind == "float" else Scalar(call_of(_CASTS[kind], tree.term))
            return Scalar(call_of({np.float64: float, np.bool_: bool}.get(dtype.value, dtype.value), tree.term))
        view = self.low.view_of(self.low.as_array(first, tree), first)
        shares = called is np.asarray or (called is np.ascontiguousarray and contiguous(self.low, view))
        same = shares and not made_of_list
        named = partial(record_sharing, self.low, self.node, view) if called is np.ascontiguousarray else None
        if named is not None and same:
            named(view.name)
        if "dtype" not in self.keywords:
            method = called is np.copy and hasattr(self.node, "written")
            in_c_order = method or called is np.ascontiguousarray
            return Leaf(view) if same else copy_of_values(Leaf(view), in_c_order=in_c_order, named=named)
        kind, dtype = self.dtype()
        if same:
            known = self.low.lowered_function.kinds.get(view.name)
            if known is None or isinstance(kind, Like):
                raise self.refuse(f"a dtype in {unparse(self.node)}", "leave it out, or write .astype for a copy")
            if known == kind:
                return Leaf(view)
        return self.converted(Leaf(view), kind, dtype)

    def scalar_argument(self, name: str, default: Term) -> Term:
        """A scalar argument."""
        argument = self.keywords.get(name)
        return default if argument is None else self.low.value(argument)

    def eye(self, first: ast.expr | None) -> ArrayExpr:
        if first is None:
            raise self.refuse(f"the call {unparse(self.node)}", "give the size")
        n = check_size(self.low, self.low.value(first))
        sizes, k = [n, self.scalar_argument("M", n)], self.scalar_argument("k", ZERO)
        kind, dtype = self.dtype()
        one, zero = (Constant(_NUMBERS.get(kind or "float", int)(c)) for c in (1, 0))
        return FromFunction(sizes, lambda i, j: Select(Compare(("==",), (add_indices(i, k), j)), one, zero),
                    kind or "float", dtype or DTYPES["float"])  # fmt: skip

    # One value for all elements.

    def like_number(self, called: object, number: Scalar, value: Term | None, kind: str | Like) -> ArrayExpr:
        """``np.zeros_like(x)`` of a number, which is one."""
        kind = kind or self.low.kind_of_tree(number)
        if not isinstance(kind, str) or kind == "":
            raise self.refuse(f"{unparse(self.node)}, of a number", "write the number")
        if value is None:
            value = ONE if called is np.ones_like else ZERO
        conversion = {"float": float, "int": int, "bool": bool}[kind]
        held = isinstance(value, Constant)
        return Scalar(Constant(conversion(value.value)) if held else call_of(conversion, value))  # type: ignore[attr-defined]

    def filled(self, called: object, first: ast.expr) -> ArrayExpr:
        value: Term | None = None
        if called in (np.full, np.full_like):
            if "fill_value" not in self.keywords:
                raise self.refuse(f"the call {unparse(self.node)}", "give it fill_value")
            value = self.low.value(self.keywords["fill_value"])
        kind, dtype = self.dtype()
        like = None
        if called in _LIKE:
            tree = self.low.tree(first)
            if isinstance(tree, Scalar):
                return self.like_number(called, tree, value, kind)
            view = self.low.view_of(tree, first)
            like = Leaf(view)
            sizes = self.low.shape(view)
            if not kind and self.low.kind_of_tree(like) == "bool":
                kind, dtype = "bool", DTYPES["bool"]
            elif not kind:
                kind, dtype = self.kind_and_dtype_of(view.name)
        else:
            sizes = [check_size(self.low, n) for n in self.shape(first)]
        if not kind:
            kind, dtype = "float", DTYPES["float"]
            if value is not None:  # type inference tells, where its kind is not known
                kind, dtype = self.common_kind([value]) if self.kind_is_known([value]) else ("", dtype)
        if called in (np.empty, np.empty_like):
            return FromFunction(sizes, None, kind, dtype, like)
        target = self.low.lowered_function.kinds.get(kind.name, "") if isinstance(kind, Like) else kind
        if value is None:
            number = int(called in (np.ones, np.ones_like))
            value = Constant(_NUMBERS.get(target, int)(number))
        elif target and self.low.kind_of_tree(Scalar(value)) not in (target, "" if target == "float" else target):
            value = call_of(_CASTS[target], value)
        fill = value
        made = FromFunction(sizes, lambda *_: fill, kind, dtype, like)
        if isinstance(kind, Like) and not self.low.kind_of_tree(like or made):  # type inference tells
            return Leaf(Elementwise(self.low, self.node).materialise(made, self.low.names.fresh("made")), True)
        return made

    def shape(self, node: ast.expr) -> list[Term]:
        sizes = self.low.shape_of(node)
        if sizes is not None:
            return sizes
        tree = self.low.tree(node)
        parts = self.low.tuple_items(tree) or [tree]
        return [self.low.value(ast.copy_location(Lowered(t), node)) for t in parts]

    def dtype(self) -> tuple[str | Like, Term | None]:
        """The requested kind and dtype; "" and None if none is requested."""
        argument = self.keywords.get("dtype")
        return ("", None) if argument is None else self.dtype_of(argument)

    def kind_and_dtype_of(self, name: str) -> tuple[str | Like, Term]:
        """The kind and dtype of another array, which a primitive in a loop may create only later."""
        ruled = name in self.low.shared.primitive_results and self.low.lowered_function.kinds[name] == "float"
        return Like(name), self.low.shared.dtypes.get(name, DType(name)) if ruled else DType(name)

    def dtype_of(self, node: ast.expr) -> tuple[str | Like, Term]:
        if isinstance(node, ast.Call) and (called := self.low.function_of(node.func)) in (
            elements_of,
            floats_of,
            numbers_of,
        ):
            return self.dtype_of_results(called, [self.low.tree(a) for a in node.args])
        static = static_value(self.low, node)
        requested = None if static is None else static.value
        if isinstance(requested, ElementType):
            if requested.array is not None:
                return self.kind_and_dtype_of(requested.array)
            requested = requested.cast
        dtype = None if requested is None else named_dtype(requested)
        kind = "" if dtype is None else {"f": "float", "i": "int", "u": "int", "b": "bool"}.get(dtype.kind, "")
        if dtype is None or not kind or not dtype.isnative:
            raise self.refuse("an array of this dtype", "use float64, float32, bool or an integer type")
        name = dtype.name if kind != "bool" else "bool_"
        if name in ("float16", "longdouble", "float128"):
            raise self.refuse("an array of this dtype", "use float64 or float32")
        return kind, Global(f"np.{name}", getattr(np, name))

    def dtype_of_results(self, called: object, trees: list[ArrayExpr]) -> tuple[str, Term]:
        """The kind and dtype of what a definition computes from these arrays."""
        deciding = trees[:1] if called is elements_of else trees
        kinds = {self.low.kind_of_tree(t) for t in deciding}
        if called is not floats_of and kinds != {"bool"} and kinds != {""}:
            self.must_be_numbers([sample_element(t) for t in deciding])
        if called is elements_of and "float" not in kinds and "int" not in kinds:
            return "bool" if kinds == {"bool"} else "", DTYPES["bool"]
        if called is not floats_of and kinds <= {"int", "bool"}:
            return "int", DTYPES["int"]
        return "float", Elementwise(self.low, self.node).dtype(*trees)

    def must_be_numbers(self, elements: list[Term]) -> None:
        """Refuse elements that are numbers here and bools there, of which NumPy makes arrays of bools there."""
        error = self.refuse("an array of what is bools here and numbers there", "use another name for each")
        if {element_kind(self.low, Scalar(v)) for v in elements} != {"bool"}:
            self.low.lowered_function.operations.append((tuple(elements), False, error))

    def kind_is_known(self, values: list[Term]) -> bool:
        """Whether the kind of an array of `values` is known already."""
        kinds = [self.low.kind_of_tree(Scalar(v)) for v in values]
        return "float" in kinds or "" not in kinds

    def common_kind(self, values: list[Term]) -> tuple[str, Term]:
        if not self.kind_is_known(values):
            raise self.ambiguous_kind_error()
        kinds = {self.low.kind_of_tree(Scalar(v)) for v in values}
        self.must_be_numbers(values)
        kind = "float" if "float" in kinds else "bool" if kinds == {"bool"} else "int"
        return kind, DTYPES[kind]

    def ambiguous_kind_error(self) -> Exception:
        return self.refuse("an array of numbers that may be integers or floats", "give it a dtype")

    def converted(self, tree: ArrayExpr, kind: str | Like, dtype: Term | None) -> ArrayExpr:
        """A copy of `tree` with a dtype."""
        cast = tree if isinstance(kind, Like) else Op(partial(call_of, _CASTS[kind]), [tree])
        return copy_of_values(cast, kind, dtype)

    # Several values or arrays.

    def from_display(self, display: ast.List | ast.Tuple, hint: str) -> ArrayExpr:
        rows = [r.elts if isinstance(r, ast.List | ast.Tuple) else None for r in display.elts]
        if not rows:
            given = [k for k in self.node.keywords if k.arg == "dtype"]
            empty = ast.Call(bound_name(np.empty, "np.empty"), [ast.Constant(0)], given)
            return self.low.known_call(with_location(empty, self.node), np.empty, hint)
        if rows[0] is None:
            trees = [self.low.array_like(v) for v in display.elts]
            if any(t.rank for t in trees):
                return self.stacked(display, trees, 0, hint)
            values, sizes = [self.low.value(Lowered(t)) for t in trees], [len(rows)]
        else:
            if any(r is None or len(r) != len(rows[0]) for r in rows):
                raise self.refuse("rows of different lengths", "use rows of one length")
            values, sizes = [self.low.value(v) for r in rows for v in r or []], [len(rows), len(rows[0])]
        kind, dtype = self.dtype()
        name = hint or self.low.names.fresh("listed")
        if not kind and self.kind_is_known(values):
            kind, dtype = self.common_kind(values)
        elif not kind:  # type inference decides
            self.low.lowered_function.assumed_kinds.append((name, values, self.ambiguous_kind_error()))
        line, self.low.line = self.low.line, ""
        self.low.allocate(name, self.node, [*map(Constant, sizes)], kind, dtype or DTYPES["float"], "", line)
        for k, v in enumerate(values):
            index = (k,) if len(sizes) == 1 else divmod(k, sizes[1])
            self.low.emit(Store(name, tuple(map(Constant, index)), v))
        return Leaf(self.low.whole_view(name), True)

    def lower_join(self, called: object, hint: str) -> ArrayExpr:
        """Lower np.concatenate and the like."""
        args, low = self.node.args, self.low
        if unknown := set(self.keywords) - {"axis"}:
            raise self.refuse(f"{', '.join(sorted(map(str, unknown)))} in {unparse(self.node)}", "leave it out")
        if "axis" in self.keywords and len(args) > 1 and called is not np.append:
            raise self.refuse(f"the call {unparse(self.node)}", "give one axis")
        items = args[:2] if called is np.append else getattr(args[0], "elts", []) if args else []
        axis = self.keywords.get("axis", args[1] if len(args) > 1 and called is not np.append else None)
        trees = [low.array_like(e) for e in items]
        joined = low.tree(args[0]) if args and not trees else None
        if isinstance(joined, TupleExpr):
            trees = [low.as_array(self.node, t) for t in joined.items]
        elif joined is not None and joined.rank > 1:
            return self.joined_rows(called, joined, axis, hint)
        elif joined is not None and joined.rank and called in (np.hstack, np.stack):  # of numbers
            return copy_of_values(joined)
        if called in (np.append, np.hstack, r_):
            trees = [FromFunction([ONE], lambda _, t=t: t.term) if isinstance(t, Scalar) else t for t in trees]
        rank = trees[0].rank if trees else 0
        along, order = _JOIN_FUNCTIONS[called]
        d = along[rank > 1 and called is not np.append] if axis is None else integer_of(low, low.value(axis))
        if called is np.stack and d is not None:
            return self.stacked(self.node, trees, d, hint)
        rank = max((t.rank for t in trees), default=0)
        if order is not None and rank == 2:  # vectors are rows, or columns
            vectors = {id(t): low.view_of(t, self.node) for t in trees if t.rank == 1}
            trees = [self.with_new_axis(vectors[id(t)], order) if id(t) in vectors else t for t in trees]
        new_axes = int(order is not None and rank == 1)
        if called is np.append and axis is None and max((t.rank for t in trees), default=0) > 1:
            trees, rank = [low.library(flattened, self.node, t) if t.rank > 1 else t for t in trees], 1
        unsupported = not rank or any(t.rank != rank for t in trees)
        if not unsupported and d is None and axis is not None:
            tree = low.tree(axis)
            low.shared.may_decide |= parameters_in(low, tree.term, ("int",)) if isinstance(tree, Scalar) else set()
            raise self.refuse(f"the axis in {unparse(self.node)}, which is no constant", "give a constant")
        if unsupported or d is None or not -rank - new_axes <= d < rank + new_axes:
            raise self.refuse(f"the call {unparse(self.node)}", "give a tuple of arrays with as many axes, or loop")
        if new_axes and order is not None:
            trees = [self.with_new_axis(low.view_of(t, self.node), order) for t in trees]
        return self.concatenated(trees, d % (rank + new_axes), hint)

    @staticmethod
    def with_new_axis(vector: View, order: tuple) -> Leaf:
        return Leaf(View(vector.name, vector.parts, tuple(vector.order[0] if o == 0 else None for o in order)))

    def joined_rows(self, called: object, array: ArrayExpr, axis: ast.expr | None, hint: str) -> ArrayExpr:
        """The arrays that are the rows of an array, joined."""
        low, rank = self.low, array.rank - 1
        along, order = _JOIN_FUNCTIONS[called]
        stacked = called is np.stack or (order is not None and rank == 1)  # along a new axis
        d = along[rank > 1] if axis is None else integer_of(low, low.value(axis))
        if d is None or not -rank - stacked <= d < rank + stacked:
            raise self.refuse(f"the axis in {unparse(self.node)}", "give a constant, one of the result's axes")
        view = low.view_of(array, self.node)
        text = f"{low.lowered_function.name}: no arrays in {unparse(self.node)}"
        low.emit(Check(Compare(("==",), (axis_length(view.axis(0)), ZERO)), text))
        first, *others = view.order
        d %= rank + stacked
        moved = copy_of_values(Leaf(replace(view, order=(*others[:d], first, *others[d:]))))
        if stacked:
            return moved
        sizes = Elementwise(low, self.node).lengths(moved)
        sizes[d : d + 2] = [product(sizes[d : d + 2])]
        shape = ast.Tuple([Lowered(Scalar(n)) for n in sizes], ast.Load())
        call = ast.Call(bound_name(np.reshape, "np.reshape"), [Lowered(moved), shape], [])
        return low.known_call(with_location(call, self.node), np.reshape, hint)

    def stacked(self, node: ast.AST, trees: list[ArrayExpr], axis: int, hint: str) -> Leaf:
        """Arrays of one shape along a new axis."""
        rank = trees[0].rank if trees else 0
        if not rank or any(t.rank != rank for t in trees) or not -rank - 1 <= axis <= rank:
            what = unparse(node) if isinstance(node, ast.expr) else unparse(self.node)
            raise self.refuse(f"{what}, of which not all have as many axes", "give arrays of one shape")
        d = axis % (rank + 1)
        views = [self.low.view_of(t, self.node) for t in trees]
        orders = [(*v.order[:d], None, *v.order[d:]) for v in views]
        return self.concatenated([Leaf(View(v.name, v.parts, o)) for v, o in zip(views, orders, strict=True)], d, hint)

    def concatenated(self, trees: list[ArrayExpr], d: int, hint: str) -> Leaf:
        low, line = self.low, self.low.line
        low.line = ""
        parts: list[tuple[Term, list[AxisLoop], Term]] = []
        offset: Term = ZERO
        name = hint or low.names.fresh("joined")
        for tree in trees:
            loops = Elementwise(low, self.node)
            loops.loop_over(tree)
            value = loops.element(tree)
            for mine, first in zip(loops.axis_loops, parts[0][1] if parts else loops.axis_loops, strict=True):
                if mine is not loops.axis_loops[d]:
                    loops.require_equal_lengths(mine.size, first.size)
            parts.append((offset, loops.axis_loops, value))
            offset = add_indices(offset, axis_length(loops.axis_loops[d].axis))
        sizes = [axis_length(t.axis) for t in parts[0][1]]
        sizes[d] = offset
        loops = Elementwise(low, self.node)
        record_order(low, name, Op(lambda *e: e[0], trees))
        low.allocate(name, self.node, sizes, "", loops.dtype(*trees), "", line)
        kinds = {element_kind(low, t) for t in trees}
        low.shared.element_kinds[name] = kinds.pop() if len(kinds) == 1 else "float" if "float" in kinds else ""
        for offset, axis_loops, value in parts:
            indices = [t.position() for t in axis_loops]
            indices[d] = add_indices(offset, indices[d])
            loops.emit_loops([Store(name, tuple(indices), value)], "", axis_loops)
        return Leaf(low.whole_view(name), True)

    def linspace(self) -> ArrayExpr:
        if not {"start", "stop"} <= set(self.keywords):
            raise self.refuse(f"the call {unparse(self.node)}", "give it start and stop")
        first, last, n = (
            self.low.name_or_constant(self.scalar_argument(name, Constant(50)))
            for name in _PARAMETERS[np.linspace].split()[:3]
        )
        endpoint = self.keywords.get("endpoint")
        if endpoint is not None and unparse(endpoint) not in ("True", "False"):
            raise self.refuse(f"the call {unparse(self.node)}", "say endpoint=True or endpoint=False")
        included = endpoint is None or unparse(endpoint) == "True"
        intervals = call_of(max, Binary("-", n, ONE) if included else n, ONE)
        step = self.low.name_or_constant(Binary("/", Binary("-", last, first), intervals))

        def element(k: Term) -> Term:
            inner = Binary("+", first, Binary("*", k, step))
            at_end = Compare(("<", "=="), (ZERO, k, Binary("-", n, ONE)))
            return Select(at_end, last, inner) if included else inner

        return FromFunction([n], element, "float", DTYPES["float"])

    def arange(self) -> ArrayExpr:
        start, step = self.scalar_argument("start", ZERO), self.scalar_argument("step", ONE)
        stop = self.keywords.get("stop")
        start, end = (ZERO, start) if stop is None else (start, self.low.value(stop))
        start, end, step = (
            call_of(int, t) if element_kind(self.low, Scalar(t)) == "bool" else t for t in (start, end, step)
        )
        kind, dtype = self.dtype()
        if not kind:
            kind, dtype = self.common_kind([start, end, step])
        size: Term
        if kind != "int":
            size = call_of(max, call_of(int, call_of(math.ceil, Binary("/", Binary("-", end, start), step))), ZERO)
        else:
            size = end if start is ZERO and step is ONE else call_of(len, call_of(range, start, end, step))

        def element(k: Term) -> Term:
            advance = multiply_indices(k, step)
            return advance if start is ZERO else Binary("+", start, advance)

        return FromFunction([size], element, kind, dtype)


def _create(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return ArrayCreation(low, node).lower_creation(called, hint)


for _function, _names in _PARAMETERS.items():
    _shares = _function in (np.asarray, np.ascontiguousarray)
    lowers(_function, arguments=(0, len(_names.split())), methods=_function is np.copy, keywords=True, shares=_shares)(
        _create
    )
lowers(np.concatenate, np.stack, arguments=(1, 2), keywords=True)(_create)
lowers(np.append, arguments=(2, 2), keywords=True)(_create)
lowers(np.hstack, np.vstack, np.column_stack, r_, arguments=(1, 1), keywords=True)(_create)
