"""Results: what a function returns is bound to variables that hold it until its end.

Several returns share these variables. Where they return arrays whose lengths may differ, each sets the lengths too, and
the array has room for the longest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..ir.statements import Block, Store, walk
from ..ir.terms import Variable
from .array_expressions import (
    ArrayExpr,
    Leaf,
    Scalar,
    SelectExpr,
    Static,
    TupleExpr,
    copy_of_values,
    leaves,
    same_results,
)
from .assignments import Assignments
from .element_kinds import refuse_rounding
from .live_range_splitting import NeedsSplitting, VaryingAxis
from .lowering_state import LoweringState
from .record_types import is_record
from .records import result_record
from .scope import name_of
from .source import Source
from .static_values import described
from .structured_control import own_returns
from .syntax import count_mentions, subtrees, unparse
from .varying_lengths import with_lengths
from .views import View, axis_length

if TYPE_CHECKING:
    from .lowering import Lowering

__all__ = ["Results"]

_OTHER_FORM = "returns of different form", "return the same arrays, and as many numbers, in each"
_PERHAPS_NONE = (
    "None in one return and a value in another, which only a test of values tells apart",
    "return a bool with the value, as (False, 0.0), or raise an error",
)


class Results(Assignments):
    """Lowers returns."""

    def __init__(self, source: Source, shared: LoweringState, outer: Lowering | None, around: Lowering | None) -> None:
        super().__init__(source, shared, outer, around)
        self.result: ArrayExpr | None = None
        self.returned_before = False
        self.standing: dict[str, frozenset[str]] = {}  # what the arrays of a result are going to stand for
        self.shared_results: set[str] = set()  # arrays created for the results of several returns
        self.returns = sum(isinstance(n, ast.Return) for n in subtrees(source.node))
        self.returned_flag = ""
        #: The variables and arrays that were there when this function was called.
        self.made_before = frozenset(self.lowered_function.ranks) if self.returns > 1 else frozenset[str]()

    def lower_return(self, s: ast.Return) -> None:
        """Lower a return: bind its value to the variables of the results."""
        previous, self.root_expression, result = self.result, s.value, None
        if s.value is not None and not (isinstance(s.value, ast.Constant) and s.value.value is None):
            tree = self.tree_or_static(s.value)
            if self.inlined and isinstance(tree, SelectExpr) and tree.refusal is not None:
                raise NeedsSplitting("", returns=self.source.definition_site)
            result = None if tree == Static(None) else self.bind_results(s.value, tree, previous, set())
        if self.returned_before and not same_results(result, previous):
            raise self.source.refuse(s, *(_OTHER_FORM if result and previous else _PERHAPS_NONE))
        self.write_back_parameters()
        for array, originals in self.standing.items():
            self.note_standing(array, originals)
        self.standing = {}
        self.result, self.returned_before = result, True

    def returns_values(self) -> bool:
        """Whether the function returns a value anywhere."""
        values = [n.value for n in own_returns(self.source.node.body)]
        return any(v is not None and not (isinstance(v, ast.Constant) and v.value is None) for v in values)

    def bind_results(
        self, node: ast.expr, tree: ArrayExpr, previous: ArrayExpr | None, used: set[str], path: tuple[int, ...] = ()
    ) -> ArrayExpr:
        """Bind a returned value to variables that hold it until the end; the tree of these."""
        if isinstance(tree, Static):
            if not self.inlined:
                if isinstance(node, ast.Name):
                    self.hold_none_in_flag(node.id)
                what = f"{described(tree, unparse(node))}, as a result"
                raise self.source.refuse(node, what, "return numbers, arrays and tuples of them")
            return tree
        if is_record(tree):
            return result_record(self, node, tree)  # type: ignore[arg-type]
        if isinstance(tree, TupleExpr):
            previous_items = previous.items if isinstance(previous, TupleExpr) else []
            nodes = node.elts if isinstance(node, ast.Tuple) else [node] * len(tree.items)
            items = [self.bind_results(n, t, previous_items[k] if k < len(previous_items) else None, used, (*path, k))
                    for k, (n, t) in enumerate(zip(nodes, tree.items, strict=True))]  # fmt: skip
            return TupleExpr(items, tree.tuple_class)
        if tree.rank:
            if isinstance(tree, SelectExpr) and self.owns(tree):
                tree = copy_of_values(tree)  # nothing writes it afterwards
            view = self.view_of(tree, node, "result")
            own = not isinstance(tree, Leaf) or tree.fresh or self.storage_of(view.name) not in self.made_before
            standing = self.stands_for(Leaf(view, True)) | self.caller_may_have(view.name)
            if self.returns > 1 and self.returns_differ(path):
                caller_has = self.inlined and not own  # beside arrays that are new
                if caller_has:
                    standing |= {self.storage_of(view.name)}
                if isinstance(previous, Leaf) and previous.view.name in self.shared_results:
                    standing |= self.shared.read_only_copies.pop(previous.view.name, frozenset())  # it is set anew
                    refuse_rounding(self, node, previous.view.name, Leaf(view))
                    self.forget_original(previous.view.name)
                    before, written = len(self.out), len(self.shared.written)
                    self.write_elements(node, self.with_lengths_of(node, previous.view.name, view, path), Leaf(view))
                    del self.shared.written[written:]  # in Python, it is another array
                    stores = [t for t in walk(self.out[before:]) if isinstance(t, Store)]
                    self.lowered_function.rebinding_stores += [(t, node) for t in stores]
                    self.standing[previous.view.name] = standing
                    if caller_has:
                        self.shared.may_be_arguments.add(previous.view.name)
                    return previous
                name = self.names.fresh("result")
                self.shared.varying_axes[name] = {
                    d for d in range(view.rank) if self.result_axis(path, d) in self.shared.findings.varying_axes
                }
                view = self.copy_of(view, node, name)
                self.shared_results.add(view.name)
                if caller_has:
                    self.shared.may_be_arguments.add(view.name)
            elif not self.inlined and (
                not self.is_whole(view)
                or view.name in self.shared.over_allocated
                or view.name in used
                or view.name in self.lowered_function.constants
            ):
                view = self.copy_of(view, node, self.names.fresh("result"))
            used.add(view.name)
            if self.inlined:
                self.standing[view.name] = standing
            return Leaf(view)
        assert isinstance(tree, Scalar)
        name = name_of(previous.term) if isinstance(previous, Scalar) else ""
        variable = name_of(tree.term)
        if not name:
            taken = (*used, *self.lowered_function.constants, *self.shared.induction_variables)
            reusable = variable and (not self.inlined or self.returns == 1) and not self.returned_flag
            reusable = reusable and variable not in taken and not (path and self.may_be_read_beside(node, path))
            name = variable if reusable else self.names.fresh("result")
        if name != variable:
            self.lowered_function.ranks[name] = 0
            self.assign_scalar(name, tree.term, final=self.returns == 1)
        used.add(name)
        return Scalar(Variable(name))

    def result_axis(self, path: tuple[int, ...], d: int) -> VaryingAxis:
        """An axis of the array at `path` in the result, the same each time that lowering begins again."""
        return VaryingAxis((self.source.definition_site, path), d, of_result=True)

    def with_lengths_of(self, node: ast.expr, name: str, view: View, path: tuple[int, ...]) -> View:
        """The array of the results, with the lengths of `view`, which is returned here."""
        sizes, varying = self.size(name), self.shared.varying_axes[name]
        if view.rank != len(sizes):
            raise self.source.refuse(node, *_OTHER_FORM)
        lengths = [axis_length(view.axis(d)) for d in range(view.rank)]
        pairs = enumerate(zip(lengths, sizes, strict=True))
        differing = {d for d, (a, b) in pairs if self.with_known_integers(a) is not self.with_known_integers(b)}
        if differing - varying:
            raise NeedsSplitting(name, varying={self.result_axis(path, d) for d in differing})
        return with_lengths(self, node, name, lengths)

    def may_be_read_beside(self, node: ast.expr, path: tuple[int, ...]) -> bool:
        """Whether a return that sets the variable `node`, as its item at `path`, may read it for another item."""
        returns: list[ast.AST] = list(own_returns(self.source.node.body))
        items = _items_at(returns, path)
        if len(set(map(unparse, items))) == 1:
            return False
        if not isinstance(node, ast.Name) or self.rename.get(node.id) in self.lowered_function.parameters:
            return True
        if self.local(node) in self.shared.known_integers:  # so that lengths may be computed from it
            return True
        inner = [n for n in subtrees(self.source.node) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        mentions = sum(count_mentions(n, {node.id}) for n in [*returns, *inner] if n is not self.source.node)
        return mentions > sum(isinstance(n, ast.Name) and n.id == node.id for n in items)

    def owns(self, tree: ArrayExpr) -> bool:
        """Whether this function created all arrays in `tree`."""
        mine = self.owners.values()
        return not self.inlined or all(
            self.storage_of(t.view.name) in mine for t in leaves(tree) if isinstance(t, Leaf)
        )

    def returns_differ(self, path: tuple[int, ...]) -> bool:
        """Whether returns differ at `path` in the result."""
        returns = [n for n in subtrees(self.source.node) if isinstance(n, ast.Return)]
        return len(set(map(unparse, _items_at(returns, path)))) > 1

    def trim_results(self, names: list[str]) -> tuple[list[str], Block]:
        """The results with arrays that have just their length in place of those with room for more, and the statements
        that copy them, for the end of the function."""
        self.out = self.outermost = []
        exact = [self.copy_of(self.whole_view(n), self.source.node, self.names.fresh(n)).name
                 if n in self.shared.over_allocated else n for n in names]  # fmt: skip
        return exact, self.out

    def flat_results(self) -> list[str] | None:
        """The variables of all results, tuples flattened; None if nothing is returned."""
        if self.result is None:
            return None
        stack, names = [self.result], []
        while stack:
            tree = stack.pop(0)
            if isinstance(tree, Scalar):
                names.append(name_of(tree.term))
            elif isinstance(tree, Leaf):
                names.append(tree.view.name)
            else:
                stack = [*tree.items, *stack]  # type: ignore[attr-defined]
        return names


def _items_at(returns: Iterable[ast.AST], path: tuple[int, ...]) -> list[ast.expr]:
    """What returns have at `path`, or the value with that item where it is not written as a tuple."""
    items = []
    for node in (n.value for n in returns if isinstance(n, ast.Return)):
        for k in path if node is not None else ():
            node = node.elts[k] if isinstance(node, ast.Tuple) and k < len(node.elts) else node
        items += [] if node is None else [node]
    return items
