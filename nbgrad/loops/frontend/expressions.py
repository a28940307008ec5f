"""Lowering of expressions: scalars become expressions of the IR, arrays become :mod:`.array_expressions`.

Statements that an expression needs first (bounds checks, temporary arrays, inlined calls) are emitted before it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ..ir.from_syntax import BINARY, UNARY
from ..ir.functions import helper_of
from ..ir.names import called, literal
from ..ir.terms import (
    ONE,
    ZERO,
    Binary,
    Call,
    Constant,
    Global,
    Term,
    Unary,
    Variable,
)
from .advanced_indexing import IndexedView, check_index_array, gather_view, lower_index_array, reads_mask
from .array_attributes import array_attribute
from .array_expressions import (
    ArrayExpr,
    Elementwise,
    Leaf,
    Lowered,
    NoItems,
    Scalar,
    Static,
    TupleExpr,
    combine,
    copy_of_values,
    is_table,
)
from .captured_objects import attribute_of_captured
from .comparisons import lower_comparison
from .conditional_expressions import lower_boolean, lower_conditional, truth
from .dictionaries import dictionary_of, lasting
from .element_types import called_function
from .function_table import MODULES
from .implicit_errors import check_division, in_range, index_may_raise
from .known_integers import integer_of
from .library.sums import masked
from .lists_of_rows import item_or_slice
from .operator_functions import floats_for, operation
from .record_types import is_record
from .records import attribute_of_record, item_of_record
from .reshaping import with_plain_indices
from .scope import UNCERTAIN, Pack
from .slices import Slices, indices_of
from .static_values import described, static_item, static_value
from .structured_control import with_location
from .syntax import children, is_new_axis, owner_of, unparse
from .unset_names import is_set_below, refused_as_array
from .views import NUMBERS, Axis, View, add_indices, axis_length, compose, fold_negation, from_either_end
from .views_without_axes import element_of

__all__ = ["Expressions"]


class Expressions(Slices):
    """Lowers expressions, and emits the statements that they need first."""

    hint = ""  # the name for the array that the next expression creates

    def call(self, node: ast.Call, hint: str) -> ArrayExpr:
        raise NotImplementedError

    def function_argument(self, node: ast.expr) -> object:
        raise NotImplementedError

    def function_of(self, node: ast.expr) -> object:
        item = static_item(self, node) if isinstance(node, ast.Subscript) else None
        return called_function(self, node) or super().function_of(node) if item is None else item.value

    def value(self, node: ast.expr) -> Term:
        """The scalar that `node` lowers to."""
        tree = self.tree(node)
        if not isinstance(tree, Scalar):
            what = "tuple" if isinstance(tree, TupleExpr) else "array"
            raise self.source.refuse(
                node,
                f"the {what} {unparse(node)} where a number is expected",
                "index it, or use np.any, np.all, np.sum",
            )
        return tree.term

    def view(self, node: ast.expr, name: str = "part") -> View:
        """The array, view, or new array with the values of an expression."""
        return self.view_of(self.tree(node), node, name)

    def view_of(self, tree: ArrayExpr, node: ast.expr, name: str = "part") -> View:
        """The view of a lowered array; other arrays are evaluated into a new one."""
        if isinstance(tree, Leaf):
            return tree.view
        if tree.rank == 0:
            if isinstance(node, ast.Name) and self.local(node) in self.shared.read_above:
                raise self.shared.read_above[self.local(node)]
            what = f"the {'tuple or list' if isinstance(tree, TupleExpr) else 'number'} {unparse(node)}"
            raise self.source.refuse(node, f"{what} where an array is expected", "pass an array")
        return Elementwise(self, node).materialise(tree, self.names.fresh(name))

    def name_or_constant(self, term: Term) -> Variable | Constant:
        """`term`, saved in a variable unless it is one or a constant."""
        return term if isinstance(term, Variable | Constant) else Variable(self.fresh_scalar("held", term))

    def tree(self, node: ast.expr) -> ArrayExpr:
        """Lower an expression: a scalar, an array expression or a tuple."""
        tree = self.any_value(node)
        if isinstance(tree, Static):
            if tree.value is UNCERTAIN and isinstance(node, ast.Name):
                self.hold_none_in_flag(node.id)
            what = f"{described(tree, unparse(node))}, as a number or array"
            known = "pass one, or test it with if before"
            instead = "test it by 'is None', or compare it with a string" if tree.value is UNCERTAIN else known
            raise self.source.refuse(node, what, instead)
        return tree

    def tree_or_static(self, node: ast.expr) -> ArrayExpr:
        """Lower an expression that may also be a string, None or a function."""
        return static_value(self, node) or self.any_value(node)

    def any_value(self, node: ast.expr) -> ArrayExpr:
        """Lower an expression; names and constants that are known when code is generated are not."""
        hint, self.hint = self.hint, ""
        match node:
            case Lowered():
                return node.lowered_tree
            case ast.Constant(value=value) if isinstance(value, NUMBERS):
                return Scalar(Constant(value))
            case ast.Constant(value=complex()):
                raise self.source.refuse(node, "a complex number", "write the real and imaginary parts separately")
            case ast.Name():
                return self.name(node)
            case ast.BinOp(op=ast.MatMult()):
                return self.product(node, node.left, node.right, hint)
            case ast.BinOp():
                pair = [self.tree(node.left), self.tree(node.right)]
                if isinstance(node.op, ast.Add) and any(isinstance(p, TupleExpr) for p in pair):
                    first, second = map(self.tuple_items, pair)
                    if first is not None and second is not None:
                        kinds = {getattr(p, "tuple_class", tuple) for p in pair}
                        return TupleExpr([*first, *second], list if list in kinds else tuple)
                if isinstance(node.op, ast.Mult) and (repeated := self.repeated_tuple(node, pair)) is not None:
                    return repeated
                pair = [with_plain_indices(self, node, p) for p in pair]
                return operation(self, node, partial(Binary, BINARY[type(node.op)]), self.as_operands(node, pair))
            case ast.UnaryOp(op=ast.Invert()):
                return operation(self, node, partial(Unary, "~"), [self.tree(node.operand)])
            case ast.UnaryOp(op=ast.Not()):
                return Scalar(Unary("not", truth(self, node.operand)))
            case ast.UnaryOp():
                operand = self.as_operands(node, [self.tree(node.operand)])
                if isinstance(node.op, ast.USub) and operand[0].rank:
                    return operation(self, node, partial(Unary, "-"), operand)
                return combine(lambda a: fold_negation(Unary(UNARY[type(node.op)], a)), operand)
            case ast.BoolOp():
                return lower_boolean(self, node)
            case ast.Compare():
                return lower_comparison(self, node)
            case ast.IfExp():
                return lower_conditional(self, node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Attribute():
                return attribute_of_captured(self, node) or self.attribute(node)
            case ast.Call():
                return self.call(node, hint)
            case ast.Tuple() | ast.List():
                made = list if isinstance(node, ast.List) or getattr(node, "of_list", False) else tuple
                return TupleExpr([self.tree_or_static(e) for e in node.elts], made)
            case ast.ListComp() | ast.GeneratorExp():
                return self.lower_comprehension(node)
            case ast.NamedExpr():
                return Scalar(Variable(self.walrus(node)))
        raise self.source.refuse(
            node, f"{unparse(node)} where a number is expected", "use numbers and elements of arrays"
        )

    def repeated_tuple(self, node: ast.expr, pair: list[ArrayExpr]) -> TupleExpr | None:
        """A tuple, repeated a known number of times, of the same items; None for other operands."""
        match pair:
            case (TupleExpr(items) as one, Scalar(times)) | (Scalar(times), TupleExpr(items) as one):
                if (n := integer_of(self, times)) is not None:
                    return TupleExpr([lasting(self, node, t) for t in items] * n, one.tuple_class)
                self.shared.may_decide |= times.named
        return None

    def as_operands(self, node: ast.expr, trees: list[ArrayExpr]) -> list[ArrayExpr]:
        """The operands of arithmetic, which are no tuples, and lists only beside an array."""
        if any(isinstance(t, TupleExpr) for t in trees):
            refused = self.source.refuse(node, f"a tuple in {unparse(node)}", "use its items, or np.array of it")
            for name in (e.id for e in children(node) if isinstance(e, ast.Name)):
                self.list_of_rows(name, refused)
            raise refused
        arrays = [t for t in trees if t.rank]
        if arrays and all(map(self.is_list, arrays)):  # Python repeats and joins lists
            raise self.source.refuse(node, f"a list in {unparse(node)}", "use np.array of it")
        return check_division(self, node, trees)

    def is_list(self, tree: ArrayExpr) -> bool:
        """Whether it is an array here, and a list in Python."""
        axes = self.shared.lists.get(tree.view.name, 0) if isinstance(tree, Leaf) else 0
        return axes > 0 and tree.rank > self.lowered_function.ranks[tree.view.name] - axes  # type: ignore[attr-defined]

    def would_broadcast(self, node: ast.AST, tree: ArrayExpr, other: ArrayExpr) -> bool:
        """Whether an axis of one array has length 1, for certain, and that of the other may be longer."""
        lengths = [[self.with_known_integers(n) for n in Elementwise(self, node).lengths(t)] for t in (tree, other)]
        differing = [{a, b} for a, b in zip(*lengths, strict=True) if (a is ONE) is not (b is ONE)]
        self.shared.may_decide.update(*[n.named for pair in differing for n in pair])
        return bool(differing)

    def lower_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> ArrayExpr:
        raise NotImplementedError

    def walrus(self, node: ast.NamedExpr) -> str:
        raise self.source.refuse(node, ":= here", "assign in a statement of its own")

    def snapshot_view(self, view: View) -> View:
        raise NotImplementedError

    def library(self, called: object, node: ast.expr, *args: ArrayExpr) -> ArrayExpr:
        raise NotImplementedError

    def product(self, node: ast.expr, a: ast.expr, b: ast.expr, hint: str) -> ArrayExpr:
        raise NotImplementedError

    # Names.

    def name(self, node: ast.Name) -> ArrayExpr:
        """What a name is bound to."""
        static = self.string_of(node.id)
        if static is not None:
            return static
        view = self.array(node)
        if view is not None:
            return Leaf(view)
        pack = self.tuple_of(node)
        if pack is not None:
            return self.several(pack)
        if self.is_local_name(node.id):
            function = self.function_argument(node)
            if function is not None:
                return Static(function)
            if is_set_below(self.source.node, node):
                self.shared.read_above.setdefault(self.local(node), refused_as_array(self.source, node))
                self.note_read_above(node.id)
            self.shared.names_read.setdefault(self.local(node), (self.source, node))
            return Scalar(Variable(self.local(node)))
        if node.id not in self.source.outer_values:
            raise self.source.refuse(node, f"{node.id}, which is not defined", "define it, or pass it as an argument")
        value = self.source.outer_values[node.id]
        return self.captured_value(node, node.id, value)

    # Attributes.

    def attribute(self, node: ast.Attribute) -> ArrayExpr:
        """An attribute of a named tuple, an array, a module or a value from outside."""
        owner = node.value
        made = isinstance(owner, ast.Call | ast.IfExp | Lowered) or self.may_be_tuple_item(owner)
        if made or self.tuple_of(owner_of(owner)) is not None:
            tree = self.tree(owner)
            if isinstance(tree, TupleExpr):
                if is_record(tree):
                    return attribute_of_record(self, node, tree)
                if node.attr not in tree.fields:
                    raise self.source.refuse(node, f"the attribute {unparse(node)}", "index the tuple")
                return tree.items[tree.fields.index(node.attr)]
            if self.tuple_of(owner_of(owner)) is None:
                owner = with_location(Lowered(tree), owner)
                node = with_location(ast.Attribute(owner, node.attr, node.ctx), node)
        value, module = self.resolve(node), self.resolve(owner)
        if value is None and module is None:
            return array_attribute(self, node)
        if isinstance(value, bool | int | float | np.number) and (module is math or module is np):
            return Scalar(Global(f"{'math' if module is math else 'np'}.{node.attr}", getattr(module, node.attr)))
        return self.captured_value(node, node.attr, value)

    def shape(self, view: View) -> list[Term]:
        return [axis_length(view.axis(d)) for d in range(view.rank)]

    def shape_of(self, node: ast.expr) -> list[Term] | None:
        """The lengths in ``a.shape`` and ``np.shape(a)``; None for other expressions."""
        is_field = isinstance(node, ast.Attribute) and self.tuple_of(node.value) is not None
        if isinstance(node, ast.Attribute) and node.attr == "shape" and not is_field:
            of = node.value
        elif isinstance(node, ast.Call) and self.function_of(node.func) is np.shape:
            of = node.args[0]
        else:
            return None
        tree = self.tree(of)
        return [] if isinstance(tree, Scalar) else self.shape(self.view_of(tree, of))

    def item(self, item: str | View | Pack | Static) -> ArrayExpr:
        if isinstance(item, Static):  # a bool where bools are constants
            return Scalar(Constant(item.value)) if isinstance(item.value, bool) else item
        if isinstance(item, View):
            return Leaf(item) if item.rank else Scalar(item.at([]))
        if isinstance(item, Pack):
            return self.several(item)
        view = self.array(ast.Name(item, ast.Load())) if self.is_tuple_item(item) else None
        return Scalar(Variable(item)) if view is None else Leaf(view) if view.rank else Scalar(view.at([]))

    def several(self, pack: Pack) -> TupleExpr:
        return TupleExpr([self.item(i) for i in pack.items], pack.of)

    def tuple_items(self, tree: ArrayExpr) -> list[ArrayExpr] | None:
        """The items of a tuple; a tuple of scalars from outside is held as an array, so that any index works."""
        if isinstance(tree, Leaf) and tree.rank == 1 and tree.view.name in self.lowered_function.constants:
            values = np.asarray(self.lowered_function.constants[tree.view.name]).tolist()
            return [Scalar(literal(v)) for v in values] if self.is_whole(tree.view) else None
        return tree.items if isinstance(tree, TupleExpr) and not is_record(tree) else None

    # Subscripts.

    def subscript(self, node: ast.Subscript) -> ArrayExpr:
        """An item of a tuple, an element, a view, or a gathered copy."""
        sizes = self.shape_of(node.value)
        made = isinstance(node.value, ast.Tuple | ast.Call | ast.BinOp | ast.IfExp)
        made = made or self.may_be_tuple_item(node.value)
        made = made or (isinstance(node.value, Lowered) and is_record(node.value.lowered_tree))
        if sizes or made or self.is_tuple_access(node.value):
            items = TupleExpr([Scalar(n) for n in sizes]) if sizes else self.tree(node.value)
            if isinstance(items, TupleExpr):
                return self.item_of(node, items)
            node = ast.copy_location(ast.Subscript(ast.copy_location(Lowered(items), node), node.slice, node.ctx), node)
        view = self.subscript_view(node)
        if isinstance(view, IndexedView):
            return copy_of_values(Leaf(view))
        if view.rank and self.is_list(Leaf(view)):
            return item_or_slice(self, node, view)
        if view.rank and isinstance(node.value, ast.Attribute) and node.value.attr == "flat":
            return copy_of_values(Leaf(view))
        if not view.rank and any(getattr(i, "value", None) is Ellipsis for i in getattr(node.slice, "elts", [])):
            return element_of(self, node, view)
        return Leaf(view) if view.rank else Scalar(view.at([]))

    def arrays_in(self, tree: TupleExpr) -> set[str]:
        """The arrays that a tuple has as items, or that these stand for."""
        arrays: set[str] = set()
        for t in tree.items:
            if isinstance(t, TupleExpr):
                arrays |= self.arrays_in(t)
            elif isinstance(t, Leaf):
                arrays |= self.stands_for(t) | {self.storage_of(t.view.name)}
        return arrays

    def may_be_tuple_item(self, node: ast.expr) -> bool:
        """Whether `node` is an item, of a dictionary, made here or of the module, or perhaps of a list of tuples."""
        if not isinstance(node, ast.Subscript):
            return False
        outside = isinstance(node.value, ast.Name) and self.source.outer_values.get(node.value.id)
        of_dictionary = dictionary_of(self, node.value) is not None or isinstance(outside, dict)
        return of_dictionary or bool(self.shared.of_tuples)

    def is_tuple_access(self, node: ast.expr) -> bool:
        """Whether `node` is a tuple, or an item or attribute of one."""
        first = owner_of(node)
        outside = (
            isinstance(first, ast.Name) and not self.is_local_name(first.id) and self.source.outer_values.get(first.id)
        )
        return self.tuple_of(first) is not None or isinstance(outside, tuple)

    def item_of(self, node: ast.Subscript, tree: TupleExpr) -> ArrayExpr:
        """An item or slice of a tuple. If the index is not constant, a tuple of scalars becomes an array."""
        size = len(tree.items)
        if isinstance(tree, NoItems):
            return tree if isinstance(node.slice, ast.Slice) else Scalar(Constant(0.0))
        if is_record(tree):
            return item_of_record(self, node, tree)
        if isinstance(node.slice, ast.Slice):
            ends = [None if e is None else self.value(e) for e in (node.slice.lower, node.slice.upper, node.slice.step)]
            numbers = [None if e is None else integer_of(self, e) for e in ends]
            if [n is None for n in numbers] == [e is None for e in ends]:
                return TupleExpr(tree.items[slice(*numbers)])
            raise self.varying_index(node, *[e for e in ends if e is not None])
        index = self.value(node.slice)
        k = integer_of(self, index)
        if k is None and not is_table(tree):
            raise self.varying_index(node, index)
        if k is None:
            array = Lowered(Leaf(self.tuple_as_array(node, tree), True))
            row = ast.Subscript(array, Lowered(Scalar(index)), ast.Load())
            return self.subscript(ast.copy_location(row, node))
        if -size <= k < size:
            return tree.items[k]
        what = f"{unparse(node)}, an index of a tuple that is not one of its {size}"
        refused = self.source.refuse(node, what, "use an array")
        if isinstance(node.value, ast.Name):
            self.list_of_rows(node.value.id, refused)
        raise refused

    varying_index: Callable[..., Exception]  # of Unrolling
    list_of_arrays: Callable[[str], None]
    list_of_rows: Callable[..., None]
    comprehension_of_rows: Callable[..., None]
    copy_of: Callable[..., View]  # of CopyInsertion
    hold_none_in_flag: Callable[[str], None]
    note_read_above: Callable[[str], None]
    stands_for: Callable[..., frozenset[str]]
    note_standing: Callable[..., None]
    as_it_was: Callable[..., Leaf]
    release_items: Callable[..., None]

    def tuple_as_array(self, node: ast.AST, tree: TupleExpr) -> View:
        raise NotImplementedError

    def subscript_view(self, node: ast.Subscript) -> View:
        """The view that a subscript selects."""
        if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Store) and self.plain_tuple(node.value):
            self.list_of_arrays(node.value.id)
        view = self.view(node.value)
        indices = indices_of(self, node)
        spread = [k for k, p in enumerate(indices) if isinstance(p, ast.Constant) and p.value is Ellipsis]
        used = sum(not is_new_axis(p) for p in indices) - len(spread)
        if used > view.rank or len(spread) > 1:
            raise self.source.refuse(node, f"{used} indices of an array with {view.rank} axes", "drop some")
        fill: list[ast.expr] = [ast.Slice()] * (view.rank - used)
        indices = [*indices[: spread[0]], *fill, *indices[spread[0] + 1 :]] if spread else [*indices, *fill]
        parts, d = list(view.parts), 0
        order: list[int | None] = []
        picks: dict = {}
        for p in indices:
            if is_new_axis(p):
                order.append(None)
                continue
            dim, axis = view.order[d], view.axis(d)
            what = f"axis {d} of {unparse(node.value) or self.named_by_user(view.name)}"
            d += 1
            if isinstance(p, ast.Slice):
                if dim is None:
                    self.check_slice_of_new_axis(node, p, what)
                else:
                    single = self.single_element(node, axis, p) if view.rank > 1 else None
                    parts[dim] = single or self.sliced(node, axis, p)
                order.append(dim)
                continue
            tree = self.tree(p)
            if reads_mask(self, node, view, tree):
                return self.view_of(self.library(masked, node, Leaf(view), tree), node)
            if dim is None:
                self.check_index_of_new_axis(node, tree, what)
            elif isinstance(tree, Scalar):
                parts[dim] = self.index(view, dim, axis, fold_negation(tree.term), node)
            else:
                index, known = lower_index_array(self, node, tree, axis)
                if not known and (not self.covers_axis(view, dim, axis) or index_may_raise(self, None, ZERO)):
                    check_index_array(self, node, index, axis_length(axis), what)
                order += [-1] * (index.rank if not picks else 0)
                picks[dim] = index, partial(self.index, view, dim, axis)
        advanced = [k for k, p in enumerate(indices) if not isinstance(p, ast.Slice) and not is_new_axis(p)]
        if picks and advanced[-1] - advanced[0] != len(advanced) - 1:  # NumPy would put these axes first
            raise self.source.refuse(node, f"indices on both sides of a slice in {unparse(node)}", "write a loop")
        selected = View(view.name, tuple(parts), tuple(order))
        return gather_view(self, node, selected, picks) if picks else selected

    def index(self, view: View, dim: int, axis: Axis, index: Term, node: ast.Subscript | None = None) -> Term:
        """The index in the array of an index into its view, with a bounds check for the node."""
        whole, length = self.covers_axis(view, dim, axis), axis_length(axis)
        length = self.shared.held_lengths.get(length, length)
        if node is not None and (not whole or index_may_raise(self, index, length)):
            what = f"axis {view.order.index(dim)} of {unparse(node.value) or self.named_by_user(view.name)}"
            self.out.append(in_range(self, node, index, length, what))
        if whole:
            return index
        if isinstance(index, Unary) and isinstance(index.operand, Constant):
            index = add_indices(length, index)
        elif not self.nonnegative(index):
            index = from_either_end(index, length)
        return compose(axis, index, index, ONE).start

    def covers_axis(self, view: View, dim: int, axis: Axis) -> bool:
        """Whether a view has all elements along an axis of its array, in order."""
        whole, shared = Axis(ZERO, self.size(view.name)[dim]), self.shared
        # -1 is the end of a length, not of the capacity
        return axis == whole and view.name not in shared.reshaped and view.name not in shared.over_allocated

    def user_location(self, node: ast.AST) -> str:
        """The location of a line of the user's; "" in functions of the library, where it is that of the call."""
        return "" if self.source.module in MODULES else self.source.line_of(node)

    # Calls of scalar functions.

    def apply(self, function: object, args: list[ArrayExpr]) -> ArrayExpr:
        """A call of a scalar function, elementwise for arrays."""
        helper = helper_of(function)
        if helper is None:
            return combine(partial(called, function), args)
        args = floats_for(self, function, args)
        name = self.names.imported(*helper, function)
        return combine(lambda *operands: Call(Global(name, self.names.bound_to(name)), operands), args)
