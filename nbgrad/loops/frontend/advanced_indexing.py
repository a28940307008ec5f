"""Advanced indexing: integer arrays and boolean masks as indices."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..ir.statements import If
from ..ir.terms import TRUE, ZERO, Binary, Element, Select, Term, Variable
from .array_expressions import ArrayExpr, Elementwise, Leaf, Lowered, Op
from .element_kinds import element_kind, relied_on_kind, sample_element
from .implicit_errors import in_range
from .syntax import subtrees, unparse
from .views import Axis, View, raw_length

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = [
    "IndexedView",
    "MaskedLeaf",
    "check_index_array",
    "common_mask",
    "gather_view",
    "lower_index_array",
    "reads_mask",
    "require_kind",
    "store_masked",
    "without_mask",
]


@dataclass(frozen=True)
class IndexedView(View):
    """Elements selected by index arrays.

    `order` has -1 for each axis of the index arrays. `index_arrays` maps an axis of the indexed array to its index
    array and to the function that makes an element of that an index.
    """

    index_arrays: dict[int, tuple[View, Callable[[Term], Term]]] = field(default_factory=dict)

    def axis(self, d: int) -> Axis:
        if self.order[d] != -1:
            return super().axis(d)
        return next(iter(self.index_arrays.values()))[0].axis(d - self.order.index(-1))

    def at(self, indices: list[Term]) -> Element:
        first, rank = self.order.index(-1), self.order.count(-1)
        others = next(iter(self.index_arrays.values()))[0]
        parts, order = list(self.parts), (*self.order[:first], *self.order[first + rank :])
        for axis, (index_array, to_index) in self.index_arrays.items():
            here = indices[first : first + rank]
            selected = [_index_at_same_position(n, others.axis(d), index_array.axis(d)) for d, n in enumerate(here)]
            parts[axis] = to_index(index_array.at(selected))
        return View(self.name, tuple(parts), order).at([*indices[:first], *indices[first + rank :]])

    def is_whole_array(self, sizes: list[Term]) -> bool:
        return False


def _index_at_same_position(index: Term, mine: Axis, other: Axis) -> Term:
    """The index along `other` of the element at the same position as `index` along `mine`."""
    if mine.start is other.start and mine.step is other.step:
        return index
    position = Binary("//", Binary("-", index, mine.start), mine.step)
    return Binary("+", other.start, Binary("*", position, other.step))


def lower_index_array(low: Expressions, node: ast.Subscript, tree: ArrayExpr, axis: Axis) -> tuple[View, bool]:
    """The index array that a subscript uses along `axis`, and whether it is known to be in range."""
    kind = element_kind(low, tree)
    if not kind and tree.rank == 1:  # type inference tells
        kind = kind_by_inference(low, node, tree)
    if kind not in ("int", "bool"):
        what = f"an array as index in {unparse(node)}, which may be of floats"
        raise low.source.refuse(node, what, "make it with dtype=np.int64, or bool for a mask")
    if kind == "bool":
        if tree.rank > 1:
            raise low.source.refuse(
                node, f"a mask of several axes in {unparse(node)}", "sum np.where(mask, a, 0.0), or write a loop"
            )
        loops = Elementwise(low, node)
        loops.comparing_mask = True
        loops.require_equal_lengths(raw_length(loops.result_axes(tree)[0]), raw_length(axis))
    what = f"an array as index in {unparse(node)}, which may be of floats, or a mask here and of integers there,"
    error = low.source.refuse(node, what, "use a name for each, and dtype=np.int64 or bool")
    low.lowered_function.operations.append(((sample_element(tree),), kind == "bool", error))
    if kind == "bool":
        tree = low.library(np.flatnonzero, node, tree)
    return require_kind(low, node, low.view_of(tree, node, "index"), "int"), kind == "bool"


def kind_by_inference(low: Expressions, node: ast.AST, tree: ArrayExpr) -> str:
    """The kind of an index, a mask or integers, of which only type inference can tell: a mask, until it has told."""
    place = (*low.call_path, low.place_of(node), "index")
    refused = low.source.refuse(node, f"a mask here and indices there in {unparse(node)}", "use a name for each")
    low.lowered_function.may_be_bools.append((place, (sample_element(tree),), refused))
    return "int" if place in low.shared.findings.operations_on_numbers else "bool"


def gather_view(low: Expressions, node: ast.Subscript, view: View, picks: dict) -> View:
    """A gather: a view with arrays as indices, which must have one shape."""
    indices = [index for index, _ in picks.values()]
    if len({i.rank for i in indices}) > 1 or any(i.name == view.name for i in indices):
        raise low.source.refuse(node, f"these arrays as indices in {unparse(node)}", "write a loop")
    loops = Elementwise(low, node)
    for d in range(indices[0].rank):
        for other in indices[1:]:
            loops.require_equal_lengths(raw_length(other.axis(d)), raw_length(indices[0].axis(d)))
    return IndexedView(view.name, view.parts, view.order, picks)


def reads_mask(low: Expressions, node: ast.Subscript, view: View, index: ArrayExpr) -> bool:
    """Whether a subscript reads the elements that a mask of several axes, those of the array, selects."""
    several = index.rank > 1 and index.rank == view.rank
    return several and isinstance(node.ctx, ast.Load) and relied_on_kind(low, index) == "bool"


def check_index_array(low: Expressions, node: ast.Subscript, index: View, size: Term, what: str) -> None:
    """Check that all elements of `index` are in range along an axis of `size` elements; `what` describes the array."""
    loops = Elementwise(low, node)
    loops.axis_loops = [loops.axis_loop(index.axis(d)) for d in range(index.rank)]
    element = index.at([Variable(t.counter) for t in loops.axis_loops])
    loops.emit_loops([in_range(low, node, element, size, what)], "")


def require_kind(low: Expressions, node: ast.AST, view: View, kind: str) -> View:
    """Require that type inference finds `kind` for `view`; the view."""
    error = low.source.refuse(node, "an array as index that is assigned values of another kind", "use another name")
    low.lowered_function.assumed_kinds.append((view.name, [TRUE if kind == "bool" else ZERO], error))
    return view


# Stores through masks.


def store_masked(low: Expressions, node: ast.AST, view: View, mask: ArrayExpr, value: ArrayExpr) -> None:
    """Lower ``view[mask] = value``; `value` has the shape of `view`; elements are stored where the mask holds."""
    if isinstance(mask, Leaf):
        require_kind(low, node, mask.view, "bool")
    loops = Elementwise(low, node)
    line, low.line = low.line, ""
    loops.axis_loops = [loops.axis_loop(view.axis(d)) for d in range(view.rank)]
    loops.target = view.at([Variable(t.counter) for t in loops.axis_loops])
    loops.comparing_mask = True
    holds = loops.element(mask)
    loops.comparing_mask = False
    element = loops.element(value)
    if loops.overlap:
        Elementwise(low, node).store(view, Op(Select, [mask, value, Leaf(view)]))
        return
    loops.emit_loops([If(holds, [loops.store_of(loops.target, element)], [])], line)


@dataclass(eq=False)
class MaskedLeaf(Leaf):
    """A whole array of which the elements selected by the mask of the statement are meant."""

    masked = True


def without_mask(low: Expressions, node: ast.expr, mask: str) -> ast.expr:
    """A right-hand side with ``y[mask]`` replaced by all of `y`, wherever it is used element by element."""

    def again(n: ast.expr) -> ast.expr:
        match n:
            case ast.Subscript() if unparse(n.slice) == mask:
                return ast.copy_location(Lowered(MaskedLeaf(low.view(n.value))), n)
            case ast.BinOp():
                rebuilt: ast.expr = ast.BinOp(again(n.left), n.op, again(n.right))
            case ast.UnaryOp():
                rebuilt = ast.UnaryOp(n.op, again(n.operand))
            case ast.Call() if isinstance(low.function_of(n.func), np.ufunc) and not n.keywords:
                rebuilt = ast.Call(n.func, [again(a) for a in n.args], [])
            case _:
                return n
        return ast.copy_location(rebuilt, n)

    return again(node)


def common_mask(low: Expressions, node: ast.expr) -> tuple[ArrayExpr, ast.expr] | None:
    """The mask of an expression in which each array is masked by it, and the expression without; None for others."""
    masked: list[ast.Subscript] = []

    def is_elementwise(n: ast.expr) -> bool:
        match n:
            case ast.Subscript(value=ast.Name(), slice=ast.Name() | ast.Compare() | ast.BinOp() | ast.UnaryOp()):
                masked.append(n)
                return not any(isinstance(part, ast.Call) for part in subtrees(n.slice))
            case ast.BinOp():
                return is_elementwise(n.left) and is_elementwise(n.right)
            case ast.UnaryOp():
                return is_elementwise(n.operand)
            case ast.Call() if isinstance(low.function_of(n.func), np.ufunc) and not n.keywords:
                return all(map(is_elementwise, n.args))
            case ast.Name():
                return low.array(n) is None and low.is_local_name(n.id)
        return isinstance(n, ast.Constant)

    if not is_elementwise(node) or len({unparse(n.slice) for n in masked}) != 1:
        return None
    arrays = [low.array(n.value) for n in masked]
    if None in arrays:
        return None
    mask = low.tree(masked[0].slice)
    if any(a is None or a.rank != mask.rank for a in arrays) or relied_on_kind(low, mask) != "bool":
        return None
    return mask, without_mask(low, node, unparse(masked[0].slice))
